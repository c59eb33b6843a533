"""Schemas of records that can hold themselves, written out to a depth at which every reader of Avro is safe.

A reader goes through a value as deep as it is nested, and Java ends a task whose stack is full. Where a schema says how
deep a value may be, no value can be deeper: each record that leads to itself becomes one record for each depth, and at
the last depth something that has no values. What is less deep has the same bytes in both schemas.

A schema that would become too large stays as it is. Then the data has to be gone through before it is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from math import isqrt
from typing import Literal

from latecomer.model.avro.namespaces import NOWHERE, in_namespaces
from latecomer.model.avro.types import (
    SIZES,
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Reference,
    Schema,
    Type,
    Union,
    children,
)

DEEPEST_RECORD = 100
"""Records that may be in one another, where one of them can hold itself."""
_LEAST = 20
"""Where fewer are all that can be afforded, nothing is written out: sound data may be as deep."""
_MOST_NESTED, _MOST_WORK = 300, 2_000_000
"""Of a schema that is written out: types in one another, as Java's JSON may be nested 1,000 deep; and its named types
times all types in it, because Java goes through it once for each name, in every task."""
_MARK = "_lc_deep"
"""Behind the name of a record, with the depth."""
_ADDED = re.compile(rf"\A{re.escape(NOWHERE)}|{_MARK}[0-9]+\Z")
_MOST_STEPS = 100_000
"""A tenth of a second."""
_NOTHING = Field("deeper", Union(()))
"""Of a union without branches there is no value."""
_WORD = 2**64 - 1


Walked = Literal["whole", "deeper", "damaged", "longer"]
"""What is found of data: a whole record, too many of them in one another, no such record, or more values than are gone
through."""


@dataclass(frozen=True)
class Bounded:
    """A schema, and how many records may be in one another; none where no record leads to itself."""

    schema: Schema
    deepest: int | None = None
    is_checked: bool = False
    """Whether the schema allows for more all the same, and data has to be checked before it is read."""

    def walked(self, data: bytes) -> Walked:
        """What some data is, found without reading it."""
        return _Walk(self.schema, data, self.deepest if self.is_checked else None).walked()

    def is_exceeded(self, data: bytes) -> bool | None:
        """Whether some data has more records in one another; none where that takes too long to find out."""
        if self.deepest is None:
            return False
        found = self.walked(data)
        return None if found == "longer" else found == "deeper"


def bounded(schema: Schema) -> Bounded:
    """A schema in which no value is deeper than readers can bear, and whose canonical form has all its names. One of so
    many records that lead to themselves that Java would need seconds for it is not written out, and data is checked."""
    schema = in_namespaces(schema)
    endless = _endless(schema)
    if not endless:
        return Bounded(schema)
    repeated = _repeated(schema, endless)
    heights, sizes = zip(*(_extent(schema.names[name], endless) for name in repeated), strict=True)
    cheap = isqrt(_MOST_WORK // (len(repeated) * sum(sizes)))
    safe = min(DEEPEST_RECORD, _MOST_NESTED // max(heights))
    if cheap < _LEAST:
        return Bounded(schema, safe, is_checked=True)
    deepest = min(safe, cheap)
    return Bounded(_Writer(schema, endless, deepest).written(), deepest)


def endless_records(schema: Schema) -> frozenset[str]:
    """The records that lead to one that leads to itself."""
    return frozenset(_endless(schema))


def deepest_of(schema: Schema) -> int | None:
    """How many of these may be in one another; none where there are none."""
    endless = _endless(schema)
    if not endless:
        return None
    heights = (_extent(schema.names[name], endless)[0] for name in _repeated(schema, endless))
    return min(DEEPEST_RECORD, _MOST_NESTED // max(heights))


def written_name(name: str) -> str:
    """The name that a type has in the schema that was written out.

    >>> written_name("shop.Order_lc_deep7"), written_name("shop.Order"), written_name("_lc_nowhere.Tax")
    ('shop.Order', 'shop.Order', 'Tax')
    """
    return _ADDED.sub("", name)


def _name(name: str, depth: int) -> str:
    return f"{name}{_MARK}{depth}" if depth else name


def _endless(schema: Schema) -> set[str]:
    """The records that lead to one that leads to itself."""
    records = (each for each in schema.names.values() if isinstance(each, Record))
    left = {each.name: _leads_to(each) for each in records}
    while ending := [name for name, to in left.items() if not to & left.keys()]:
        for name in ending:
            del left[name]
    return set(left)


def _repeated(schema: Schema, endless: set[str]) -> set[str]:
    """Those of them that may be at many depths: without those to which none leads, as an envelope around them."""
    found = endless
    while (led := found & {to for name in found for to in _leads_to(schema.names[name])}) != found:
        found = led
    return found


def _leads_to(record: Named) -> set[str]:
    """The named types that the fields of a record name."""
    return {each.name for each, _ in _within(record) if isinstance(each, Reference | Named)}


def _within(record: Named) -> list[tuple[Type, int]]:
    """The types in a record, up to those that have names, with how many types they are in."""
    found, left = [], [(child, 1) for _, child in children(record)]
    while left:
        each, depth = left.pop()
        found.append((each, depth))
        if not isinstance(each, Named):
            left.extend((child, depth + 1) for _, child in children(each))
    return found


def _extent(record: Named, endless: set[str]) -> tuple[int, int]:
    """How many types there are from a record to the next that leads to itself, at most, and how many in all."""
    within = _within(record)
    ways = (depth for each, depth in within if isinstance(each, Reference | Named) and each.name in endless)
    return max(ways, default=1), len(within) + 1


class _Writer:
    def __init__(self, schema: Schema, endless: set[str], deepest: int) -> None:
        self.schema, self.endless, self.deepest = schema, endless, deepest
        self.found: dict[str, Named] = {}
        self.left: dict[str, tuple[str, int]] = {}
        """Records that are named already: their names here and there, and the depth."""

    def written(self) -> Schema:
        root = self._type(self.schema.root, 0)
        while self.left:
            there, (name, depth) = self.left.popitem()
            self.found[there] = self._record(self.schema.names[name], depth)
        others = {name: each for name, each in self.schema.names.items() if name not in self.endless}
        return Schema(root, tuple({**others, **self.found}.values()))

    def _type(self, found: Type, depth: int) -> Type:
        match found:
            case Array():
                return replace(found, items=self._type(found.items, depth))
            case Map():
                return replace(found, values=self._type(found.values, depth))
            case Union():
                return replace(found, branches=tuple(self._type(each, depth) for each in found.branches))
            case Primitive():
                return found
        if found.name not in self.endless:
            return Reference(found.name)
        there = _name(found.name, depth)
        if depth == self.deepest:
            self.found[there] = Record(there, (_NOTHING,))
        elif there not in self.found:
            self.left[there] = found.name, depth
        return Reference(there)

    def _record(self, found: Named, depth: int) -> Record:
        assert isinstance(found, Record)  # noqa: S101
        fields = tuple(replace(field, type=self._type(field.type, depth + 1)) for field in found.fields)
        return replace(found, name=_name(found.name, depth), fields=fields)


class _Ended(Exception):
    """There is nothing more to find out."""

    def __init__(self, found: Walked) -> None:
        self.found = found


@dataclass(frozen=True)
class _Entry:
    """A key of a map, and its value."""

    value: Type


@dataclass(frozen=True)
class _End:
    """Where the items of a block end, as its size said before them."""

    at: int


class _Walk:
    """Goes through data without reading it, and without recursion. `AvroDepth.java` does the same where Spark reads it.

    The size of a block is for those who pass over it. Others go by its items, so both have to agree.
    """

    def __init__(self, schema: Schema, data: bytes, most: int | None) -> None:
        self.schema, self.data, self.at, self.steps, self.most = schema, data, 0, 0, most
        self.left: list[tuple[Type | _Entry | _End, int, int]] = [(schema.root, 1, 0)]
        """What comes next, the last first: a type, how many values of it, and how many records they are in."""

    def walked(self) -> Walked:
        try:
            while self.left:
                self._next(*self.left.pop())
        except _Ended as ended:
            return ended.found
        return "whole"

    def _next(self, kind: Type | _Entry | _End, count: int, depth: int) -> None:
        found = kind if isinstance(kind, _Entry | _End) else self.schema.resolve(kind)
        self.steps += 1
        self._require(self.steps <= _MOST_STEPS, "longer")
        if count > 1:
            self.left.append((kind, count - 1, depth))
        match found:
            case Fixed(size=size):
                self._skip(size)
            case Primitive(kind="int" | "long") | Enum():
                self._number()
            case Primitive(kind="string" | "bytes"):
                self._skip(self._number())
            case Primitive():
                self._skip(SIZES[found.kind])
            case Union():
                nth = self._number()
                self._require(0 <= nth < len(found.branches))
                self.left.append((found.branches[nth], 1, depth))
            case Record():
                self._require(found.fields[:1] != (_NOTHING,) and depth != self.most, "deeper")
                self.left.extend((field.type, 1, depth + 1) for field in reversed(found.fields))
            case Array() | Map():
                self._block(found, depth)
            case _Entry():
                self.left += [(found.value, 1, depth), (Primitive("string"), 1, depth)]
            case _End():
                self._require(found.at == self.at)

    def _block(self, found: Array | Map, depth: int) -> None:
        count = self._number()
        if not count:
            return
        self.left.append((found, 1, depth))
        if count < 0:
            size = self._number()
            self.left.append((_End(self.at + size), 1, depth))
        item = found.items if isinstance(found, Array) else _Entry(found.values)
        self.left.append((item, abs(count), depth))

    def _number(self) -> int:
        found = shift = 0
        while True:
            self._require(self.at < len(self.data) and shift < 70)
            byte = self.data[self.at]
            self.at += 1
            found |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                found &= _WORD
                return (found >> 1) ^ -(found & 1)

    def _skip(self, size: int) -> None:
        self._require(0 <= size <= len(self.data) - self.at)
        self.at += size

    def _require(self, holds: bool, otherwise: Walked = "damaged") -> None:
        if not holds:
            raise _Ended(otherwise)
