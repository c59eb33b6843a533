"""Columns of Arrow as the values that `json_text.py` writes: dates in days, moments in whole microseconds."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.model.types import is_nested
from latecomer.source.decode.json_text import JsonText, Shape, Writer, plain_text, shape_of

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


def stored_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column. A text that is not UTF-8 has a lone surrogate for each wrong byte.

    >>> stored_values(pa.array([[{"a": 1}], None]))
    [[{'a': 1}], None]
    """
    if isinstance(column, pa.ChunkedArray):
        return [each for chunk in column.chunks for each in stored_values(chunk)]
    kind, types = column.type, pa.types
    if types.is_dictionary(kind):
        return stored_values(column.dictionary_decode())
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        raw = column.cast(pa.large_binary()).to_pylist()
        return [None if each is None else each.decode("utf-8", "surrogateescape") for each in raw]
    if types.is_timestamp(kind):
        numbers, per_second = column.cast(pa.int64()).to_pylist(), _PER_SECOND[kind.unit]
        return [None if each is None else each * 1_000_000 // per_second for each in numbers]
    if types.is_date32(kind):
        return column.cast(pa.int32()).to_pylist()  # type: ignore[no-any-return]
    if types.is_struct(kind):
        return _structs(column)
    if types.is_map(kind):
        pairs = list(zip(stored_values(column.keys), stored_values(column.items), strict=True))
        return _slices(column, pairs)
    if types.is_list(kind) or types.is_large_list(kind):
        return _slices(column, stored_values(column.values))
    if types.is_fixed_size_list(kind):
        return stored_values(column.cast(pa.list_(kind.value_type)))
    return column.to_pylist()  # type: ignore[no-any-return]


def _structs(column: pa.StructArray) -> list[Any]:
    names = [field.name for field in column.type.fields]
    fields = [stored_values(column.field(nth)) for nth in range(len(names))]
    valid = np.asarray(column.is_valid())
    if not names:
        return [{} if is_valid else None for is_valid in valid]
    rows = zip(*fields, strict=True)
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for row, is_valid in zip(rows, valid, strict=True)
    ]


def _slices(column: pa.ListArray, values: list[Any]) -> list[Any]:
    bounds, valid = column.offsets.to_pylist(), np.asarray(column.is_valid())
    return [values[bounds[nth] : bounds[nth + 1]] if is_valid else None for nth, is_valid in enumerate(valid)]


def stored_rows(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """The values of each row, by name."""
    columns = [stored_values(column) for column in rows.columns]
    return (dict(zip(rows.column_names, row, strict=True)) for row in zip(*columns, strict=True))


def texts_of(column: pa.Array | pa.ChunkedArray, kind: str) -> list[str | None]:
    """The values of a column as Spark casts them to text; lists and maps as JSON.

    Binary values need not be UTF-8: each byte becomes one character.

    >>> texts_of(pa.array([1e7, None]), "double"), texts_of(pa.array([[1]]), "array<int>")
    (['1.0E7', None], ['[1]'])
    """
    write: Writer = partial(plain_text, kind=kind)
    if is_nested(kind):
        write = JsonText(digits=3, nulls=True).of(shape_of(kind))
    elif kind == "binary":
        write = partial(str, encoding="iso-8859-1")
    return [None if each is None else write(each) for each in stored_values(column)]


def shape_of_type(kind: pa.DataType) -> Shape:
    """The shape of a column as it is stored."""
    types = pa.types
    if types.is_dictionary(kind):
        return shape_of_type(kind.value_type)
    if types.is_struct(kind):
        return "struct", {field.name: shape_of_type(field.type) for field in kind.fields}
    if types.is_map(kind):
        return "map", {"key": shape_of_type(kind.key_type), "value": shape_of_type(kind.item_type)}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return "array", {"element": shape_of_type(kind.value_type)}
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "string"
    if types.is_boolean(kind):
        return "boolean"
    if types.is_floating(kind):
        return "float" if kind == pa.float32() else "double"
    if types.is_date(kind):
        return "date"
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    return "bigint" if types.is_integer(kind) else "binary"
