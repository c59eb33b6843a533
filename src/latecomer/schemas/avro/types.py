"""Avro schemas as values: frozen, comparable, without cycles.

A named type is written out once, where it is defined; everywhere else it is a `Reference` with its full name. So a
recursive schema is a finite tree. `Schema` is the tree with the types that it uses from other schemas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}
"""Primitives of a fixed size, in bytes."""


@dataclass(frozen=True)
class Json:
    """A JSON value. Two are equal if they are written alike: 1, 1.0 and true differ. The order of keys is ignored."""

    text: str
    value: Any = field(compare=False, repr=False)

    @classmethod
    def of(cls, value: Any) -> Self:
        """
        >>> Json.of({"b": 1.0, "a": None}).text
        '{"a":null,"b":1.0}'
        """
        text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return cls(text, value)


Properties = tuple[tuple[str, Json], ...]
"""Keys that the specification does not define, with their values."""


@dataclass(frozen=True)
class Primitive:
    kind: str
    properties: Properties = ()


@dataclass(frozen=True)
class Reference:
    """A named type that is defined elsewhere."""

    name: str
    properties: Properties = ()


@dataclass(frozen=True)
class Array:
    items: Type
    properties: Properties = ()
    kind: Literal["array"] = "array"


@dataclass(frozen=True)
class Map:
    values: Type
    properties: Properties = ()
    kind: Literal["map"] = "map"


@dataclass(frozen=True)
class Union:
    branches: tuple[Type, ...]
    kind: Literal["union"] = "union"


@dataclass(frozen=True)
class Enum:
    name: str
    symbols: tuple[str, ...]
    default: str | None = None
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = ()
    kind: Literal["enum"] = "enum"


@dataclass(frozen=True)
class Fixed:
    name: str
    size: int
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = ()
    kind: Literal["fixed"] = "fixed"


@dataclass(frozen=True)
class Field:
    name: str
    type: Type
    default: Json | None = None
    order: str = "ascending"
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = ()


@dataclass(frozen=True)
class Record:
    """`is_error` does not matter for data: an error is a record that a protocol throws."""

    name: str
    fields: tuple[Field, ...]
    is_error: bool = False
    aliases: tuple[str, ...] = ()
    doc: str | None = None
    properties: Properties = ()
    kind: Literal["record"] = "record"


Named = Record | Enum | Fixed
Defined = Primitive | Array | Map | Union | Record | Enum | Fixed
Type = Defined | Reference


@dataclass(frozen=True)
class Schema:
    """A whole schema, with full names. `external` has the types of other schemas that it needs, sorted by name."""

    root: Type
    external: tuple[Named, ...] = ()

    @cached_property
    def names(self) -> dict[str, Named]:
        """Every named type of the schema, by name."""
        names: dict[str, Named] = {}
        for tree in (self.root, *self.external):
            names |= {each.name: each for each in parts(tree) if isinstance(each, Named)}
        return names

    def resolve(self, found: Type) -> Defined:
        """The type that a reference names; any other type is returned as it is."""
        return self.names[found.name] if isinstance(found, Reference) else found


def children(parent: Type) -> list[Type]:
    """The types directly within one."""
    match parent:
        case Array():
            return [parent.items]
        case Map():
            return [parent.values]
        case Union():
            return list(parent.branches)
        case Record():
            return [each.type for each in parent.fields]
    return []


def parts(tree: Type) -> Iterator[Type]:
    """Every type of a tree in the order of the text, itself first."""
    pending = [tree]
    while pending:
        each = pending.pop()
        yield each
        pending.extend(reversed(children(each)))
