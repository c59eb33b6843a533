"""The tables of Postgres, SQLite and Delta sinks while a migration goes on: each gets its steps at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from latecomer.config.contract import Shape
from latecomer.config.models import Pipeline
from latecomer.config.sinks import LONGEST_NAME, FileSink, Sink
from latecomer.errors import SinkError
from latecomer.sink.base import PROGRESS
from latecomer.sink.both_shapes import (
    VIEW,
    BothShapes,
    TableSteps,
    complete,
    fill,
    filled_columns,
    refill,
    table_steps,
    would_lose,
)
from latecomer.sink.database_file import LEFT_OUT
from latecomer.sink.delta import LEFT_OUT as PROPERTY
from latecomer.sink.delta import DeltaLogic
from latecomer.sink.postgres import PostgresLogic, copy_rows
from latecomer.sink.postgres_rows import declared
from latecomer.sink.postgres_views import make_view, one_row, run_sql
from latecomer.sink.sqlite import SqliteLogic, storable
from latecomer.store.delta_tables import open_delta
from latecomer.store.files import exists, require_room
from latecomer.store.sql import double_quoted, listed

if TYPE_CHECKING:
    import sqlite3

    from latecomer.config.postgres_server import Connection

Stored = Callable[[list[str]], pa.Table]
"""Rows from the store: the columns that identify a row, and the named ones."""
_STAGING = "latecomer_staging"
_ROOM = 256 << 10


class MigratedTable(Protocol):
    """The table of a sink, and the two shapes in it."""

    shapes: BothShapes
    contracted: bool

    def look(self) -> TableSteps:
        """The steps that it still needs. Nothing is changed."""
        ...

    def bring(self, stored: Stored) -> TableSteps:
        """Take the steps."""
        ...

    def close(self) -> None: ...


class PostgresMigrated(PostgresLogic):
    """All steps in one transaction. The sink's own batches wait for it; readers wait while the columns change."""

    shapes: BothShapes
    contracted: bool

    def look(self) -> TableSteps:
        with self._transaction() as database:
            return self._planned(database)

    def bring(self, stored: Stored) -> TableSteps:
        if len(f"{self._name}{VIEW}".encode()) > LONGEST_NAME:
            raise self._refusal(
                f"Postgres cuts names after {LONGEST_NAME} bytes", "give the table a shorter name"
            )
        with self._transaction() as database:
            self._require_existing(database)
            self._progress(database, locked=True)
            steps = self._planned(database)
            if steps.brings:
                self._bring_back(database, steps, stored)
            if steps.completes and (staged := self._stage(database, list(self.shapes.old), stored)):
                run_sql(database, complete(self._table, staged, steps.completes, self.whole_shape.place))
            if steps.fills:
                run_sql(database, fill(self._table, steps.fills))
            for name in steps.drops:
                lost = f"SELECT count(*) FROM {self._table} WHERE {would_lose(name, self.shapes.old[name])}"
                _require_nothing_lost(self, name, one_row(database, lost))
            view = f"SELECT {steps.view} FROM {self._table}"
            if not make_view(database, self._schema, f"{self._name}{VIEW}", view):
                raise self._refusal(f"{self._schema}.{self._name}{VIEW} is no view", "rename it")
            for name in steps.drops:  # only now: the old view used them
                run_sql(database, f"ALTER TABLE {self._table} DROP COLUMN {double_quoted(name)}")
            self._keep_left_out(database, steps)
            return steps

    def _require_existing(self, database: Connection) -> int:
        table = self._table_oid(database, self._name) if self._table_oid(database, PROGRESS) else None
        if table is None or not self._is_claimed(database):
            raise _no_table(self, f"{self._schema}.{self._name}")
        return table

    def _planned(self, database: Connection) -> TableSteps:
        table = self._require_existing(database)
        self._progress(database)
        existing = self.columns_of(database, table)
        wanted = {field.name: declared(field.type) for field in self.whole_shape.schema}
        return table_steps(existing, wanted, self.left_out, self.shapes, self.contracted)

    def _bring_back(self, database: Connection, steps: TableSteps, stored: Stored) -> None:
        for name in steps.brings:
            kind = declared(self.whole_shape.schema.field(name).type)
            column = f"{double_quoted(name)} {kind}"
            run_sql(database, f"ALTER TABLE {self._table} ADD COLUMN IF NOT EXISTS {column}")
        staged = self._stage(database, list(steps.brings), stored)
        for name in steps.brings:
            run_sql(database, refill(self._table, staged, name, self.whole_shape.place))
        run_sql(database, fill(self._table, steps.brings))

    def _stage(self, database: Connection, names: list[str], stored: Stored) -> str:
        """A table with columns from the store, for as long as the transaction lasts."""
        wanted, schema = [*self.whole_shape.place, *names], self.whole_shape.schema
        defined = ", ".join(f"{double_quoted(name)} {declared(schema.field(name).type)}" for name in wanted)
        run_sql(database, f"CREATE TEMPORARY TABLE {_STAGING} ({defined}) ON COMMIT DROP")
        copy_rows(database, f"pg_temp.{_STAGING}", stored(names).select(wanted))
        run_sql(database, f"ANALYZE pg_temp.{_STAGING}")
        return f"pg_temp.{_STAGING}"

    def _keep_left_out(self, database: Connection, steps: TableSteps) -> None:
        if set(steps.left_out) == set(self.left_out):
            return
        run_sql(database, f"ALTER TABLE {self._progress_table} ADD COLUMN IF NOT EXISTS {LEFT_OUT} text")
        run_sql(
            database,
            f"UPDATE {self._progress_named} SET {LEFT_OUT} = %s WHERE sink_table = %s",
            json.dumps(steps.left_out),
            self._name,
        )


class SqliteMigrated(SqliteLogic):
    """All steps in one transaction."""

    shapes: BothShapes
    contracted: bool

    def look(self) -> TableSteps:
        self._require_existing()
        with self._connection("ro") as database:
            return self._planned(database)

    def bring(self, stored: Stored) -> TableSteps:
        self._require_existing()
        table, view = self._named, f"{self._table}{VIEW}"
        with self._transaction("rw") as database:
            steps = self._planned(database)
            existing = database.execute("SELECT type FROM sqlite_master WHERE name = ?", (view,)).fetchone()
            if existing is not None and existing[0] != "view":
                raise self._refusal(f"{view} is no view", "rename it")
            database.execute(f"DROP VIEW IF EXISTS {double_quoted(view)}")
            if steps.brings:
                self._bring_back(database, steps, stored)
            if steps.completes and (staged := self._stage(database, list(self.shapes.old), stored)):
                database.execute(complete(table, staged, steps.completes, self.whole_shape.place))
            if steps.fills:
                database.execute(fill(table, steps.fills))
            for name in steps.drops:
                lost = f"SELECT count(*) FROM {table} WHERE {would_lose(name, self.shapes.old[name])}"
                _require_nothing_lost(self, name, database.execute(lost).fetchone())
                database.execute(f"ALTER TABLE {table} DROP COLUMN {double_quoted(name)}")
            database.execute(f"CREATE VIEW {double_quoted(view)} AS SELECT {steps.view} FROM {table}")
            self._keep_left_out(database, steps)
        return steps

    def _require_existing(self) -> None:
        if not exists(self.path):
            raise _no_table(self, self._table)

    def _planned(self, database: sqlite3.Connection) -> TableSteps:
        existing = list(self._existing_columns(database))
        if not existing or self._owner(database) is None:
            raise _no_table(self, self._table)
        self._require_owner(database)
        self._progress(database)
        wanted = dict.fromkeys(self.whole_shape.schema.names, "")
        return table_steps(existing, wanted, self.left_out, self.shapes, self.contracted)

    def _bring_back(self, database: sqlite3.Connection, steps: TableSteps, stored: Stored) -> None:
        table, staged = self._named, self._stage(database, list(steps.brings), stored)
        for name in steps.brings:
            column = f"{double_quoted(name)} {self._kind(name)}".rstrip()
            database.execute(f"ALTER TABLE {table} ADD COLUMN {column}")
            database.execute(refill(table, staged, name, self.whole_shape.place))
        database.execute(fill(table, steps.brings))

    def _stage(self, database: sqlite3.Connection, names: list[str], stored: Stored) -> str:
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

    def _kind(self, name: str) -> str:
        self.shape = self.whole_shape
        return self._columns[name]

    def _keep_left_out(self, database: sqlite3.Connection, steps: TableSteps) -> None:
        if set(steps.left_out) == set(self.left_out):
            return
        if LEFT_OUT not in [row[1] for row in database.execute(f"PRAGMA table_info({PROGRESS})")]:
            database.execute(f"ALTER TABLE {PROGRESS} ADD COLUMN {LEFT_OUT} TEXT")
        kept = json.dumps(steps.left_out)
        database.execute(f"UPDATE {PROGRESS} SET {LEFT_OUT} = ? WHERE sink_table = ?", (kept, self._table))


class DeltaMigrated(DeltaLogic):
    """The table is written anew, in one commit. A batch that was committed meanwhile makes that commit fail. A Delta
    table has no view: readers make their own."""

    shapes: BothShapes
    contracted: bool

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
            raise _no_table(self, "Delta table of its own")
        self._progress(table)
        existing = [field.name for field in table.schema().fields]
        wanted = dict.fromkeys(self.whole_shape.schema.names, "")
        return table_steps(existing, wanted, self.left_out, self.shapes, self.contracted)

    def _rows(self, table: DeltaTable, steps: TableSteps, stored: Stored) -> pa.Table:
        """The new rows of the table."""
        schema, queries = pa.schema(table.schema().to_arrow()), QueryBuilder().register("stored", table)
        rows = f"(select {filled_columns(schema.names, steps.fills)} from stored) as t"
        for name in steps.drops:
            lost = f"select count(*) from {rows} where {would_lose(name, self.shapes.old[name])}"
            _require_nothing_lost(self, name, [pa.table(queries.execute(lost))[0][0].as_py()])
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


def _no_table(logic: PostgresLogic | SqliteLogic | DeltaLogic, what: str) -> SinkError:
    return logic._refusal(f"there is no {what} yet", "run the pipeline first")


def _require_nothing_lost(logic: PostgresLogic | SqliteLogic | DeltaLogic, name: str, counted: Any) -> None:
    if counted[0]:
        raise logic._refusal(
            f"{counted[0]} rows have {name} and nothing from which it could be computed, so it is not dropped",
            "leave the column, or remove those rows from the table: the store has them",
        )
