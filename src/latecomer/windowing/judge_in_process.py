"""Judging without Spark: what `judge.py` and `assign.py` say in SQL, with Arrow and numpy, for the common case
(ADR 0056). Whatever is not here is `Declined`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from latecomer.config.models import Output
from latecomer.fast import MOST_ROWS, Declined, flat
from latecomer.model.simple_predicates import NeedsSpark, predicate
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate, Verdict, fate_of
from latecomer.model.windows import FIRST_MOMENT, FixedWindow, Global, Sliding, Tumbling
from latecomer.store.layout import EventLayout
from latecomer.windowing.derived_in_process import Seen, as_seen
from latecomer.windowing.judge import CODES

Micros: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_MOST_LOOKED_UP = 20_000
"""So many windows that follow a calendar are looked up one by one."""
_FILTERED = CODES[Fate.FILTERED]


class Timeline(Protocol):
    """What judges events."""

    def over(self, events: pa.Table) -> Micros:
        """The watermark that judged each event."""


class NothingLate:
    """A timeline on which nothing is ever late."""

    def over(self, events: pa.Table) -> Micros:
        return np.full(events.num_rows, BEGIN_OF_TIME, np.int64)


@dataclass(frozen=True)
class Watermarks:
    """The watermark of each tick: the timeline, as events are joined with it."""

    codes: Micros
    """Ticks in order; of several batches, batch and tick as one number."""
    marks: Micros
    batches: Micros | None = None
    """The batches in order, where there are several."""
    first: int = 0
    span: int = 0

    @classmethod
    def of_ticks(cls, ticks: Mapping[int, int]) -> Watermarks:
        """Of one batch: tick → watermark."""
        known = sorted(ticks)
        return cls(np.array(known, np.int64), np.array([ticks[each] for each in known], np.int64))

    @classmethod
    def of_batches(cls, ticks: Mapping[tuple[int, int], int]) -> Watermarks:
        """Of several batches: batch and tick → watermark."""
        if not ticks:
            return cls.of_ticks({})
        known = sorted(ticks)
        batch, tick = (np.array([each[side] for each in known], np.int64) for side in (0, 1))
        marks = np.array([ticks[each] for each in known], np.int64)
        batches = np.unique(batch)
        first = int(tick.min())
        span = int(tick.max()) - first + 1
        if len(batches) * span >= 1 << 62:
            raise Declined("ticks that are too far apart")
        return cls(np.searchsorted(batches, batch) * span + (tick - first), marks, batches, first, span)

    def over(self, events: pa.Table) -> Micros:
        """The watermark that judged each event."""
        code = tick = micros_of(events, "tick")
        if self.batches is not None:
            batch = micros_of(events, "batch")
            nth = np.searchsorted(self.batches, batch)
            within = (tick >= self.first) & (tick < self.first + self.span)
            if not within.all() or not _found(self.batches, nth, batch):
                raise Declined(_NOT_THERE)
            code = nth * self.span + (tick - self.first)
        place = np.searchsorted(self.codes, code)
        if not _found(self.codes, place, code):
            raise Declined(_NOT_THERE)
        return self.marks[place] if len(code) else code


_NOT_THERE = "an event of a tick that is not on the timeline"


def _found(known: Micros, place: Micros, wanted: Micros) -> bool:
    """Whether all that is wanted is known, at these places."""
    if not len(wanted):
        return True
    return bool(len(known)) and bool(np.all(known[np.minimum(place, len(known) - 1)] == wanted))


@dataclass(frozen=True)
class Judged:
    """Events with their windows, the watermark at their arrival, and their fate: a row for each window."""

    columns: Mapping[str, pa.Array]
    """The source's columns."""
    time: Micros
    arrival: Micros
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
    """Events, judged by the watermark of each tick. `wanted` are the columns that are needed."""
    if output.window.merges:
        raise Declined("sessions")
    if events.num_rows > MOST_ROWS:
        raise Declined(f"more than {MOST_ROWS:,} rows")
    seen = as_seen(events, layout, output)
    time, arrival = (micros_of(events, name) for name in ("event_time", "arrival_time"))
    watermark = timeline.over(events)
    kept = _kept(seen, output)
    nth, start, end, first_end = _windows(time, output.window)
    time, arrival, watermark, kept = time[nth], arrival[nth], watermark[nth], kept[nth]
    fate = _fates(output, kept, end, watermark)
    leading, partly = np.ones(len(nth), bool), np.zeros(len(nth), bool)
    if output.window.overlaps:
        leading = np.append(nth[1:] != nth[:-1], True) if len(nth) else leading
        partly = leading & (fate != _FILTERED) & (fate != _fates(output, kept, first_end, watermark))
        whole_rows = (fate != _FILTERED) | leading
        nth, time, arrival, watermark, start, end, fate, leading, partly = (
            each[whole_rows] for each in (nth, time, arrival, watermark, start, end, fate, leading, partly)
        )
    columns = {name: seen.column(name).take(pa.array(nth)) for name in dict.fromkeys(wanted)}
    return Judged(columns, time, arrival, watermark, start, end, fate, leading, partly, nth)


def micros_of(rows: pa.Table, name: str) -> Micros:
    """A column of moments or whole numbers, none of which is null."""
    column = flat(rows.column(name))
    if column.null_count:
        raise Declined(f"rows without {name}")
    return np.asarray(column.cast(pa.int64()))


def _kept(seen: Seen, output: Output) -> Flags:
    """Whether an output's `where` keeps each event."""
    count = seen.events.num_rows
    if output.where is None:
        return np.ones(count, bool)
    try:
        holds = predicate(output.where, seen.types)
    except NeedsSpark:
        raise Declined("a condition that only Spark evaluates") from None
    named = seen.named_in(output.where)
    rows = zip(*named.values(), strict=True) if named else iter([()] * count)
    try:
        return np.array([holds(dict(zip(named, row, strict=True))) is True for row in rows], bool)
    except (KeyError, TypeError, ArithmeticError):
        raise Declined("a condition that only Spark evaluates") from None


def _windows(time: Micros, window: Any) -> tuple[Micros, Micros, Micros, Micros]:
    """For each event and window: which event, where the window starts and ends, where the event's first one ends."""
    each = np.arange(len(time), dtype=np.int64)
    match window:
        case Sliding():
            newest = time - (time - window.offset) % window.every
            oldest = newest - (newest - time + window.size - 1) // window.every * window.every
            count = (newest - oldest) // window.every + 1
            if count.sum() > MOST_ROWS:
                raise Declined(f"more than {MOST_ROWS:,} rows, one for each window of an event")
            nth = np.repeat(each, count)
            into = np.arange(len(nth), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
            start = oldest[nth] + into * window.every
            return nth, start, start + window.size, oldest[nth] + window.size
        case Global():
            end = np.full(len(time), END_OF_TIME, np.int64)
            return each, np.full(len(time), FIRST_MOMENT, np.int64), end, end
        case Tumbling(zone="UTC"):
            start = time - (time - window.offset) % window.size
            return each, start, start + window.size, start + window.size
    return each, *_looked_up(time, window)


def _looked_up(time: Micros, window: FixedWindow) -> tuple[Micros, Micros, Micros]:
    """The windows of calendars and zones, as the model has them."""
    times = np.unique(time)
    starts, ends, nth = [], [], 0
    while nth < len(times):  # windows partition time: all up to the end of one are in it
        found = window.assign_all(int(times[nth]))[0]
        starts.append(found.start)
        ends.append(found.end)
        if len(ends) > _MOST_LOOKED_UP:
            raise Declined(f"more than {_MOST_LOOKED_UP:,} windows of a calendar or a zone")
        nth = int(np.searchsorted(times, found.end))
    start, end = np.array(starts, np.int64), np.array(ends, np.int64)
    place = np.searchsorted(end, time, side="right")
    return start[place], end[place], end[place]


def _fates(output: Output, kept: Flags, end: Micros, watermark: Micros) -> npt.NDArray[np.int8]:
    on_time, late, too_late = (CODES[fate_of(verdict, output.late, output.too_late)] for verdict in Verdict)
    lateness = output.allowed_lateness
    judged = np.where(end > watermark, on_time, np.where(watermark - lateness < end, late, too_late))
    return np.where(kept, judged, _FILTERED).astype(np.int8)
