"""The columns of a Parquet file, as Spark reads them.

Spark's types have microseconds and no unsigned numbers. Nanoseconds are cut to microseconds, and unsigned numbers get
the next larger type. The fields of a struct become columns, with dots in their names. Lists and maps become columns,
or JSON text where their column is text or cannot hold their values. Columns of other types are left out and reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from latecomer.config.damaged_files import PARQUET, DamagedFile, damage_found
from latecomer.model.paths import DEEPEST
from latecomer.model.types import DEEPEST_NESTED, MOST_DIGITS, normal_type
from latecomer.model.words import in_backticks
from latecomer.objects.readable import Readable, readable

_KINDS = {
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "uint8": "smallint",
    "uint16": "int",
    "uint32": "bigint",
    "uint64": "decimal(20,0)",
    "float": "float",
    "double": "double",
    "bool": "boolean",
    "string": "string",
    "large_string": "string",
    "string_view": "string",
    "binary": "binary",
    "large_binary": "binary",
    "binary_view": "binary",
    "date32[day]": "date",
}
_CAST = "write it as a number, text or timestamp"


@dataclass(frozen=True)
class ParquetColumns:
    """The columns of a Parquet file: those that can be read and those that cannot, with their types."""

    kinds: Mapping[str, str]
    nanoseconds: frozenset[str]
    """Times that Spark returns as numbers."""
    int96: frozenset[str]
    """Times in the old form, which has no zone. They can be read as timestamps with and without one."""
    nested: Mapping[str, str]
    """Lists and maps, which are text in `kinds`, and the types that Spark reads them with."""
    left_out: Mapping[str, str]
    empty: frozenset[str]
    """Columns that hold only nulls, which fit any type."""

    @property
    def lists(self) -> dict[str, str]:
        """The lists and maps that a column can hold as they are, and its type."""
        types = {name: _own_type(kind) for name, kind in self.nested.items()}
        return {name: kind for name, kind in types.items() if kind is not None}


def parquet_columns(file: Readable) -> ParquetColumns:
    """The columns of a file, from its footer alone; raises `DamagedFile` where it cannot be read."""
    with damage_found(PARQUET), file.open("rb") as content, pq.ParquetFile(content) as opened:
        stored = [opened.schema.column(place) for place in range(len(opened.schema))]
        return _columns(opened.schema_arrow, {column.path: column.physical_type for column in stored})


def _columns(schema: pa.Schema, physical: Mapping[str, str]) -> ParquetColumns:
    """The columns of a schema as Arrow sees it; `physical` has the type in which each is stored."""
    kinds: dict[str, str] = {}
    nested: dict[str, str] = {}
    left_out: dict[str, str] = {}
    int96 = {name for name, kind in physical.items() if kind == "INT96"}
    nanoseconds, empty = set(), set()
    for name, stored in _leaves(schema):
        kind = "timestamp" if name in int96 else _kind(stored)
        if kind is not None:
            kinds.setdefault(name, kind)
            if physical.get(name) == "INT64" and _is_in_nanoseconds(stored):
                nanoseconds.add(name)
        elif (inner := _nested(stored)) is not None:
            if kinds.setdefault(name, "string") == "string":
                nested[name] = inner
        elif pa.types.is_null(stored):
            empty.add(name)
        else:
            left_out[name] = str(stored)
    return ParquetColumns(kinds, frozenset(nanoseconds), frozenset(int96), nested, left_out, frozenset(empty))


def _leaves(
    fields: Iterable[pa.Field], around: str = "", depth: int = 1
) -> Iterator[tuple[str, pa.DataType]]:
    """The columns of a file. A struct is replaced by its fields, under names with dots."""
    for field in fields:
        name = f"{around}{field.name}"
        if pa.types.is_struct(field.type) and depth < DEEPEST:
            yield from _leaves(field.type.fields, f"{name}.", depth + 1)
        else:
            yield name, field.type


def _kind(kind: pa.DataType) -> str | None:
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})" if kind.precision <= MOST_DIGITS else None
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_fixed_size_binary(kind):
        return "binary"
    return _KINDS.get(str(kind))


def _nested(kind: pa.DataType, depth: int = 1) -> str | None:
    """The type that Spark reads a list or a map with; None where it cannot read all of its values.

    >>> _nested(pa.list_(pa.struct([("a", pa.int32()), ("b", pa.map_(pa.string(), pa.bool_()))])))
    'array<struct<`a`: int, `b`: map<string, boolean>>>'
    """
    types = pa.types
    if depth > DEEPEST_NESTED:
        return None
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _inner(kind.value_type, depth)
        return None if inner is None else f"array<{inner}>"
    if types.is_map(kind):
        key, value = (_inner(each, depth) for each in (kind.key_type, kind.item_type))
        return None if key is None or value is None else f"map<{key}, {value}>"
    return None


def _own_type(nested: str) -> str | None:
    try:
        return normal_type(nested)
    except ValueError:
        return None


def _inner(kind: pa.DataType, depth: int) -> str | None:
    """The type of the values in a list or a map. None for times in nanoseconds: Spark would return numbers."""
    if pa.types.is_struct(kind):
        fields = [(each.name, _inner(each.type, depth + 1)) for each in kind.fields]
        if not fields or depth > DEEPEST_NESTED or any(inner is None for _, inner in fields):
            return None
        return f"struct<{', '.join(f'{in_backticks(name)}: {inner}' for name, inner in fields)}>"
    if _is_in_nanoseconds(kind):
        return None
    return _kind(kind) or _nested(kind, depth + 1)


def _is_in_nanoseconds(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) and kind.unit == "ns")


def columns_left_out(files: Iterable[str]) -> dict[str, tuple[str, str]]:
    """The columns that cannot be read in one of the files, with their types and the fix."""
    unread: dict[str, tuple[str, str]] = {}
    for file in files:
        try:
            left_out = parquet_columns(readable(file)).left_out
        except (DamagedFile, OSError):
            continue  # the run reports what is wrong with it
        for column, kind in left_out.items():
            nested = kind.startswith(("list", "large_list", "fixed_size_list", "map"))
            unread[column] = (kind, "write its values as numbers, texts or timestamps" if nested else _CAST)
    return unread
