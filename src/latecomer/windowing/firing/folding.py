"""Events of the log → partial states by window, key and fate, side output, dead letters.

`fold_split` reads one part of the log in a task, for all outputs at once. `merge_bucket.py` merges the
results of several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from latecomer.config.outputs import Output
from latecomer.log.logged_events import Logged, LogSplit
from latecomer.log.timeline.watermarks import JudgingWatermarks, Watermarks
from latecomer.model.arrays import flat
from latecomer.model.verdicts import Fate, OnError, Verdict
from latecomer.spark.base import Parted, Shared
from latecomer.store.files import Location, new_token, sync, write_table
from latecomer.store.layout import EventLayout, PaneLayout
from latecomer.windowing.buckets import bucket_of
from latecomer.windowing.fate_counts import CODES, Counts
from latecomer.windowing.firing.session_bucket import FoldedSessions, fold_events, in_order_of_arrival
from latecomer.windowing.firing.stopping import stopping_in_words
from latecomer.windowing.firing.within_batch import folded
from latecomer.windowing.judge import JudgedEvents, in_parts, judged
from latecomer.windowing.merge import Merger
from latecomer.windowing.private_columns import KEY
from latecomer.windowing.session_judge import ORDER, SessionArrivals, arrivals_of
from latecomer.windowing.visible_events import can_fail, event_tables, failed_letters, stored_columns

SIDE_OUTPUT, FAILED = "side_output", "failed"
"""Two more lanes: events that came too late for their windows, and those that the output cannot compute."""
MOST_PARTIALS = 1_000_000
"""If more rows of partial states are held, they are merged."""


@dataclass(frozen=True)
class FiringPlan:
    """What tasks know about the outputs: the same for every batch."""

    layout: EventLayout
    outputs: Mapping[str, Output]
    measures: Mapping[str, str]

    @cached_property
    def mergers(self) -> dict[str, Merger]:
        """By the name of the output."""
        return {
            name: Merger(PaneLayout(output, self.layout), self.measures)
            for name, output in self.outputs.items()
        }


@dataclass(frozen=True)
class FoldTask:
    """Some events, and the timeline that judges them."""

    splits: Sequence[LogSplit]
    timeline: Watermarks
    buckets: Mapping[str, int]
    """Output → how many buckets its keys are divided into."""
    folders: Mapping[str, Mapping[str, Location]]
    """Output → the folders of its side output and dead letters, unless those are published already."""
    behind: int | None
    """The highest watermark that an event of the batch met; None where none of them came behind it."""


@dataclass(frozen=True)
class OutputResult:
    """What a task has made for an output: its files by lane, and what the ledger counts."""

    files: Mapping[str, Sequence[Location]]
    counts: Counts = field(default_factory=Counts)


# In a task


def fold_split(plan: Shared[FiringPlan], task: FoldTask) -> Parted[dict[str, OutputResult]]:
    """Judge some events for all outputs, and fold them: what is set aside is written, the rest goes to the buckets.
    Gives the files of each output and lane."""
    folds: dict[str, _Folding | _SessionFolding] = {}
    for name in task.buckets:
        merger = plan.value.mergers[name]
        folds[name] = (_SessionFolding if merger.output.window.merges else _Folding)(name, merger, task)
    columns = list(dict.fromkeys(column for each in folds.values() for column in event_columns(each.merger)))
    outputs = [each.merger.output for each in folds.values()]
    for events in event_tables(Logged(task.splits), columns, outputs, plan.value.layout):
        if events.num_rows:
            for each in folds.values():
                with stopping_in_words(each.name, each.merger.layout):
                    each.take(events)
    parts: dict[int, dict[str, Any]] = {}
    for name, each in folds.items():
        with stopping_in_words(each.name, each.merger.layout):
            for nth, part in each.by_bucket():
                parts.setdefault(nth, {})[name] = part
    return Parted({name: OutputResult(each.files) for name, each in folds.items()}, parts)


def event_columns(merger: Merger) -> list[str]:
    """The columns of the log that folding needs: all of them where events may go to the side output, or fail."""
    output, log = merger.output, merger.layout.events
    fails = output.on_error is OnError.DEAD_LETTER and can_fail(output, log.types)
    if output.sets_aside or fails:
        return list(log.schema.names)
    return [*stored_columns(log, [output], merger.columns), *(ORDER.values() if output.window.merges else ())]


class _Folding:
    """Folds the events of a task for an output."""

    def __init__(self, name: str, merger: Merger, task: FoldTask) -> None:
        self.name, self.merger, self.task = name, merger, task
        self.files: dict[str, list[Location]] = {}
        self._partials: list[pa.Table] = []

    def take(self, events: pa.Table) -> None:
        for part in fold(events, self.merger, self.task.timeline):
            self._partials.append(part.states)
            self.write(SIDE_OUTPUT, part.late)
            self.write(FAILED, part.failed)
        if sum(rows.num_rows for rows in self._partials) > MOST_PARTIALS:
            self._partials = [self._merged()]

    def write(self, lane: str, rows: pa.Table | None) -> None:
        """Write rows that entered no window, unless there are none, or they are published already."""
        folder = self.task.folders[self.name].get(lane)
        if rows is not None and rows.num_rows and folder is not None:
            file = folder / f"part-{new_token()}.parquet"
            self.files.setdefault(lane, []).append(written(rows, file))

    def _merged(self) -> pa.Table:
        if self.merger.output.fires_within:
            return pa.concat_tables(self._partials)
        return self.merger.merge([self.merger.as_inputs(rows) for rows in self._partials])

    def by_bucket(self) -> Iterator[tuple[int, Any]]:
        """The partial states of each bucket."""
        if self._partials:
            whole = self._merged() if len(self._partials) > 1 else self._partials[0]
            yield from _divided(whole, self.merger.output.by, self.task.buckets[self.name]).items()


class _SessionFolding(_Folding):
    """The same for sessions: which events are late is known only when all events of a key are together."""

    def __init__(self, name: str, merger: Merger, task: FoldTask) -> None:
        super().__init__(name, merger, task)
        self._folded: list[FoldedSessions] = []

    def take(self, events: pa.Table) -> None:
        merger, output, behind = self.merger, self.merger.output, self.task.behind
        arrivals = arrivals_of(
            events, merger.layout.events, [(0, output)], self.task.timeline, _wanted(merger)
        )
        if arrivals.failed.any():
            some = events.filter(pa.array(arrivals.failed))
            self.write(FAILED, failed_letters(some, merger.layout.events, output))
        self._folded.append(fold_events(arrivals, merger, behind, in_order_of_arrival(output, behind)))

    def by_bucket(self) -> Iterator[tuple[int, Any]]:
        by, count = self.merger.output.by, self.task.buckets[self.name]
        names = [KEY + key for key in by]
        parts: dict[int, list[FoldedSessions]] = {}
        for each in self._folded:
            partials, witnesses = (_divided(rows, names, count) for rows in (each.partials, each.witnesses))
            suspects = _suspects(each.suspects, by, count)
            for nth in {*partials, *witnesses, *suspects}:
                found = FoldedSessions(partials.get(nth), suspects.get(nth), witnesses.get(nth))
                parts.setdefault(nth, []).append(found)
        yield from parts.items()


def _divided(rows: pa.Table | None, keys: Sequence[str], count: int) -> dict[int, pa.Table]:
    """Rows by the bucket of their key."""
    if rows is None or count == 1:
        return {} if rows is None else {0: rows}
    codes = bucket_of(rows, keys, count)
    return {nth: rows.filter(pa.array(codes == nth)) for nth in np.unique(codes).tolist()}


def _suspects(suspects: SessionArrivals | None, by: Sequence[str], count: int) -> dict[int, SessionArrivals]:
    if suspects is None or count == 1 or not by:
        return {} if suspects is None else {0: suspects}
    codes = bucket_of(pa.table({key: suspects.columns[key] for key in by}), by, count)
    return {nth: suspects.only(codes == nth).apart() for nth in np.unique(codes).tolist()}


def written(rows: pa.Table, file: Location) -> Location:
    """A file with these rows, on the disk."""
    write_table(rows, file)
    sync(file)
    return file


# Pure functions of tables


@dataclass(frozen=True)
class FoldedEvents:
    """The results of some events for an output."""

    states: pa.Table
    """One row per window, key and fate, merged; each fate that enters no window has one row."""
    late: pa.Table
    """The side output."""
    failed: pa.Table | None = None
    """The events that the output cannot compute, as its dead letters."""


def fold(events: pa.Table, merger: Merger, timeline: JudgingWatermarks) -> Iterator[FoldedEvents]:
    """Judge some events of the log, and fold them: a part at a time where windows overlap so much that there would be
    too many rows."""
    output, log = merger.output, merger.layout.events
    for few in in_parts(events, output.window):
        found = judged(few, log, output, timeline, _wanted(merger))
        failed = found.nth[found.fate == CODES[Fate.FAILED]]
        letters = failed_letters(few.take(pa.array(failed)), log, output) if len(failed) else None
        states = (
            folded(few, found, merger) if output.fires_within else merger.merge([merger.of_events(found)])
        )
        yield FoldedEvents(states, side_output_rows(few, found, merger.layout), letters)


def _wanted(merger: Merger) -> list[str]:
    """The columns of events that are merged, or go to the side output."""
    return list(dict.fromkeys([*merger.columns, *merger.output.columns_in_numbers]))


def side_output_rows(events: pa.Table, found: JudgedEvents, layout: PaneLayout) -> pa.Table:
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
