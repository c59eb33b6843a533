"""Events that were delivered again after their ids were forgotten: in the log, and to be counted once.

The stream forgets an id when its event could be accepted no more. What comes with it after that is logged as
an event of its own, and is too late for every output that was there. Whoever counts the log anew leaves it
out: of several events with one id and one event time, the one of the first batch counts. (Within a batch there
is only one.) With another event time it is another event, for an id that is forgotten is free again.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Pipeline
from latecomer.fast import MOST_ROWS, Choice, Declined
from latecomer.log.logged import Logged

_ID, _TIME = f"{PRIVATE}repeated_id", f"{PRIVATE}repeated_time"
_FIRST, _COUNT = f"{PRIVATE}first_batch", f"{PRIVATE}deliveries"


@dataclass(frozen=True)
class Repeats:
    """The events of a log that came before, in batches up to one."""

    firsts: pa.Table | None
    """Each id and event time that came in several batches, with the first of them; None where none did."""
    through: int
    """The last batch that was looked at; -1 where none was."""

    def left_out_of(self, events: Logged) -> Logged:
        """The events, each once."""
        if self.firsts is None:
            return events
        return Logged(lambda: self._joined(events.frame, "left_anti"))

    def among(self, events: Logged) -> DataFrame | None:
        """Those of the events that came before; None where there are none."""
        return None if self.firsts is None else self._joined(events.frame, "left_semi")

    def _joined(self, events: DataFrame, how: str) -> DataFrame:
        firsts = events.sparkSession.createDataFrame(self.firsts)
        return events.join(F.broadcast(firsts), self._came_before(), how)

    def _came_before(self) -> Column:
        return F.expr(
            f"event_id = {_ID} and event_time = {_TIME} and batch > {_FIRST} and batch <= {self.through}"
        )


def repeats_in(events: Logged, pipeline: Pipeline, through: int, choice: Choice | None = None) -> Repeats:
    """What came before among the events of the batches up to one."""
    if pipeline.event.id is None or through < 0:
        return Repeats(None, -1)
    found = (choice or Choice()).take(
        "events delivered again",
        lambda: _repeated_here(events, through),
        lambda: _repeated_on_spark(events.frame, through),
    )
    return Repeats(found if found.num_rows else None, through)


def _repeated_here(events: Logged, through: int) -> pa.Table:
    """Ids alone are held, of so many events as a batch may have."""
    parts, count = [], 0
    for part in events.parts(["event_id", "event_time", "batch"]):
        named = part.filter(pc.field("event_id").is_valid() & (pc.field("batch") <= through))
        count += named.num_rows
        if count > MOST_ROWS:
            raise Declined(f"the ids of more than {MOST_ROWS:,} events")
        parts.append(named)
    if not parts:
        return pa.table({_ID: [], _TIME: [], _FIRST: []})
    groups = pa.concat_tables(parts).group_by(["event_id", "event_time"], use_threads=False)
    found = groups.aggregate([("batch", "min"), ("batch", "count")])
    repeated = found.filter(pc.field("batch_count") > 1)
    names = {"event_id": _ID, "event_time": _TIME, "batch_min": _FIRST}
    return repeated.select(list(names)).rename_columns(list(names.values()))


def _repeated_on_spark(events: DataFrame, through: int) -> pa.Table:
    """Only ids are shuffled."""
    return (
        events.where(F.col("event_id").isNotNull() & (F.col("batch") <= through))
        .groupBy(F.col("event_id").alias(_ID), F.col("event_time").alias(_TIME))
        .agg(F.min("batch").alias(_FIRST), F.count(F.lit(1)).alias(_COUNT))
        .where(F.col(_COUNT) > 1)
        .drop(_COUNT)
        .toArrow()
    )
