"""User-defined classes for strategies, sources, decoders and sinks: `module:Class`, loaded from beside the pipeline
file or from Python's path."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from latecomer.config.user_classes import Named, NamedClass, lacking
from latecomer.errors import nearest
from latecomer.model.base import Model, in_own_words
from latecomer.model.strategies import Custom, Strategy

MISTAKE = "mistake_within"
"""The type of such errors. Their context has the field, relative to the caller's, the value and the fix."""
_Kind = TypeVar("_Kind", bound=Model)
_Own = TypeVar("_Own", bound=Named)


def load_strategy(written: Custom, base: Path, place: str = "") -> Strategy:
    """An instance of the strategy that the file names, with its options; `place` stands before fields in mistakes."""
    strategy = _load(written.strategy, base, Strategy, f"{place}strategy")
    shared = written.model_dump(mode="json", include=written.model_fields_set & Strategy.model_fields.keys())
    return _made(strategy, {**shared, **written.options}, f"{place}options", "options: of ", Strategy)


def load_own(written: NamedClass, kind: type[_Own], base: Path, field: str) -> _Own:
    """An instance of the source, decoder or sink that the file names, with its options."""
    own = _load(written.name, base, kind, field)
    for method in kind.METHODS:
        if getattr(own, method) is getattr(kind, method):
            message, fix = lacking(own, method)
            raise mistake(field, message, written.name, fix)
    return _made(own, written.options, field, "", Model)


def made_with(model: type[_Kind], options: Mapping[str, Any], field: str) -> _Kind:
    """An instance of one of latecomer's own classes, with the options of the file."""
    return _made(model, options, field, "", Model, getattr(model, "kind", ""))


def _load(written: str, base: Path, kind: type[_Kind], field: str) -> type[_Kind]:
    module, _, name = written.partition(":")
    return _class(_module(module, written, base, field), name, written, kind, field)


def _made(
    model: type[_Kind], options: Mapping[str, Any], place: str, of: str, shared: type[Model], called: str = ""
) -> _Kind:
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        first, name = error.errors()[0], called or model.__name__
        field = ".".join(str(step) for step in (place, *first["loc"]))
        message, fix = in_own_words(first)
        if first["type"] == "extra_forbidden":
            own = sorted(
                each.alias or key
                for key, each in model.model_fields.items()
                if key not in shared.model_fields
            )
            message, fix = "unknown key", f"the options of {name} are {', '.join(own) or 'none'}"
        elif first["type"] == "missing":
            message, fix = "is missing", f"add it to {of}{name}"
        value = None if first["type"] == "missing" else first["input"]
        raise mistake(field, message, value, fix or f"write what {name} takes") from None


def _module(name: str, value: str, base: Path, field: str) -> ModuleType:
    """The module beside the pipeline file if it exists, else the one on Python's path."""
    beside = base.resolve().joinpath(*name.split("."))
    folder = str(base.resolve())
    importlib.invalidate_caches()
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module(name)
    except Exception as error:
        message, fix = f"module {name} cannot be loaded: {error!r}", "correct the module"
        if isinstance(error, ModuleNotFoundError) and error.name and f"{name}.".startswith(f"{error.name}."):
            message, fix = f"there is no module {name}", f"put {name}.py beside the pipeline file"
        raise mistake(field, message, value, fix) from None
    finally:
        sys.path.remove(folder)
    loaded = Path(module.__file__ or "")
    for file in (beside.with_suffix(".py"), beside / "__init__.py"):
        if file.is_file() and loaded != file:
            raise mistake(
                field, f"another module {name} is loaded already ({loaded})", value, f"rename {file.name}"
            )
    return module


def _class(module: ModuleType, name: str, value: str, kind: type[_Kind], field: str) -> type[_Kind]:
    member, noun = getattr(module, name, None), kind.__name__.lower().removeprefix("polled")
    if inspect.isclass(member) and issubclass(member, kind):
        return member
    if member is not None:
        raise mistake(
            field, f"{name} is not a {noun}", value, f"write class {name}(latecomer.{kind.__name__}):"
        )
    classes = [
        each
        for each, other in vars(module).items()
        if inspect.isclass(other) and issubclass(other, kind) and other.__module__ == module.__name__
    ]
    fix = nearest(name, classes, f"{module.__name__} has {', '.join(classes) or f'no {noun}'}")
    raise mistake(field, f"module {module.__name__} has no class {name}", value, fix)


def mistake(field: str, message: str, value: object, fix: str) -> PydanticCustomError:
    """An error at a field within the caller's."""
    return PydanticCustomError(
        MISTAKE, "{message}; {fix}", {"field": field, "message": message, "value": value, "fix": fix}
    )
