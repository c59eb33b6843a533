"""Delta tables as delta-rs opens and makes them: apart from other files, for tasks read and write those and need no
delta-rs."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from latecomer.store.files import Location, storage_options, url


def open_delta(table: Location, version: int | None = None) -> DeltaTable:
    """A Delta table, as it is now or was at a version."""
    return DeltaTable(url(table), version=version, storage_options=storage_options(table))


def create_delta(table: Location, schema: pa.Schema, settings: Mapping[str, str]) -> DeltaTable:
    """A new Delta table, with its properties."""
    options = storage_options(table)
    return DeltaTable.create(url(table), schema, configuration={**settings}, storage_options=options)


def write_delta(table: Location, rows: pa.Table) -> DeltaTable:
    """A new Delta table of one file, for what is only needed meanwhile: it is not synced."""
    write_deltalake(url(table), rows)
    return open_delta(table)
