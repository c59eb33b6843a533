"""Stored columns of a Parquet file in the types of a pipeline's columns.

Moments are cut to microseconds. Days and moments are in the Gregorian calendar, even before it was in use. A text that
is not UTF-8 keeps its bytes until its row is marked as corrupt.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.config.damaged_files import DamagedFile
from latecomer.model.array_types import Flags
from latecomer.model.types import INTEGERS, is_nested
from latecomer.source.decode.json_text import (
    JsonText,
    Shape,
    has_valid_texts,
    raw_text,
    shape_of,
    shape_of_type,
    stored_values,
)
from latecomer.store.layout import source_type


def typed_column(column: pa.Array, kind: str, path: tuple[str, ...]) -> pa.Array:
    """The column at this path of the file in the type of a pipeline's column; `DamagedFile` if it is of another."""
    stored = column.type
    if pa.types.is_null(stored):
        return pa.nulls(len(column), source_type(kind))
    if kind == "string" and pa.types.is_nested(stored):
        write = JsonText().of(shape_of_type(stored))
        texts = [None if each is None else raw_text(write(each)) for each in stored_values(column)]
        return pa.array(texts, pa.binary()).view(pa.string())
    if is_nested(kind) and pa.types.is_nested(stored):
        return _nested(column, kind)
    if not _is_readable(stored, kind):
        raise DamagedFile(f"column {'.'.join(path)} is {stored}, pinned as {kind}")
    return _plain(column, kind)


def _is_readable(stored: pa.DataType, kind: str) -> bool:
    """Whether a column takes the stored type. For columns with the same name, `misfit` has checked it before."""
    shape = shape_of_type(stored)
    if kind in ("timestamp", "timestamp_ntz"):  # the old INT96 has no zone, and is read as either
        return bool(pa.types.is_timestamp(stored))
    if kind in INTEGERS:
        return bool(pa.types.is_integer(stored))
    if kind.startswith("decimal"):
        return shape == kind or pa.types.is_uint64(stored)
    return shape == kind or (kind == "double" and (shape == "float" or pa.types.is_integer(stored)))


def _plain(column: pa.Array, kind: str) -> pa.Array:
    """A plain column in its type. A value that the type does not hold is damage: Arrow raises."""
    wanted, stored = source_type(kind), column.type
    if pa.types.is_dictionary(stored):
        column, stored = column.dictionary_decode(), stored.value_type
    if kind == "string":
        return column.cast(pa.large_binary()).cast(pa.binary()).view(pa.string())
    if pa.types.is_timestamp(stored):
        if stored.unit == "ns":
            numbers = np.asarray(column.cast(pa.int64()).fill_null(0))
            column = pa.array(np.floor_divide(numbers, 1000), mask=np.asarray(column.is_null()))
        else:
            column = column.cast(pa.timestamp("us", stored.tz)).cast(pa.int64())
        return column.cast(wanted)
    # Rows with whole numbers that are rounded to doubles become corrupt.
    cast = column.cast(wanted, safe=kind != "double")
    if pa.types.is_decimal(wanted):
        cast.validate(full=True)
    return cast


def changed_as_doubles(whole: pa.Array, doubles: pa.Array) -> Flags:
    """Which whole numbers change when they become doubles."""
    numbers = np.asarray(whole.cast(pa.int64()).fill_null(0))
    as_doubles = np.asarray(doubles.fill_null(0.0))
    beyond = np.abs(as_doubles) >= 2.0**63
    return np.asarray(beyond | (np.where(beyond, 0.0, as_doubles).astype(np.int64) != numbers), bool)


def _nested(column: pa.Array, kind: str) -> pa.Array:
    """A list or a map, with its values in the column's types."""
    wanted = source_type(kind)
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        if wanted == column.type or "struct<" not in kind:
            return column.cast(wanted)
    shape = shape_of(kind)
    values = [shaped(each, shape) for each in stored_values(column)]
    try:
        return pa.array(values, wanted)
    except UnicodeEncodeError:
        return pa.array(_raw(values), _raw_type(wanted)).cast(wanted, safe=False)


def _raw(value: Any) -> Any:
    match value:
        case str():
            return raw_text(value)
        case list():
            return [_raw(each) for each in value]
        case tuple():
            return tuple(map(_raw, value))
        case dict():
            return {name: _raw(each) for name, each in value.items()}
    return value


def _raw_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_raw_type(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_raw_type(kind.key_type), _raw_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_raw_type(field.type)) for field in kind.fields])
    return kind


def shaped(value: Any, shape: Shape) -> Any:
    """A value whose objects have the fields of a shape."""
    if value is None or isinstance(shape, str):
        return value
    outer, parts = shape
    match outer:
        case "array":
            return [shaped(each, parts["element"]) for each in value]
        case "map":
            return [(name, shaped(each, parts["value"])) for name, each in value]
    return {name: shaped(value.get(name), kind) for name, kind in parts.items()}


def valid_rows(column: pa.Array) -> Flags:
    """The rows whose texts are all UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([has_valid_texts(each) for each in stored_values(column)], np.bool_)
    return np.ones(len(column), np.bool_)


def without_bad_texts(column: pa.Array, odd: Flags) -> pa.Array:
    """A column whose texts are all UTF-8: wrong bytes are replaced, and a list with such a text is null."""
    if not odd.any() or valid_rows(column).all():
        return column

    def in_utf8(value: Any) -> Any:
        if has_valid_texts(value):
            return value
        return raw_text(value).decode("utf-8", "replace") if isinstance(value, str) else None

    return pa.array(map(in_utf8, stored_values(column)), column.type)
