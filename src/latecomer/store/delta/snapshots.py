"""The files of a table at a moment: chosen in one process, queried in another.

A query needs neither the table's log nor its newest version, and does not see later commits. Files that upkeep replaces
meanwhile are kept long enough to be read (ADR 0017).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from deltalake import DeltaTable

from latecomer.store import files as fs
from latecomer.store.delta.data_files import DataFile
from latecomer.store.delta.table import Table
from latecomer.store.delta.tables import ALL, actions_for, create_delta, explained, query_tables
from latecomer.store.files import Location


@dataclass(frozen=True)
class Snapshot:
    """Files of a table. It can be pickled."""

    root: Location
    stored: pa.Schema
    """The columns that exist."""
    selected: str
    """The columns of its schema, in SQL."""
    files: tuple[DataFile, ...]

    def of(self, files: Iterable[DataFile]) -> Snapshot:
        """The same table with some of its files."""
        return replace(self, files=tuple(files))

    @property
    def locations(self) -> list[Location]:
        return [self.root / file.path for file in self.files]

    def opened(self, folder: Location) -> DeltaTable:
        """A new Delta table in a private folder, over these files where they are."""
        table = create_delta(folder, self.stored, {})
        located = [replace(file, path=fs.uri(self.root / file.path)) for file in self.files]
        if located:
            table.create_write_transaction(actions_for(located, (), data_change=True), "append", self.stored)
            table.update_incremental()
        return table


def snapshot(table: Table) -> Snapshot:
    """A table as it is now; empty if it does not exist."""
    if not table.exists:
        return Snapshot(table.root, table.schema, ALL, ())
    _, selected = table.queried()
    return Snapshot(table.root, table.stored_schema, selected, tuple(table.files()))


def query_snapshots(tables: Mapping[str, Snapshot], sql: str) -> Iterator[pa.RecordBatch]:
    """The result of a SELECT over snapshots, each with its name in the query; one must be `t`."""
    with fs.scratch() as folder, explained(tables["t"].root):
        opened = {name: (each.opened(folder / name), each.selected) for name, each in tables.items()}
        yield from pa.RecordBatchReader.from_stream(query_tables(opened, sql))
