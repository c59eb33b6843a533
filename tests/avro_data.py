"""Random data of a schema, in Avro's binary encoding."""

from __future__ import annotations

import math
import struct
from random import Random
from typing import Any

from latecomer.schemas.avro import Schema
from latecomer.schemas.avro.types import (
    Array,
    Defined,
    Enum,
    Fixed,
    Map,
    Named,
    Primitive,
    Record,
    Type,
    Union,
)


class DataMaker:
    """Makes data. Deeper than `deepest`, everything is as small as it can be."""

    def __init__(self, schema: Schema, seed: int, deepest: int = 4) -> None:
        self.schema, self.random, self.deepest = schema, Random(seed), deepest
        self.heights = dict.fromkeys(schema.names, math.inf)
        for _ in schema.names:
            self.heights = {name: self.height(each) for name, each in schema.names.items()}

    def is_possible(self) -> bool:
        """Whether there is any data: a record that holds itself has none."""
        return self.height_of(self.schema.root) < math.inf

    def height_of(self, found: Type) -> float:
        defined = self.schema.resolve(found)
        return self.heights[defined.name] if isinstance(defined, Named) else self.height(defined)

    def height(self, found: Defined) -> float:
        """How many records are at least within one another."""
        match found:
            case Union():
                return min(map(self.height_of, found.branches), default=math.inf)
            case Record():
                return 1 + max((self.height_of(each.type) for each in found.fields), default=0)
            case Enum(symbols=()):
                return math.inf
        return 0

    def datum(self) -> bytes:
        return self.encoded(self.schema.root, 0)

    def encoded(self, found: Type, depth: int) -> bytes:
        defined = self.schema.resolve(found)
        match defined:
            case Primitive():
                return self.primitive(defined.kind)
            case Enum():
                return number(self.random.randrange(len(defined.symbols)))
            case Fixed():
                return bytes(self.random.choices(b"abc", k=defined.size))
            case Record():
                return b"".join(self.encoded(each.type, depth + 1) for each in defined.fields)
            case Union():
                index = self.branch(defined, depth)
                return number(index) + self.encoded(defined.branches[index], depth + 1)
            case Array():
                return self.block(
                    [self.encoded(defined.items, depth + 1) for _ in self.times(defined.items, depth)]
                )
            case Map():
                inner = self.times(defined.values, depth)
                return self.block(
                    [text(f"k{at}".encode()) + self.encoded(defined.values, depth + 1) for at in inner]
                )

    def times(self, found: Type, depth: int) -> range:
        small = depth > self.deepest or self.height_of(found) == math.inf
        return range(0 if small else self.random.randrange(3))

    def branch(self, union: Union, depth: int) -> int:
        heights = [self.height_of(each) for each in union.branches]
        if depth > self.deepest:
            return heights.index(min(heights))
        return self.random.choice([index for index, height in enumerate(heights) if height < math.inf])

    def block(self, items: list[bytes]) -> bytes:
        return number(len(items)) + b"".join(items) + b"\0" if items else b"\0"

    def primitive(self, kind: str) -> bytes:
        match kind:
            case "null":
                return b""
            case "boolean":
                return self.random.choice((b"\0", b"\1"))
            case "int":
                return number(self.random.choice((0, -1, 2**31 - 1, -(2**31))))
            case "long":
                return number(self.random.choice((0, -1, 2**63 - 1, -(2**63))))
            case "float":
                return struct.pack("<f", self.random.choice((0.0, -1.5)))
            case "double":
                return struct.pack("<d", self.random.choice((0.0, -1.5)))
        return text(self.random.choice((b"", b"late", "€".encode())))


class SizedBlocks(DataMaker):
    """Makes data in which each block says how many bytes it has, for readers that pass over it."""

    def block(self, items: list[bytes]) -> bytes:
        whole = b"".join(items)
        return number(-len(items)) + number(len(whole)) + whole + b"\0" if items else b"\0"


def leading_to_each_other(count: int, **fields: Any) -> dict[str, Any]:
    """A schema of so many records: `R0` may hold itself and each of the others, and those `R0` and themselves. `R0` has
    some more fields, before these."""
    others = [
        {
            "type": "record",
            "name": name,
            "fields": [{"name": to, "type": ["null", to]} for to in ("R0", name)],
        }
        for name in (f"R{nth}" for nth in range(1, count))
    ]
    holds: list[Any] = ["R0", *others]
    named = {**fields, **{f"to{nth}": ["null", each] for nth, each in enumerate(holds)}}
    own = [{"name": name, "type": kind} for name, kind in named.items()]
    return {"type": "record", "name": "R0", "fields": own}


def number(value: int) -> bytes:
    """A whole number in Avro's zigzag.

    >>> number(0), number(-1), number(1), number(64)
    (b'\\x00', b'\\x01', b'\\x02', b'\\x80\\x01')
    """
    left, found = (value << 1) ^ (value >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*found, left])


def text(value: bytes) -> bytes:
    return number(len(value)) + value
