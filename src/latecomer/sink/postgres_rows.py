"""Rows as Postgres takes them: column types, COPY's CSV, and the digest that names a window and its keys."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from latecomer.model.written_values import json_column

NUL_WRITTEN_AS = "\N{REPLACEMENT CHARACTER}"
_ROWS_A_PART = 50_000
_PLAIN = csv.WriteOptions(include_header=False)
_INTEGERS = {"int8": "smallint", "uint8": "smallint", "int16": "smallint", "uint16": "integer"}
_INTEGERS |= {"int32": "integer", "uint32": "bigint", "int64": "bigint", "uint64": "numeric(20,0)"}
_FIRST_YEAR = {"us": -62_135_596_800_000_000, "D": -719_162}
"""The year 1, in microseconds and days since 1970. Before it, Postgres counts years BC."""
_EARLIEST = {"us": -210_866_803_200_000_000, "D": -2_440_588}
"""The beginning of Postgres' calendar, in 4713 BC."""
_LATEST = {"us": 9_224_318_016_000_000_000 - 1, "D": 2_145_031_948}
"""The end of Postgres' calendar."""


def declared(kind: pa.DataType) -> str:
    """The column type, in Postgres' own spelling.

    >>> declared(pa.decimal128(38, 2)), declared(pa.timestamp("us", "UTC"))
    ('numeric(38,2)', 'timestamp with time zone')
    """
    if pa.types.is_decimal(kind):
        return f"numeric({kind.precision},{kind.scale})"
    if pa.types.is_integer(kind):
        return _INTEGERS[str(kind)]
    if pa.types.is_floating(kind):
        return "double precision" if kind.bit_width == 64 else "real"
    if pa.types.is_timestamp(kind):
        return f"timestamp {'without' if kind.tz is None else 'with'} time zone"
    for is_kind, name in _NAMED:
        if is_kind(kind):
            return name
    return "jsonb"


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    )


_NAMED = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_date, "date"),
    (pa.types.is_duration, "double precision"),
    (_is_text, "text"),
    (_is_bytes, "bytea"),
)


def csv_parts(rows: pa.Table) -> Iterator[bytes]:
    """The rows as CSV for COPY, in parts: null is empty, and empty text is a pair of quotes."""
    written = pa.table({name: _written(rows[name]) for name in rows.column_names})
    for start in range(0, written.num_rows, _ROWS_A_PART):
        part = pa.BufferOutputStream()
        csv.write_csv(written.slice(start, _ROWS_A_PART), part, _PLAIN)
        yield part.getvalue().to_pybytes()


def _written(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column whose CSV Postgres reads as the same values."""
    kind = column.type
    if _is_text(kind):
        return pc.replace_substring(column.cast(pa.large_string()), "\0", NUL_WRITTEN_AS)
    if _is_bytes(kind):
        texts = [None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    if pa.types.is_timestamp(kind):
        return _calendar(column.cast(pa.timestamp("us", kind.tz)), pa.int64(), "us")
    if pa.types.is_date(kind):
        return _calendar(column.cast(pa.date32()), pa.int32(), "D")
    if declared(kind) == "jsonb":
        texts = [None if value is None else _json(value) for value in json_column(column)]
        return pa.chunked_array([pa.array(texts, pa.large_string())])
    if pa.types.is_duration(kind):
        return pa.chunked_array([pa.array(json_column(column), pa.float64())])
    return column


def _calendar(column: pa.ChunkedArray, number: pa.DataType, unit: str) -> pa.ChunkedArray:
    """Moments and days unchanged, if all are after Christ and within Postgres' calendar; else as text."""
    numbers = column.cast(number)
    limits = pc.min_max(numbers).as_py()
    first, last = limits["min"], limits["max"]
    zone = "Z" if getattr(column.type, "tz", None) else ""
    if first is None or (first >= _FIRST_YEAR[unit] and last <= _LATEST[unit]):
        if not zone:
            return column
        # Arrow looks up the zone for each moment that it writes; without a zone it is faster.
        plain = column.cast(pa.timestamp(unit)).cast(pa.string())
        return pc.binary_join_element_wise(plain, zone, "")
    texts = [None if value is None else _dated(value, unit, zone) for value in numbers.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.large_string())])


def _dated(value: int, unit: str, zone: str) -> str:
    """A moment or day as text, with BC before the year 1; beyond the calendar it is infinity.

    >>> _dated(0, "us", "Z"), _dated(-719_163, "D", ""), _dated(-(2**63) + 1, "us", "Z")
    ('1970-01-01T00:00:00.000000Z', '0001-12-31 BC', '-infinity')
    """
    if not _EARLIEST[unit] <= value <= _LATEST[unit]:
        return "infinity" if value > 0 else "-infinity"
    text = str(np.array(value).astype(f"datetime64[{unit}]"))
    if value >= _FIRST_YEAR[unit]:
        return text + zone
    year, rest = text.removeprefix("-").split("-", 1)
    before = 1 + int(year) if text.startswith("-") else 1
    return f"{before:04d}-{rest}{zone} BC"


def _json(value: Any) -> str:
    return json.dumps(_without_nul(value), ensure_ascii=False)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", NUL_WRITTEN_AS)
    if isinstance(value, list):
        return [_without_nul(each) for each in value]
    if isinstance(value, dict):
        return {_without_nul(name): _without_nul(each) for name, each in value.items()}
    return value


def place_digests(panes: pa.Table, place: Sequence[str]) -> list[str]:
    """A digest of 16 bytes of each pane's window and keys. Earlier versions have stored such digests: how they are
    made never changes."""
    columns = [_comparable(panes[name]) for name in place]
    return [_digest(values) for values in zip(*columns, strict=True)]


def _digest(values: Sequence[Any]) -> str:
    return blake2b(json.dumps(values, separators=(",", ":")).encode(), digest_size=16).hexdigest()


def _comparable(column: pa.ChunkedArray) -> list[Any]:
    written = json_column(column)
    if pa.types.is_floating(column.type):
        # 0.0 and -0.0 are one key.
        return [value + 0.0 if isinstance(value, float) else value for value in written]
    return written


def rounds(places: Sequence[str], sequences: Sequence[int], retracts: Sequence[bool]) -> list[int | None]:
    """The round in which each change is made. A round has one change of a place at most, in order. None for a change
    without effect: the next change of its place is an insert that replaces it.

    >>> rounds("aab", [0, 1, 0], [True, False, False])
    [None, 0, 0]
    >>> rounds("aa", [1, 1], [False, True])
    [0, 1]
    """
    if len(set(places)) == len(places):
        return [0] * len(places)
    kept = [True] * len(places)
    following: dict[str, tuple[int, bool]] = {}
    for row in range(len(places) - 1, -1, -1):
        after = following.get(places[row])
        if after is not None and not after[1] and after[0] > sequences[row]:
            kept[row] = False
        else:
            following[places[row]] = (sequences[row], retracts[row])
    numbers: list[int | None] = []
    counts: dict[str, int] = {}
    for row, place in enumerate(places):
        if not kept[row]:
            numbers.append(None)
            continue
        numbers.append(counts.get(place, 0))
        counts[place] = counts.get(place, 0) + 1
    return numbers
