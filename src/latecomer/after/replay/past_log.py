"""A log that is complete already, for an engine that computes from it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from latecomer.log.events import EventLog
from latecomer.log.logged_events import OtherTicks
from latecomer.log.readable import LoggedBatch
from latecomer.model.ledger import EVENTS
from latecomer.model.timeline import Timeline
from latecomer.source.base import NO_CLOCK, Clock, Slice
from latecomer.spark.base import Runner
from latecomer.store.coverage import DEAD_LETTERS, removed_amounts, removed_until
from latecomer.store.past_store import ReplayStore


class PastLog(EventLog):
    """The log as it was written. Where ticks have another length, they are counted anew."""

    store: ReplayStore

    def __init__(self, runner: Runner, store: ReplayStore) -> None:
        super().__init__(runner, store)
        self.every = store.pipeline.watermark.every
        self.ticks_before: dict[int, int] = {}
        self.removed = removed_until(store, DEAD_LETTERS)
        self.amounts = removed_amounts(store, DEAD_LETTERS)
        clocks = store.past_watermarks.query("select batch, max(arrival_by) as clocks from t group by batch")
        self.clocks = {row["batch"]: Clock.of_words(row["clocks"]) for row in clocks.to_pylist()}

    def write(self, batch: int, slice_: Slice, timeline: Timeline) -> LoggedBatch:
        """Nothing is written: the engine gets the batch as it was logged."""
        self.ticks_before[batch] = timeline.last_tick or 0
        return self.recount(batch, slice_.sources, self.clocks.get(batch, NO_CLOCK))

    def reaches_beyond(self, batch: int) -> bool:
        """Every batch of it has been on the timeline already."""
        return False

    def recount(
        self, batch: int, sources: Sequence[str] | None = None, clocks: Clock = NO_CLOCK
    ) -> LoggedBatch:
        logged = super().recount(batch, sources, clocks)
        if batch > self.removed:
            return logged
        # Retention has removed the dead letters of the batch, but kept their amounts.
        units = (EVENTS, *self.store.measures())
        removed = {unit: self.amounts.get((batch, unit), Decimal(0)) for unit in units}
        received, dead = logged.received, int(removed[EVENTS])
        counted = replace(received, rows=received.events + received.duplicates + dead, dead_letters=dead)
        return replace(
            logged, received=counted, letters={measure: removed[measure] for measure in self.store.measures()}
        )

    def other_ticks(self) -> OtherTicks | None:
        if self.every == self.store.logged_every:
            return None
        return OtherTicks(self.every, dict(self.ticks_before))
