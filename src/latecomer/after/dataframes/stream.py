"""Spark's data source `latecomer`, and published changes as a stream: its offsets are numbers of complete batches.

A complete batch never changes, and each row has its batch, whichever file upkeep moves it to. So the rows between two
offsets are always the same, and with its checkpoint a query reads each row once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

from latecomer.after.dataframes.batch import (
    BatchReader,
    InTask,
    asked_plan,
    in_few_words,
    require_own_schema,
    spark_schema,
)
from latecomer.after.dataframes.filters import of_batches
from latecomer.after.dataframes.options import ReadOptions, refused, wanted
from latecomer.after.dataframes.tables import STREAMED, TableScan, plan_of
from latecomer.after.reading.reader import Reader
from latecomer.errors import NotCovered, StoreMismatch
from latecomer.model.counting import counted

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "latecomer"
Offset = dict[str, Any]
_BATCH, _STORE = "batch", "store"
_ANEW = "start the query with a new checkpointLocation"


class ChangeReader(InTask):
    """The batches of a table, each once it is complete."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._wanted: ReadOptions = wanted(options)
        asked = self._wanted.asked
        if asked.table not in STREAMED or asked.at is not None:
            fix = f'write option("table", "{STREAMED[0]}") for published changes; {STREAMED[1]} can be streamed, too'
            shown = "as of a moment" if asked.table in STREAMED else asked.table
            raise refused("table", "a stream has what every batch adds", shown, fix)
        require_own_schema(self._plan(), schema)
        self._at: int | None = None
        """How far the query has read. When a query is continued, Spark tells it first, in `partitions`."""

    @in_few_words
    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return self._first

    @cached_property
    def _first(self) -> Offset:
        """Where a query begins. Spark may ask for the latest offset first."""
        plan, first = self._plan(), self._wanted.starting
        if first is None:
            return _offset(plan, plan.complete)
        if first > plan.complete + 1:
            fix = f"write {plan.complete + 1} or less, or latest for what is published from now on"
            raise refused(
                "startingBatch", f"the store has {counted(plan.complete + 1, 'batch')}", str(first), fix
            )
        return _offset(plan, plan.removed if first == 0 else first - 1)

    @in_few_words
    def latestOffset(self) -> Offset:  # noqa: N802 - Spark's name
        at = int(self._first[_BATCH]) if self._at is None else self._at
        plan, most = self._plan(), self._wanted.at_once
        last = max(plan.complete, at)
        return _offset(plan, last if most is None else min(last, at + most))

    @in_few_words
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        plan = self._plan()
        _require_same(plan, start, end)
        self._at = end[_BATCH]
        if start[_BATCH] >= end[_BATCH]:
            return []
        return list(plan.slices(of_batches(start[_BATCH], end[_BATCH])))

    def __reduce__(self) -> tuple[object, ...]:
        return InTask, ()

    def _plan(self) -> TableScan:
        """The table as it is now."""
        return plan_of(Reader(self._wanted.pipeline), self._wanted.asked)


def _offset(plan: TableScan, batch: int) -> Offset:
    return {_BATCH: batch, _STORE: plan.store.ledger.identity}


def _require_same(plan: TableScan, start: Offset, end: Offset) -> None:
    """Refuse to go on in another store, or in one that lacks batches that the query has read or is to read."""
    root, complete = plan.store.root, plan.complete
    for offset in (start, end):
        if offset[_STORE] != plan.store.ledger.identity:
            raise StoreMismatch(f"store {root} is not the one that this query has read so far; {_ANEW}")
    if end[_BATCH] > complete:
        raise StoreMismatch(
            f"store {root} has {counted(complete + 1, 'batch')}, and this query has read batch {end[_BATCH]}: the "
            f"store was put back to an earlier state; {_ANEW}"
        )
    if start[_BATCH] < plan.removed and start[_BATCH] < end[_BATCH]:
        raise NotCovered(
            f"store {root}: retention has removed the side output up to batch {plan.removed}, and this query has read "
            f"up to batch {start[_BATCH]}; {_ANEW}"
        )


class LatecomerSource(DataSource):
    """The class behind `spark.read.format("latecomer")`. Spark pickles it by name to its Python workers: the one that
    plans a query, and those that read."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    @in_few_words
    def schema(self) -> StructType:
        return spark_schema(asked_plan(self.options))

    @in_few_words
    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(dict(self.options), schema)

    @in_few_words
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        return ChangeReader(dict(self.options), schema)
