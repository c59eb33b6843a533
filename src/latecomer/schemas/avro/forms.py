"""A schema as text: the normalized form.

It is the same text for schemas that differ only in layout: white space, the order of keys, names with or without
`namespace`, `{"type": "int"}` for `"int"`, `"order": "ascending"` for none. Everything else is kept: docs, aliases,
defaults, order, logical types, properties, and whether a record is an error. Names of other schemas stay names. A
registry finds schemas by this form under `normalize`.
"""

from __future__ import annotations

import json
from typing import Any

from latecomer.schemas.avro.types import (
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    Named,
    Primitive,
    Properties,
    Record,
    Reference,
    Schema,
    Type,
    Union,
)


def normalized(schema: Schema) -> str:
    """The normalized form: the same for schemas with the same meaning, with nothing lost.

    >>> from latecomer.schemas.avro.parsing import parse_schema
    >>> normalized(parse_schema('{"doc": "ours", "size": 4, "namespace": "a", "name": "Id", "type": "fixed"}'))
    '{"type":"fixed","name":"a.Id","doc":"ours","size":4}'
    """
    return _written(_normal(schema.root, "", {}))


def self_contained(schema: Schema) -> str:
    """The normalized form without references: types of other schemas are written out where they are first used.

    >>> from latecomer.schemas.avro.parsing import parse_schema
    >>> paise = parse_schema('{"type": "fixed", "name": "Paise", "size": 8}')
    >>> self_contained(parse_schema('{"type": "array", "items": "Paise"}', {"Paise": paise}))
    '{"type":"array","items":{"type":"fixed","name":"Paise","size":8}}'
    """
    return _written(_normal(schema.root, "", {each.name: each for each in schema.external}))


def _written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _normal(found: Type, space: str, others: dict[str, Named]) -> Any:
    """A type within a namespace. Types in `others` are written out where their names come first."""
    match found:
        case Reference(name=name) if name in others:
            return _normal(others.pop(name), space, others)
        case Primitive(kind=kind, properties=properties):
            return {"type": kind, **_plain(properties)} if properties else kind
        case Reference(name=name, properties=properties):
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
