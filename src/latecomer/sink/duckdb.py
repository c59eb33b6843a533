"""A table in a DuckDB file: the panes that stand, upserted by window and key; or rows, appended.

Rows are handed to DuckDB as Arrow tables, and columns have the types that DuckDB gives those. While one process writes,
DuckDB lets no other process read: the sink waits until the file is free.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from latecomer.config.names import PRIVATE
from latecomer.config.sinks import DuckdbSink
from latecomer.errors import SinkError, first_line
from latecomer.sink import database_file
from latecomer.sink.base import Steps, take_rows
from latecomer.sink.database_file import DatabaseFileLogic, one_row
from latecomer.sink.file_turns import turn_at
from latecomer.sink.settling import settle
from latecomer.store.files import sync_folder
from latecomer.store.sql import double_quoted, listed

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_GIVEN = f"{PRIVATE}given"
"""The name under which statements see an Arrow table."""
_PAUSE_SECONDS = 0.05
_IS_HELD = ("Could not set lock", "different configuration than existing")
"""Errors of a file that another process has open, or another connection of this one."""


class DuckdbLogic(DatabaseFileLogic):
    kind = DuckdbSink.kind
    key = "TEXT COLLATE NOCASE"

    def _existing_columns(self, database: DuckDBPyConnection) -> dict[str, str]:
        exists = one_row(database, "SELECT 1 FROM sqlite_master WHERE name = ? COLLATE NOCASE", self._name)
        return {} if exists is None else _types(database, self._table)

    def _wanted_columns(self, database: DuckDBPyConnection) -> dict[str, str]:
        with _given(database, self.shape.standing.empty_table()):
            return _types(database, _GIVEN)

    def _create(self, database: DuckDBPyConnection) -> None:
        with _given(database, self.shape.standing.empty_table()):
            database.execute(f"CREATE TABLE {self._table} AS SELECT * FROM {_GIVEN}")

    def _take_steps(self, database: DuckDBPyConnection, existing: Mapping[str, str], steps: Steps) -> None:
        with _given(database, self.shape.standing.empty_table()):
            kinds = {row[0]: row[1] for row in database.execute(f"DESCRIBE {_GIVEN}").fetchall()}
        for name in steps.widened:
            database.execute(
                f"ALTER TABLE {self._table} ALTER COLUMN {double_quoted(name)} TYPE {kinds[name]}"
            )
        for name in steps.added:
            database.execute(f"ALTER TABLE {self._table} ADD COLUMN {double_quoted(name)} {kinds[name]}")

    def _append(self, database: DuckDBPyConnection, rows: pa.Table, batch: int) -> None:
        names = listed(self.shape.standing.names)
        with _given(database, rows):
            database.execute(f"INSERT INTO {self._table} ({names}) SELECT {names} FROM {_GIVEN}")

    def _upsert(self, database: DuckDBPyConnection, panes: pa.Table, batch: int) -> None:
        place = self.shape.place
        same = " AND ".join(
            f"stored.{name} IS NOT DISTINCT FROM {_GIVEN}.{name}" for name in map(double_quoted, place)
        )
        select = f"SELECT {listed((*place, 'sequence'))} FROM {self._table} AS stored"
        with _given(database, panes.select(place)):
            existing = database.sql(f"{select} SEMI JOIN {_GIVEN} ON {same}").to_arrow_table()
        changes = settle(panes, existing, place)
        with _given(database, take_rows(panes, [each.row for each in changes if each.stored is not None])):
            database.execute(f"DELETE FROM {self._table} AS stored USING {_GIVEN} WHERE {same}")
        self._append(database, take_rows(panes, [each.row for each in changes if each.puts]), batch)

    @contextmanager
    def _connection(self, mode: str, batch: int | None = None) -> Iterator[DuckDBPyConnection]:
        try:
            import duckdb
        except ImportError:
            raise self._refusal(
                "it needs the package duckdb", "install it: pip install 'latecomer[duckdb]'", batch
            ) from None
        if "?" in str(self.path):  # when it writes beside the file, it takes the rest of the name for options
            raise self._refusal("DuckDB cannot use a path with a question mark", "give the sink another path")
        # DuckDB refuses two transactions that change one table, and connections that read while another writes.
        with turn_at(str(self.path)):
            try:
                if mode == "rwc" and not self.path.exists():
                    self._make_file(duckdb)
                elif not self.path.is_file():
                    raise self._not_opened(batch)
                with closing(self._connected(duckdb, mode)) as database:
                    yield database
            except duckdb.Error as error:
                raise self._explained(error, batch) from error

    def _make_file(self, duckdb: Any) -> None:
        """Make the file under another name first: a half-made file that a crash left could not be opened again."""
        hidden = self.path.with_name(f".{self.path.name}.tmp")
        hidden.unlink(missing_ok=True)
        duckdb.connect(hidden).close()
        hidden.replace(self.path)
        sync_folder(self.path.parent)

    def _connected(self, duckdb: Any, mode: str) -> DuckDBPyConnection:
        until = time.monotonic() + database_file.BUSY_SECONDS
        while True:
            try:
                database: DuckDBPyConnection = duckdb.connect(self.path, read_only=mode == "ro")
                return database
            except duckdb.Error as error:
                if not _is_held(error) or time.monotonic() >= until:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _explained(self, error: Exception, batch: int | None) -> SinkError:
        """The error with reason and fix: an outage where it may pass."""
        if _is_held(error):
            return self._held(batch)
        if "not a valid DuckDB database file" in first_line(error):
            fix = "move it away, or give the sink another path"
            return self._refusal("the file is not a DuckDB database", fix, batch)
        if (refusal := self._system_refusal(error, batch)) is not None:
            return refusal
        if not self.path.is_file():
            return self._not_opened(batch)
        return self._refused(error, batch)


def _is_held(error: Exception) -> bool:
    return any(words in str(error) for words in _IS_HELD)


@contextmanager
def _given(database: DuckDBPyConnection, rows: pa.Table) -> Iterator[None]:
    """Rows as a table that statements can name, meanwhile."""
    database.register(_GIVEN, rows)
    yield
    database.unregister(_GIVEN)


def _types(database: DuckDBPyConnection, table: str) -> dict[str, str]:
    """The columns of a table, with their types in Arrow."""
    schema = database.sql(f"SELECT * FROM {table} LIMIT 0").to_arrow_table().schema
    return {field.name: str(field.type) for field in schema}
