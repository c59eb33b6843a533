"""What a Spark task reads: some files, and a query on them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from latecomer.store.delta.snapshots import Snapshot, query_snapshots
from latecomer.store.delta.tables import explained

if TYPE_CHECKING:  # a task imports it where it has dead letters to read
    from latecomer.store.failed_events import FailedLetters

Finish = Callable[[pa.Table], pa.Table]


class TableSlice(InputPartition, ABC):
    """A part of the rows."""

    @abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows that a task reads."""


@dataclass(frozen=True)
class QueryRows(TableSlice):
    """The rows of a query on some files of the table `t`, and of other tables under their names."""

    tables: Mapping[str, Snapshot]
    sql: str
    schema: pa.Schema
    finish: Finish | None = None
    """Adds columns to the answer."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in query_snapshots(self.tables, self.sql):
            rows = pa.Table.from_batches([batch])
            yield from (rows if self.finish is None else self.finish(rows)).cast(self.schema).to_batches()


@dataclass(frozen=True)
class Letters(TableSlice):
    """The dead letters of an output in some files, without those that were repaired."""

    table: Snapshot
    standing: FailedLetters
    finish: Finish

    def batches(self) -> Iterator[pa.RecordBatch]:
        with explained(self.table.root):
            yield from self.finish(self.standing.rows(self.table.locations)).to_batches()
