"""Finds the end of an encoded value without decoding it.

Consecutive values have no separator: only the schema says where the next one begins.
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
    endless_records,
)

SKIP, NUMBER, TEXT, UNION, NAMED, BLOCKS = range(6)
"""Steps over a value: some bytes, a number, a text with its length, a branch of a union, a record, blocks of items."""
_MOST_INLINED = 16
"""A record with more steps than this is a step of its own."""
_DEEPEST = 100_000

Step = tuple[int, Any]
Steps = tuple[Step, ...]


class Ways:
    """The steps over values of a schema. A large or recursive record is a step of its own."""

    def __init__(self, schema: Schema) -> None:
        self.schema, self.endless = schema, endless_records(schema)
        self._records: dict[str, Steps] = {}

    def over(self, kind: Type) -> Steps:
        whole = self.schema.resolve(kind)
        match whole:
            case Fixed(size=size):
                return ((SKIP, size),) if size else ()
            case Enum() | Primitive(kind="int"):
                return ((NUMBER, "int"),)
            case Primitive(kind="long"):
                return ((NUMBER, "long"),)
            case Primitive(kind="string" | "bytes"):
                return ((TEXT, None),)
            case Primitive():
                size = SIZES[whole.kind]
                return ((SKIP, size),) if size else ()
            case Union():
                return ((UNION, tuple(map(self.over, whole.branches))),)
            case Array():
                return ((BLOCKS, self.over(whole.items)),)
            case Map():
                return ((BLOCKS, ((TEXT, None), *self.over(whole.values))),)
            case Record() if whole.name in self.endless or len(self.over_record(whole.name)) > _MOST_INLINED:
                return ((NAMED, whole.name),)
            case Record():
                return self.over_record(whole.name)
        raise TypeError(whole)

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
        """The end of the value that begins at `at`; None if it is not valid, or is cut off."""
        try:
            end = self._walked(data, at)
        except IndexError:
            return None
        return end if end is not None and end <= len(data) else None

    def _walked(self, data: bytes, at: int) -> int | None:
        stack: list[Iterator[Step]] = [iter(self._root)]
        while stack:
            for kind, of in stack[-1]:
                if kind == SKIP:
                    at += of
                    continue
                if kind == NAMED:
                    stack.append(iter(self._ways.over_record(of)))
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
                    stack.append(iter(of[number]))
                    break
                if number == 0:
                    continue
                stack.append(iter(((kind, of),)))
                if number < 0:  # the size of the block follows, so that readers can skip it
                    size, at = _number(data, at)
                    if size < 0:
                        return None
                    at += size
                elif of and of[0][0] == SKIP and len(of) == 1:
                    at += number * of[0][1]
                elif of and number > len(data) - at:  # an item has a byte at least
                    return None
                elif of:
                    stack.append(chain.from_iterable(repeat(of, number)))
                break
            else:
                stack.pop()
                continue
            if len(stack) > _DEEPEST:
                return None
        return at


def _joined(steps: Iterator[Step]) -> Steps:
    """The same steps, with adjacent steps over bytes joined."""
    joined: list[Step] = []
    for kind, of in steps:
        if kind == SKIP and joined and joined[-1][0] == SKIP:
            joined[-1] = (SKIP, joined[-1][1] + of)
        else:
            joined.append((kind, of))
    return tuple(joined)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends. Raises IndexError if it is not complete."""
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
        if shift > 63:
            raise IndexError
