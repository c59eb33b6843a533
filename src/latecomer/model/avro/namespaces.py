"""Schemas in which all types have a namespace, or none has.

Within a namespace a text can define a type that has none, but not name it again; and the canonical form says nothing of
types that have none. So where only some types have a namespace, the others get one.
"""

from __future__ import annotations

from dataclasses import replace

from latecomer.model.avro.types import Array, Map, Named, Primitive, Record, Reference, Schema, Type, Union

NOWHERE = "_lc_nowhere."
"""Before the name of a type without a namespace, where others have one."""


def in_namespaces(schema: Schema) -> Schema:
    """The same schema under such names."""
    if len({"." in name for name in schema.names}) < 2:
        return schema
    return Schema(_renamed(schema.root), tuple(map(_named, schema.external)))


def _renamed(found: Type) -> Type:
    match found:
        case Array():
            return replace(found, items=_renamed(found.items))
        case Map():
            return replace(found, values=_renamed(found.values))
        case Union():
            return replace(found, branches=tuple(map(_renamed, found.branches)))
        case Reference():
            return replace(found, name=_name(found.name))
        case Primitive():
            return found
    return _named(found)


def _named(found: Named) -> Named:
    if not isinstance(found, Record):
        return replace(found, name=_name(found.name))
    fields = tuple(replace(field, type=_renamed(field.type)) for field in found.fields)
    return replace(found, name=_name(found.name), fields=fields)


def _name(name: str) -> str:
    return name if "." in name else NOWHERE + name
