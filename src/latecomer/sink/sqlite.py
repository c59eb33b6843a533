"""A table of what stands in a SQLite file, upserted by window and key; or of rows, appended.

A batch and its progress are one transaction. The database is opened for each batch and closed after
it: a file that was moved away is noticed, and nothing is tied to the thread that opened it.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from latecomer.config.contract import Shape
from latecomer.config.sinks import SqliteSink
from latecomer.errors import SinkError, first_line
from latecomer.errors.system import refused
from latecomer.model.panes import Op
from latecomer.sink.base import FileSinkLogic, differing
from latecomer.store.failpoints import failpoint
from latecomer.store.sql import double_quoted
from latecomer.values import csv_column, json_column

BUSY_SECONDS = 5.0
PROGRESS = "latecomer_progress"
LEFT_OUT = "left_out"
"""Its column with those of a table that a migration has dropped."""
_INDEX = "latecomer_places_of_"
_LARGEST = 2**63 - 1


class SqliteLogic(FileSinkLogic):
    kind = SqliteSink.kind

    def __init__(self, sink: SqliteSink, path: Path, pipeline: str, shape: Shape) -> None:
        super().__init__(path, pipeline, shape)
        self._table = sink.table or shape.name
        if self._table.lower() == PROGRESS:
            raise self._refusal(f"the table {PROGRESS} holds the progress", "give the sink another table")

    @property
    def _columns(self) -> dict[str, str]:
        return {field.name: _declared(field.type) for field in self.shape.standing}

    def open(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._system_refusal(error) or self._refusal(
                f"its folder cannot be made ({first_line(error)})", "give the sink another path"
            ) from error
        with self._transaction("rwc") as database:
            self._prepare(database)

    def last_batch(self) -> int:
        with self._connection("rw") as database:
            return self._progress(database)

    def peek(self) -> int:
        if not self.path.exists():
            return -1
        with self._connection("ro") as database:
            known = database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (PROGRESS,)).fetchone()
            return -1 if known is None else self._progress(database)

    def _apply(self, batch: int, panes: pa.Table) -> None:
        write = self._append if self.shape.appends else self._upsert
        written = {name: storable(panes[name]) for name in panes.column_names}
        with self._transaction("rw", batch) as database:
            if self._progress(database) >= batch:
                return
            write(database, written)
            database.execute(f"UPDATE {PROGRESS} SET batch = ? WHERE sink_table = ?", (batch, self._table))
            failpoint("sink.sqlite.written", batch)

    def _append(self, database: sqlite3.Connection, written: Mapping[str, list[Any]]) -> None:
        names = ", ".join(map(double_quoted, self._columns))
        marks = ", ".join("?" * len(self._columns))
        rows = zip(*(written[name] for name in self._columns), strict=True)
        database.executemany(f"INSERT INTO {double_quoted(self._table)} ({names}) VALUES ({marks})", rows)

    def _upsert(self, database: sqlite3.Connection, written: Mapping[str, list[Any]]) -> None:
        table = double_quoted(self._table)
        same = " AND ".join(f"{double_quoted(name)} IS ?" for name in self.shape.place)
        names = ", ".join(map(double_quoted, self._columns))
        marks = ", ".join("?" * len(self._columns))
        retract = f"DELETE FROM {table} WHERE {same} AND sequence = ?"
        supersede = f"DELETE FROM {table} WHERE {same} AND sequence < ?"
        insert = (
            f"INSERT INTO {table} ({names}) SELECT {marks} "
            f"WHERE NOT EXISTS (SELECT 1 FROM {table} WHERE {same})"
        )
        places = zip(*(written[name] for name in self.shape.place), strict=True)
        rows = zip(*(written[name] for name in self._columns), strict=True)
        for op, sequence, place, row in zip(written["op"], written["sequence"], places, rows, strict=True):
            if op == Op.RETRACT:
                database.execute(retract, (*place, sequence))
            else:
                database.execute(supersede, (*place, sequence))
                database.execute(insert, (*row, *place))

    def _progress(self, database: sqlite3.Connection) -> int:
        # One that an earlier version made has no column left_out, and need not get one.
        asked = database.execute(f"SELECT * FROM {PROGRESS} WHERE sink_table = ?", (self._table,))
        row = asked.fetchone()
        if row is None:
            return -1
        found = dict(zip((column[0] for column in asked.description), row, strict=True))
        self._leave_out(json.loads(found.get(LEFT_OUT) or "[]"))
        return int(found["batch"])

    def _prepare(self, database: sqlite3.Connection) -> None:
        """Make the table, or see that it is the one we left."""
        # One row a table, not an output: an output may feed two tables, and a table has one owner.
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {PROGRESS} (sink_table TEXT PRIMARY KEY COLLATE NOCASE, "
            "pipeline TEXT NOT NULL, output TEXT NOT NULL, batch INTEGER NOT NULL)"
        )
        table = double_quoted(self._table)
        found = {row[1]: row[2] for row in database.execute(f"PRAGMA table_info({table})")}
        self._go_by(found or None)
        if found:
            self._progress(database)  # says what is left out
        if not found:
            columns = ", ".join(
                f"{double_quoted(name)} {kind}".rstrip() for name, kind in self._columns.items()
            )
            database.execute(f"CREATE TABLE {table} ({columns})")
            # The progress of a table that was dropped goes with it: the new one is filled from the start.
            database.execute(f"DELETE FROM {PROGRESS} WHERE sink_table = ?", (self._table,))
        elif differing(found, self._columns):
            self._follow(database, found)
        if not self.shape.appends:
            place = ", ".join(map(double_quoted, self.shape.place))
            database.execute(
                f"CREATE INDEX IF NOT EXISTS {double_quoted(_INDEX + self._table)} ON {table} ({place})"
            )
        self._claim(database)

    def _follow(self, database: sqlite3.Connection, found: Mapping[str, str]) -> None:
        """Let a table that is ours have columns that are new, and wider types."""
        what, fix = f"the table {self._table}", "drop or rename it, or give the sink another table"
        if self._owner(database) is None:
            raise self._other_columns(found, self._columns, what, fix)
        self._require_owner(database)
        steps, table = self._steps_to(found, self._columns, what, fix), double_quoted(self._table)
        if steps.widened:
            self._retype(database, {**found, **steps.widened})
        for name, kind in steps.added.items():
            database.execute(f"ALTER TABLE {table} ADD COLUMN {double_quoted(name)} {kind}".rstrip())

    def _retype(self, database: sqlite3.Connection, columns: Mapping[str, str]) -> None:
        """Write the table anew: SQLite has no other way to give a column another type."""
        table, names = double_quoted(self._table), ", ".join(map(double_quoted, columns))
        fresh = double_quoted(f"{self._table}_wider")
        defined = ", ".join(f"{double_quoted(name)} {kind}".rstrip() for name, kind in columns.items())
        others = [
            sql
            for (sql,) in database.execute(
                "SELECT sql FROM sqlite_master WHERE tbl_name = ? COLLATE NOCASE AND type IN ('index', 'trigger') "
                "AND sql IS NOT NULL",
                (self._table,),
            )
        ]
        database.execute("PRAGMA legacy_alter_table = ON")  # views of the table stay as they are
        database.execute(f"CREATE TABLE {fresh} ({defined})")
        database.execute(f"INSERT INTO {fresh} ({names}) SELECT {names} FROM {table}")
        database.execute(f"DROP TABLE {table}")
        database.execute(f"ALTER TABLE {fresh} RENAME TO {table}")
        for sql in others:
            database.execute(sql)

    def _owner(self, database: sqlite3.Connection) -> tuple[str, str] | None:
        found: tuple[str, str] | None = database.execute(
            f"SELECT pipeline, output FROM {PROGRESS} WHERE sink_table = ?", (self._table,)
        ).fetchone()
        return found

    def _claim(self, database: sqlite3.Connection) -> None:
        owner = (self.pipeline, self.shape.owner)
        names = "sink_table, pipeline, output, batch"
        database.execute(
            f"INSERT OR IGNORE INTO {PROGRESS} ({names}) VALUES (?, ?, ?, -1)", (self._table, *owner)
        )
        self._require_owner(database)

    def _require_owner(self, database: sqlite3.Connection) -> None:
        found = self._owner(database)
        if found is not None and found != (self.pipeline, self.shape.owner):
            raise self._refusal(
                self._belongs_to(f"table {self._table}", found[0], found[1]),
                "give the sink another table",
            )

    @contextmanager
    def _transaction(self, mode: str, batch: int | None = None) -> Iterator[sqlite3.Connection]:
        with self._connection(mode, batch) as database:
            database.execute("BEGIN IMMEDIATE")
            yield database
            database.execute("COMMIT")

    @contextmanager
    def _connection(self, mode: str, batch: int | None = None) -> Iterator[sqlite3.Connection]:
        """A connection of our own; closed without a commit, it leaves nothing behind."""
        try:
            where = f"{self.path.as_uri()}?mode={mode}"
            with closing(
                sqlite3.connect(where, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
            ) as database:
                yield database
        except sqlite3.Error as error:
            raise self._explained(error, batch) from error

    def _explained(self, error: sqlite3.Error, batch: int | None) -> SinkError:
        """The reason and the fix, and whether it may pass."""
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                reason = f"another program held the database for {BUSY_SECONDS:g} s"
                return self._outage(reason, "close it or let it finish", batch)
            case sqlite3.SQLITE_NOTADB:
                fix = "move it away, or give the sink another path"
                return self._refusal("the file is not a SQLite database", fix, batch)
            case sqlite3.SQLITE_CANTOPEN:
                return self._not_opened(batch)
            case sqlite3.SQLITE_READONLY:
                return self._outage(
                    "the database is read-only", "make the file and its folder writable", batch
                )
            case sqlite3.SQLITE_FULL:
                return self._outage("the disk is full", "make room there", batch)
            case sqlite3.SQLITE_IOERR:
                reason = f"the database cannot be read or written ({first_line(error)})"
                return self._outage(reason, "check the disk and how it is attached", batch)
        return self._refusal(
            f"the database refused ({first_line(error)})",
            "run again, after fixing the file or giving the sink another path",
            batch,
        )

    def _not_opened(self, batch: int | None) -> SinkError:
        why = next((why for _, why in refused([self.path.parent])), None)
        if why is not None:
            return self._outage(why.reason, why.fix, batch)
        fix = "see that it is a file in a folder you may write to"
        # Something else in its place stays there; a file that is gone may come back, or is made anew.
        refuse = self._refusal if self.path.exists() else self._outage
        return refuse("the file cannot be opened", fix, batch)


def _declared(kind: pa.DataType) -> str:
    """The column type in SQLite, which decides what it does to a value: none keeps each as it is bound."""
    if pa.types.is_decimal(kind):
        # A column of numbers would turn whole numbers beyond 64 bits into floating point.
        return "TEXT" if kind.scale > 0 else "INTEGER" if kind.precision <= 18 else ""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    return "BLOB" if pa.types.is_binary(kind) else "TEXT"


def storable(column: pa.ChunkedArray) -> list[Any]:
    """What SQLite has types for as it is, and the rest as JSON has it."""
    if pa.types.is_decimal(column.type):
        exact = json_column(column)
        return [str(v) if isinstance(v, int) and not -_LARGEST <= v <= _LARGEST else v for v in exact]
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return json_column(column)
    if pa.types.is_nested(column.type):
        return csv_column(column)
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        # SQLite would store NaN as null, which is another key.
        return ["NaN" if v is not None and math.isnan(v) else v for v in values]
    return values
