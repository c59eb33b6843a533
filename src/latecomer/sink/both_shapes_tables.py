"""The tables of Postgres, SQLite and Delta sinks while a migration goes on: each gets its steps at once."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from latecomer.config.contract import Shape
from latecomer.config.models import Pipeline
from latecomer.config.sinks import FileSink, Sink
from latecomer.errors import SinkError
from latecomer.sink.base import BuiltInLogic
from latecomer.sink.both_shapes import (
    VIEW,
    BothShapes,
    TableSteps,
    filled_columns,
    filled_values,
    table_steps,
    update_from,
    would_lose,
)
from latecomer.sink.database import LEFT_OUT, DatabaseLogic
from latecomer.sink.database_file import one_row
from latecomer.sink.delta import LEFT_OUT as PROPERTY
from latecomer.sink.delta import DeltaLogic
from latecomer.sink.postgres import PostgresLogic, copy_rows
from latecomer.sink.postgres_rows import declared
from latecomer.sink.postgres_views import make_view, run_sql
from latecomer.sink.sqlite import SqliteLogic, storable
from latecomer.sink.sqlite import declared as declared_in_sqlite
from latecomer.store.delta.tables import open_delta
from latecomer.store.files import exists, require_room
from latecomer.store.sql import double_quoted, listed

if TYPE_CHECKING:
    import sqlite3

    from latecomer.config.postgres_server import Connection

Stored = Callable[[list[str]], pa.Table]
"""Rows from the store: the columns that identify a row, and the named ones."""
_STAGING = "latecomer_staging"
_ROOM = 256 << 10


class MigratedTable(BuiltInLogic):
    """The table of a sink, and the two shapes in it."""

    shapes: BothShapes
    contracted: bool

    @abstractmethod
    def look(self) -> TableSteps:
        """The steps that it still needs. Nothing is changed."""

    @abstractmethod
    def bring(self, stored: Stored) -> TableSteps:
        """Take the steps."""

    def _needed_steps(self, existing: Collection[str]) -> TableSteps:
        """The steps for a table with these columns."""
        return table_steps(existing, self._view_types(), self.left_out, self.shapes, self.contracted)

    def _view_types(self) -> dict[str, str]:
        """The columns of both shapes, with the types that the view names."""
        return dict.fromkeys(self.whole_shape.schema.names, "")

    def _no_table(self, what: str) -> SinkError:
        return self._refusal(f"there is no {what} yet", "run the pipeline first")

    def _require_nothing_lost(self, name: str, rows: int) -> None:
        if rows:
            raise self._refusal(
                f"{rows} rows have {name} and nothing from which it could be computed, so it is not dropped",
                "leave the column, or remove those rows from the table: the store has them",
            )


class MigratedInSql(MigratedTable, DatabaseLogic):
    """A table that is changed by statements, all of them in one transaction."""

    def bring(self, stored: Stored) -> TableSteps:
        view = f"{self._name}{VIEW}"
        self._require_possible(view)
        with self._transaction() as database:
            steps = self._planned(database, locked=True)
            self._carry_out(database, steps, stored)
            if not self._make_view(database, view, f"SELECT {steps.view} FROM {self._table}"):
                raise self._refusal(f"{self._shown}{VIEW} is no view", "rename it")
            for name in steps.drops:  # only now: the old view used them
                self._run(database, f"ALTER TABLE {self._table} DROP COLUMN {double_quoted(name)}")
            self._keep_left_out(database, steps)
            return steps

    def _planned(self, database: Any, locked: bool = False) -> TableSteps:
        existing = self._existing_columns(database) if self._has_progress(database) else {}
        if not existing or self._own_row(database) is None:
            raise self._no_table(self._shown)
        self._progress(database, locked)
        return self._needed_steps(existing)

    def _carry_out(self, database: Any, steps: TableSteps, stored: Stored) -> None:
        """Take the steps, but for the view and the columns to drop."""
        table, place, brings = self._table, self.whole_shape.place, list(steps.brings)
        run, stage = partial(self._run, database), partial(self._stage, database, stored)
        for name in brings:
            run(f"ALTER TABLE {table} ADD COLUMN {self._defined(name)}")
        if brings:
            staged = stage(brings)
            for column in map(double_quoted, brings):
                run(update_from(table, staged, f"{column} = staged.{column}", place))
        if steps.completes:
            run(update_from(table, stage(list(self.shapes.old)), filled_values(steps.completes), place))
        for computed in filter(None, (steps.brings, steps.fills)):
            run(f"UPDATE {table} SET {filled_values(computed)}")
        for name in steps.drops:
            lost = f"SELECT count(*) FROM {table} WHERE {would_lose(name, self.shapes.old[name])}"
            self._require_nothing_lost(name, run(lost).fetchone()[0])

    def _keep_left_out(self, database: Any, steps: TableSteps) -> None:
        if set(steps.left_out) == set(self.left_out):
            return
        if LEFT_OUT not in (self._own_row(database) or ()):
            self._run(database, f"ALTER TABLE {self._progress_table} ADD COLUMN {LEFT_OUT} text")
        update = f"UPDATE {self._progress_named} SET {LEFT_OUT} = {self.mark} WHERE sink_table = {self.mark}"
        self._run(database, update, json.dumps(steps.left_out), self._name)

    @abstractmethod
    def _require_possible(self, view: str) -> None:
        """Refuse what can be seen without a transaction."""

    @abstractmethod
    def _make_view(self, database: Any, name: str, statement: str) -> bool:
        """Make the view, or make it anew. False where something else has its name."""

    @abstractmethod
    def _defined(self, name: str) -> str:
        """A column to add, with its type."""

    @abstractmethod
    def _stage(self, database: Any, stored: Stored, names: list[str]) -> str:
        """A temporary table with columns from the store."""


class PostgresMigrated(MigratedInSql, PostgresLogic):
    """The sink's own batches wait for the transaction; readers wait while the columns change."""

    def look(self) -> TableSteps:
        with self._transaction() as database:
            return self._planned(database)

    def _require_possible(self, view: str) -> None:
        self._require_short(view, f"of the view: {view}", "give the table a shorter name")

    def _make_view(self, database: Connection, name: str, statement: str) -> bool:
        return make_view(database, self._schema, name, statement)

    def _view_types(self) -> dict[str, str]:
        return {field.name: declared(field.type) for field in self.whole_shape.schema}

    def _defined(self, name: str) -> str:
        return f"IF NOT EXISTS {double_quoted(name)} {declared(self.whole_shape.schema.field(name).type)}"

    def _stage(self, database: Connection, stored: Stored, names: list[str]) -> str:
        """A table with columns from the store, for as long as the transaction lasts."""
        wanted, schema = [*self.whole_shape.place, *names], self.whole_shape.schema
        defined = ", ".join(f"{double_quoted(name)} {declared(schema.field(name).type)}" for name in wanted)
        run_sql(database, f"CREATE TEMPORARY TABLE {_STAGING} ({defined}) ON COMMIT DROP")
        copy_rows(database, f"pg_temp.{_STAGING}", stored(names).select(wanted))
        run_sql(database, f"ANALYZE pg_temp.{_STAGING}")
        return f"pg_temp.{_STAGING}"


class SqliteMigrated(MigratedInSql, SqliteLogic):
    def look(self) -> TableSteps:
        self._require_possible(f"{self._name}{VIEW}")
        with self._connection("ro") as database:
            return self._planned(database)

    def _require_possible(self, view: str) -> None:
        if not exists(self.path):
            raise self._no_table(self._shown)

    def _make_view(self, database: sqlite3.Connection, name: str, statement: str) -> bool:
        kind = one_row(database, "SELECT type FROM sqlite_master WHERE name = ?", name)
        if kind is not None and kind[0] != "view":
            return False
        database.execute(f"DROP VIEW IF EXISTS {double_quoted(name)}")
        database.execute(f"CREATE VIEW {double_quoted(name)} AS {statement}")
        return True

    def _defined(self, name: str) -> str:
        kind = declared_in_sqlite(self.whole_shape.schema.field(name).type)
        return f"{double_quoted(name)} {kind}".rstrip()

    def _stage(self, database: sqlite3.Connection, stored: Stored, names: list[str]) -> str:
        """A table with columns from the store, for as long as the connection lasts."""
        wanted = [*self.whole_shape.place, *names]
        rows = stored(names).select(wanted)
        database.execute(f"CREATE TEMPORARY TABLE {_STAGING} ({listed(wanted)})")
        marks = ", ".join("?" * len(wanted))
        values = zip(*(storable(rows[name]) for name in wanted), strict=True)
        database.executemany(f"INSERT INTO temp.{_STAGING} VALUES ({marks})", values)
        places = listed(self.whole_shape.place)
        database.execute(f"CREATE INDEX temp.{_STAGING}_places ON {_STAGING} ({places})")
        return f"temp.{_STAGING}"


class DeltaMigrated(MigratedTable, DeltaLogic):
    """The table is written anew, in one commit. A batch that was committed meanwhile makes that commit fail. A Delta
    table has no view: readers make their own."""

    def look(self) -> TableSteps:
        with self._errors_in_words():
            return self._planned(open_delta(self.path))

    def bring(self, stored: Stored) -> TableSteps:
        with self._errors_in_words():
            table = open_delta(self.path)
            steps, before = self._planned(table), table.version()
            if not steps.changes_table and set(steps.left_out) == set(self.left_out):
                return steps
            rows = self._rows(table, steps, stored)
            # Between the two commits the column exists and is left out: after an interruption the steps are repeated.
            if not steps.brings:
                self._keep_left_out(table, steps)
            if steps.changes_table:
                require_room(self.path, rows.nbytes + _ROOM)
                write_deltalake(table, rows, mode="overwrite", schema_mode="overwrite")
            if steps.brings:
                self._keep_left_out(table, steps)
            self._sync(before + 1)
            return steps

    def _keep_left_out(self, table: DeltaTable, steps: TableSteps) -> None:
        table.alter.set_table_properties({PROPERTY: json.dumps(steps.left_out)}, raise_if_not_exists=False)

    def _planned(self, table: DeltaTable) -> TableSteps:
        if table.metadata().name != self._application:
            raise self._no_table("Delta table of its own")
        self._progress(table)
        return self._needed_steps([field.name for field in table.schema().fields])

    def _rows(self, table: DeltaTable, steps: TableSteps, stored: Stored) -> pa.Table:
        schema, queries = pa.schema(table.schema().to_arrow()), QueryBuilder().register("stored", table)
        rows = f"(select {filled_columns(schema.names, steps.fills)} from stored) as t"
        for name in steps.drops:
            lost = f"select count(*) from {rows} where {would_lose(name, self.shapes.old[name])}"
            self._require_nothing_lost(name, pa.table(queries.execute(lost))[0][0].as_py())
        chosen = {name: f"t.{double_quoted(name)}" for name in schema.names if name not in steps.drops}
        chosen |= steps.brings
        columns = ", ".join(f"{sql} as {double_quoted(name)}" for name, sql in chosen.items())
        new_rows = pa.table(queries.execute(f"select {columns} from {rows}"))
        known = stored(list(steps.brings))
        whole = self.whole_shape.schema
        kinds = {name: schema.field(name) if name in schema.names else whole.field(name) for name in chosen}
        new_rows = new_rows.cast(pa.schema([kinds[name].with_nullable(True) for name in chosen]))
        for name in steps.brings:
            new_rows = _with_stored_values(new_rows, known, self.whole_shape.place, name)
        return new_rows


def _with_stored_values(rows: pa.Table, known: pa.Table, place: Sequence[str], name: str) -> pa.Table:
    """Rows with the values of a column from the store where it has them, instead of the computed ones."""
    existing = dict(zip(_places(known, place), known[name].to_pylist(), strict=True))
    computed = zip(_places(rows, place), rows[name].to_pylist(), strict=True)
    values = [value if existing.get(where) is None else existing[where] for where, value in computed]
    number = rows.column_names.index(name)
    return rows.set_column(
        number, rows.schema.field(number), pa.array(values, rows.schema.field(number).type)
    )


def _places(rows: pa.Table, place: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in place), strict=True)


_KINDS: dict[str, Any] = {each.kind: each for each in (PostgresMigrated, SqliteMigrated, DeltaMigrated)}


def migrated_table(
    sink: Sink, pipeline: Pipeline, shape: Shape, shapes: BothShapes, contracted: bool
) -> MigratedTable:
    """The table of a sink of one of these kinds."""
    path = pipeline.place(sink.path) if isinstance(sink, FileSink) else pipeline.base
    table: MigratedTable = _KINDS[sink.kind](sink, path, pipeline.name, shape)
    table.shapes, table.contracted = shapes, contracted
    return table
