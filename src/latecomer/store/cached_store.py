"""A store that is read again and again, as by a dashboard: what cannot have changed is not read twice (ADR 0013).

A file of a Delta table never changes, so the list of files identifies a table's content. Tables stay open between
queries, and are refreshed. Small tables of many small files, with a row or two a batch, are copied into one file in a
scratch folder. A query then takes milliseconds, however many batches there were. Counts of complete batches are cached.

A store must not be used by several threads at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
from deltalake import DeltaTable

from latecomer.config.models import Pipeline
from latecomer.errors import LatecomerError
from latecomer.store import files as fs
from latecomer.store.delta.commits import LOG
from latecomer.store.delta.data_files import DataFile
from latecomer.store.delta.table import Table
from latecomer.store.delta.tables import ALL, write_delta
from latecomer.store.files import Location
from latecomer.store.layout import LEDGER, PUBLICATIONS, ZERO_BEFORE
from latecomer.store.pins import read_pins
from latecomer.store.store import OutputTables, Store

MOST_ROWS = 200_000
"""A table with more rows is not copied: it is queried in place."""


class SmallTable(Table):
    """A table with a row or two a batch: queries go to a copy in one file, which follows the table."""

    def __init__(
        self, root: Location, schema: pa.Schema, scratch: Location, zeros: Sequence[str] = ()
    ) -> None:
        super().__init__(root, schema, zeros)
        self._scratch = scratch
        self._rows: pa.Table | None = None
        self._paths: frozenset[str] = frozenset()
        self._copy: DeltaTable | None = None
        self._copies = 0
        self._version = -1
        """The version of the table when the copy was made."""

    def queried(self) -> tuple[DeltaTable, str]:
        delta, selected = super().queried()
        if self._version != (version := delta.version()):
            self._follow(self.files())
            self._version = version  # not before: a copy that could not be written is tried again
        return (delta, selected) if self._copy is None else (self._copy, ALL)

    def _follow(self, files: list[DataFile]) -> None:
        """Update rows and copy to the current files of the table."""
        if sum(file.rows for file in files) > MOST_ROWS:
            self._rows, self._copy, self._paths = None, None, frozenset()
            return
        paths = frozenset(file.path for file in files)
        if self._copy is not None and paths == self._paths:
            return
        known = frozenset[str]() if self._paths - paths else self._paths  # files may have been merged
        with self.explained():
            rows = self._read([file for file in files if file.path not in known])
            rows = pa.concat_tables([self._rows, rows]) if known else rows
            self._copies += 1
            self._copy = write_delta(self._scratch / str(self._copies), rows)
            fs.remove_all(self._scratch / str(self._copies - 1))
        self._rows, self._paths = rows, paths

    def _read(self, files: list[DataFile]) -> pa.Table:
        rows = self.dataset(files, self.schema).to_table()
        for name in self.zeros:
            place = self.schema.get_field_index(name)
            rows = rows.set_column(place, self.schema.field(place), rows[name].fill_null(0))
        return rows


class KeptStore(Store):
    """A store whose tables stay open."""

    def keep(self, scratch: Location) -> None:
        """Copy small tables into a folder, which must exist as long as this store is used."""
        self.ledger = SmallTable(self.root / "ledger", LEDGER, scratch / "ledger", ZERO_BEFORE)
        self.publications = SmallTable(self.root / "publications", PUBLICATIONS, scratch / "publications")
        self._outputs: dict[str, tuple[pa.Schema, OutputTables]] = {}

    def own_table(self, table: Table) -> Table:
        return table

    def output_tables(self, name: str, schema: pa.Schema) -> OutputTables:
        known = self._outputs.get(name)
        if known is None or not known[0].equals(schema):
            self._outputs[name] = known = schema, super().output_tables(name, schema)
        return known[1]

    def see(self) -> None:
        """Refresh all tables; a torn commit is an error."""
        tables = [each for each in vars(self).values() if isinstance(each, Table)]
        for _, of_output in self._outputs.values():
            tables += of_output.all
        for table in tables:
            table.refresh_whole()


class Shelf:
    """Open stores of several pipelines. A store that was replaced is opened anew."""

    def __init__(self) -> None:
        self._scratch = fs.KeptScratch()
        self._stores: dict[Location, tuple[str, KeptStore]] = {}
        self._opened = 0

    def store(self, pipeline: Pipeline) -> Store:
        """The store of a pipeline, refreshed."""
        root = pipeline.store_path
        tables = (root / name / LOG for name in ("ledger", "publications", "watermarks", "events"))
        # Its tables tell a store from another one that was made in its place.
        identity = json.dumps(
            [read_pins(root), *map(fs.folder_identity, tables)], sort_keys=True, default=str
        )
        known = self._stores.get(root)
        if known is not None and known[0] == identity and known[1].pipeline == pipeline:
            try:
                known[1].see()
                return known[1]
            except LatecomerError:  # opening it anew reports the error
                pass
        self._opened += 1
        store = KeptStore.of(pipeline)
        store.keep(self._scratch.folder / str(self._opened))
        self._stores[root] = identity, store
        return store
