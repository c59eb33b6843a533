"""The second job of a batch, for all outputs at once, on the driver: what it needs of each output, and its tasks.

    files of the log → `folding.py`, for each split → `merge_bucket.py`, for each bucket of keys → files of each lane

`output.py` makes these files visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.log.timeline.keeper import Section
from latecomer.model.triggers import Count, Every, per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FixedWindow, Session
from latecomer.spark.base import Buckets, InProcess, JobResults, Runner, Shared
from latecomer.store.delta.data_files import DataFile, batch_of, kind_of
from latecomer.store.delta.table import Table
from latecomer.store.files import Location, dataset
from latecomer.store.private_columns import SINCE
from latecomer.store.store import Store
from latecomer.windowing.firing.clocks import Clocks, by_arrival, interval_passed, settled_by
from latecomer.windowing.firing.empty import KnownKeys, windows_closed
from latecomer.windowing.firing.folding import FAILED, SIDE_OUTPUT, FiringPlan, FoldTask, fold_split
from latecomer.windowing.firing.merge_bucket import (
    ROWS_PER_BUCKET,
    BucketTask,
    OutputTask,
    PaneFile,
    bucket_count,
    merge_bucket,
)
from latecomer.windowing.firing.output import PANES, FiringBatch, OutputLogic, Prepared, is_crowd
from latecomer.windowing.firing.panes import CLOSING
from latecomer.windowing.private_columns import PaneLane
from latecomer.windowing.spark_columns import computed

MOST_MERGED = 250_000
"""A file with so many open states is not small: merging it again and again would take memory, and save no file."""


class FiringJob:
    """Computes what a batch publishes, in files that no reader sees yet."""

    def __init__(self, runner: Runner, store: Store) -> None:
        self.runner, self.store = runner, store
        self._plans: dict[tuple[str, ...], tuple[list[OutputLogic], Shared[FiringPlan]]] = {}
        self._silent: set[Location] = set()
        """Files of open states whose windows have all ended without anything to publish, as a trial has found."""

    @contextmanager
    def derived(self, batch: FiringBatch, outputs: Sequence[OutputLogic]) -> Iterator[FiringBatch]:
        """The batch with the columns that only Spark computes for these outputs."""
        if batch.events is None:
            yield batch
            return
        wanted, store = [logic.output for logic in outputs], self.store
        with computed(batch.events, wanted, store.layout, self.runner, store.root) as logged:
            yield replace(batch, events=logged)

    def run(self, batch: FiringBatch, outputs: Sequence[OutputLogic]) -> list[Prepared]:
        """What each output will publish."""
        needs = [OutputNeeds(logic, batch) for logic in outputs]
        if not any(each.task for each in needs):
            return [Prepared() for _ in outputs]
        done = self._done(self.runner, f"batch {batch.number} · windows", self._plan(outputs), batch, needs)
        made = [*done.tasks, *done.buckets]
        return [
            Prepared.joined(batch, each.states, [part[each.name] for part in made if each.name in part])
            if each.task
            else Prepared()
            for each in needs
        ]

    def would_publish(self, batch: FiringBatch, outputs: Sequence[OutputLogic]) -> bool:
        """Whether a batch without data would publish anything. Where files' statistics leave that open, the batch is
        tried, without folders to write to: if there are few rows, in this process."""
        needs = [OutputNeeds(logic, batch, trial=True) for logic in outputs]
        if any(each.surely_publishes() for each in needs):
            return True
        some = [each for each in needs if each.may_publish(self._silent)]
        if not some:
            return False
        rows = sum(file.rows for each in some for file in (*each.states, *each.closing))
        runner = InProcess(self.runner.spark) if rows <= ROWS_PER_BUCKET else self.runner
        done = self._done(runner, "silence · triggers", self._plan(outputs), batch, some)
        publishes = any(
            lane in made.files for part in done.buckets for made in part.values() for lane in PANES
        )
        self._silent = set() if publishes else {file for each in some for file in each.ended}
        return publishes

    def _done(
        self,
        runner: Runner,
        what: str,
        plan: Shared[FiringPlan],
        batch: FiringBatch,
        needs: Sequence[OutputNeeds],
    ) -> JobResults:
        """The results of the tasks that fold the batch's events, and of those that merge a bucket of keys."""
        tasks = {each.name: each.task for each in needs if each.task}
        some = [each for each in needs if each.name in tasks]
        rows = sum(file.rows for each in some for file in each.states)
        rows += 0 if batch.events is None else batch.events.rows
        # An output that publishes empty panes has all keys in the first bucket.
        spread = {each.name: tasks[each.name] for each in some if not each.output.emit_empty}
        keyed = any(each.output.by for each in some if each.name in spread)
        count = bucket_count(rows, runner.cores) if keyed else 1
        buckets = [BucketTask(nth, count, spread if nth else tasks) for nth in range(count)]
        folds = _folds(batch, some, count)
        return runner.run(
            what, partial(fold_split, plan), folds, Buckets(partial(merge_bucket, plan), buckets)
        )

    def _plan(self, outputs: Sequence[OutputLogic]) -> Shared[FiringPlan]:
        """What tasks need to know about the outputs: the same for every batch until an output changes."""
        logics, names = list(outputs), tuple(logic.name for logic in outputs)
        if names not in self._plans or self._plans[names][0] != logics:
            each = {logic.name: logic.output.without_sinks() for logic in logics}
            plan = FiringPlan(self.store.layout.portable, each, self.store.measures())
            self._plans[names] = logics, Shared(plan)
        return self._plans[names][1]


def _folds(batch: FiringBatch, needs: Sequence[OutputNeeds], count: int) -> list[FoldTask]:
    """A task for each split of the batch's events; `count` is how many buckets there are."""
    if batch.events is None:
        return []
    buckets = {each.name: 1 if each.output.emit_empty else count for each in needs}
    folders = {each.name: each.folders_aside() for each in needs}
    behind = batch.section.fires_at if batch.behind else None
    return [
        FoldTask([split], batch.section.watermarks, buckets, folders, behind)
        for split in batch.events.splits
        if split.files
    ]


@dataclass(frozen=True)
class OutputNeeds:
    """What a batch needs of an output: the files that its tasks read, and the folders that they write to."""

    logic: OutputLogic
    batch: FiringBatch
    trial: bool = False
    """Nothing is written: there are no folders."""

    @property
    def name(self) -> str:
        return self.logic.name

    @property
    def output(self) -> Output:
        return self.logic.output

    @cached_property
    def states(self) -> list[DataFile]:
        """The open states that a pane may need; all of them if an early trigger is due. Small files of other states are
        merged once there are many. Of sessions, all that have something left to publish."""
        known, fires_at, early = self.logic.states, self.batch.section.fires_at, self.output.trigger.early
        if self.batch.history:
            return []
        if self.output.window.merges:
            partials, number = self.logic.tables.partials, self.batch.number
            # If it holds the batch, that was interrupted after its last commit.
            return partials.files_before(number) if partials.holds(number) else list(known)
        if early is not None and (not by_arrival(early) or self.batch.section.passed(early.every)):
            return list(known)
        needed = [file for file in known if file.window_ends[0] <= fires_at]
        small = [
            file
            for file in known
            if file.window_ends[0] > fires_at and file.rows < MOST_MERGED and not kind_of(file)
        ]
        return [*needed, *small] if is_crowd(small) else needed

    @cached_property
    def task(self) -> OutputTask | None:
        """What a bucket needs to know; None if there is nothing to do."""
        if self.batch.events is None and not self.states and self.known is None and not self.closing:
            return None
        panes, partials = self.logic.tables.panes, self.logic.tables.partials
        to_retract = [file for file in self.states if kind_of(file) == PaneLane.TO_RETRACT]
        return OutputTask(
            Clocks.of(self.batch.number, self.batch.section, self.output),
            [partials.location(file) for file in self.states if kind_of(file) != PaneLane.TO_RETRACT],
            [partials.location(file) for file in to_retract],
            [PaneFile(panes.location(file), *file.windows) for file in self._replaceable()],
            [panes.location(file) for file in self.closing] if self.logic.closes else None,
            self.known,
            {} if self.trial else self._folders(),
        )

    def _folders(self) -> dict[str, Location]:
        panes, partials, number = self.logic.tables.panes, self.logic.tables.partials, self.batch.number
        states = (PaneLane.WAITING, PaneLane.TO_RETRACT)
        return {
            PaneLane.FIRED: panes.new_folder(number),
            **{lane: panes.new_folder(number, lane) for lane in (PaneLane.LATE, CLOSING)},
            PaneLane.OPEN: partials.new_folder(number),
            **{lane: partials.new_folder(number, lane) for lane in states},
            **self.folders_aside(),
        }

    def folders_aside(self) -> dict[str, Location]:
        """Where the side output and the dead letters of the output go, unless they are published already."""
        number = self.batch.number
        tables = {SIDE_OUTPUT: self.logic.tables.late, FAILED: self.logic.tables.dead_letters}
        return {lane: table.new_folder(number) for lane, table in tables.items() if not table.holds(number)}

    @property
    def _earlier(self) -> list[DataFile]:
        """Recent panes, without those that an interrupted attempt at this batch published."""
        return [file for file in self.logic.recent_panes if batch_of(file) < self.batch.number]

    def _replaceable(self) -> list[DataFile]:
        """The panes of windows that the batch may publish again. Of sessions, those of closed ones that an event may
        touch: only an event behind the watermark does."""
        batch, window = self.batch, self.output.window
        spans: list[tuple[int | None, int | None]]
        if isinstance(window, Session):
            spans = (
                [(batch.earliest, batch.latest + window.gap)] if batch.behind and not batch.history else []
            )
        else:
            spans = [file.windows for file in self.states]
            spans += [] if batch.events is None else [(batch.earliest, batch.latest)]
        low = min((BEGIN_OF_TIME if start is None else start for start, _ in spans), default=END_OF_TIME)
        high = max((END_OF_TIME if end is None else end for _, end in spans), default=BEGIN_OF_TIME)
        return [
            file
            for file in (self._earlier if spans else ())
            for start, end in [file.windows]
            if (end is None or end >= low) and (start is None or start <= high)
        ]

    @cached_property
    def closing(self) -> list[DataFile]:
        """The files of panes that may hold a window which this batch makes final: nothing more can come for it."""
        if not self.logic.closes:
            return []
        since = self.batch.section.watermark_before - self.output.settles_after
        until = settled_by(self.output, self.batch.section.fires_at)
        return [
            file
            for file in self._earlier
            for first, last in [file.window_ends]
            if first <= until and last > since
        ]

    @property
    def known(self) -> KnownKeys | None:
        """The keys that get empty panes; None if there can be no such panes."""
        section = self.batch.section
        return None if section.watermark_before == section.fires_at else self.logic.known_keys

    # Without data

    def may_publish(self, silent: Set[Location]) -> bool:
        """Whether a batch without data may publish anything, as far as the statistics of files tell. `silent` files
        have nothing to publish."""
        section, partials = self.batch.section, self.logic.tables.partials
        return bool(self.closing) or any(
            may_fire(self.output, partials, file, section)
            for file in self.logic.states
            if partials.location(file) not in silent
        )

    @property
    def ended(self) -> Iterator[Location]:
        """The files of open states whose windows have all ended; nothing waits in them for a later pane."""
        partials, fires_at = self.logic.tables.partials, self.batch.section.fires_at
        for file in self.logic.states:
            if kind_of(file) != PaneLane.WAITING and file.window_ends[1] <= fires_at:
                yield partials.location(file)

    def surely_publishes(self) -> bool:
        """Whether an open window reaches its end, and does not close without a pane; or a window gets empty panes."""
        aside, window, known = (PaneLane.WAITING, PaneLane.TO_RETRACT), self.output.window, self.known
        before, now = self.batch.section.watermark_before, self.batch.section.fires_at
        if known is not None and isinstance(window, FixedWindow):
            filled = bool(windows_closed(self.name, window, known, before, now))
        else:
            filled = False
        return filled or (
            not self.output.closes_silently
            and any(file.window_ends[0] <= now and kind_of(file) not in aside for file in self.logic.states)
        )


def may_fire(output: Output, partials: Table, file: DataFile, section: Section) -> bool:
    """Whether windows in a file of open states may fire without a new event: they end, or a trigger goes by a clock."""
    early, late, kind = output.trigger.early, output.trigger.late, kind_of(file)
    if any(per_firing(rule) and not isinstance(rule, Every | Count) for rule in (early, late)):
        return True
    if kind == PaneLane.WAITING:
        over = file.window_ends[0] <= settled_by(output, section.fires_at)
        return over or (isinstance(late, Every) and section.passed(late.every))
    if kind == PaneLane.TO_RETRACT:
        return False
    if file.window_ends[0] <= section.fires_at:
        return True
    if not isinstance(early, Every) or not file.maximum.get(SINCE, 0):
        return False
    # Only the watermark, and windows that end, have intervals that count from a window's start.
    by_start = early.clock != "arrival" and not output.window.endless
    starts = _starts_unpublished(partials.location(file)) if by_start else [0]
    clocks = Clocks.of(-1, section, output)
    return bool(interval_passed(early, output, clocks, np.array(starts, np.int64)).any())


def _starts_unpublished(file: Location) -> list[int]:
    """Where windows start that have events which no pane has published."""
    parts = dataset([file]).to_batches(columns=["window_start"], filter=pc.field(SINCE) > 0)
    return [start for part in parts for start in pc.unique(part.column(0)).cast(pa.int64()).to_pylist()]
