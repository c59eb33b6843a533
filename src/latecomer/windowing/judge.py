"""Events ⋈ timeline → windows, the watermark at arrival, fate: pure functions on Arrow tables and numpy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa

from latecomer.config.outputs import Output
from latecomer.log.timeline.watermarks import JudgingWatermarks, micros_of
from latecomer.model.array_types import FateCodes, Flags, Integers, Micros
from latecomer.model.verdicts import Fate, Verdict, fate_of
from latecomer.model.windows import Session, Windows
from latecomer.store.layout import EventLayout
from latecomer.store.private_columns import when_column
from latecomer.windowing.fate_counts import CODES
from latecomer.windowing.visible_events import as_seen, entering, holds

MOST_WINDOWS = 1_000_000
"""The most rows that are made from events at once: one for each window of an event."""
_FILTERED, _FAILED = CODES[Fate.FILTERED], CODES[Fate.FAILED]


@dataclass(frozen=True)
class JudgedEvents:
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
    fate: FateCodes
    leading: Flags
    partly: Flags
    nth: Integers
    """Which event of the table each row is."""

    def __len__(self) -> int:
        return len(self.time)

    def only(self, rows: Flags) -> JudgedEvents:
        """Some of the rows."""
        columns = {name: column.filter(pa.array(rows)) for name, column in self.columns.items()}
        rest = (getattr(self, each.name)[rows] for each in fields(self)[1:])
        return JudgedEvents(columns, *rest)


def judged(
    events: pa.Table, layout: EventLayout, output: Output, timeline: JudgingWatermarks, wanted: Iterable[str]
) -> JudgedEvents:
    """Events, judged by the watermark of each tick, with the `wanted` columns.

    There is one row for each window of an event. An event that is filtered or fails has one row in all.
    """
    window = output.window
    assert not isinstance(window, Session), "sessions are judged with the sessions they touch"  # noqa: S101
    seen = as_seen(events, layout, output)
    time, arrival = (micros_of(events, name) for name in ("event_time", "arrival_time"))
    watermark, found = timeline.over(events), entering(seen, output)
    enters, failed = found.enters, found.failed
    nth, start, end, first_end = window.assign_many(time)
    if window.overlaps:
        # The event itself is counted in its window that ends last.
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
    return JudgedEvents(columns, time, arrival, clock, watermark, start, end, fate, leading, partly, nth)


def in_parts(events: pa.Table, window: Windows) -> Iterator[pa.Table]:
    """Events in parts that are small enough: each makes at most MOST_WINDOWS rows."""
    most = max(MOST_WINDOWS // window.most_each, 1)
    if events.num_rows <= most:
        yield events
        return
    for start in range(0, events.num_rows, most):
        yield events.slice(start, most)


def fates(output: Output, enters: Flags, end: Micros, watermark: Micros) -> FateCodes:
    """The fates of events in windows with these ends, as CODES. Where `enters` is false, an event is filtered."""
    on_time, late, too_late = (CODES[fate_of(verdict, output.late, output.too_late)] for verdict in Verdict)
    lateness = output.allowed_lateness
    found = np.where(end > watermark, on_time, np.where(watermark - lateness < end, late, too_late))
    return np.where(enters, found, _FILTERED).astype(np.int8)
