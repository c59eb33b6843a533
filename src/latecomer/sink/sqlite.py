"""A table in a SQLite file: the panes that stand, upserted by window and key; or rows, appended."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa

from latecomer.config.sinks import SqliteSink
from latecomer.errors import SinkError, first_line
from latecomer.model.panes import Op
from latecomer.model.written_values import csv_column, json_column
from latecomer.sink import database_file
from latecomer.sink.base import Steps
from latecomer.sink.database_file import DatabaseFileLogic
from latecomer.store.private_columns import free_name
from latecomer.store.sql import double_quoted, listed

_INDEX = "latecomer_places_of_"
_LARGEST = 2**63 - 1


class SqliteLogic(DatabaseFileLogic):
    kind = SqliteSink.kind
    key = "TEXT PRIMARY KEY COLLATE NOCASE"
    begin = "BEGIN IMMEDIATE"

    @property
    def _columns(self) -> dict[str, str]:
        return {field.name: declared(field.type) for field in self.shape.standing}

    def _existing_columns(self, database: sqlite3.Connection) -> dict[str, str]:
        return {row[1]: row[2] for row in database.execute(f"PRAGMA table_info({self._table})")}

    def _wanted_columns(self, database: sqlite3.Connection) -> dict[str, str]:
        return self._columns

    def _create(self, database: sqlite3.Connection) -> None:
        database.execute(f"CREATE TABLE {self._table} ({_definition(self._columns)})")

    def _index(self, database: sqlite3.Connection) -> None:
        if not self.shape.appends:
            index = double_quoted(_INDEX + self._name)
            database.execute(
                f"CREATE INDEX IF NOT EXISTS {index} ON {self._table} ({listed(self.shape.place)})"
            )

    def _append(self, database: sqlite3.Connection, rows: pa.Table, batch: int) -> None:
        columns = list(self._columns)
        marks = ", ".join("?" * len(columns))
        values = zip(*(storable(rows[name]) for name in columns), strict=True)
        database.executemany(f"INSERT INTO {self._table} ({listed(columns)}) VALUES ({marks})", values)

    def _upsert(self, database: sqlite3.Connection, panes: pa.Table, batch: int) -> None:
        written = {name: storable(panes[name]) for name in panes.column_names}
        table = self._table
        same = " AND ".join(f"{double_quoted(name)} IS ?" for name in self.shape.place)
        marks = ", ".join("?" * len(self._columns))
        retract = f"DELETE FROM {table} WHERE {same} AND sequence = ?"
        supersede = f"DELETE FROM {table} WHERE {same} AND sequence < ?"
        insert = (
            f"INSERT INTO {table} ({listed(self._columns)}) SELECT {marks} "
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

    def _take_steps(self, database: sqlite3.Connection, existing: Mapping[str, str], steps: Steps) -> None:
        if steps.widened:
            self._retype(database, {**existing, **steps.widened})
        for name, kind in steps.added.items():
            database.execute(f"ALTER TABLE {self._table} ADD COLUMN {_definition({name: kind})}")

    def _retype(self, database: sqlite3.Connection, columns: Mapping[str, str]) -> None:
        """Write the table anew: SQLite cannot change the type of a column."""
        table, names = self._table, listed(columns)
        taken = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
        fresh = double_quoted(free_name(f"{self._name}_wider", taken))
        indexes_and_triggers = [
            sql
            for (sql,) in database.execute(
                "SELECT sql FROM sqlite_master WHERE tbl_name = ? COLLATE NOCASE AND type IN ('index', 'trigger') "
                "AND sql IS NOT NULL",
                (self._name,),
            )
        ]
        database.execute("PRAGMA legacy_alter_table = ON")  # views of the table stay as they are
        database.execute(f"CREATE TABLE {fresh} ({_definition(columns)})")
        database.execute(f"INSERT INTO {fresh} ({names}) SELECT {names} FROM {table}")
        database.execute(f"DROP TABLE {table}")
        database.execute(f"ALTER TABLE {fresh} RENAME TO {table}")
        for sql in indexes_and_triggers:
            database.execute(sql)

    @contextmanager
    def _connection(self, mode: str, batch: int | None = None) -> Iterator[sqlite3.Connection]:
        try:
            where = f"{self.path.as_uri()}?mode={mode}"
            busy = database_file.BUSY_SECONDS
            with closing(sqlite3.connect(where, uri=True, timeout=busy, isolation_level=None)) as database:
                yield database
        except sqlite3.Error as error:
            raise self._explained(error, batch) from error

    def _explained(self, error: sqlite3.Error, batch: int | None) -> SinkError:
        """The error with reason and fix: an outage where it may pass."""
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return self._held(batch)
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
        return self._refused(error, batch)


def _definition(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{double_quoted(name)} {kind}".rstrip() for name, kind in columns.items())


def declared(kind: pa.DataType) -> str:
    """The column type in SQLite, which converts values to it. Without a type, each value stays as it is."""
    if pa.types.is_decimal(kind):
        # A column of numbers would turn whole numbers beyond 64 bits into floating point.
        return "TEXT" if kind.scale > 0 else "INTEGER" if kind.precision <= 18 else ""
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return "INTEGER"
    if pa.types.is_floating(kind):
        return "REAL"
    return "BLOB" if pa.types.is_binary(kind) else "TEXT"


def storable(column: pa.ChunkedArray) -> list[Any]:
    """Values that SQLite has types for, unchanged; others as in JSON."""
    if pa.types.is_decimal(column.type):
        exact = json_column(column)
        return [str(v) if isinstance(v, int) and not -_LARGEST <= v <= _LARGEST else v for v in exact]
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return json_column(column)
    if pa.types.is_nested(column.type):
        return csv_column(column)
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(column.type):
        # SQLite would store NaN as null, which is a different key.
        return ["NaN" if v is not None and math.isnan(v) else v for v in values]
    return values
