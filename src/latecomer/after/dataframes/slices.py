"""What a task of Spark's reads: some files, and the question that is put to them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from latecomer.store.snapshots import Snapshot, answers

Finish = Callable[[pa.Table], pa.Table]


class Slice(InputPartition, ABC):
    """A part of the rows."""

    @abstractmethod
    def batches(self) -> Iterator[pa.RecordBatch]:
        """What a task reads."""


@dataclass(frozen=True)
class Rows(Slice):
    """Rows that SQL gives of some files of tables: of `t`, and of others under their names."""

    tables: Mapping[str, Snapshot]
    sql: str
    schema: pa.Schema
    finish: Finish | None = None
    """What is added to the answer."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in answers(self.tables, self.sql):
            rows = pa.Table.from_batches([batch])
            yield from (rows if self.finish is None else self.finish(rows)).cast(self.schema).to_batches()
