"""The watermark at an event's arrival: ticks of the log joined with the timeline, as numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from latecomer.errors import StoreError
from latecomer.model.array_types import Integers, Micros
from latecomer.model.arrays import flat
from latecomer.model.verdicts import BEGIN_OF_TIME


class NothingLate:
    """A timeline on which nothing is ever late."""

    def over(self, events: pa.Table) -> Micros:
        return np.full(events.num_rows, BEGIN_OF_TIME, np.int64)

    def clock(self, events: pa.Table) -> Micros:
        return micros_of(events, "arrival_time")


@dataclass(frozen=True)
class Watermarks:
    """The watermark of each tick, and where the arrival clock stood: the timeline, as events are joined with it."""

    tick: Integers
    """In the order of batch and tick."""
    marks: Micros
    clocks: Micros
    batch: Integers | None = None
    """None where all ticks are of one batch: each task is sent this."""

    def over(self, events: pa.Table) -> Micros:
        """The watermark that judged each event."""
        place = self._places(events)
        return self.marks[place] if len(place) else place

    def clock(self, events: pa.Table) -> Micros:
        """Where the arrival clock stood at each event."""
        place = self._places(events)
        return self.clocks[place] if len(place) else place

    def _places(self, events: pa.Table) -> Integers:
        tick = micros_of(events, "tick")
        if self._codes is None:
            return _places(self.tick, tick)
        batches, ticks, codes = self._codes
        batch = micros_of(events, "batch")
        return _places(codes, _places(batches, batch) * len(ticks) + _places(ticks, tick))

    @cached_property
    def _codes(self) -> tuple[Integers, Integers, Integers] | None:
        """All batches and all ticks, in order; and batch and tick of each row as one number. None for one batch."""
        if self.batch is None:
            return None
        batches, ticks = np.unique(self.batch), np.unique(self.tick)
        codes = np.searchsorted(batches, self.batch) * len(ticks) + np.searchsorted(ticks, self.tick)
        return batches, ticks, codes


JudgingWatermarks: TypeAlias = Watermarks | NothingLate
"""The watermarks that judge events."""


def _places(known: Micros, wanted: Micros) -> Micros:
    """The place of each number among known numbers, which are in order."""
    place = np.searchsorted(known, wanted)
    is_known = len(known) > 0 and np.array_equal(known[np.minimum(place, len(known) - 1)], wanted)
    if len(wanted) and not is_known:
        raise StoreError(
            "the log has an event of a tick that is not on the timeline: one of the tables events and watermarks is "
            "not what this pipeline wrote; restore both of them from one backup"
        )
    return place


def micros_of(rows: pa.Table, name: str) -> Micros:
    """A column of moments or whole numbers; null is an error."""
    column = flat(rows.column(name))
    if column.null_count:
        raise StoreError(f"the log has a row without {name}; restore the table events from a backup")
    return np.asarray(column.cast(pa.int64()))
