"""What an output is given for a batch."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from latecomer.config.models import Output
from latecomer.firing.clocks import by_arrival as by_arrival
from latecomer.firing.columns import BEGAN, CLOCK, EARLY_DUE, LATE_DUE, NOW
from latecomer.log.columns import THIS_BATCH, WATERMARK_BEFORE
from latecomer.log.logged import Logged
from latecomer.timeline.keeper import Stretch


@dataclass(frozen=True)
class Batch:
    """What an output needs to know of a batch. `logged` is None where the batch brought no data."""

    number: int
    stretch: Stretch
    logged: Logged | None = None
    earliest: int = 0
    latest: int = 0
    history: bool = False
    """The events are the whole log, of many batches: an output that was added later catches up."""

    @property
    def events(self) -> DataFrame | None:
        """Its events, to Spark."""
        return None if self.logged is None else self.logged.frame

    def timeline(self, spark: SparkSession) -> DataFrame:
        """The watermark of each tick, to be joined to the events."""
        return self.stretch.frame(spark, with_batch=self.history)

    def params(self, spark: SparkSession, output: Output) -> DataFrame:
        """One row: the batch's number, its clocks, and which triggers are due by the arrival clock."""
        stretch, trigger = self.stretch, output.trigger
        row = {
            THIS_BATCH: self.number,
            WATERMARK_BEFORE: stretch.watermark_before,
            NOW: stretch.fires_at,
            BEGAN: stretch.began_at,
            CLOCK: stretch.clock,
            EARLY_DUE: by_arrival(trigger.early) and stretch.passed(trigger.early.every),
            LATE_DUE: by_arrival(trigger.late) and stretch.passed(trigger.late.every),
        }
        return spark.createDataFrame(
            pa.table({name: pa.array([int(value)], pa.int64()) for name, value in row.items()})
        )
