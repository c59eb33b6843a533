"""Columns that are not declared, as one JSON text a row without Spark: as `decode.unknown.kept_values` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.decode.arrow_text import require_recent
from latecomer.decode.columns import KEPT
from latecomer.fast import Declined, flat

_PLAIN_SCALE = 6
"""With more digits after the point, Spark writes some decimals with an exponent."""
_CONTROL = r"[\x00-\x07\x0b\x0e-\x1f]"
"""Characters that Java and Python escape differently."""
_TIME = "%Y-%m-%dT%H:%M:%S"
_as_json = json.JSONEncoder(ensure_ascii=False).encode


def kept_columns(columns: Mapping[str, pa.Array | pa.ChunkedArray]) -> pa.Array:
    """An object of the values in each row that are not null; null where all are. `Declined` where Spark has to write
    them.

    >>> kept_columns({"tip": pa.array([5, None]), "note": pa.array(["é", None])}).to_pylist()
    ['{"tip":5,"note":"é"}', None]
    """
    fields = [list(_fields(name, flat(column))) for name, column in columns.items()]
    rows = (",".join(filter(None, row)) for row in zip(*fields, strict=True))
    return pa.array([f"{{{row}}}" if row else None for row in rows], pa.string())


def require_none_kept(rows: pa.Table) -> None:
    """Decline rows of which any has a field that is no column, where it makes its record a dead letter."""
    if KEPT in rows.column_names and rows.column(KEPT).null_count < rows.num_rows:
        raise Declined("fields that are no columns")


def _fields(name: str, column: pa.Array) -> Iterator[str | None]:
    head = f"{_as_json(name)}:"
    return (None if text is None else head + text for text in _texts(column))


def _texts(column: pa.Array) -> Iterator[str | None]:
    """Each value as it is written in JSON."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if pc.any(pc.match_substring_regex(column, _CONTROL)).as_py():
            raise Declined("control characters in what is kept")
        return (None if text is None else _as_json(text) for text in column.to_pylist())
    plain = pa.types.is_signed_integer(kind) or pa.types.is_boolean(kind)
    if plain or (pa.types.is_decimal(kind) and 0 <= kind.scale <= _PLAIN_SCALE):
        return iter(column.cast(pa.string()).to_pylist())
    if pa.types.is_date32(kind):
        require_recent(column.cast(pa.timestamp("us")).cast(pa.int64()))
        return _quoted(column.cast(pa.string()))
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        require_recent(column.cast(pa.int64()))
        return _quoted(pc.strftime(column, _TIME if kind.tz is None else f"{_TIME}Z"))
    raise Declined(f"a column of type {kind} that is kept")


def _quoted(texts: pa.Array) -> Iterator[str | None]:
    return (None if text is None else f'"{text}"' for text in texts.to_pylist())
