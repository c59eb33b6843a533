"""Wider types: which type holds the values of another."""

from __future__ import annotations

import pyarrow as pa


def wider_schema(existing: pa.Schema, wanted: pa.Schema) -> pa.Schema:
    """The existing schema, with the wanted types where they are wider.

    >>> wider_schema(pa.schema([("a", pa.int32()), ("b", pa.int64())]), pa.schema([("a", pa.int64())]))
    a: int64
    b: int64
    """
    new = {field.name: field.type for field in wanted}
    return pa.schema(
        [field.with_type(_wider(field.type, new.get(field.name, field.type))) for field in existing]
    )


def _wider(before: pa.DataType, after: pa.DataType) -> pa.DataType:
    """The type `before`, with each part widened to that of `after`. New fields of an object come last."""
    if not holds_all_values(before, after):
        return before
    both = (pa.schema([("widened", each)]) for each in (before, after))
    return pa.unify_schemas(list(both), promote_options="permissive").field("widened").type


def holds_all_values(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether the type `after` holds every value of the type `before` exactly."""
    if pa.types.is_struct(before) and pa.types.is_struct(after):
        new = {field.name: field.type for field in after}
        return all(field.name in new and holds_all_values(field.type, new[field.name]) for field in before)
    if pa.types.is_list(before) and pa.types.is_list(after):
        return holds_all_values(before.value_type, after.value_type)
    if pa.types.is_map(before) and pa.types.is_map(after):
        return bool(before.key_type == after.key_type) and holds_all_values(before.item_type, after.item_type)
    if pa.types.is_decimal128(before) and pa.types.is_decimal128(after):
        return bool(after.scale == before.scale and after.precision >= before.precision)
    for kind in (pa.types.is_signed_integer, pa.types.is_floating):
        if kind(before) and kind(after):
            return bool(after.bit_width >= before.bit_width)
    return bool(before == after)
