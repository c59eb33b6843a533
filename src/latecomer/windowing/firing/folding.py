"""Events of the log → partial states by window, key and fate, side output, dead letters: a pure function of tables.

It works on one part of the log. `merging.py` merges the results of several parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from latecomer.log.timeline.watermarks import JudgingWatermarks
from latecomer.model.arrays import flat
from latecomer.model.verdicts import Fate, OnError, Verdict
from latecomer.store.layout import PaneLayout
from latecomer.windowing.failing import can_fail, failed_letters
from latecomer.windowing.fates import CODES
from latecomer.windowing.firing.within import folded
from latecomer.windowing.judge import Judged, in_parts, judged
from latecomer.windowing.merge import Merger
from latecomer.windowing.seen import stored_columns


@dataclass(frozen=True)
class Folded:
    """The results of some events for an output."""

    states: pa.Table
    """One row per window, key and fate, merged; each fate that enters no window has one row."""
    late: pa.Table
    """The side output."""
    failed: pa.Table | None = None
    """The events that the output cannot compute, as its dead letters."""


def event_columns(layout: PaneLayout, merger: Merger) -> list[str]:
    """The columns of the log that folding needs: all of them where events may go to the side output, or fail."""
    output, log = layout.output, layout.events
    fails = output.on_error is OnError.DEAD_LETTER and can_fail(output, log.types)
    if output.sets_aside or fails:
        return list(log.schema.names)
    return stored_columns(log, [output], merger.columns)


def fold(
    events: pa.Table, layout: PaneLayout, timeline: JudgingWatermarks, merger: Merger
) -> Iterator[Folded]:
    """Judge some events of the log, and fold them: a part at a time where windows overlap so much that there would be
    too many rows."""
    output, log = layout.output, layout.events
    wanted = list(dict.fromkeys([*merger.columns, *output.columns_in_numbers]))
    for few in in_parts(events, output.window):
        found = judged(few, log, output, timeline, wanted)
        failed = found.nth[found.fate == CODES[Fate.FAILED]]
        letters = failed_letters(few.take(pa.array(failed)), log, output) if len(failed) else None
        states = (
            folded(few, found, merger) if output.fires_within else merger.merge([merger.of_events(found)])
        )
        yield Folded(states, set_aside(few, found, layout), letters)


def set_aside(events: pa.Table, found: Judged, layout: PaneLayout) -> pa.Table:
    """The events with the fate side output, as logged, each with the window that it missed and the watermark that it
    met."""
    output, log = layout.output, layout.events
    aside = found.fate == CODES[Fate.SIDE_OUTPUT]
    if not aside.any():
        return layout.late_schema.empty_table()
    rows = events.take(pa.array(found.nth[aside]))
    end, mark = found.end[aside], found.watermark[aside]
    late = mark - output.allowed_lateness < end
    missed = {
        "window_start": pa.array(found.start[aside]),
        "window_end": pa.array(end),
        "watermark": pa.array(mark),
        "verdict": pa.array(np.where(late, Verdict.LATE.value, Verdict.TOO_LATE.value).astype(object)),
    }
    kept = {name: flat(rows.column(stored)) for stored, name in log.late_names.items()}
    derived = {
        layout.late_columns[name]: found.columns[name].filter(pa.array(aside))
        for name in output.columns_in_numbers
    }
    columns = {**missed, **kept, **derived}
    made = {field.name: columns[field.name].cast(field.type) for field in layout.late_schema}
    return pa.table(made, schema=layout.late_schema)
