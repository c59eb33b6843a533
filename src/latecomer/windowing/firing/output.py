"""One output, batch by batch: prepared first, published only when the ledger balances.

    prepared:   open states and panes that the batch needs → the job of `windowing/firing/job.py` → files of each lane
    published:  panes → side output → dead letters → open states, each in one step and once

Sessions need other states and panes: `windowing/firing/sessions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

from latecomer.log.timeline.keeper import Section
from latecomer.log.timeline.watermarks import Watermarks
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FixedWindow, Window
from latecomer.spark.base import InProcess, Runner, Shared
from latecomer.store.data_files import DataFile, batch_of, kind_of
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location
from latecomer.store.layout import PaneLayout
from latecomer.store.store import Store
from latecomer.windowing.fates import Counts, Periods
from latecomer.windowing.firing.batch import Batch, by_arrival
from latecomer.windowing.firing.clocks import Clocks
from latecomer.windowing.firing.closing import CLOSING, may_close, places_to_close
from latecomer.windowing.firing.empty import KnownKeys, windows_closed
from latecomer.windowing.firing.folding import FAILED, SIDE_OUTPUT, Files, FiringPlan
from latecomer.windowing.firing.lanes import added_counts
from latecomer.windowing.firing.private_columns import PaneLane
from latecomer.windowing.firing.silence import has_news, silence_publishes
from latecomer.windowing.firing.stopping import Outgrown
from latecomer.windowing.firing.tasks import (
    ROWS_PER_BUCKET,
    BucketTask,
    Made,
    OutputTask,
    PaneFile,
    bucket_count,
    fires_quietly,
    fold_files,
)
from latecomer.windowing.log_computation import LogComputation
from latecomer.windowing.merge import Merger

FOLD_AT = 24
"""If small files of open states, or of late panes, are from so many batches, they are merged."""
MOST_FOLDED = 250_000
"""A file with so many open states is not small: merging it again and again would take memory, and save no file."""
SMALL = 8 << 20
_PANES = (PaneLane.FIRED, PaneLane.LATE, CLOSING)
_STATES = (PaneLane.OPEN, PaneLane.WAITING, PaneLane.TO_RETRACT)


@dataclass(frozen=True)
class Met:
    """The files of `partials` that a batch needs."""

    states: Sequence[DataFile] = ()
    published: Sequence[DataFile] = ()
    """Of sessions: panes that will be taken back."""

    @property
    def files(self) -> list[DataFile]:
        return [*self.states, *self.published]


@dataclass(frozen=True)
class Prepared:
    """An output's files for a batch, computed but not yet visible to anyone."""

    files: Files = field(default_factory=dict)
    consumed: Sequence[DataFile] = ()
    counts: Counts = field(default_factory=Counts)
    whole: bool = False
    """Whether the batch may change open states: it brought events, or there were states."""

    def of(self, lanes: Iterable[str]) -> list[Location]:
        """The files of some lanes."""
        return [file for lane in lanes for file in self.files.get(lane, ())]


class OutputLogic:
    """Finds what a batch needs of an output, and publishes the results."""

    has_news = staticmethod(has_news)

    def __init__(self, runner: Runner, store: Store, name: str) -> None:
        self.runner = runner
        self.store = store
        self.name = name
        self.output = store.pipeline.outputs[name]
        self.layout = PaneLayout(self.output, store.layout)
        self.merger = Merger(self.layout, store.measures())
        self.tables = store.output_tables(name, self.merger.schema)
        self.open_states: list[DataFile] = []
        self.recent_panes: list[DataFile] = []
        self.remember()
        self.known_keys = KnownKeys.of(self.merger, self.tables.panes) if self.output.emit_empty else None
        self.outgrown = Outgrown(name, self.merger)
        self.rows_per_bucket = ROWS_PER_BUCKET

    def remember(self) -> None:
        """Read from the tables what is kept in memory between batches."""
        self.open_states = self.tables.partials.files()
        self.recent_panes = self.tables.panes.files() if self.output.replaces else []

    @property
    def windows_each(self) -> int | None:
        """How many windows hold an event; None where that depends on its time."""
        return self.output.window.windows_each

    @property
    def closes(self) -> bool:
        """Whether there may be closing panes. Where nothing replaces a pane, each is marked as the last already."""
        return self.output.trigger.closing and self.output.replaces

    # Prepared

    def met(self, batch: Batch) -> Met:
        """The open states that a pane may need; all of them if an early trigger is due. Small files of other states are
        merged once there are many."""
        if batch.history:
            return Met()
        early, section = self.output.trigger.early, batch.section
        due = early is not None and (not by_arrival(early) or section.passed(early.every))
        if due:
            return Met(list(self.open_states))
        needed = [file for file in self.open_states if file.window_ends[0] <= section.fires_at]
        return Met([*needed, *self._crowd(section.fires_at)])

    def _crowd(self, fires_at: int) -> list[DataFile]:
        """The small files of windows that stay open, if there are many."""
        small = [
            file
            for file in self.open_states
            if file.window_ends[0] > fires_at and file.rows < MOST_FOLDED and not kind_of(file)
        ]
        return small if _is_crowd(small) else []

    def task(self, batch: Batch, met: Met) -> OutputTask | None:
        """What a bucket needs to know; None if there is nothing to do."""
        panes, partials, number = self.tables.panes, self.tables.partials, batch.number
        known, closing = self._keys_to_fill(batch.section), self._closing(batch) if self.closes else None
        if batch.logged is None and not met.files and known is None and not closing:
            return None
        return OutputTask(
            Clocks.of(number, batch.section, self.output),
            [partials.location(file) for file in met.states],
            [partials.location(file) for file in met.published],
            [PaneFile(panes.location(file), *file.windows) for file in self._to_replace(batch, met)],
            closing,
            known,
            {
                PaneLane.FIRED: panes.new_folder(number),
                PaneLane.LATE: panes.new_folder(number, PaneLane.LATE),
                CLOSING: panes.new_folder(number, CLOSING),
                PaneLane.OPEN: partials.new_folder(number),
                PaneLane.WAITING: partials.new_folder(number, PaneLane.WAITING),
                PaneLane.TO_RETRACT: partials.new_folder(number, PaneLane.TO_RETRACT),
                **self.folders_aside(batch),
            },
        )

    def folders_aside(self, batch: Batch) -> dict[str, Location]:
        """Where the side output and the dead letters of the output go, unless they are published already."""
        tables, number = {SIDE_OUTPUT: self.tables.late, FAILED: self.tables.dead_letters}, batch.number
        return {lane: table.new_folder(number) for lane, table in tables.items() if not table.holds(number)}

    def prepared(self, batch: Batch, met: Met, made: Sequence[Made], aside: Sequence[Files]) -> Prepared:
        """The results of all buckets together."""
        files: dict[str, list[Location]] = {}
        for part in (*aside, *(each.files for each in made)):
            for lane, written in part.items():
                files.setdefault(lane, []).extend(written)
        counts = added_counts(part.counts for part in made)
        return Prepared(files, met.files, counts, batch.logged is not None or bool(met.files))

    def _earlier(self, batch: Batch) -> list[DataFile]:
        """Recent panes, without those that an interrupted attempt at this batch published."""
        return [file for file in self.recent_panes if batch_of(file) < batch.number]

    def _to_replace(self, batch: Batch, met: Met) -> list[DataFile]:
        """The panes of windows that the batch may publish again."""
        spans = [file.windows for file in met.states]
        if batch.logged is not None:
            spans.append((batch.earliest, batch.latest))
        low = min((BEGIN_OF_TIME if start is None else start for start, _ in spans), default=END_OF_TIME)
        high = max((END_OF_TIME if end is None else end for _, end in spans), default=BEGIN_OF_TIME)
        return [file for file in self._earlier(batch) if may_overlap(file, low, high)]

    def _closing(self, batch: Batch) -> list[Location]:
        """The files of panes that this batch may make final."""
        files = may_close(self._earlier(batch), self.output, batch.section)
        return [self.tables.panes.location(file) for file in files]

    def _keys_to_fill(self, section: Section) -> KnownKeys | None:
        """The keys that get empty panes; None if there can be no such panes."""
        if self.known_keys is None or (section.watermark_before == section.fires_at):
            return None
        return self.known_keys

    # Committing

    def commit(self, batch: Batch, prepared: Prepared) -> Sequence[DataFile]:
        """Panes, then the side output, the dead letters, and the open states. Gives the files of panes.

        The open states come last: until they are committed, the ones that they replace are still there for an attempt
        that has to start over.
        """
        number, tables = batch.number, self.tables
        published: Sequence[DataFile] = ()
        if not prepared.whole and self.known_keys is None and not self.closes:
            return published
        if not tables.panes.holds(number):
            files, folded = self._fold_late(prepared, batch)
            failpoint(f"{self.name}.panes.written", number)
            published = tables.panes.commit(number, files, folded)
            self.outgrown.warn(tables.panes, published)
            self._remember_panes(batch, published, folded)
            failpoint(f"{self.name}.panes.committed", number)
        if self.known_keys is not None:
            self.known_keys = self.known_keys.with_files(prepared.of([PaneLane.FIRED]))
        if not prepared.whole:
            return published
        late, failed = (prepared.of([lane]) for lane in (SIDE_OUTPUT, FAILED))
        if late and not tables.late.holds(number):
            failpoint(f"{self.name}.late.written", number)
            tables.late.commit(number, late)
            failpoint(f"{self.name}.late.committed", number)
        if failed and not tables.dead_letters.holds(number):
            tables.dead_letters.commit(number, failed)
            failpoint(f"{self.name}.dead_letters.committed", number)
        if not tables.partials.holds(number):
            added = tables.partials.commit(number, prepared.of(_STATES), prepared.consumed)
            self._remember_states(added, prepared.consumed)
            failpoint(f"{self.name}.partials.committed", number)
        return published

    def _fold_late(self, prepared: Prepared, batch: Batch) -> tuple[list[Location], list[DataFile]]:
        """The panes of a batch, and files of earlier batches that are merged into them: late panes come in many small
        files, which now and then become one.

        Files of windows that were final before this batch are left to upkeep (ADR 0017).
        """
        new = prepared.files.get(PaneLane.LATE, ())
        small = [
            file
            for file in self.recent_panes
            if file.size < SMALL
            and kind_of(file) == PaneLane.LATE
            and file.window_ends[1] > batch.section.watermark_before - self.output.allowed_lateness
        ]
        if not new or not _is_crowd(small):
            return prepared.of(_PANES), []
        task = [*map(self.tables.panes.location, small), *new]
        folded = self.runner.run(
            f"batch {batch.number} · late panes of {self.name}", fold_files, [task]
        ).tasks
        return [*prepared.of([PaneLane.FIRED, CLOSING]), *folded], small

    def _remember_panes(self, batch: Batch, added: Sequence[DataFile], folded: Sequence[DataFile]) -> None:
        """Remember the panes that a later batch may replace."""
        if self.output.replaces:
            replaced = {file.path for file in folded}
            reach = batch.section.fires_at - self.output.allowed_lateness
            self.recent_panes = [
                file
                for file in [*self.recent_panes, *added]
                if file.path not in replaced and file.window_ends[1] > reach
            ]

    def _remember_states(self, added: Sequence[DataFile], consumed: Sequence[DataFile]) -> None:
        replaced = {file.path for file in consumed}
        self.open_states = [*(file for file in self.open_states if file.path not in replaced), *added]

    # Without publishing

    def would_fire(self, section: Section) -> bool:
        """Whether a batch without data would publish anything."""
        panes, partials, known = self.tables.panes, self.tables.partials, self.known_keys
        return (
            silence_publishes(
                self.output, partials, self.open_states, section, self.has_news, self._trigger_fires
            )
            or (known is not None and bool(self._to_fill(known, section)))
            or (self.closes and bool(places_to_close(panes, self.output, section) - self._to_retract()))
        )

    def _trigger_fires(self, states: Sequence[DataFile], section: Section) -> bool:
        """Whether triggers publish anything of these open states. Few states are looked at in this process, many in
        tasks."""
        rows = sum(file.rows for file in states)
        few = rows <= self.rows_per_bucket
        divided = self.output.by and not self.output.emit_empty
        count = bucket_count(rows, self.runner.cores, self.rows_per_bucket) if divided else 1
        asked = OutputTask(
            Clocks.of(-1, section, self.output), [self.tables.partials.location(file) for file in states]
        )
        tasks = [BucketTask(nth, count, {self.name: asked}) for nth in range(count)]
        runner = InProcess(self.runner.spark) if few else self.runner
        what = f"silence · triggers of {self.name}"
        return any(runner.run(what, partial(fires_quietly, self._plan), tasks).tasks)

    @cached_property
    def _plan(self) -> Shared[FiringPlan]:
        outputs = {self.name: self.output.without_sinks()}
        return Shared(FiringPlan(self.store.layout.portable, outputs, self.store.measures()))

    def _to_fill(self, known: KnownKeys, section: Section) -> list[Window]:
        """The windows that closed and may have empty panes."""
        window = cast(FixedWindow, self.output.window)
        return windows_closed(self.name, window, known, section.watermark_before, section.fires_at)

    def _to_retract(self) -> set[tuple[Any, ...]]:
        """The panes that will be taken back, and so get no closing pane: only sessions have such."""
        return set()

    def fates_by_batch(self, batch: Batch, periods: Periods = ()) -> dict[int, Counts]:
        """The fates of each batch's events, for an output that catches up, or under the policies that it has had."""
        if batch.logged is None:
            return {}
        computation = self.computation(batch.number, periods, timeline=timeline(batch))
        return computation.counted(self.runner, f"fates of {self.name}", batch.logged)

    def computation(self, last: int, periods: Periods = (), **more: Any) -> LogComputation:
        """A computation from the log up to a batch; `more` are fields of LogComputation."""
        rules = [(since, under.without_sinks()) for since, under in periods or [(0, self.output)]]
        panes = PaneLayout(self.output.without_sinks(), self.store.layout.portable)
        return LogComputation(panes, self.merger.measures, rules, last, **more)


def may_overlap(file: DataFile, low: int, high: int) -> bool:
    """Whether a file may hold windows between these moments."""
    start, end = file.windows
    return (end is None or end >= low) and (start is None or start <= high)


def timeline(batch: Batch, clocked: bool = False) -> Watermarks:
    """The watermark of each tick of a batch, or of each batch and tick of the whole log. With `clocked`, the arrival
    clock too."""
    if batch.logged is not None and clocked:
        return batch.section.clocked
    return batch.section.by_batch if batch.history else batch.section.by_tick


def _is_crowd(small: Iterable[DataFile]) -> bool:
    """Whether these files are from so many batches that they are merged."""
    return len({batch_of(file) for file in small}) >= FOLD_AT
