"""Parquet files as typed columns without Spark: every value as Spark's reader has it, or the file `Declined`.

The footer says what there is. Flat columns of the types that texts are read as, in the encodings and compressions that
every reader has, are taken here; all else is left to Spark (ADR 0056).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from latecomer.config.sources import UnknownFields
from latecomer.decode.arrow_kept import kept_columns
from latecomer.decode.arrow_text import NUMBERS, column_type, require_finite, require_recent
from latecomer.decode.columns import KEPT
from latecomer.fast import MOST_READ, MOST_ROWS, Declined
from latecomer.model import types
from latecomer.model.paths import ways_of

_COMPRESSIONS = frozenset({"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"})
_ENCODINGS = frozenset({"PLAIN", "RLE", "BIT_PACKED", "PLAIN_DICTIONARY", "RLE_DICTIONARY"})
_KINDS = {
    pa.string(): "string",
    pa.large_string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.bool_(): "boolean",
    pa.date32(): "date",
}
_AT_ONCE = 1 << 16
"""So many rows are read at a time."""


def require_plain_parquet(columns: Mapping[str, str]) -> None:
    """Decline columns that are not read here, whatever a file holds."""
    for kind in columns.values():
        column_type(kind)
    if ways_of(columns):
        raise Declined("columns within objects")


def parquet_rows(file: Path, columns: Mapping[str, str], unknown: UnknownFields = "ignore") -> pa.Table:
    """The rows of a file, with these columns; null where the file does not have one.

    Columns that are not among them are passed over; or kept in KEPT, if there are any; or the file is declined.
    """
    require_plain_parquet(columns)
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as opened:
            extra = _extra(opened.schema_arrow, columns) if unknown == "keep" else {}
            every = {**columns, **extra}
            there = _plain_columns(opened, every, others=unknown == "ignore")
        # Texts that come often are stored once: they are not written out before it is known how long that makes them.
        texts = [name for name in there if every[name] == "string"]
        with pq.ParquetFile(file, read_dictionary=texts, page_checksum_verification=True) as opened:
            count = opened.metadata.num_rows
            rows = _read(opened, there)
    except (OSError, ValueError, pa.ArrowException):
        raise Declined("a file that Arrow cannot read") from None
    _require_room(rows.column(name) for name in texts)
    made = {name: _typed(rows.column(name), every[name]) for name in there}
    found = {
        name: made[name] if name in made else pa.nulls(count, column_type(kind))
        for name, kind in columns.items()
    }
    kept = {KEPT: kept_columns({name: made[name] for name in extra})} if extra else {}
    return pa.table({**found, **kept})


def _extra(schema: pa.Schema, columns: Mapping[str, str]) -> dict[str, str]:
    """The columns of a file that are not declared, and their types."""
    return {field.name: _kind(field.type) for field in schema if field.name not in columns}


def _kind(kind: pa.DataType) -> str:
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if kind not in _KINDS:
        raise Declined(f"a column of type {kind} that is kept")
    return _KINDS[kind]


def _plain_columns(opened: pq.ParquetFile, columns: Mapping[str, str], others: bool) -> list[str]:
    """The columns that a file has, once it has been seen that they are plain."""
    schema, about = opened.schema_arrow, opened.metadata
    if about.num_rows > MOST_ROWS:
        raise Declined("a large batch")
    names = [name.lower() for name in schema.names]
    if len(set(names)) != len(names) or {*names} & {
        name.lower() for name in columns if name not in schema.names
    }:
        raise Declined("columns whose names differ in case alone")
    there = [name for name in columns if name in schema.names]
    if not there or (not others and len(there) < len(names)):
        raise Declined("columns that are not declared, or none that is")
    stored = {about.schema.column(place).path: place for place in range(len(about.schema))}
    for name in there:
        kind = schema.field(name).type
        if name not in stored or not _is_plain(about.schema.column(stored[name]), kind, columns[name]):
            raise Declined(f"a column of type {kind} for one of type {columns[name]}")
    return there


def _read(opened: pq.ParquetFile, names: Sequence[str]) -> pa.Table:
    """The rows of a file: as many as it says it has, and no more than fit.

    A small file may hold any number of rows and any length of text, and say otherwise. So one column is read at a time,
    a few rows at a time.
    """
    groups, count = range(opened.metadata.num_row_groups), opened.metadata.num_rows
    if sum(opened.metadata.row_group(group).total_byte_size for group in groups) > MOST_READ:
        raise Declined("a file that is large when it is unpacked")
    found: dict[str, list[pa.Array]] = {name: [] for name in names}
    held = 0
    for name, chunks in found.items():
        left = count
        for group in groups:
            for rows in opened.iter_batches(_AT_ONCE, row_groups=[group], columns=[name], use_threads=False):
                chunks.append(rows.column(name))
                left, held = left - rows.num_rows, held + rows.nbytes
                if left < 0 or held > MOST_READ:
                    raise Declined("a file with other rows than it says, or with long texts")
            _require_usual(opened.metadata, group, name)
        if left or not count:
            raise Declined("a file without rows, or with others than it says")
    return pa.table({name: pa.chunked_array(chunks) for name, chunks in found.items()})


def _require_usual(about: pq.FileMetaData, group: int, name: str) -> None:
    """Decline a file of which a column is compressed or encoded in a way that not every reader has.

    To be asked of what has been read, of this group alone: of anything else that is damaged Arrow says nothing, and
    ends the process.
    """
    for place in range(len(about.schema)):
        if about.schema.column(place).path == name:
            chunk = about.row_group(group).column(place)
            if chunk.compression not in _COMPRESSIONS or not _ENCODINGS.issuperset(chunk.encodings):
                raise Declined("a file that is compressed or encoded in another way")


def _is_plain(stored: pq.ColumnSchema, kind: pa.DataType, wanted: str) -> bool:
    """Whether a stored column is one that both readers have as the same values of the type that is wanted."""
    if stored.max_repetition_level or stored.max_definition_level > 1 or stored.physical_type == "INT96":
        return False
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    match wanted:
        case "string":
            return stored.physical_type == "BYTE_ARRAY" and kind in (pa.string(), pa.large_string())
        case "double":
            return kind in (pa.float32(), pa.float64())
        case "timestamp" | "timestamp_ntz":
            zoned = wanted == "timestamp"
            return pa.types.is_timestamp(kind) and kind.unit != "s" and (kind.tz is not None) == zoned
    # A damaged file may hold more than its narrow type does: readers cut that differently where they widen it.
    return kind == column_type(wanted) or (wanted == "bigint" and kind == pa.int32())


def _require_room(texts: Iterable[pa.ChunkedArray]) -> None:
    held = 0
    for column in texts:
        for chunk in column.chunks:
            if pa.types.is_dictionary(chunk.type):
                lengths = pc.binary_length(chunk.dictionary).take(chunk.indices)
            else:
                lengths = pc.binary_length(chunk)
            held += pc.sum(lengths.cast(pa.int64())).as_py() or 0
    if held > MOST_READ:
        raise Declined("texts that are long when they are written out")


def _typed(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    match kind:
        case "string":
            column.validate(full=True)  # Arrow raises where a text is not UTF-8: that is a dead letter
            texts = column.cast(pa.string())
            texts.validate(full=True)
            return texts
        case "date":
            require_recent(column.cast(pa.timestamp("us")).cast(pa.int64()))
            return column
        case "timestamp" | "timestamp_ntz":
            return _moments(column, kind)
    if types.is_decimal(kind):
        column.validate(full=True)
        return column
    found = column.cast(NUMBERS[kind]) if kind in NUMBERS else column
    if kind == "double":
        require_finite(found)
    return found


def _moments(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """Times in microseconds: nanoseconds are cut to the microsecond that they lie in."""
    micros = column.cast(pa.timestamp("us" if column.type.unit == "ms" else column.type.unit, column.type.tz))
    numbers = micros.cast(pa.int64())
    if column.type.unit == "ns":
        valid = np.asarray(numbers.is_valid())
        cut = np.floor_divide(np.asarray(numbers.fill_null(0)), 1000)
        numbers = pa.chunked_array([pa.array(cut, mask=~valid)])
    require_recent(numbers)
    return numbers.cast(pa.timestamp("us", "UTC" if kind == "timestamp" else None))
