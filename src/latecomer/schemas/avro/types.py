"""Avro schemas as values: frozen, comparable, without cycles. Their text, and how deep their records may be nested.

A named type is written out once, where it is defined; everywhere else it is a `TypeReference` with its full name. So a
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
DEEPEST_RECORD = 100
"""How many records of a recursive schema may be nested: a reader recurses into them, and its stack is limited."""
_MOST_NESTED = 300
"""How many types may be nested."""


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
class TypeReference:
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
Type = Defined | TypeReference


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
        return self.names[found.name] if isinstance(found, TypeReference) else found


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


# As text


def normalized(schema: Schema) -> str:
    """The text that is the same for schemas that differ only in layout.

    Layout is white space, the order of keys, names with or without `namespace`, `{"type": "int"}` for `"int"`,
    `"order": "ascending"` for none. Everything else is kept: docs, aliases, defaults, order, logical types, properties,
    and whether a record is an error. Names of other schemas stay names. A registry finds schemas by this text.

    >>> from latecomer.schemas.avro.parsing import parse_schema
    >>> normalized(parse_schema('{"doc": "ours", "size": 4, "namespace": "a", "name": "Id", "type": "fixed"}'))
    '{"type":"fixed","name":"a.Id","doc":"ours","size":4}'
    """
    return _text(_normal(schema.root, "", {}))


def self_contained(schema: Schema) -> str:
    """The normalized form without references: types of other schemas are written out where they are first used.

    >>> from latecomer.schemas.avro.parsing import parse_schema
    >>> paise = parse_schema('{"type": "fixed", "name": "Paise", "size": 8}')
    >>> self_contained(parse_schema('{"type": "array", "items": "Paise"}', {"Paise": paise}))
    '{"type":"array","items":{"type":"fixed","name":"Paise","size":8}}'
    """
    return _text(_normal(schema.root, "", {each.name: each for each in schema.external}))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _normal(found: Type, space: str, others: dict[str, Named]) -> Any:
    """A type within a namespace. Types in `others` are written out where their names come first."""
    match found:
        case TypeReference(name=name) if name in others:
            return _normal(others.pop(name), space, others)
        case Primitive(kind=kind, properties=properties):
            return {"type": kind, **_plain(properties)} if properties else kind
        case TypeReference(name=name, properties=properties):
            return {"type": name, **_plain(properties)} if properties else name
        case Array():
            return {"type": "array", "items": _normal(found.items, space, others), **_plain(found.properties)}
        case Map():
            return {"type": "map", "values": _normal(found.values, space, others), **_plain(found.properties)}
        case Union():
            return [_normal(branch, space, others) for branch in found.branches]
        case Fixed():
            return {**_head(found, "fixed", space), "size": found.size, **_plain(found.properties)}
        case Enum():
            default = {} if found.default is None else {"default": found.default}
            symbols = {"symbols": found.symbols}
            return {**_head(found, "enum", space), **symbols, **default, **_plain(found.properties)}
        case Record():
            inner = found.name.rpartition(".")[0]
            fields = [_normal_field(each, inner, others) for each in found.fields]
            head = _head(found, "error" if found.is_error else "record", space)
            return {**head, "fields": fields, **_plain(found.properties)}


def _head(found: Named, kind: str, space: str) -> dict[str, Any]:
    """The first keys of a named type. `namespace` is empty for a type without one in a type that has one."""
    head: dict[str, Any] = {"type": kind, "name": found.name}
    if space and "." not in found.name:
        head["namespace"] = ""
    return head | _about(found.aliases, found.doc)


def _normal_field(field: Field, space: str, others: dict[str, Named]) -> dict[str, Any]:
    found = {"name": field.name, "type": _normal(field.type, space, others)}
    if field.default is not None:
        found["default"] = json.loads(field.default.text)
    if field.order != "ascending":
        found["order"] = field.order
    return found | _about(field.aliases, field.doc) | _plain(field.properties)


def _about(aliases: tuple[str, ...], doc: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if doc is not None:
        found["doc"] = doc
    if aliases:
        found["aliases"] = aliases
    return found


def _plain(properties: Properties) -> dict[str, Any]:
    return {name: json.loads(each.text) for name, each in properties}


# Recursive records


def deepest_of(schema: Schema) -> int | None:
    """How deep the recursive records of a schema may be nested; None if it has none."""
    endless = endless_records(schema)
    if not endless:
        return None
    heights = (_height(schema.names[name], endless) for name in _repeated(schema, endless))
    return min(DEEPEST_RECORD, _MOST_NESTED // max(heights))


def endless_records(schema: Schema) -> frozenset[str]:
    """The names of the records that are recursive, or contain a recursive one."""
    records = (each for each in schema.names.values() if isinstance(each, Record))
    records_left = {each.name: _leads_to(each) for each in records}
    while ending := [name for name, to in records_left.items() if not to & records_left.keys()]:
        for name in ending:
            del records_left[name]
    return frozenset(records_left)


def _repeated(schema: Schema, endless: frozenset[str]) -> frozenset[str]:
    """Those that may occur at several depths. An envelope around them is not one of these: none of them contains it."""
    repeated = endless
    while (led := repeated & {to for name in repeated for to in _leads_to(schema.names[name])}) != repeated:
        repeated = led
    return repeated


def _leads_to(record: Named) -> set[str]:
    """The names of the types that the fields of a record use."""
    return {each.name for each, _ in _within(record) if isinstance(each, TypeReference | Named)}


def _within(record: Named) -> list[tuple[Type, int]]:
    """The types in a record, each with its depth. Named types are included; what is in them is not."""
    types, pending = [], [(child, 1) for child in children(record)]
    while pending:
        each, depth = pending.pop()
        types.append((each, depth))
        if not isinstance(each, Named):
            pending.extend((child, depth + 1) for child in children(each))
    return types


def _height(record: Named, endless: frozenset[str]) -> int:
    """The largest number of types between a record and the next recursive one."""
    ways = (
        depth
        for each, depth in _within(record)
        if isinstance(each, TypeReference | Named) and each.name in endless
    )
    return max(ways, default=1)
