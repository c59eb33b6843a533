"""Where a value ends that was written with a schema. It is gone through, and nothing of it is read.

Values written one behind another have nothing between them, so that only the schema says where the next begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat
from typing import Any

from latecomer.schemas.avro.bounds import endless_records
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

SKIP, NUMBER, TEXT, UNION, NAMED, BLOCKS = range(6)
"""Steps over a value: so many bytes, a number, a text with its length, one of several branches, a record, items."""
_MOST_INLINED = 16
"""A record of more steps is written down once."""
_DEEPEST = 100_000

Step = tuple[int, Any]
Steps = tuple[Step, ...]


class Ways:
    """The steps over values of a schema. A record is a step of its own where it is large, or can hold itself."""

    def __init__(self, schema: Schema) -> None:
        self.schema, self.endless = schema, endless_records(schema)
        self._records: dict[str, Steps] = {}

    def over(self, kind: Type) -> Steps:
        found = self.schema.resolve(kind)
        match found:
            case Fixed(size=size):
                return ((SKIP, size),) if size else ()
            case Enum() | Primitive(kind="int"):
                return ((NUMBER, "int"),)
            case Primitive(kind="long"):
                return ((NUMBER, "long"),)
            case Primitive(kind="string" | "bytes"):
                return ((TEXT, None),)
            case Primitive():
                size = SIZES[found.kind]
                return ((SKIP, size),) if size else ()
            case Union():
                return ((UNION, tuple(map(self.over, found.branches))),)
            case Array():
                return ((BLOCKS, self.over(found.items)),)
            case Map():
                return ((BLOCKS, ((TEXT, None), *self.over(found.values))),)
            case Record() if found.name in self.endless or len(self.over_record(found.name)) > _MOST_INLINED:
                return ((NAMED, found.name),)
            case Record():
                return self.over_record(found.name)
        raise TypeError(found)

    def over_record(self, name: str) -> Steps:
        if name not in self._records:
            record = self.schema.names[name]
            fields = record.fields if isinstance(record, Record) else ()
            self._records[name] = _joined(chain.from_iterable(self.over(field.type) for field in fields))
        return self._records[name]


class Ends:
    """Finds the end of values of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._ways = Ways(schema)
        self._root = self._ways.over(schema.root)

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
                if kind == SKIP:
                    at += of
                    continue
                if kind == NAMED:
                    left.append(iter(self._ways.over_record(of)))
                    break
                if (number := data[at]) < 0x80:
                    number, at = (number >> 1) ^ -(number & 1), at + 1
                else:
                    number, at = _number(data, at)
                if kind == NUMBER:
                    continue
                if kind == TEXT:
                    if number < 0:
                        return None
                    at += number
                    continue
                if kind == UNION:
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
                elif of and of[0][0] == SKIP and len(of) == 1:
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


def _joined(steps: Iterator[Step]) -> Steps:
    """The same steps, those over bytes next to each other as one."""
    found: list[Step] = []
    for kind, of in steps:
        if kind == SKIP and found and found[-1][0] == SKIP:
            found[-1] = (SKIP, found[-1][1] + of)
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
