"""Judging without Spark: what `judge.py` and `assign.py` say in SQL, with Arrow and numpy, for the common case
(ADR 0056). Whatever is not here is `Declined`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from latecomer.config.models import Output
from latecomer.fast import MOST_ROWS, Declined, flat
from latecomer.model.simple_predicates import NeedsSpark, predicate
from latecomer.model.verdicts import END_OF_TIME, Fate, Verdict, fate_of
from latecomer.model.windows import FIRST_MOMENT, FixedWindow, Global, Sliding, Tumbling
from latecomer.store.layout import EventLayout
from latecomer.windowing.derived_in_process import Seen, as_seen
from latecomer.windowing.judge import CODES

Micros: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]

_MOST_LOOKED_UP = 20_000
"""So many different times are looked up one by one in windows that follow a calendar."""
_FILTERED = CODES[Fate.FILTERED]


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


def judged(
    events: pa.Table, layout: EventLayout, output: Output, ticks: Mapping[int, int], wanted: Iterable[str]
) -> Judged:
    """The events of a batch, judged by the watermark of each tick. `wanted` are the columns that are needed."""
    if events.num_rows > MOST_ROWS:
        raise Declined(f"more than {MOST_ROWS:,} rows")
    seen = as_seen(events, layout, output)
    time, arrival, tick = (_micros(events, name) for name in ("event_time", "arrival_time", "tick"))
    watermark = _of_ticks(tick, ticks)
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


def _micros(events: pa.Table, name: str) -> Micros:
    column = flat(events.column(name))
    if column.null_count:
        raise Declined(f"events without {name}")
    return np.asarray(column.cast(pa.int64()))


def _of_ticks(tick: Micros, ticks: Mapping[int, int]) -> Micros:
    """The watermark of each tick: the join with the timeline."""
    known = np.array(sorted(ticks), np.int64)
    marks = np.array([ticks[each] for each in sorted(ticks)], np.int64)
    place = np.searchsorted(known, tick)
    if len(tick) and (not len(known) or np.any(known[np.minimum(place, len(known) - 1)] != tick)):
        raise Declined("an event of a tick that is not on the timeline")
    return marks[place] if len(tick) else tick


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
    times, inverse = np.unique(time, return_inverse=True)
    if len(times) > _MOST_LOOKED_UP:
        raise Declined(f"more than {_MOST_LOOKED_UP:,} different times in windows of a calendar or a zone")
    found = [window.assign_all(int(moment)) for moment in times]
    start = np.array([each[0].start for each in found], np.int64)[inverse]
    end = np.array([each[0].end for each in found], np.int64)[inverse]
    return start, end, end


def _fates(output: Output, kept: Flags, end: Micros, watermark: Micros) -> npt.NDArray[np.int8]:
    on_time, late, too_late = (CODES[fate_of(verdict, output.late, output.too_late)] for verdict in Verdict)
    lateness = output.allowed_lateness
    judged = np.where(end > watermark, on_time, np.where(watermark - lateness < end, late, too_late))
    return np.where(kept, judged, _FILTERED).astype(np.int8)
