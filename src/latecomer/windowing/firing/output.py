"""One output, batch by batch: what is kept of it in memory, and how its results become visible.

`job.py` computes them. Once the ledger balances, they are published: panes → side output → dead letters → open states,
each in one step and once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from latecomer.log.logged_events import Logged
from latecomer.log.readable import LoggedBatch
from latecomer.log.timeline.keeper import Section
from latecomer.model.verdicts import END_OF_TIME
from latecomer.spark.base import Runner
from latecomer.store.delta.data_files import DataFile, batch_of, kind_of
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location
from latecomer.store.layout import PaneLayout
from latecomer.store.store import Store
from latecomer.windowing.fate_counts import Counts, Periods
from latecomer.windowing.firing.empty import KnownKeys
from latecomer.windowing.firing.folding import FAILED, SIDE_OUTPUT, OutputResult
from latecomer.windowing.firing.merge_bucket import merge_files
from latecomer.windowing.firing.panes import CLOSING
from latecomer.windowing.firing.stopping import Outgrown
from latecomer.windowing.log_computation import LogComputation
from latecomer.windowing.merge import Merger
from latecomer.windowing.private_columns import PaneLane

FOLD_AT = 24
"""If small files of open states, or of late panes, are from so many batches, they are merged."""
SMALL = 8 << 20
PANES = (PaneLane.FIRED, PaneLane.LATE, CLOSING)
_STATES = (PaneLane.OPEN, PaneLane.WAITING, PaneLane.TO_RETRACT)


@dataclass(frozen=True)
class FiringBatch:
    """What an output needs to know of a batch. `events` is None where the batch brought no data."""

    number: int
    section: Section
    events: Logged | None = None
    earliest: int = 0
    latest: int = 0
    behind: bool = True
    """Whether any of its events may have come behind the watermark."""
    history: bool = False
    """The events are the whole log, of many batches, for an output that was added later."""

    @classmethod
    def of_logged(cls, number: int, section: Section, counted: LoggedBatch, events: Logged) -> FiringBatch:
        """A batch of data that is in the log."""
        ticks = counted.ticks
        behind = any(ticks.first.get(row.tick, END_OF_TIME + 1) <= row.watermark for _, row in section.rows)
        own_events = events if counted.received.events else None
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
    def joined(cls, batch: FiringBatch, met: Sequence[DataFile], made: Sequence[OutputResult]) -> Prepared:
        """The results of all tasks together; `met` are the files of `partials` that they have read."""
        files: dict[str, list[Location]] = {}
        for part in made:
            for lane, written in part.files.items():
                files.setdefault(lane, []).extend(written)
        counts = Counts.joined(part.counts for part in made)
        return cls(files, met, counts, batch.events is not None or bool(met))

    def of(self, lanes: Iterable[str]) -> list[Location]:
        """The files of some lanes."""
        return [file for lane in lanes for file in self.files.get(lane, ())]


class OutputLogic:
    """Publishes the results of an output, and remembers which files the next batch may need."""

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
        self.recent_panes = bounded(self.tables.panes.files()) if self._may_replace else []

    @property
    def _may_replace(self) -> bool:
        return self.output.replaces or self.output.window.merges

    @property
    def windows_each(self) -> int | None:
        """How many windows hold an event; None where that depends on its time."""
        return self.output.window.windows_each

    @property
    def closes(self) -> bool:
        """Whether there may be closing panes. Where nothing replaces a pane, each is marked as the last already."""
        return self.output.trigger.closing and self.output.replaces

    # Committing

    def commit(self, batch: FiringBatch, prepared: Prepared) -> Sequence[DataFile]:
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

    def _fold_late(self, prepared: Prepared, batch: FiringBatch) -> tuple[list[Location], list[DataFile]]:
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
        if not new or not is_crowd(small):
            return prepared.of(PANES), []
        task = [*map(self.tables.panes.location, small), *new]
        folded = self.runner.run(
            f"batch {batch.number} · late panes of {self.name}", merge_files, [task]
        ).tasks
        return [*prepared.of([PaneLane.FIRED, CLOSING]), *folded], small

    def _remember_panes(
        self, batch: FiringBatch, added: Sequence[DataFile], folded: Sequence[DataFile]
    ) -> None:
        """Remember the panes that a later batch may replace. Any session may be touched again."""
        if self._may_replace:
            replaced = {file.path for file in folded}
            reach = batch.section.fires_at - self.output.allowed_lateness
            self.recent_panes = [
                file
                for file in [*self.recent_panes, *bounded(added)]
                if file.path not in replaced and (self.output.window.merges or file.window_ends[1] > reach)
            ]

    # Without publishing

    def fates_by_batch(self, batch: FiringBatch, periods: Periods = ()) -> dict[int, Counts]:
        """The fates of each batch's events, for an output that catches up, or under the policies that it has had."""
        if batch.events is None:
            return {}
        computation = self.computation(batch.number, periods, timeline=batch.section.watermarks)
        return computation.counted(self.runner, f"fates of {self.name}", batch.events)

    def computation(self, last: int, periods: Periods = (), **more: Any) -> LogComputation:
        """A computation from the log up to a batch; `more` are fields of LogComputation."""
        rules = [(since, under.without_sinks()) for since, under in periods or [(0, self.output)]]
        panes = PaneLayout(self.output.without_sinks(), self.store.layout.portable)
        return LogComputation(panes, self.merger.measures, rules, last, **more)


def is_crowd(small: Iterable[DataFile]) -> bool:
    """Whether these files are from so many batches that they are merged."""
    return len({batch_of(file) for file in small}) >= FOLD_AT


def bounded(files: Sequence[DataFile]) -> list[DataFile]:
    """Files of panes with only the bounds of batches and windows, since many files are kept in memory."""
    return [
        replace(file, minimum=_of_windows(file.minimum), maximum=_of_windows(file.maximum)) for file in files
    ]


def _of_windows(bounds: Mapping[str, Any]) -> dict[str, Any]:
    return {name: bounds[name] for name in ("batch", "window_start", "window_end") if name in bounds}
