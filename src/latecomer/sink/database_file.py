"""A database that is one file: SQLite, DuckDB.

It is opened for each batch and closed after it: so a file that was moved away is noticed, others can read it between
two batches, and any thread can write the next batch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

from latecomer.config.contract import Shape
from latecomer.config.sinks import DatabaseFileSink
from latecomer.errors import SinkError, first_line
from latecomer.errors.system import refused
from latecomer.sink.base import FileSinkLogic
from latecomer.sink.database import PROGRESS, DatabaseLogic
from latecomer.store.sql import double_quoted

BUSY_SECONDS = 5.0
"""How long to wait for another program that holds the database."""


class DatabaseFileLogic(DatabaseLogic, FileSinkLogic):
    """What SQLite and DuckDB share."""

    mark = "?"
    key: ClassVar[str]
    """The type of the column in the progress that names a table."""
    begin: ClassVar[str] = "BEGIN"
    path: Path
    _progress_table = _progress_named = PROGRESS

    def __init__(self, sink: DatabaseFileSink, path: Path, pipeline: str, shape: Shape) -> None:
        super().__init__(path, pipeline, shape)
        self._name = self._shown = sink.table or shape.name
        self._table = double_quoted(self._name)
        if self._name.lower() == PROGRESS:
            raise self._refusal(f"the table {PROGRESS} holds the progress", "give the sink another table")

    def open(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._system_refusal(error) or self._refusal(
                f"its folder cannot be made ({first_line(error)})", "give the sink another path"
            ) from error
        with self._transaction(mode="rwc") as database:
            self._prepare(database)

    def peek(self) -> int:
        if not self.path.exists():
            return -1
        with self._connection("ro") as database:
            return self._progress(database) if self._has_progress(database) else -1

    def _run(self, database: Any, sql: str, *values: Any) -> Any:
        return database.execute(sql, values)

    def _has_progress(self, database: Any) -> bool:
        return one_row(database, "SELECT 1 FROM sqlite_master WHERE name = ?", PROGRESS) is not None

    def _make_progress(self, database: Any) -> None:
        database.execute(
            f"CREATE TABLE IF NOT EXISTS {PROGRESS} (sink_table {self.key}, "
            "pipeline TEXT NOT NULL, output TEXT NOT NULL, batch INTEGER NOT NULL)"
        )

    @contextmanager
    def _transaction(self, batch: int | None = None, mode: str = "rw") -> Iterator[Any]:
        with self._connection(mode, batch) as database:
            database.execute(self.begin)
            yield database
            database.execute("COMMIT")

    @abstractmethod
    def _connection(self, mode: str, batch: int | None = None) -> AbstractContextManager[Any]:
        """A connection. Closing it without a commit rolls back. `mode` is ro, rw, or rwc (make a missing file)."""

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


def one_row(database: Any, sql: str, *values: Any) -> Any:
    """The first row of a result; None where there is none."""
    return next(iter(database.execute(sql, values).fetchall()), None)
