"""One output, batch by batch: prepared first, published only when the ledger balances.

    prepared:   open states and panes that the batch needs → the job of `windowing/firing/job.py` → files of each lane
    published:  panes → side output → dead letters → open states, each in one step and once

Sessions need other states and panes: `windowing/firing/sessions.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.log.events import LoggedBatch
from latecomer.log.logged import Logged
from latecomer.log.timeline.keeper import Section
from latecomer.model.triggers import Count, Every, per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FixedWindow, Window
from latecomer.spark.base import Runner
from latecomer.store.data_files import DataFile, batch_of, kind_of
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, dataset
from latecomer.store.layout import PaneLayout
from latecomer.store.private_columns import SINCE
from latecomer.store.store import Store
from latecomer.store.table import Table
from latecomer.windowing.fates import Counts, Periods
from latecomer.windowing.firing.clocks import Clocks, by_arrival, interval_passed, settled_by
from latecomer.windowing.firing.empty import KnownKeys, windows_closed
from latecomer.windowing.firing.folding import FAILED, SIDE_OUTPUT, Made
from latecomer.windowing.firing.panes import CLOSING
from latecomer.windowing.firing.stopping import Outgrown
from latecomer.windowing.firing.tasks import OutputTask, PaneFile, fold_files
from latecomer.windowing.log_computation import LogComputation
from latecomer.windowing.merge import Merger
from latecomer.windowing.private_columns import PaneLane

FOLD_AT = 24
"""If small files of open states, or of late panes, are from so many batches, they are merged."""
MOST_FOLDED = 250_000
"""A file with so many open states is not small: merging it again and again would take memory, and save no file."""
SMALL = 8 << 20
PANES = (PaneLane.FIRED, PaneLane.LATE, CLOSING)
_STATES = (PaneLane.OPEN, PaneLane.WAITING, PaneLane.TO_RETRACT)


@dataclass(frozen=True)
class Batch:
    """What an output needs to know of a batch. `logged` is None where the batch brought no data."""

    number: int
    section: Section
    logged: Logged | None = None
    earliest: int = 0
    latest: int = 0
    behind: bool = True
    """Whether any of its events may have come behind the watermark."""
    history: bool = False
    """The events are the whole log, of many batches, for an output that was added later."""

    @classmethod
    def of_logged(cls, number: int, section: Section, logged: LoggedBatch, events: Logged) -> Batch:
        """A batch of data that is in the log."""
        ticks = logged.ticks
        behind = any(ticks.first.get(row.tick, END_OF_TIME + 1) <= row.watermark for _, row in section.rows)
        own_events = events if logged.received.events else None
        return cls(number, section, own_events, ticks.earliest, ticks.latest, behind)


@dataclass(frozen=True)
class Prepared:
    """An output's files for a batch, computed but not yet visible to anyone."""

    files: Mapping[str, Sequence[Location]] = field(default_factory=dict)
    consumed: Sequence[DataFile] = ()
    counts: Counts = field(default_factory=Counts)
    whole: bool = False
    """Whether the batch may change open states: it brought events, or there were states."""

    @classmethod
    def joined(cls, batch: Batch, met: Sequence[DataFile], made: Sequence[Made]) -> Prepared:
        """The results of all tasks together; `met` are the files of `partials` that they have read."""
        files: dict[str, list[Location]] = {}
        for part in made:
            for lane, written in part.files.items():
                files.setdefault(lane, []).extend(written)
        counts = Counts.joined(part.counts for part in made)
        return cls(files, met, counts, batch.logged is not None or bool(met))

    def of(self, lanes: Iterable[str]) -> list[Location]:
        """The files of some lanes."""
        return [file for lane in lanes for file in self.files.get(lane, ())]


class OutputLogic:
    """Finds what a batch needs of an output, and publishes the results."""

    def __init__(self, runner: Runner, store: Store, name: str) -> None:
        self.runner = runner
        self.store = store
        self.name = name
        self.output = store.pipeline.outputs[name]
        self.layout = PaneLayout(self.output, store.layout)
        self.merger = Merger(self.layout, store.measures())
        self.tables = store.output_tables(name, self.merger.schema)
        self.states: list[DataFile] = []
        """The files of `partials`."""
        self.recent_panes: list[DataFile] = []
        self.remember()
        self.known_keys = KnownKeys.of(self.merger, self.tables.panes) if self.output.emit_empty else None
        self.outgrown = Outgrown(name, self.merger)

    def remember(self) -> None:
        """Read from the tables what is kept in memory between batches."""
        self.states = self.tables.partials.files()
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

    def met(self, batch: Batch) -> list[DataFile]:
        """The open states that a pane may need; all of them if an early trigger is due. Small files of other states are
        merged once there are many."""
        if batch.history:
            return []
        if self._early_due(batch.section):
            return list(self.states)
        needed = [file for file in self.states if file.window_ends[0] <= batch.section.fires_at]
        return [*needed, *self._crowd(batch.section.fires_at)]

    def _early_due(self, section: Section) -> bool:
        """Whether open windows may fire, as far as their early trigger can tell by the clock."""
        early = self.output.trigger.early
        return early is not None and (not by_arrival(early) or section.passed(early.every))

    def _crowd(self, fires_at: int) -> list[DataFile]:
        """The small files of windows that stay open, if there are many."""
        small = [
            file
            for file in self.states
            if file.window_ends[0] > fires_at and file.rows < MOST_FOLDED and not kind_of(file)
        ]
        return small if _is_crowd(small) else []

    def task(self, batch: Batch, met: Sequence[DataFile]) -> OutputTask | None:
        """What a bucket needs to know; None if there is nothing to do."""
        panes, partials, number = self.tables.panes, self.tables.partials, batch.number
        known, closing = self._keys_to_fill(batch.section), self.closing(batch)
        if batch.logged is None and not met and known is None and not closing:
            return None
        to_retract = [file for file in met if kind_of(file) == PaneLane.TO_RETRACT]
        return OutputTask(
            Clocks.of(number, batch.section, self.output),
            [partials.location(file) for file in met if file not in to_retract],
            [partials.location(file) for file in to_retract],
            [PaneFile(panes.location(file), *file.windows) for file in self._to_replace(batch, met)],
            [panes.location(file) for file in closing] if self.closes else None,
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

    def _earlier(self, batch: Batch) -> list[DataFile]:
        """Recent panes, without those that an interrupted attempt at this batch published."""
        return [file for file in self.recent_panes if batch_of(file) < batch.number]

    def _to_replace(self, batch: Batch, met: Sequence[DataFile]) -> list[DataFile]:
        """The panes of windows that the batch may publish again."""
        spans = [file.windows for file in met]
        if batch.logged is not None:
            spans.append((batch.earliest, batch.latest))
        low = min((BEGIN_OF_TIME if start is None else start for start, _ in spans), default=END_OF_TIME)
        high = max((END_OF_TIME if end is None else end for _, end in spans), default=BEGIN_OF_TIME)
        return [file for file in self._earlier(batch) if may_overlap(file, low, high)]

    def closing(self, batch: Batch) -> list[DataFile]:
        """The files of panes that may hold a window which this batch makes final: nothing more can come for it."""
        if not self.closes:
            return []
        since = batch.section.watermark_before - self.output.settles_after
        return [
            file
            for file in self._earlier(batch)
            for start, end in [file.windows]
            if (end is None or end > since)
            and (start is None or start < settled_by(self.output, batch.section.fires_at))
        ]

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
            replaced = {file.path for file in prepared.consumed}
            self.states = [*(file for file in self.states if file.path not in replaced), *added]
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
            return prepared.of(PANES), []
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

    # Without publishing

    def may_publish(self, batch: Batch) -> bool:
        """Whether a batch without data may publish anything, as far as the statistics of files tell."""
        section = batch.section
        return (
            any(may_fire(self.output, self.tables.partials, file, section) for file in self.states)
            or bool(self.closing(batch))
            or bool(self._to_fill(section))
        )

    def _to_fill(self, section: Section) -> list[Window]:
        """The windows that closed and may have empty panes."""
        known, window = self._keys_to_fill(section), self.output.window
        if known is None or not isinstance(window, FixedWindow):
            return []
        return windows_closed(self.name, window, known, section.watermark_before, section.fires_at)

    def surely_publishes(self, section: Section) -> bool:
        """Whether an open window reaches its end, and does not close without a pane."""
        aside = (PaneLane.WAITING, PaneLane.TO_RETRACT)
        return not self.output.closes_silently and any(
            file.window_ends[0] <= section.fires_at and kind_of(file) not in aside for file in self.states
        )

    def fates_by_batch(self, batch: Batch, periods: Periods = ()) -> dict[int, Counts]:
        """The fates of each batch's events, for an output that catches up, or under the policies that it has had."""
        if batch.logged is None:
            return {}
        computation = self.computation(batch.number, periods, timeline=batch.section.watermarks)
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
    return [start for part in parts for start in pc.unique(part.column(0)).cast("int64").to_pylist()]


def _is_crowd(small: Iterable[DataFile]) -> bool:
    """Whether these files are from so many batches that they are merged."""
    return len({batch_of(file) for file in small}) >= FOLD_AT
