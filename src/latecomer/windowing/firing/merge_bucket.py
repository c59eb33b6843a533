"""The second job of a batch, for each bucket of keys: `merge_bucket`. For each part of its events: `folding.py`.

    partial states + open states + panes that late events touch → panes, late panes, retracts, open states

It runs in a task. The files that a task writes have names of this attempt; what it returns is small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.array_types import Micros
from latecomer.model.ledger import ASSIGNMENTS, exact_amounts
from latecomer.model.ledger import EVENTS as EVENT_UNIT
from latecomer.model.panes import Accumulation
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.model.windows import FIRST_MOMENT, FixedWindow
from latecomer.spark.base import Shared
from latecomer.store.files import Location, dataset, new_token, read_table
from latecomer.store.layout import TIMESTAMP
from latecomer.store.private_columns import (
    EVENTS,
    NEW_BEHIND,
    NEW_PARTLY,
    late_column,
    measure_column,
    new_column,
)
from latecomer.windowing.aggregates import assignments_column
from latecomer.windowing.buckets import bucket_name, bucket_of, may_hold
from latecomer.windowing.fate_counts import Counts
from latecomer.windowing.firing.clocks import Clocks
from latecomer.windowing.firing.empty import KnownKeys, empty_panes, windows_closed
from latecomer.windowing.firing.folding import (
    MOST_PARTIALS,
    SIDE_OUTPUT,
    FiringPlan,
    OutputResult,
    side_output_rows,
    written,
)
from latecomer.windowing.firing.panes import CLOSING, closing_panes
from latecomer.windowing.firing.session_bucket import Bucket, FoldedSessions, standing_panes
from latecomer.windowing.firing.session_within import lanes_of
from latecomer.windowing.firing.stopping import stopping_in_words
from latecomer.windowing.firing.within_batch import firing_of
from latecomer.windowing.merge import Merger
from latecomer.windowing.private_columns import PaneLane
from latecomer.windowing.session_judge import session_of

ROWS_PER_BUCKET = 200_000
"""How many events, or rows of open states, one task merges: fewer are not worth another task's files."""
LARGEST_BUCKET = 3_000_000
"""With more rows, a task may need more memory than a worker has."""
MOST_BUCKETS = 256


def bucket_count(rows: int, cores: int) -> int:
    """How many buckets there are for so many rows: a power of two, no more than there are cores, unless buckets would
    be too large.

    >>> [bucket_count(rows, 6) for rows in (0, 200_000, 500_000, 10_000_000, 100_000_000)]
    [1, 1, 2, 4, 64]
    """
    count = 1 << (max(min(cores, MOST_BUCKETS, -(-rows // ROWS_PER_BUCKET)), 1).bit_length() - 1)
    while count < MOST_BUCKETS and count * LARGEST_BUCKET < rows:
        count *= 2
    return count


@dataclass(frozen=True)
class PaneFile:
    """A file of panes, and where the first of its windows starts and the last one ends; None where that is unknown."""

    place: Location
    start: int | None
    end: int | None

    def holds_one(self, starts: Micros, before: int = 0) -> bool:
        """Whether one of these ascending moments may be in a window of the file, or so far `before` it."""
        at = 0 if self.start is None else int(np.searchsorted(starts, self.start - before))
        return at < len(starts) and (self.end is None or int(starts[at]) <= self.end)


@dataclass(frozen=True)
class OutputTask:
    """What a bucket needs to know about an output."""

    clocks: Clocks
    states: Sequence[Location] = ()
    published: Sequence[Location] = ()
    """Of sessions: panes that will be taken back."""
    panes: Sequence[PaneFile] = ()
    """The panes that events of the batch may replace."""
    closing: Sequence[Location] | None = None
    """The files of panes that this batch may make final; None where there are no closing panes."""
    known: KnownKeys | None = None
    """The keys that get empty panes. An output that has those has all keys in the first bucket."""
    folders: Mapping[str, Location] = field(default_factory=dict)
    """Where files of each lane go. The side output has none where it is published already; a trial has none at all."""


@dataclass(frozen=True)
class BucketTask:
    """A bucket of keys, and its files by output."""

    nth: int
    of: int
    outputs: Mapping[str, OutputTask]


def merge_bucket(
    plan: Shared[FiringPlan], task: BucketTask, parts: list[dict[str, Any]]
) -> dict[str, OutputResult]:
    """Merge a bucket of keys: the panes and open states of every output."""
    made = {}
    for name, asked in task.outputs.items():
        merger = plan.value.mergers[name]
        folded = [each[name] for each in parts if name in each]
        with stopping_in_words(name, merger.layout):
            logic = _SessionMerging if merger.output.window.merges else _Merging
            made[name] = logic(merger, asked, task, name).made(folded)
    return made


class _Merging:
    """Merges a bucket of an output."""

    def __init__(self, merger: Merger, asked: OutputTask, task: BucketTask, name: str) -> None:
        self.merger, self.asked, self.task, self.name = merger, asked, task, name
        self.firing = firing_of(merger)
        self.of = 1 if merger.output.emit_empty else task.of
        self.files: dict[str, list[Location]] = {}
        self.new: list[pa.Table] = []
        """The panes that were published."""

    def made(self, folded: Sequence[pa.Table]) -> OutputResult:
        """The files of each lane, and what the ledger counts."""
        clocks = self.asked.clocks
        lanes = self.firing.lanes(folded, self.read(self.asked.states), clocks)
        for lane in (PaneLane.OPEN, PaneLane.WAITING):
            self.write(lane, lanes.get(lane))
        fired = lanes.get(PaneLane.FIRED, self.merger.schema.empty_table())
        self.write_panes(PaneLane.FIRED, fired)
        if self.asked.known is not None:
            self._publish_empty(self.asked.known.with_panes(fired), fired)
        if self._takes_back_early:
            new = fired.filter(pc.field("sequence") > 0)
            if new.num_rows:
                self.write_panes(PaneLane.FIRED, self.firing.retracts(fired, self._standing(new)))
        if (late := lanes.get(PaneLane.LATE)) is not None and late.num_rows:
            earlier = pa.concat_tables([self._standing(late), *self.new])
            self.write_panes(PaneLane.LATE, self.firing.late_panes(late, earlier, clocks))
        self.close(None)
        return OutputResult(self.files, counts_of_lanes(lanes, self.merger))

    @property
    def _takes_back_early(self) -> bool:
        output = self.merger.output
        return output.trigger.early is not None and output.accumulation is Accumulation.RETRACTING

    def _publish_empty(self, known: KnownKeys, fired: pa.Table) -> None:
        """Empty panes of known keys, for windows that closed without events of theirs."""
        clocks, window = self.asked.clocks, cast(FixedWindow, self.merger.output.window)
        windows = windows_closed(self.name, window, known, clocks.before, clocks.now)
        at_once = max(MOST_PARTIALS // max(known.table.num_rows, 1), 1)
        for first in range(0, len(windows), at_once):
            some = windows[first : first + at_once]
            self.write_panes(PaneLane.FIRED, empty_panes(self.firing, known.table, some, fired, clocks))

    def close(self, published: pa.Table | None) -> None:
        """The last panes of windows for which nothing more can come, including those that just fired. `published` are
        the panes of sessions that will be taken back."""
        files, clocks = self.asked.closing, self.asked.clocks
        if files is None or clocks.now == BEGIN_OF_TIME:
            return
        closed = pc.field("window_end") <= _moment(clocks.now)
        rows = [each.filter(closed) for each in self.new]
        if (known := self.read(files, closed)) is not None:
            rows.append(known)
        if rows:
            self.write_panes(CLOSING, closing_panes(self.firing, pa.concat_tables(rows), published, clocks))

    def read(self, files: Sequence[Location], where: pc.Expression | None = None) -> pa.Table | None:
        """Stored states or panes of this bucket; None where there are none."""
        tables = []
        for file in files:
            holds, others = may_hold(file.name, self.task.nth, self.of)
            if holds:
                rows = dataset([file], self.merger.schema).to_table(filter=where)
                tables.append(self._ours(rows) if others else rows)
        return pa.concat_tables(tables) if tables else None

    def _ours(self, rows: pa.Table) -> pa.Table:
        codes = bucket_of(rows, self.merger.output.by, self.of)
        return rows.filter(pa.array(codes == self.task.nth))

    def touched(self, moments: Micros, before: int = 0) -> list[Location]:
        """The files of panes for which `holds_one` is true, and which may hold keys of this bucket."""
        return [
            file.place
            for file in self.asked.panes
            if may_hold(file.place.name, self.task.nth, self.of)[0] and file.holds_one(moments, before)
        ]

    def _standing(self, wanted: pa.Table) -> pa.Table:
        """The panes of earlier batches whose windows start when one of the wanted windows does."""
        starts = pc.unique(wanted.column("window_start")).cast(TIMESTAMP)
        places = self.touched(np.sort(np.asarray(starts.cast(pa.int64()))))
        if not places:
            return self.merger.schema.empty_table()
        return dataset(places, self.merger.schema).to_table(filter=pc.field("window_start").isin(starts))

    def write_panes(self, lane: str, panes: pa.Table) -> None:
        """Write panes, unless there are none."""
        self.write(lane, panes)
        self.new.append(panes)

    def write(self, lane: str, rows: pa.Table | None) -> None:
        """Write rows of a lane, unless there are none."""
        if rows is not None and rows.num_rows:
            files, folders = self.files.setdefault(lane, []), self.asked.folders
            if folders:  # a trial has none; where a batch lacks one, its rows would be lost
                name = bucket_name(self.task.nth, self.of, new_token())
                files.append(written(rows, folders[lane] / name))


class _SessionMerging(_Merging):
    """The same for sessions."""

    def made(self, folded: Sequence[list[FoldedSessions]]) -> OutputResult:
        merger, asked = self.merger, self.asked
        every = [each for part in folded for each in part]
        bucket = Bucket(every, self.read(asked.states), self.read(asked.published))
        bucket = replace(bucket, closed=self._closed(bucket))
        judged = bucket.judged([(0, merger.output)])
        lanes = lanes_of(bucket, judged, asked.clocks, merger)
        for lane, rows in lanes.items():
            if lane == PaneLane.FIRED:
                self.write_panes(lane, rows)
            elif lane != PaneLane.REST:
                self.write(lane, rows)
        self.close(lanes.get(PaneLane.TO_RETRACT))
        unpublished = SIDE_OUTPUT in asked.folders
        if unpublished and bucket.suspects is not None and judged is not None:
            self.write(SIDE_OUTPUT, side_output_rows(bucket.suspects.rows(), judged, merger.layout))
        return OutputResult(self.files, counts_of_lanes(lanes, merger))

    def _closed(self, bucket: Bucket) -> pa.Table | None:
        """The panes that stand for closed sessions which a suspect may touch, by file and by key."""
        suspects, gap = bucket.suspects, session_of(self.merger.output).gap
        if suspects is None or not (places := self.touched(np.unique(suspects.time), gap)):
            return None
        low, high = int(suspects.time.min()), int(suspects.time.max()) + gap
        wanted = (pc.field("window_end") >= _moment(low)) & (pc.field("window_start") <= _moment(high))
        for key in self.merger.output.by:
            values = pc.unique(suspects.columns[key])
            if not pa.types.is_floating(values.type):  # equal floats may have different bits
                wanted &= pc.field(key).isin(values)
        panes = dataset(places, self.merger.schema).to_table(filter=wanted)
        return standing_panes(panes, bucket, self.merger)


# What the ledger counts


_NOTED = {"late_at_source": NEW_BEHIND, "partly_late": NEW_PARTLY}


@exact_amounts()
def counts_of_lanes(lanes: Mapping[str, pa.Table], merger: Merger) -> Counts:
    """What a batch's events added to each fate."""
    if merger.output.window.merges:
        return _counts_of_sessions(lanes, merger)
    units = {EVENT_UNIT: new_column(EVENTS), ASSIGNMENTS: assignments_column(merger.layout)}
    units |= {measure: new_column(measure_column(measure)) for measure in merger.measures}
    noted = {name: column for name, column in _NOTED.items() if column in merger.new_columns}
    fates: dict[str, dict[Fate, Decimal]] = {unit: {} for unit in units}
    notes = dict.fromkeys(noted, 0)
    for lane, table in lanes.items():
        for name, column in noted.items():
            notes[name] += int(_sum(table.column(column)))
        for fate, rows in _by_fate(lane, table):
            for unit, column in units.items():
                _add(fates[unit], fate, _amount(rows, column, merger))
    return Counts(fates, **notes)


def _counts_of_sessions(lanes: Mapping[str, pa.Table], merger: Merger) -> Counts:
    """A session holds on-time and late events together, and counts them separately."""
    sums = {EVENT_UNIT: EVENTS, **{name: measure_column(name) for name in merger.measures}}
    fates: dict[str, dict[Fate, Decimal]] = {unit: {} for unit in sums}
    behind = 0
    for lane, table in lanes.items():
        if lane == PaneLane.TO_RETRACT:
            continue
        behind += int(_sum(table.column(NEW_BEHIND)))
        for fate, rows in _rest(table) if lane == PaneLane.REST else [(Fate.ON_TIME, table)]:
            for unit, column in sums.items():
                came_late = _amount(rows, late_column(column), merger)
                _add(fates[unit], fate, _amount(rows, new_column(column), merger) - came_late)
                if lane != PaneLane.REST:
                    _add(fates[unit], Fate.LATE_ACCEPTED, came_late)
    return Counts({**fates, ASSIGNMENTS: fates[EVENT_UNIT]}, late_at_source=behind)


def _add(amounts: dict[Fate, Decimal], fate: Fate, amount: Decimal) -> None:
    amounts[fate] = amounts.get(fate, Decimal(0)) + amount


def _amount(rows: pa.Table, column: str, merger: Merger) -> Decimal:
    return sum((_sum(rows.column(each)) for each in merger.exact_columns(column)), Decimal(0))


def _by_fate(lane: str, table: pa.Table) -> list[tuple[Fate, pa.Table]]:
    if lane in (PaneLane.OPEN, PaneLane.FIRED):
        return [(Fate.ON_TIME, table)]
    if lane in (PaneLane.LATE, PaneLane.WAITING):
        return [(Fate.LATE_ACCEPTED, table)]
    return _rest(table)


def _rest(table: pa.Table) -> list[tuple[Fate, pa.Table]]:
    fates = pc.unique(table.column("timing")).to_pylist()
    return [(Fate(fate), table.filter(pc.equal(table.column("timing"), fate))) for fate in fates]


def _sum(column: pa.ChunkedArray) -> Decimal:
    exact = column.cast(pa.decimal128(38, 0)) if pa.types.is_integer(column.type) else column
    total = pc.sum(exact).as_py()
    return Decimal(0) if total is None else Decimal(total)


# Beside a batch


def merge_files(files: Sequence[Location]) -> Location:
    """One file with the rows of several, beside the last of them."""
    return written(
        pa.concat_tables(map(read_table, files)), files[-1].with_name(f"folded-{new_token()}.parquet")
    )


def _moment(micros: int) -> pa.Scalar:
    return pa.scalar(min(max(micros, FIRST_MOMENT), END_OF_TIME), pa.int64()).cast(TIMESTAMP)
