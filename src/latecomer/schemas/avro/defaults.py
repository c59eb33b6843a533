"""Whether default values fit the types of their fields.

In Java 1.12 the default of a union may fit any branch; in older versions, only the first. But Java's reader chooses the
branch by kind alone: for `["long", "double"]` it reads 1.5 as 1, and in a union that begins with a map it reads null as
an empty map. So a default must fit the first branch that Java would choose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from latecomer.schemas.avro.types import (
    Array,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    TypeReference,
    Union,
)
from latecomer.schemas.mistakes import Path, SchemaError, Step, StepLimit

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class Wrong(NamedTuple):
    """The path within a value to the part that does not fit, and what would fit."""

    path: Path
    fitting: str

    def below(self, step: Step) -> Wrong:
        return self._replace(path=(step, *self.path))


def _whole(bits: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and -(2**bits) <= value < 2**bits


def _number(value: Any) -> bool:
    try:
        return type(value) in (int, float) and float(value) is not None
    except OverflowError:
        return False


def _bytes(value: Any) -> bool:
    return isinstance(value, str) and all(ord(letter) < 256 for letter in value)


_FITTING: dict[str, tuple[Callable[[Any], bool], str]] = {
    "null": (lambda value: value is None, "null"),
    "boolean": (lambda value: isinstance(value, bool), "true or false"),
    "int": (_whole(31), "a whole number of 32 bits"),
    "long": (_whole(63), "a whole number of 64 bits"),
    "float": (_number, "a number"),
    "double": (_number, "a number"),
    "string": (lambda value: isinstance(value, str), "text"),
    "bytes": (_bytes, "text in which each letter stands for a byte, up to ÿ"),
}


class _Open(Exception):
    """A record is used within its own definition. Java cannot check a default against it, and cannot choose a union
    branch after it."""


class Defaults:
    """Checks defaults. `names` has the types that are defined so far; None for one whose definition has not ended."""

    def __init__(self, names: Mapping[str, Named | None]) -> None:
        self.names = names
        self.work = StepLimit("check its defaults")
        self.checked: dict[tuple[int, int], Wrong | None] = {}

    def problem(self, value: Any, wanted: Type, path: Path) -> SchemaError | None:
        """Why a default does not fit the type of its field; None if it does."""
        if isinstance(wanted, Primitive) and wanted.kind in ("float", "double") and value in _NOT_FINITE:
            return None
        self.checked = {}
        try:
            wrong = self._wrong(value, wanted)
        except _Open as error:
            fix = f"leave it out, or put the branch that it fits before {error} in the union"
            return SchemaError(path, f"would be checked against {error}, whose definition has not ended", fix)
        except RecursionError:
            fix = "nest fewer records in it"
            raise SchemaError(path, "is nested too deeply to be checked", fix) from None
        if wrong is None:
            return None
        part = value
        for step in wrong.path:
            part = part[step]
        return SchemaError((*path, *wrong.path), "does not fit its type", f"write {wrong.fitting}", part)

    def _wrong(self, value: Any, wanted: Type) -> Wrong | None:
        """Why a value does not fit a type. Remembered, since unions of records ask the same many times."""
        key = (id(value), id(wanted))
        if key not in self.checked:
            self.work.spend()
            self.checked[key] = self._compared(value, wanted)
        return self.checked[key]

    def _compared(self, value: Any, wanted: Type) -> Wrong | None:
        match wanted:
            case Primitive():
                fits, words = _FITTING[wanted.kind]
                return None if fits(value) else Wrong((), words)
            case Array():
                if not isinstance(value, list):
                    return Wrong((), "a list")
                return self._first_wrong(enumerate(value), wanted.items)
            case Map():
                if not isinstance(value, dict):
                    return Wrong((), "an object")
                return self._first_wrong(value.items(), wanted.values)
            case Union():
                return self._union(value, wanted)
            case TypeReference():
                definition = self.names[wanted.name]
                if definition is None:
                    raise _Open(wanted.name)
                return self._wrong(value, definition)
            case Record():
                return self._record(value, wanted)
            case Enum():
                fits_enum = isinstance(value, str) and value in wanted.symbols
                words = f"one of its symbols: {', '.join(wanted.symbols[:20])}"
                return None if fits_enum else Wrong((), words)
            case Fixed():
                fits_fixed = _bytes(value) and len(value) == wanted.size
                words = f"text of {wanted.size} letters up to ÿ, each for a byte"
                return None if fits_fixed else Wrong((), words)

    def _first_wrong(self, values: Iterable[tuple[Step, Any]], wanted: Type) -> Wrong | None:
        for step, each in values:
            wrong = self._wrong(each, wanted)
            if wrong is not None:
                return wrong.below(step)
        return None

    def _union(self, value: Any, wanted: Union) -> Wrong | None:
        reasons: list[Wrong] = []
        for branch in wanted.branches:
            wrong = self._wrong(value, branch)
            if wrong is None:
                return None
            definition = self.names[branch.name] if isinstance(branch, TypeReference) else branch
            if definition is not None and _is_chosen_by_java(value, definition.kind):
                fix = f"{wrong.fitting}, or put the branch that it fits before {definition.kind}"
                return Wrong(wrong.path, fix)
            reasons.append(wrong)
        words = " or ".join(dict.fromkeys(wrong.fitting for wrong in reasons[:5]))
        return Wrong((), words or "no default: the union is empty")

    def _record(self, value: Any, wanted: Record) -> Wrong | None:
        if not isinstance(value, dict):
            return Wrong((), f"an object with the fields of {wanted.name}")
        for each in wanted.fields:
            if each.name in value:
                wrong = self._wrong(value[each.name], each.type)
                if wrong is not None:
                    return wrong.below(each.name)
            elif each.default is None:
                return Wrong((), f"{each.name}, too: a field of {wanted.name} without a default")
        return None


def _is_chosen_by_java(value: Any, kind: str) -> bool:
    """Whether Java's reader chooses a branch of that kind for a default, even if the default does not fit."""
    match kind:
        case "record" | "array" | "map":
            return True
        case "int" | "long" | "float" | "double":
            return type(value) in (int, float)
        case "string" | "bytes" | "enum" | "fixed":
            return isinstance(value, str)
    return False
