"""A table in a database: the panes that stand, upserted by window and key; or rows, appended.

A batch and its progress are one transaction. The progress of all our tables in a database is in one table, with a row
for each table: an output may feed two tables, and a table has one owner.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import pyarrow as pa

from latecomer.sink.base import BuiltInLogic, Steps
from latecomer.store.failpoints import failpoint

PROGRESS = "latecomer_progress"
"""The table with the last batch of each of our tables."""
LEFT_OUT = "left_out"
"""The column of the progress with the columns that a migration has dropped from a table."""


class DatabaseLogic(BuiltInLogic):
    """Everything but the SQL of each database, and the connection."""

    mark: ClassVar[str]
    """How a statement marks the place of a value."""
    lock: ClassVar[str] = ""
    """The end of a statement that keeps others from writing what it reads."""
    _name: str
    _shown: str
    """The table, for people."""
    _table: str
    """The table in SQL."""
    _progress_table: str
    _progress_named: str
    """The table of the progress, for statements with values."""

    def last_batch(self) -> int:
        with self._transaction() as database:
            return self._progress(database)

    def _apply(self, batch: int, panes: pa.Table) -> None:
        write = self._append if self.shape.appends else self._upsert
        with self._transaction(batch) as database:
            if self._progress(database, locked=True) >= batch:
                return
            failpoint(f"sink.{self.kind}.begun", batch)
            write(database, panes, batch)
            update = f"UPDATE {self._progress_named} SET batch = {self.mark} WHERE sink_table = {self.mark}"
            self._run(database, update, batch, self._name)
            failpoint(f"sink.{self.kind}.written", batch)
        failpoint(f"sink.{self.kind}.committed", batch)

    def _progress(self, database: Any, locked: bool = False) -> int:
        """The last batch in the table. Sets what is left out."""
        row = self._own_row(database, locked)
        if row is None:
            if locked:
                fix = "the table is checked again, and filled from the store"
                raise self._outage("its progress is gone", fix)
            return -1
        # The table of an earlier version has no column left_out, and need not get one.
        self._leave_out(json.loads(row.get(LEFT_OUT) or "[]"))
        return int(row["batch"])

    def _own_row(self, database: Any, locked: bool = False) -> dict[str, Any] | None:
        """The progress of the table; None where nobody has claimed it. The table of another sink is refused."""
        select = f"SELECT * FROM {self._progress_named} WHERE sink_table = {self.mark}"
        cursor = self._run(database, select + (self.lock if locked else ""), self._name)
        names = [column[0] for column in cursor.description]
        values = next(iter(cursor.fetchall()), None)
        if values is None:
            return None
        row = dict(zip(names, values, strict=True))
        if (row["pipeline"], row["output"]) != (self.pipeline, self.shape.owner):
            belongs = self._belongs_to(f"table {self._shown}", row["pipeline"], row["output"])
            raise self._refusal(belongs, "give the sink another table")
        return row

    def _prepare(self, database: Any) -> None:
        """Make what is missing, and check what exists."""
        self._make_progress(database)
        existing = self._existing_columns(database)
        self._go_by(existing or None)
        if existing:
            self._progress(database)  # sets what is left out
            self._follow(database, existing)
        else:
            self._create(database)
            # A table that was dropped is made anew and filled from the start: its old progress goes, too.
            delete = f"DELETE FROM {self._progress_named} WHERE sink_table = {self.mark}"
            self._run(database, delete, self._name)
        self._index(database)
        if self._own_row(database) is None:
            values = f"VALUES ({self.mark}, {self.mark}, {self.mark}, -1)"
            insert = f"INSERT INTO {self._progress_named} (sink_table, pipeline, output, batch) {values}"
            self._run(database, insert, self._name, self.pipeline, self.shape.owner)

    def _follow(self, database: Any, found: Mapping[str, str]) -> None:
        """Give a table of ours its new columns and wider types."""
        ours, wanted = self._own_row(database) is not None, self._wanted_columns(database)
        what, fix = f"the table {self._shown}", "drop or rename it, or give the sink another table"
        self._take_steps(database, found, self._steps_to(found, wanted, ours, what, fix))

    # The SQL of each database

    @abstractmethod
    def _transaction(self, batch: int | None = None) -> AbstractContextManager[Any]:
        """A transaction, which ends with the block. After an error, nothing of it is there."""

    @abstractmethod
    def _run(self, database: Any, sql: str, *values: Any) -> Any:
        """Run a statement. Returns its result, which has `fetchall` and `description`."""

    @abstractmethod
    def _has_progress(self, database: Any) -> bool:
        """Whether there is a table of the progress."""

    @abstractmethod
    def _make_progress(self, database: Any) -> None:
        """Make the table of the progress, if it is missing."""

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
    def _append(self, database: Any, rows: pa.Table, batch: int) -> None: ...

    @abstractmethod
    def _upsert(self, database: Any, panes: pa.Table, batch: int) -> None: ...
