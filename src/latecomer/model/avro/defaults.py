"""Default values, held against the types of their fields.

The default of a union may fit any of its branches, as in Avro since 1.12; before, it had to fit the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from latecomer.model.avro.mistakes import Path, SchemaError, Work
from latecomer.model.avro.types import (
    Array,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Reference,
    Type,
    Union,
)

_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
Wrong = tuple[Path, str] | None
"""Where a value does not fit, from itself on, and what would."""


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


class Defaults:
    """Checks defaults. `names` has the types that are defined so far; none where a definition has only begun."""

    def __init__(self, names: Mapping[str, Named | None]) -> None:
        self.names = names
        self.work = Work("check its defaults")
        self.checked: dict[tuple[int, int], Wrong] = {}
        self.path: Path = ()

    def require(self, value: Any, wanted: Type, path: Path) -> None:
        """Refuse a default that does not fit the type of its field."""
        if isinstance(wanted, Primitive) and wanted.kind in ("float", "double") and value in _NOT_FINITE:
            return
        self.checked, self.path = {}, path
        wrong = self._wrong(value, wanted)
        if wrong is not None:
            place, fitting = wrong
            found = value
            for step in place:
                found = found[step]
            raise SchemaError((*path, *place), "does not fit its type", f"write {fitting}", found)

    def _wrong(self, value: Any, wanted: Type) -> Wrong:
        """Kept for each value and type: in unions of records the same question comes again and again."""
        key = (id(value), id(wanted))
        if key not in self.checked:
            self.work.spend()
            self.checked[key] = self._compared(value, wanted)
        return self.checked[key]

    def _compared(self, value: Any, wanted: Type) -> Wrong:
        match wanted:
            case Primitive():
                fits, words = _FITTING[wanted.kind]
                return None if fits(value) else ((), words)
            case Array():
                if not isinstance(value, list):
                    return (), "a list"
                return self._first_wrong(((index, each) for index, each in enumerate(value)), wanted.items)
            case Map():
                if not isinstance(value, dict):
                    return (), "an object"
                return self._first_wrong(value.items(), wanted.values)
            case Union():
                return self._union(value, wanted)
            case Reference():
                found = self.names[wanted.name]
                return self._open(value, wanted.name) if found is None else self._wrong(value, found)
            case Record():
                return self._record(value, wanted)
            case Enum():
                words = f"one of its symbols: {', '.join(wanted.symbols[:20])}"
                return None if isinstance(value, str) and value in wanted.symbols else ((), words)
            case Fixed():
                words = f"text of {wanted.size} letters up to ÿ, each for a byte"
                return None if _bytes(value) and len(value) == wanted.size else ((), words)

    def _first_wrong(self, values: Any, wanted: Type) -> Wrong:
        for step, each in values:
            wrong = self._wrong(each, wanted)
            if wrong is not None:
                return (step, *wrong[0]), wrong[1]
        return None

    def _union(self, value: Any, wanted: Union) -> Wrong:
        reasons = []
        for branch in wanted.branches:
            wrong = self._wrong(value, branch)
            if wrong is None:
                return None
            reasons.append(wrong)
        deepest = max(reasons, key=lambda wrong: len(wrong[0]), default=((), "nothing: the union is empty"))
        if deepest[0]:
            return deepest
        return (), " or ".join(dict.fromkeys(words for _, words in reasons[:5])) or deepest[1]

    def _open(self, value: Any, name: str) -> Wrong:
        """Java cannot read a default that holds a record within its own definition, so nobody may write one."""
        if isinstance(value, dict):
            fix = "write null where the type allows it, or leave the default out"
            raise SchemaError(self.path, f"holds a {name}, whose definition has not ended", fix, value)
        return (), "an object"

    def _record(self, value: Any, wanted: Record) -> Wrong:
        if not isinstance(value, dict):
            return (), f"an object with the fields of {wanted.name}"
        for each in wanted.fields:
            if each.name in value:
                wrong = self._wrong(value[each.name], each.type)
                if wrong is not None:
                    return (each.name, *wrong[0]), wrong[1]
            elif each.default is None:
                return (), f"{each.name}, too: a field of {wanted.name} without a default"
        return None
