"""The base of all models: frozen and strict. A wrong value in Python raises `PipelineError`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from latecomer.errors import PipelineError, Problem, did_you_mean

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:  # it has no public name
    ModelMetaclass = type(BaseModel)

WRONG_KIND = "has the wrong kind of value"
_OWN_WORDS = {
    "bool_parsing": (WRONG_KIND, "write true or false"),
    "bool_type": (WRONG_KIND, "write true or false"),
    "dict_type": (WRONG_KIND, "write keys and their values"),
    "greater_than_equal": ("is too small", "write {ge} or more"),
    "int_from_float": (WRONG_KIND, "write a whole number"),
    "int_parsing": (WRONG_KIND, "write a whole number"),
    "int_type": (WRONG_KIND, "write a whole number"),
    "model_type": (WRONG_KIND, "write keys and their values"),
    "string_pattern_mismatch": ("is not module:Class", "write it such as my_rules:SlowMornings"),
    "string_too_long": ("is too long", "write one character"),
    "string_too_short": ("is empty", "write at least one character"),
    "string_type": (WRONG_KIND, "write text, in quotes where it looks like something else"),
    "too_short": ("is empty", "name at least one"),
    "tuple_type": (WRONG_KIND, "write a list, such as [one, other]"),
}
"""Type of a pydantic error → message and fix."""


def in_own_words(entry: Mapping[str, Any]) -> tuple[str, str | None]:
    """The message and the fix of a pydantic error that does not depend on other fields."""
    kind, message = entry["type"], entry["msg"].removeprefix("Value error, ")
    if kind in ("enum", "literal_error"):
        return "is not one of the choices", f"use {entry['ctx']['expected']}"
    if kind in _OWN_WORDS:
        problem, fix = (words.format(**entry.get("ctx", {})) for words in _OWN_WORDS[kind])
        return problem, fix
    if "; " in message:
        problem, fix = message.split("; ", 1)
        return problem, fix
    if kind.endswith(("_type", "_parsing")):
        return WRONG_KIND, message.replace("Input should be", "write")
    return message, None


_WITHIN: ContextVar[bool] = ContextVar("within another model", default=False)


class _Checked(ModelMetaclass):
    """Makes models whose mistakes are raised as `PipelineError` where the models are made in Python.

    Inside another model, and from a file, pydantic's own error is raised: it knows the place.
    """

    if not TYPE_CHECKING:

        def __call__(cls, *values: object, **fields: object) -> Any:  # noqa: N805 - a class's class
            if _WITHIN.get():
                return super().__call__(*values, **fields)
            try:
                with _within():
                    return super().__call__(*values, **fields)
            except ValidationError as error:
                raise PipelineError([_problem(cls, entry) for entry in error.errors()]) from None
            except TypeError:
                if not values:
                    raise
                known = ", ".join(f"{name}=…" for name in cls.model_fields if name != "base")
                fix, shown = f"give fields by name: {known}", values[0] if len(values) == 1 else values
                raise PipelineError([_wrong(cls, [], "has too many values", shown, fix)]) from None


class Model(BaseModel, metaclass=_Checked):
    """The base of every model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    if not TYPE_CHECKING:

        @classmethod
        def model_validate(cls, *values: object, **options: object) -> Self:
            with _within():
                return super().model_validate(*values, **options)


def object_schema(properties: Mapping[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    """The JSON Schema of a mapping that has these keys alone."""
    needed = {"required": [*required]} if required else {}
    return {"type": "object", "properties": dict(properties), **needed, "additionalProperties": False, **more}


def without_defaults(written: Mapping[str, Any], **defaults: object) -> dict[str, Any]:
    """A model as it was written before it had these settings, where they have their defaults: so definitions in the
    first stores stay equal."""
    return {name: value for name, value in written.items() if defaults.get(name, ...) != value}


@contextmanager
def _within() -> Iterator[None]:
    before = _WITHIN.set(True)
    try:
        yield
    finally:
        _WITHIN.reset(before)


def _problem(model: type[BaseModel], entry: Any) -> Problem:
    """A wrong field of a model that was made in Python."""
    steps = [str(step) for step in entry["loc"] if not str(step).startswith("function-")]
    value = entry.get("input")
    if entry["type"] == "missing":
        return _wrong(model, steps, "is missing", None, f"give {steps[-1]}=…")
    if entry["type"] == "extra_forbidden":
        known = [name for name in model.model_fields if name != "base"] if len(steps) == 1 else []
        fix = did_you_mean(steps[-1], known) if known else "leave it out"
        return _wrong(model, steps, "there is no such field", value, fix)
    message, wanted = in_own_words(entry)
    return _wrong(model, steps, message, None if isinstance(value, BaseModel) else value, wanted)


def _wrong(
    model: type[BaseModel], steps: Sequence[str], message: str, value: object, fix: str | None
) -> Problem:
    return Problem(".".join(steps) or "fields", message, value, fix, model.__name__)
