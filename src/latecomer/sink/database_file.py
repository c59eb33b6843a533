"""A table in a database that is one file: SQLite, DuckDB. It has the panes that stand, upserted by window and key; or
rows, appended.

A batch and its progress are one transaction. The database is opened for each batch and closed after it: so a file that
was moved away is noticed, others can read it between two batches, and any thread can write the next batch.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from latecomer.config.contract import Shape
from latecomer.config.sinks import DatabaseFileSink
from latecomer.errors import SinkError, first_line
from latecomer.errors.system import refused
from latecomer.sink.base import PROGRESS, FileSinkLogic
from latecomer.sink.new_columns import Steps
from latecomer.store.failpoints import failpoint
from latecomer.store.sql import double_quoted

BUSY_SECONDS = 5.0
"""How long to wait for another program that holds the database."""
LEFT_OUT = "left_out"
"""The column of the progress with the columns that a migration has dropped from a table."""


class DatabaseFileLogic(FileSinkLogic):
    """Everything but the SQL of each database."""

    key: ClassVar[str]
    """The type of the column in the progress that names a table."""
    path: Path

    def __init__(self, sink: DatabaseFileSink, path: Path, pipeline: str, shape: Shape) -> None:
        super().__init__(path, pipeline, shape)
        self._table = sink.table or shape.name
        self._named = double_quoted(self._table)
        if self._table.lower() == PROGRESS:
            raise self._refusal(f"the table {PROGRESS} holds the progress", "give the sink another table")

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
            exists = one_row(database, "SELECT 1 FROM sqlite_master WHERE name = ?", PROGRESS)
            return -1 if exists is None else self._progress(database)

    def _apply(self, batch: int, panes: pa.Table) -> None:
        write = self._append if self.shape.appends else self._upsert
        with self._transaction("rw", batch) as database:
            if self._progress(database) >= batch:
                return
            write(database, panes)
            database.execute(f"UPDATE {PROGRESS} SET batch = ? WHERE sink_table = ?", (batch, self._table))
            failpoint(f"sink.{self.kind}.written", batch)

    def _progress(self, database: Any) -> int:
        # The table of an earlier version has no column left_out, and need not get one.
        cursor = database.execute(f"SELECT * FROM {PROGRESS} WHERE sink_table = ?", (self._table,))
        names = [column[0] for column in cursor.description]
        for row in cursor.fetchall():
            progress = dict(zip(names, row, strict=True))
            self._leave_out(json.loads(progress.get(LEFT_OUT) or "[]"))
            return int(progress["batch"])
        return -1

    def _prepare(self, database: Any) -> None:
        """Make the table, or check that it is ours."""
        # A row for each table, not for each output: an output may feed two tables, and a table has one owner.
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {PROGRESS} (sink_table {self.key}, "
            "pipeline TEXT NOT NULL, output TEXT NOT NULL, batch INTEGER NOT NULL)"
        )
        existing = self._existing_columns(database)
        self._go_by(existing or None)
        if not existing:
            self._create(database)
            # A table that was dropped is made anew and filled from the start: its old progress goes, too.
            database.execute(f"DELETE FROM {PROGRESS} WHERE sink_table = ?", (self._table,))
        else:
            self._progress(database)  # sets what is left out
            self._follow(database, existing)
        self._index(database)
        self._claim(database)

    def _follow(self, database: Any, found: Mapping[str, str]) -> None:
        """Give a table of ours its new columns and wider types."""
        ours, wanted = self._is_ours(database), self._wanted_columns(database)
        what, fix = f"the table {self._table}", "drop or rename it, or give the sink another table"
        self._take_steps(database, found, self._steps_to(found, wanted, ours, what, fix))

    def _claim(self, database: Any) -> None:
        if not self._is_ours(database):
            database.execute(
                f"INSERT INTO {PROGRESS} (sink_table, pipeline, output, batch) VALUES (?, ?, ?, -1)",
                (self._table, self.pipeline, self.shape.owner),
            )

    def _is_ours(self, database: Any) -> bool:
        """Whether the table was claimed for this sink; one that belongs to another is refused."""
        select = f"SELECT pipeline, output FROM {PROGRESS} WHERE sink_table = ?"
        owner = one_row(database, select, self._table)
        if owner is not None and owner != (self.pipeline, self.shape.owner):
            raise self._refusal(
                self._belongs_to(f"table {self._table}", *owner), "give the sink another table"
            )
        return owner is not None

    @contextmanager
    def _transaction(self, mode: str, batch: int | None = None) -> Iterator[Any]:
        with self._connection(mode, batch) as database:
            database.execute(self.begin)
            yield database
            database.execute("COMMIT")

    def _not_opened(self, batch: int | None) -> SinkError:
        refusal = next((refusal for _, refusal in refused([self.path.parent])), None)
        if refusal is not None:
            return self._outage(refusal.reason, refusal.fix, batch)
        fix = "see that it is a file in a folder you may write to"
        # Only people can remove something else in its place. A file that is gone may come back, or is made anew.
        refuse = self._refusal if self.path.exists() else self._outage
        return refuse("the file cannot be opened", fix, batch)

    def _refused(self, error: Exception, batch: int | None) -> SinkError:
        fix = "run again, after fixing the file or giving the sink another path"
        return self._refusal(f"the database refused ({first_line(error)})", fix, batch)

    def _held(self, batch: int | None) -> SinkError:
        reason = f"another program held the database for {BUSY_SECONDS:g} s"
        return self._outage(reason, "close it or let it finish", batch)

    # The SQL of each database

    begin: ClassVar[str] = "BEGIN"

    @abstractmethod
    def _connection(self, mode: str, batch: int | None = None) -> AbstractContextManager[Any]:
        """A connection. Closing it without a commit rolls back. `mode` is ro, rw, or rwc (make a missing file)."""

    @abstractmethod
    def _existing_columns(self, database: Any) -> dict[str, str]:
        """The columns of the table and their types; empty where there is no table."""

    @abstractmethod
    def _wanted_columns(self, database: Any) -> dict[str, str]:
        """The columns that the table should have, and their types."""

    @abstractmethod
    def _create(self, database: Any) -> None: ...

    @abstractmethod
    def _take_steps(self, database: Any, existing: Mapping[str, str], steps: Steps) -> None:
        """Give the table the columns that it should have."""

    def _index(self, database: Any) -> None:
        """Make an index by place, where the database would otherwise scan the table for each pane."""

    @abstractmethod
    def _append(self, database: Any, rows: pa.Table) -> None: ...

    @abstractmethod
    def _upsert(self, database: Any, panes: pa.Table) -> None: ...


def one_row(database: Any, sql: str, *values: Any) -> Any:
    """The first row of a result; None where there is none."""
    return next(iter(database.execute(sql, values).fetchall()), None)
