"""A store that is read again and again, as a dashboard does: what cannot have changed is not read twice (ADR 0013).

A file of a Delta table never changes, so a table is known by its files. Tables stay open from one answer to the next,
and see what was committed since. Small tables of many small files, a line or two a batch, are copied into one file of a
scratch folder: a question to them then takes milliseconds, however many batches there were. What was counted for
complete batches is remembered.

It is not for several threads at once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from latecomer.config.models import Pipeline
from latecomer.errors import LatecomerError
from latecomer.store import files as fs
from latecomer.store.commits import LOG
from latecomer.store.data_files import DataFile
from latecomer.store.delta_tables import write_delta
from latecomer.store.files import Location
from latecomer.store.layout import LEDGER, PUBLICATIONS, ZERO_BEFORE
from latecomer.store.pins import read_pins
from latecomer.store.questions import ALL
from latecomer.store.store import OutputTables, Store, open_store
from latecomer.store.table import Table

MOST_ROWS = 200_000
"""A table with more rows is no small one: it is asked where it lies."""


class SmallTable(Table):
    """A table of a line or two a batch: asked in a copy of one file, which follows the table."""

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
        """Of the table, when the copy was made."""

    def queried(self) -> tuple[DeltaTable, str]:
        delta, selected = super().queried()
        if self._version != delta.version():
            self._version = delta.version()
            self._follow(self.files())
        return (delta, selected) if self._copy is None else (self._copy, ALL)

    def _follow(self, files: list[DataFile]) -> None:
        """Bring rows and copy up to the files that the table has now."""
        if sum(file.rows for file in files) > MOST_ROWS:
            self._rows = self._copy = None
            return
        paths = frozenset(file.path for file in files)
        if self._copy is not None and paths == self._paths:
            return
        if self._rows is None or self._paths - paths:  # others took their place
            self._rows = self._stored()
        elif new := [file for file in files if file.path not in self._paths]:
            with self.explained():
                self._rows = pa.concat_tables([self._rows, self._whole(self.dataset(new).to_table())])
        self._paths, before = paths, self._copies
        self._copies += 1
        with self.explained():
            self._copy = write_delta(self._scratch / str(self._copies), self._rows)
            fs.remove_all(self._scratch / str(before))

    def _stored(self) -> pa.Table:
        return self._whole(self._answer({"t": super().queried()}, "select * from t"))

    def _whole(self, rows: pa.Table) -> pa.Table:
        """Rows with all columns of the schema, in its order; those that a later version dropped are left out."""
        columns = [
            rows[field.name].cast(field.type)
            if field.name in rows.schema.names
            else pa.nulls(rows.num_rows, field.type)
            for field in self.schema
        ]
        whole = pa.table(columns, schema=self.schema)
        for name in self.zeros:
            place = self.schema.get_field_index(name)
            whole = whole.set_column(place, self.schema.field(place), whole[name].fill_null(0))
        return whole


class KeptStore(Store):
    """A store whose tables stay open."""

    def keep(self, scratch: Location) -> None:
        """Have small tables copied into a folder that lasts as long as this store is used."""
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
        """See what was committed since; a table that was torn meanwhile is an error."""
        tables = [each for each in vars(self).values() if isinstance(each, Table)]
        for _, found in self._outputs.values():
            tables += found.all
        for table in tables:
            table.refresh_whole()


class Shelf:
    """The stores of some pipelines, each kept for as long as it is the same one."""

    def __init__(self) -> None:
        self._scratch = fs.KeptScratch()
        self._stores: dict[Location, tuple[str, KeptStore]] = {}
        self._taken = 0

    def store(self, pipeline: Pipeline) -> Store:
        """The store of a pipeline as it is now."""
        root = pipeline.store_path
        named = json.dumps([read_pins(root), _made(root)], sort_keys=True, default=str)
        known = self._stores.get(root)
        if known is not None and known[0] == named and known[1].pipeline == pipeline:
            try:
                known[1].see()
                return known[1]
            except LatecomerError:  # opening it anew shows what is wrong with it
                pass
        self._taken += 1
        store = open_store(pipeline, KeptStore)
        store.keep(self._scratch.folder / str(self._taken))
        self._stores[root] = named, store
        return store


def _made(root: Location) -> list[Any]:
    """What tells a store from another that was made in its place."""
    return [fs.made(root / name / LOG) for name in ("ledger", "publications", "watermarks", "events")]
