"""A log that is there already, for an engine that computes from it again."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from latecomer.config.checks import PRIVATE
from latecomer.log.events import EventLog, Received
from latecomer.model.ledger import EVENTS
from latecomer.model.timeline import Timeline
from latecomer.source.base import NO_CLOCK, Clock, Slice
from latecomer.store.coverage import DEAD_LETTERS, removed_amounts, removed_until
from latecomer.store.past import ReplayStore
from latecomer.store.sql import quoted

_BEFORE = f"{PRIVATE}ticks_before"


class PastLog(EventLog):
    """The log as it was written. Where ticks have another length, they are counted anew."""

    store: ReplayStore

    def __init__(self, spark: SparkSession, store: ReplayStore) -> None:
        self.every = store.pipeline.watermark.every
        as_logged = self.every == store.logged_every
        super().__init__(spark, store, ticks_anew=None if as_logged else self._count_ticks)
        self.ticks_before: dict[int, int] = {}
        self.removed = removed_until(store, DEAD_LETTERS)
        self.amounts = removed_amounts(store, DEAD_LETTERS)
        clocks = store.past_watermarks.query("select batch, max(arrival_by) as clocks from t group by batch")
        self.clocks = {row["batch"]: Clock.of_words(row["clocks"]) for row in clocks.to_pylist()}

    def write(self, batch: int, piece: Slice, timeline: Timeline) -> Received:
        """It is written already: the engine is told what there is."""
        self.ticks_before[batch] = timeline.last_tick or 0
        return replace(self.recount(batch), clocks=self.clocks.get(batch, NO_CLOCK))

    def reaches_beyond(self, batch: int) -> bool:
        """Every batch of it has been on the timeline already."""
        return False

    def recount(self, batch: int) -> Received:
        received, gone = super().recount(batch), self._gone_dead_letters(batch)
        if gone is None:
            return received
        dead = int(gone[EVENTS])
        return replace(received, rows=received.events + received.duplicates + dead, dead_letters=dead)

    def sums_aside(self, batch: int, received: Received) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
        duplicates, dead_letters = super().sums_aside(batch, received)
        gone = self._gone_dead_letters(batch)
        if gone is not None:
            dead_letters = {measure: gone[measure] for measure in self.store.measures()}
        return duplicates, dead_letters

    def _gone_dead_letters(self, batch: int) -> dict[str, Decimal] | None:
        """What the dead letters of a batch came to, where retention has removed them."""
        if batch > self.removed:
            return None
        return {
            unit: self.amounts.get((batch, unit), Decimal(0)) for unit in (EVENTS, *self.store.measures())
        }

    def _count_ticks(self, events: DataFrame) -> DataFrame:
        if self.every != "event":
            arrival = "unix_micros(arrival_time)"
            tick = F.expr(f"({arrival} - pmod({arrival}, {self.every}L)) div {self.every}L")
            return events.withColumn("tick", tick)
        before = pa.table(
            {
                "batch": pa.array(list(self.ticks_before), pa.int64()),
                _BEFORE: pa.array(list(self.ticks_before.values()), pa.int64()),
            }
        )
        in_order = Window.partitionBy("batch").orderBy("arrival_time", "origin", "position")
        counted = events.join(F.broadcast(self.spark.createDataFrame(before)), "batch")
        tick = F.row_number().over(in_order).cast("bigint") + F.col(_BEFORE)
        return counted.withColumn("tick", tick).select(*map(quoted, events.columns))
