"""A table in a database that is one file: SQLite, DuckDB. It has what stands, upserted by window and key; or rows,
appended.

A batch and its progress are one transaction. The database is opened for each batch and closed after it: a file that was
moved away is noticed, others can read it between two batches, and nothing is tied to the thread that opened it.
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
from latecomer.sink.base import FileSinkLogic, differing
from latecomer.sink.following import Steps
from latecomer.store.failpoints import failpoint
from latecomer.store.sql import double_quoted

BUSY_SECONDS = 5.0
"""How long to wait for another program that holds the database."""
PROGRESS = "latecomer_progress"
LEFT_OUT = "left_out"
"""Its column with those of a table that a migration has dropped."""


class DatabaseFileLogic(FileSinkLogic):
    """Everything but the SQL that each database has of its own."""

    key: ClassVar[str]
    """The type of the column that names a table in the progress."""
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
            known = one_row(database, "SELECT 1 FROM sqlite_master WHERE name = ?", PROGRESS)
            return -1 if known is None else self._progress(database)

    def _apply(self, batch: int, panes: pa.Table) -> None:
        write = self._append if self.shape.appends else self._upsert
        with self._transaction("rw", batch) as database:
            if self._progress(database) >= batch:
                return
            write(database, panes)
            database.execute(f"UPDATE {PROGRESS} SET batch = ? WHERE sink_table = ?", (batch, self._table))
            failpoint(f"sink.{self.kind}.written", batch)

    def _progress(self, database: Any) -> int:
        # One that an earlier version made has no column left_out, and need not get one.
        asked = database.execute(f"SELECT * FROM {PROGRESS} WHERE sink_table = ?", (self._table,))
        names = [column[0] for column in asked.description]
        for row in asked.fetchall():
            found = dict(zip(names, row, strict=True))
            self._leave_out(json.loads(found.get(LEFT_OUT) or "[]"))
            return int(found["batch"])
        return -1

    def _prepare(self, database: Any) -> None:
        """Make the table, or see that it is the one we left."""
        # One row a table, not an output: an output may feed two tables, and a table has one owner.
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {PROGRESS} (sink_table {self.key}, "
            "pipeline TEXT NOT NULL, output TEXT NOT NULL, batch INTEGER NOT NULL)"
        )
        found = self._found(database)
        self._go_by(found or None)
        if not found:
            self._create(database)
            # The progress of a table that was dropped goes with it: the new one is filled from the start.
            database.execute(f"DELETE FROM {PROGRESS} WHERE sink_table = ?", (self._table,))
        else:
            self._progress(database)  # says what is left out
            self._follow(database, found)
        self._index(database)
        self._claim(database)

    def _follow(self, database: Any, found: Mapping[str, str]) -> None:
        """Let a table that is ours have columns that are new, and wider types."""
        wanted = self._wanted(database)
        if not differing(found, wanted):
            return
        what, fix = f"the table {self._table}", "drop or rename it, or give the sink another table"
        if self._owner(database) is None:
            raise self._other_columns(found, wanted, what, fix)
        self._require_owner(database)
        self._take(database, found, self._steps_to(found, wanted, what, fix))

    def _owner(self, database: Any) -> tuple[str, str] | None:
        asked = f"SELECT pipeline, output FROM {PROGRESS} WHERE sink_table = ?"
        found: tuple[str, str] | None = one_row(database, asked, self._table)
        return found

    def _claim(self, database: Any) -> None:
        if self._owner(database) is None:
            database.execute(
                f"INSERT INTO {PROGRESS} (sink_table, pipeline, output, batch) VALUES (?, ?, ?, -1)",
                (self._table, self.pipeline, self.shape.owner),
            )
        self._require_owner(database)

    def _require_owner(self, database: Any) -> None:
        found = self._owner(database)
        if found is not None and found != (self.pipeline, self.shape.owner):
            raise self._refusal(
                self._belongs_to(f"table {self._table}", found[0], found[1]),
                "give the sink another table",
            )

    @contextmanager
    def _transaction(self, mode: str, batch: int | None = None) -> Iterator[Any]:
        with self._connection(mode, batch) as database:
            database.execute(self.begin)
            yield database
            database.execute("COMMIT")

    def _not_opened(self, batch: int | None) -> SinkError:
        why = next((why for _, why in refused([self.path.parent])), None)
        if why is not None:
            return self._outage(why.reason, why.fix, batch)
        fix = "see that it is a file in a folder you may write to"
        # Something else in its place stays there; a file that is gone may come back, or is made anew.
        refuse = self._refusal if self.path.exists() else self._outage
        return refuse("the file cannot be opened", fix, batch)

    def _held(self, batch: int | None) -> SinkError:
        reason = f"another program held the database for {BUSY_SECONDS:g} s"
        return self._outage(reason, "close it or let it finish", batch)

    # What each database has of its own

    begin: ClassVar[str] = "BEGIN"

    @abstractmethod
    def _connection(self, mode: str, batch: int | None = None) -> AbstractContextManager[Any]:
        """A connection of our own: closed without a commit, it leaves nothing behind. `mode` is ro, rw, or rwc, which
        makes the file where there is none."""

    @abstractmethod
    def _found(self, database: Any) -> dict[str, str]:
        """The columns of the table and their types; none where there is no table."""

    @abstractmethod
    def _wanted(self, database: Any) -> dict[str, str]:
        """The columns that it should have."""

    @abstractmethod
    def _create(self, database: Any) -> None: ...

    @abstractmethod
    def _take(self, database: Any, found: Mapping[str, str], steps: Steps) -> None:
        """Take the steps by which the table gets the columns that it should have."""

    def _index(self, database: Any) -> None:
        """Let panes find their rows, where the database would look through all of them."""

    @abstractmethod
    def _append(self, database: Any, rows: pa.Table) -> None: ...

    @abstractmethod
    def _upsert(self, database: Any, panes: pa.Table) -> None: ...


def one_row(database: Any, sql: str, *values: Any) -> Any:
    """The first row of an answer; None where there is none."""
    return next(iter(database.execute(sql, values).fetchall()), None)
