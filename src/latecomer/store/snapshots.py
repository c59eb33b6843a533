"""Some files of a table as they are at a moment: chosen in one process, asked in another.

Whoever asks needs neither the table's log nor its newest version. What is committed later is not seen, and files that
upkeep replaces meanwhile are kept long enough to be read (ADR 0017).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from deltalake import DeltaTable

from latecomer.store import files as fs
from latecomer.store.data_files import DataFile
from latecomer.store.delta_tables import create_delta, name_files
from latecomer.store.files import Location
from latecomer.store.questions import ALL, asked
from latecomer.store.table import Table
from latecomer.store.table_errors import explained


@dataclass(frozen=True)
class Snapshot:
    """Files of a table. It can be pickled."""

    root: Location
    stored: pa.Schema
    """The columns that are there."""
    selected: str
    """Those of its schema, in SQL."""
    files: tuple[DataFile, ...]

    def of(self, files: Iterable[DataFile]) -> Snapshot:
        """The same, of some of its files."""
        return replace(self, files=tuple(files))

    @property
    def locations(self) -> list[Location]:
        return [self.root / file.path for file in self.files]

    def opened(self, folder: Location) -> DeltaTable:
        """A Delta table in a folder that nobody else has, made of these files where they are."""
        made = create_delta(folder, self.stored, {})
        located = [replace(file, path=fs.uri(self.root / file.path)) for file in self.files]
        if located:
            name_files(made, located, self.stored)
        return made


def snapshot(table: Table) -> Snapshot:
    """A table as it is now; of one that is not there, nothing."""
    if not table.exists:
        return Snapshot(table.root, table.schema, ALL, ())
    _, selected = table.queried()
    return Snapshot(table.root, table.stored_schema, selected, tuple(table.files()))


def answers(tables: Mapping[str, Snapshot], sql: str) -> Iterator[pa.RecordBatch]:
    """What files answer to a SELECT, where each table has a name."""
    with fs.scratch() as folder, explained(tables["t"].root):
        opened = {name: (each.opened(folder / name), each.selected) for name, each in tables.items()}
        yield from pa.RecordBatchReader.from_stream(asked(opened, sql))
