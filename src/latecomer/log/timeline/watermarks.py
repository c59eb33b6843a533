"""The watermark at an event's arrival: ticks of the log joined with the timeline, as numpy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from latecomer.errors import StoreError
from latecomer.model.array_types import Micros
from latecomer.model.arrays import flat
from latecomer.model.verdicts import BEGIN_OF_TIME


class JudgingWatermarks(Protocol):
    """The watermarks that judge events."""

    def over(self, events: pa.Table) -> Micros:
        """The watermark that judged each event."""

    def clock(self, events: pa.Table) -> Micros:
        """Where the arrival clock stood at each event."""


class NothingLate:
    """A timeline on which nothing is ever late."""

    def over(self, events: pa.Table) -> Micros:
        return np.full(events.num_rows, BEGIN_OF_TIME, np.int64)

    def clock(self, events: pa.Table) -> Micros:
        return micros_of(events, "arrival_time")


@dataclass(frozen=True)
class Watermarks:
    """The watermark of each tick: the timeline, as events are joined with it."""

    codes: Micros
    """Ticks in order; with several batches, batch and tick as one number."""
    marks: Micros
    ticks: Micros | None = None
    """With several batches: all ticks, in order."""
    batches: Micros | None = None
    """With several batches: the batches, in order."""
    clocks: Micros | None = None
    """The arrival clock of each tick, if an output needs it."""

    @classmethod
    def of_ticks(cls, ticks: Mapping[int, int]) -> Watermarks:
        """From one batch: tick → watermark."""
        known = sorted(ticks)
        return cls(np.array(known, np.int64), np.array([ticks[each] for each in known], np.int64))

    @classmethod
    def of_batches(
        cls, ticks: Mapping[tuple[int, int], int], clocks: Mapping[tuple[int, int], int] | None = None
    ) -> Watermarks:
        """From several batches: batch and tick → watermark, and → arrival clock."""
        known = sorted(ticks)
        batch, tick = (np.array([each[side] for each in known], np.int64) for side in (0, 1))
        marks = np.array([ticks[each] for each in known], np.int64)
        batches, all_ticks = np.unique(batch), np.unique(tick)
        codes = np.searchsorted(batches, batch) * len(all_ticks) + np.searchsorted(all_ticks, tick)
        ats = None if clocks is None else np.array([clocks[each] for each in known], np.int64)
        return cls(codes, marks, all_ticks, batches, ats)

    def over(self, events: pa.Table) -> Micros:
        """The watermark that judged each event."""
        place = self._places(events)
        return self.marks[place] if len(place) else place

    def clock(self, events: pa.Table) -> Micros:
        """Where the arrival clock stood at each event."""
        if self.clocks is None:
            return micros_of(events, "arrival_time")
        place = self._places(events)
        return self.clocks[place] if len(place) else place

    def _places(self, events: pa.Table) -> Micros:
        code = micros_of(events, "tick")
        if self.batches is not None and self.ticks is not None:
            batch = micros_of(events, "batch")
            code = _places(self.batches, batch) * len(self.ticks) + _places(self.ticks, code)
        return _places(self.codes, code)


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
