"""Events that were delivered again after their ids were forgotten: in the log, and to be counted once.

The stream forgets an id when its event could be accepted no more. What comes with it after that is logged as
an event of its own, and is too late for every output that was there. Whoever counts the log anew leaves it
out: of several events with one id and one event time, the one of the first batch counts. (Within a batch there
is only one.) With another event time it is another event, for an id that is forgotten is free again.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Pipeline

_ID, _TIME = f"{PRIVATE}repeated_id", f"{PRIVATE}repeated_time"
_FIRST, _COUNT = f"{PRIVATE}first_batch", f"{PRIVATE}deliveries"


@dataclass(frozen=True)
class Repeats:
    """The events of a log that came before, in batches up to one."""

    firsts: DataFrame | None
    """Each id and event time that came in several batches, with the first of them; None where none did."""
    through: int
    """The last batch that was looked at; -1 where none was."""

    def left_out_of(self, events: DataFrame) -> DataFrame:
        """The events, each once."""
        if self.firsts is None:
            return events
        return events.join(F.broadcast(self.firsts), self._came_before(), "left_anti")

    def among(self, events: DataFrame) -> DataFrame:
        """Those of the events that came before."""
        if self.firsts is None:
            return events.where(F.lit(False))
        return events.join(F.broadcast(self.firsts), self._came_before(), "left_semi")

    def _came_before(self) -> Column:
        return F.expr(
            f"event_id = {_ID} and event_time = {_TIME} and batch > {_FIRST} and batch <= {self.through}"
        )


def repeats_in(events: DataFrame, pipeline: Pipeline, through: int) -> Repeats:
    """What came before among the events of the batches up to one. Only ids are shuffled."""
    if pipeline.event.id is None or through < 0:
        return Repeats(None, -1)
    found = (
        events.where(F.col("event_id").isNotNull() & (F.col("batch") <= through))
        .groupBy(F.col("event_id").alias(_ID), F.col("event_time").alias(_TIME))
        .agg(F.min("batch").alias(_FIRST), F.count(F.lit(1)).alias(_COUNT))
        .where(F.col(_COUNT) > 1)
        .drop(_COUNT)
        .toArrow()
    )
    return Repeats(events.sparkSession.createDataFrame(found) if found.num_rows else None, through)
