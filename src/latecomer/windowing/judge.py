"""Events ⋈ timeline → windows, the watermark at arrival, fate: pure functions on Arrow tables and numpy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from latecomer.config.models import Output
from latecomer.errors import StoreError
from latecomer.model.arrays import flat
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate, Verdict, fate_of
from latecomer.model.windows import Micros as Micros
from latecomer.model.windows import Session, Windows
from latecomer.store.columns import when_column
from latecomer.store.layout import EventLayout
from latecomer.windowing.failing import entering
from latecomer.windowing.fates import CODES
from latecomer.windowing.seen import Flags as Flags
from latecomer.windowing.seen import as_seen, holds

MOST_WINDOWS = 1_000_000
"""So many rows are made of events at a time, one for each window of an event."""
_FILTERED, _FAILED = CODES[Fate.FILTERED], CODES[Fate.FAILED]


class Timeline(Protocol):
    """What judges events."""

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
    """Ticks in order; of several batches, batch and tick as one number."""
    marks: Micros
    ticks: Micros | None = None
    """Of several batches: the ticks that there are, in order."""
    batches: Micros | None = None
    """The batches in order, where there are several."""
    clocks: Micros | None = None
    """The arrival clock of each tick, where that is asked for."""

    @classmethod
    def of_ticks(cls, ticks: Mapping[int, int]) -> Watermarks:
        """Of one batch: tick → watermark."""
        known = sorted(ticks)
        return cls(np.array(known, np.int64), np.array([ticks[each] for each in known], np.int64))

    @classmethod
    def of_batches(
        cls, ticks: Mapping[tuple[int, int], int], clocks: Mapping[tuple[int, int], int] | None = None
    ) -> Watermarks:
        """Of several batches: batch and tick → watermark, and → arrival clock."""
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
    """Where each number is among those that are known, in order."""
    place = np.searchsorted(known, wanted)
    there = len(known) > 0 and np.array_equal(known[np.minimum(place, len(known) - 1)], wanted)
    if len(wanted) and not there:
        raise StoreError(
            "the log has an event of a tick that is not on the timeline: one of the tables events and watermarks is "
            "not what this pipeline wrote; restore both of them from one backup"
        )
    return place


@dataclass(frozen=True)
class Judged:
    """Events with their windows, the watermark at their arrival, and their fate: a row for each window."""

    columns: Mapping[str, pa.Array]
    """The source's columns."""
    time: Micros
    arrival: Micros
    clock: Micros
    """Where the arrival clock stood."""
    watermark: Micros
    start: Micros
    end: Micros
    fate: npt.NDArray[np.int8]
    leading: Flags
    partly: Flags
    nth: Micros
    """Which event of the table each row is."""

    def __len__(self) -> int:
        return len(self.time)

    def only(self, rows: Flags) -> Judged:
        """Some of the rows."""
        columns = {name: column.filter(pa.array(rows)) for name, column in self.columns.items()}
        rest = (getattr(self, each.name)[rows] for each in fields(self)[1:])
        return Judged(columns, *rest)


def judged(
    events: pa.Table, layout: EventLayout, output: Output, timeline: Timeline, wanted: Iterable[str]
) -> Judged:
    """Events, judged by the watermark of each tick. `wanted` are the columns that are needed.

    One row for each window, but for an event that is filtered out or fails: that is one row whatever windows would hold
    it.
    """
    window = output.window
    assert not isinstance(window, Session), "sessions are judged with the sessions they touch"  # noqa: S101
    seen = as_seen(events, layout, output)
    time, arrival = (micros_of(events, name) for name in ("event_time", "arrival_time"))
    watermark, found = timeline.over(events), entering(seen, output)
    enters, failed = found.enters, found.failed
    nth, start, end, first_end = window.assign_many(time)
    if window.overlaps:
        # The window that ends last is that by which the event itself is counted.
        leading = np.append(nth[1:] != nth[:-1], True) if len(nth) else np.ones(0, bool)
        rows = enters[nth] | leading
        nth, start, end, first_end, leading = (each[rows] for each in (nth, start, end, first_end, leading))
    else:
        leading = np.ones(len(nth), bool)
    clock = timeline.clock(events)[nth] if output.fires_within else arrival[nth]
    time, arrival, watermark, enters = time[nth], arrival[nth], watermark[nth], enters[nth]
    fate = fates(output, enters, end, watermark)
    fate[failed[nth]] = _FAILED
    partly = np.zeros(len(nth), bool)
    if window.overlaps:
        partly = leading & enters & (fate != fates(output, enters, first_end, watermark))
    columns = {name: seen.column(name).take(pa.array(nth)) for name in dict.fromkeys(wanted)}
    columns |= {when_column(sql): pa.array(holds(seen, output, sql)[0][nth]) for sql in output.trigger.whens}
    return Judged(columns, time, arrival, clock, watermark, start, end, fate, leading, partly, nth)


def in_parts(events: pa.Table, window: Windows) -> Iterator[pa.Table]:
    """Events, so many at a time that no more rows come of them than are made at once."""
    most = max(MOST_WINDOWS // window.most_each, 1)
    if events.num_rows <= most:
        yield events
        return
    for start in range(0, events.num_rows, most):
        yield events.slice(start, most)


def micros_of(rows: pa.Table, name: str) -> Micros:
    """A column of moments or whole numbers, none of which is null."""
    column = flat(rows.column(name))
    if column.null_count:
        raise StoreError(f"the log has a row without {name}; restore the table events from a backup")
    return np.asarray(column.cast(pa.int64()))


def fates(output: Output, enters: Flags, end: Micros, watermark: Micros) -> npt.NDArray[np.int8]:
    """What becomes of events in the windows that end so, as CODES; those that `enters` leaves out are filtered."""
    on_time, late, too_late = (CODES[fate_of(verdict, output.late, output.too_late)] for verdict in Verdict)
    lateness = output.allowed_lateness
    found = np.where(end > watermark, on_time, np.where(watermark - lateness < end, late, too_late))
    return np.where(enters, found, _FILTERED).astype(np.int8)
