"""Columns without values, and the rows that stand for what could not be read."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from latecomer.source.decode.private_columns import BROKEN, CORRUPT, POSITION
from latecomer.store.layout import source_type


def null_columns(columns: Mapping[str, str], count: int) -> dict[str, pa.Array]:
    """These columns, null in so many rows."""
    return {name: pa.nulls(count, source_type(kind)) for name, kind in columns.items()}


def broken_row(
    columns: Mapping[str, str], reason: str, position: int = 0, first: bytes | None = None
) -> pa.Table:
    """The one row that stands for a file, or for a part of it, that cannot be read; `first` are its first bytes."""
    corrupt = {} if first is None else {CORRUPT: pa.array([first], pa.binary())}
    return pa.table(
        {
            **null_columns(columns, 1),
            **corrupt,
            BROKEN: pa.array([reason], pa.string()),
            POSITION: pa.array([position], pa.int64()),
        }
    )
