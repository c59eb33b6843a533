"""One output, batch by batch: prepared first, published only when the ledger balances.

    states to read → events judged → merged → lanes  |  panes → side output → open states
                                           prepared  |  published, each in one step, each once

Sessions do the same with other steps: `firing/sessions.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from latecomer.fast import Choice
from latecomer.firing.batch import Batch
from latecomer.firing.clocks import Clocks, by_arrival
from latecomer.firing.closing import CLOSING, closing_panes, may_close, places_to_close
from latecomer.firing.columns import Lane
from latecomer.firing.empty import KnownKeys, empty_panes, windows_closed
from latecomer.firing.folding import event_columns, fold
from latecomer.firing.lanes import Lanes
from latecomer.firing.late import touching
from latecomer.firing.merging import Firing
from latecomer.firing.overflow import Outgrown
from latecomer.firing.silence import has_news, silence_publishes
from latecomer.model.panes import Accumulation
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.model.windows import FixedWindow
from latecomer.store.columns import LANE
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, dataset, footer, move, read_table, write_table
from latecomer.store.layout import TIMESTAMP, PaneLayout
from latecomer.store.store import Store
from latecomer.store.table import DataFile, batch_of, kind_of
from latecomer.timeline.keeper import Stretch
from latecomer.windowing.derived_in_process import stored_columns
from latecomer.windowing.fates import Counts, Periods
from latecomer.windowing.judge_in_process import Watermarks
from latecomer.windowing.merging import Merger
from latecomer.windowing.spark_columns import event_tables
from latecomer.windowing.tally_in_process import counts_by_batch

_Result = TypeVar("_Result")
FOLD_AT = 24
"""So many files of open states, or of late panes, are merged into one."""
SMALL = 8 << 20
MOST_PARTIALS = 1_000_000
"""So many rows of partial states are held before they are merged."""
_FILE = "part.parquet"


@dataclass(frozen=True)
class Prepared:
    """An output's files for a batch, computed but not yet visible to anyone."""

    lanes: Lanes | None = None
    consumed: Sequence[DataFile] = ()
    counts: Counts = field(default_factory=Counts)
    late: Sequence[Location] = field(default=(), kw_only=True)
    """The side output."""


class OutputLogic:
    """Computes and publishes one output's panes."""

    has_news = staticmethod(has_news)
    kept: ClassVar[Mapping[str, str]] = MappingProxyType({Lane.OPEN: "", Lane.WAITING: Lane.WAITING})
    """The lanes that are kept as open states, and the kind of their files."""

    def __init__(self, spark: SparkSession, store: Store, name: str) -> None:
        self.spark = spark
        self.store = store
        self.name = name
        self.output = store.pipeline.outputs[name]
        self.layout = PaneLayout(self.output, store.layout)
        self.merger = Merger(self.layout, store.measures())
        self.tables = store.output_tables(name, self.merger.schema)
        self.open_states: list[DataFile] = []
        self.recent_panes: list[DataFile] = []
        self.remember()
        self.known_keys = KnownKeys(self.kernel, self.tables.panes) if self.output.emit_empty else None
        self.outgrown = Outgrown(name, self.merger)
        self.choice = Choice()
        """Which way the steps of this output went."""

    def remember(self) -> None:
        """What is kept in mind between batches, from the tables."""
        self.open_states = self.tables.partials.files()
        self.recent_panes = self.tables.panes.files() if self.output.replaces else []

    @property
    def windows_each(self) -> int | None:
        """How many windows hold an event; None where that depends on when it happened."""
        return self.output.window.windows_each

    @property
    def closes(self) -> bool:
        """Whether there may be closing panes: where nothing replaces a pane, each is marked as the last."""
        return self.output.trigger.closing and self.output.replaces

    # Prepared: one pass over the batch's events and the open states they meet

    def prepare(self, batch: Batch) -> Prepared:
        """The batch's panes, open states and counts, in files that nobody sees yet."""
        consumed = [] if batch.history else self._states_to_read(batch.stretch)
        if batch.logged is None and not consumed:
            return Prepared()
        return self.with_merger("windowing", partial(self._prepared, batch, consumed))

    def _prepared(self, batch: Batch, consumed: Sequence[DataFile], merger: Merger) -> Prepared:
        late = self.tables.late.new_folder(batch.number)
        partials, aside = self._folded(batch, merger, late)
        states = [self.tables.partials.location(file) for file in consumed]
        known = self._read_panes(states) if states else None
        folder = self.tables.panes.new_folder(batch.number)
        clocks = Clocks.of(batch.number, batch.stretch, self.output)
        for lane, rows in Firing(merger).lanes(partials, known, clocks).items():
            if rows.num_rows:
                write_table(rows, folder / f"{LANE}={lane}" / _FILE)
        lanes = Lanes(folder, self.merger)
        return Prepared(lanes, consumed, lanes.counts, late=aside)

    def _folded(self, batch: Batch, merger: Merger, late: Location) -> tuple[list[pa.Table], list[Location]]:
        """The partial states of a batch's events, and the files of its side output."""
        partials: list[pa.Table] = []
        aside: list[Location] = []
        if batch.logged is None:
            return partials, aside
        wanted, done = event_columns(self.layout, merger), self.tables.late.holds(batch.number)
        for events in event_tables(batch.logged, wanted, [self.output], self.store.layout):
            for folded in fold(events, self.layout, timeline(batch), merger):
                partials.append(folded.states)
                if folded.late.num_rows and not done:
                    aside.append(write_table(folded.late, late / f"part-{len(aside)}.parquet"))
            if sum(rows.num_rows for rows in partials) > MOST_PARTIALS:
                partials = [merger.merge([merger.again(rows) for rows in partials])]
        return partials, aside

    def with_merger(self, step: str, compute: Callable[[Merger], _Result]) -> _Result:
        """What is computed with the merger; the step is counted among those without Spark."""
        self.choice.fast[step] = self.choice.fast.get(step, 0) + 1
        return compute(self.kernel)

    @cached_property
    def kernel(self) -> Merger:
        """What merges events and states."""
        return self.merger

    @property
    def _window(self) -> FixedWindow:
        return cast(FixedWindow, self.output.window)

    def _states_to_read(self, stretch: Stretch) -> list[DataFile]:
        """The open states that a pane may need; all of them when there are many files."""
        early = self.output.trigger.early
        due = early is not None and (not by_arrival(early) or stretch.passed(early.every))
        if due or len(self.open_states) >= FOLD_AT:
            return list(self.open_states)
        return [file for file in self.open_states if file.window_ends[0] <= stretch.fires_at]

    def _read_panes(self, files: Sequence[Location], where: pc.Expression | None = None) -> pa.Table:
        """Stored panes or states; those alone of which that is so."""
        if not files:
            return self.merger.schema.empty_table()
        return dataset(files, self.merger.schema).to_table(filter=where)

    # Published: each step visible at once, and once

    def publish(self, batch: Batch, prepared: Prepared) -> Sequence[DataFile]:
        """Panes, then the side output, then the open states. Gives the files of panes that came of it.

        The open states come last: until they are committed, the ones they replace are still there for
        an attempt that has to start over.
        """
        lanes, number = prepared.lanes, batch.number
        published: Sequence[DataFile] = ()
        if lanes is None and self.known_keys is None and not self.closes:
            return published
        if not self.tables.panes.holds(number):
            files, folded = self._panes(batch, lanes)
            failpoint(f"{self.name}.panes.written", number)
            published = self.tables.panes.commit(number, files, folded)
            self.outgrown.warn(self.tables.panes, published)
            self._remember_panes(batch, published, folded)
            failpoint(f"{self.name}.panes.committed", number)
        if lanes is None:
            return published
        if not self.tables.late.holds(number) and (late := self._side_output(batch, prepared)):
            failpoint(f"{self.name}.late.written", number)
            self.tables.late.commit(number, late)
            failpoint(f"{self.name}.late.committed", number)
        if not self.tables.partials.holds(number):
            added = self.tables.partials.commit(number, self._states(number, lanes), prepared.consumed)
            self._remember_states(added, prepared.consumed)
            failpoint(f"{self.name}.partials.committed", number)
        return published

    def _panes(self, batch: Batch, lanes: Lanes | None) -> tuple[list[Location], list[DataFile]]:
        """The panes of a batch, and those of earlier batches that are folded into them."""
        panes = self.tables.panes
        files = list(lanes.files[Lane.FIRED]) if lanes else []
        folded: list[DataFile] = []
        if self.known_keys is not None:
            files += self._empty_panes(self.known_keys, batch, files)
        if lanes and files and self._takes_back_early and self.recent_panes:
            files += self._retracts(batch, lanes.files[Lane.FIRED])
        if lanes and lanes.files[Lane.LATE]:
            fired = [file for file in map(panes.describe, files) if file.rows]
            held = touching([*self.recent_panes, *fired], lanes.touched)
            late, folded = self._fold_late(self._late_panes(batch, lanes, held), batch)
            files += late
        if self.closes:
            files += self._closing_panes(batch, files)
        return files, folded

    @property
    def _takes_back_early(self) -> bool:
        return self.output.trigger.early is not None and self.output.accumulation is Accumulation.RETRACTING

    def _empty_panes(self, known: KnownKeys, batch: Batch, fired: Sequence[Location]) -> list[Location]:
        """The panes of keys that windows before had, for windows that closed without them."""
        known.learn(fired)
        windows = windows_closed(self.name, self._window, known, batch.stretch)
        if not windows:
            return []
        folder = self.tables.panes.new_folder(batch.number)
        clocks, there = Clocks.of(batch.number, batch.stretch, self.output), self._read_panes(fired)
        at_once = max(MOST_PARTIALS // known.table.num_rows, 1)
        files = []
        for first in range(0, len(windows), at_once):
            some = windows[first : first + at_once]
            rows = self.with_merger(
                "empty panes",
                partial(self._empty_of, known=known.table, windows=some, fired=there, clocks=clocks),
            )
            if rows.num_rows:
                files.append(write_table(rows, folder / f"part-{first}.parquet"))
        return files

    def _empty_of(self, merger: Merger, **of: Any) -> pa.Table:
        return empty_panes(Firing(merger), **of)

    def _retracts(self, batch: Batch, fired: Sequence[Location]) -> list[Location]:
        """What panes that just fired replace, taken back."""
        new = self._read_panes(fired).filter(pc.field("sequence") > 0)
        if not new.num_rows:
            return []
        earlier = self._standing(self.recent_panes, new)
        rows = self.with_merger("retracts", lambda merger: Firing(merger).retracts(new, earlier))
        if not rows.num_rows:
            return []
        return [write_table(rows, self.tables.panes.new_folder(batch.number) / _FILE)]

    def _late_panes(self, batch: Batch, lanes: Lanes, earlier: Sequence[DataFile]) -> list[Location]:
        """One LATE pane for each window and key that late events touched."""
        added, clocks = (
            self._read_panes(lanes.files[Lane.LATE]),
            Clocks.of(batch.number, batch.stretch, self.output),
        )
        held = self._standing(earlier, added)
        rows = self.with_merger("late panes", lambda merger: Firing(merger).late_panes(added, held, clocks))
        return [write_table(rows, self.tables.panes.new_folder(batch.number, Lane.LATE) / _FILE)]

    def _standing(self, files: Sequence[DataFile], wanted: pa.Table) -> pa.Table:
        """The panes of earlier batches that are of windows which start as the wanted ones do."""
        starts = pc.unique(wanted.column("window_start")).cast(TIMESTAMP)
        places = [self.tables.panes.location(file) for file in files]
        return self._read_panes(places, pc.field("window_start").isin(starts))

    def _fold_late(self, new: list[Location], batch: Batch) -> tuple[list[Location], list[DataFile]]:
        """Late panes come in many small files; now and then they become one.

        Those of windows that no late event reached any more before this batch are upkeep's (ADR 0017).
        """
        small = [
            file
            for file in self.recent_panes
            if file.size < SMALL
            and kind_of(file) == Lane.LATE
            and file.window_ends[1] > batch.stretch.watermark_before - self.output.allowed_lateness
        ]
        if len(small) < FOLD_AT:
            return new, []
        parts = map(read_table, [*map(self.tables.panes.location, small), *new])
        return [write_table(pa.concat_tables(parts), new[0].with_name("folded.parquet"))], small

    def _closing_panes(
        self, batch: Batch, new: Sequence[Location], published: Sequence[Location] = ()
    ) -> list[Location]:
        """The last panes of windows for which nothing more can come, also of those that just fired. `published` has the
        panes of sessions that will be taken back."""
        panes, now = self.tables.panes, batch.stretch.fires_at
        # What an interrupted attempt at this batch published is no past.
        earlier = [file for file in self.recent_panes if batch_of(file) < batch.number]
        known = [panes.location(file) for file in may_close(earlier, self.output, batch.stretch)]
        known += [file for file in new if footer(file).num_rows]
        if not known or now == BEGIN_OF_TIME:
            return []
        rows = self._read_panes(known, pc.field("window_end") <= pa.scalar(now, pa.int64()).cast(TIMESTAMP))
        others = self._read_panes(published) if published else None
        clocks = Clocks.of(batch.number, batch.stretch, self.output)
        closing = self.with_merger(
            "closing panes",
            lambda merger: closing_panes(Firing(merger), rows, others, clocks),
        )
        if not closing.num_rows:
            return []
        return [write_table(closing, panes.new_folder(batch.number, CLOSING) / _FILE)]

    def _side_output(self, _batch: Batch, prepared: Prepared) -> Sequence[Location]:
        """The files of a batch's side output."""
        return prepared.late

    def _states(self, number: int, lanes: Lanes) -> list[Location]:
        """The open states. One pass of Spark writes one folder; what of it belongs to another table goes there."""
        return [
            move(file, folder / file.name)
            for lane, kind in self.kept.items()
            for folder in [self.tables.partials.new_folder(number, kind)]
            for file in lanes.files[lane]
        ]

    def _remember_panes(self, batch: Batch, added: Sequence[DataFile], folded: Sequence[DataFile]) -> None:
        """Keep in mind the panes that a later batch may replace."""
        if self.output.replaces:
            gone = {file.path for file in folded}
            reach = batch.stretch.fires_at - self.output.allowed_lateness
            self.recent_panes = [
                file
                for file in [*self.recent_panes, *added]
                if file.path not in gone and file.window_ends[1] > reach
            ]

    def _remember_states(self, added: Sequence[DataFile], consumed: Sequence[DataFile]) -> None:
        gone = {file.path for file in consumed}
        self.open_states = [*(file for file in self.open_states if file.path not in gone), *added]

    # Asked besides

    def would_fire(self, stretch: Stretch) -> bool:
        """Whether a batch without data would publish anything."""
        panes, partials, known = self.tables.panes, self.tables.partials, self.known_keys
        return (
            silence_publishes(self.output, partials, self.open_states, stretch, self.has_news)
            or (known is not None and bool(windows_closed(self.name, self._window, known, stretch)))
            or (self.closes and bool(places_to_close(panes, self.output, stretch) - self._to_retract()))
        )

    def _to_retract(self) -> set[tuple[Any, ...]]:
        """The panes that will be taken back, so that there is nothing to close: none but those of sessions."""
        return set()

    def fates_by_batch(self, batch: Batch, periods: Periods = ()) -> dict[int, Counts]:
        """For each batch in the log, what became of its events: for an output that catches up, or under
        the policies that it has had."""
        if batch.logged is None:
            return {}
        rules = list(periods) or [(0, self.output)]
        outputs, measures = [under for _, under in rules], list(self.merger.measures)
        wanted = stored_columns(self.store.layout, outputs, measures)
        events = event_tables(batch.logged, wanted, outputs, self.store.layout)
        return counts_by_batch(events, self.store.layout, measures, rules, timeline(batch), batch.number)


def timeline(batch: Batch) -> Watermarks:
    """The watermark of each tick of a batch; of the whole log, of each batch and tick."""
    return batch.stretch.by_batch if batch.history else batch.stretch.by_tick
