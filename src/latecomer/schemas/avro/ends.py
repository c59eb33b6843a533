"""Where a value ends that was written with a schema. It is gone through, and nothing of it is read.

Values written one behind another have nothing between them, so that only the schema says where the next begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

from latecomer.schemas.avro.types import (
    SIZES,
    Array,
    Enum,
    Fixed,
    Map,
    Primitive,
    Record,
    Schema,
    Type,
    Union,
)

_SKIP, _NUMBER, _TEXT, _UNION, _NAMED, _BLOCKS = range(6)
"""Steps over a value: so many bytes, a number, a text with its length, one of several branches, a record, items."""
_MOST_INLINED = 16
"""A record of more steps is written down once."""
_DEEPEST = 100_000

Step = tuple[int, Any]
Steps = tuple[Step, ...]


class Ends:
    """Finds the end of values of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._records: dict[str, Steps] = {}
        self._entered: set[str] = set()
        self._root = self._steps(schema.root)

    def after(self, data: bytes, at: int) -> int | None:
        """Where a value that begins here ends; None where it is none, or is cut off."""
        try:
            end = self._walked(data, at)
        except IndexError:
            return None
        return end if end is not None and end <= len(data) else None

    def _walked(self, data: bytes, at: int) -> int | None:
        left: list[Iterator[Step]] = [iter(self._root)]
        while left:
            for kind, of in left[-1]:
                if kind == _SKIP:
                    at += of
                    continue
                if kind == _NAMED:
                    left.append(iter(self._records[of]))
                    break
                if (number := data[at]) < 0x80:
                    number, at = (number >> 1) ^ -(number & 1), at + 1
                else:
                    number, at = _number(data, at)
                if kind == _NUMBER:
                    continue
                if kind == _TEXT:
                    if number < 0:
                        return None
                    at += number
                    continue
                if kind == _UNION:
                    if not 0 <= number < len(of):
                        return None
                    left.append(iter(of[number]))
                    break
                if number == 0:
                    continue
                left.append(iter(((kind, of),)))
                if number < 0:  # the size of the items follows, for those who pass over them
                    size, at = _number(data, at)
                    if size < 0:
                        return None
                    at += size
                elif of and of[0][0] == _SKIP and len(of) == 1:
                    at += number * of[0][1]
                elif of and number > len(data) - at:  # an item has a byte at least
                    return None
                elif of:
                    left.append(chain.from_iterable(repeat(of, number)))
                break
            else:
                left.pop()
                continue
            if len(left) > _DEEPEST:
                return None
        return at

    def _steps(self, kind: Type) -> Steps:
        found = self._schema.resolve(kind)
        match found:
            case Fixed(size=size):
                return ((_SKIP, size),) if size else ()
            case Enum() | Primitive(kind="int" | "long"):
                return ((_NUMBER, None),)
            case Primitive(kind="string" | "bytes"):
                return ((_TEXT, None),)
            case Primitive():
                size = SIZES[found.kind]
                return ((_SKIP, size),) if size else ()
            case Union():
                return ((_UNION, tuple(map(self._steps, found.branches))),)
            case Array():
                return ((_BLOCKS, self._steps(found.items)),)
            case Map():
                return ((_BLOCKS, ((_TEXT, None), *self._steps(found.values))),)
            case Record():
                return self._of_record(found)
        raise TypeError(found)

    def _of_record(self, found: Record) -> Steps:
        """The steps over a record; by its name where it is large, or within itself."""
        if found.name not in self._entered:
            self._entered.add(found.name)
            steps = _joined(chain.from_iterable(self._steps(field.type) for field in found.fields))
            self._records[found.name] = steps
        steps = self._records.get(found.name, ((_NAMED, found.name),))
        return steps if len(steps) <= _MOST_INLINED else ((_NAMED, found.name),)


def _joined(steps: Iterator[Step]) -> Steps:
    """The same steps, those over bytes next to each other as one."""
    found: list[Step] = []
    for kind, of in steps:
        if kind == _SKIP and found and found[-1][0] == _SKIP:
            found[-1] = (_SKIP, found[-1][1] + of)
        else:
            found.append((kind, of))
    return tuple(found)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends; IndexError where there is none."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at
        shift += 7
        if shift > 63:
            raise IndexError
