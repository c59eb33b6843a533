"""One output, batch by batch: prepared first, published only when the ledger balances.

    states to read → events judged → merged → lanes  |  panes → side output → open states
                                           prepared  |  published, each in one step, each once

Sessions do the same with other steps: `firing/sessions.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any, ClassVar, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.fast import Choice, Declined
from latecomer.firing.batch import Batch, by_arrival
from latecomer.firing.closing import CLOSING, may_close, places_to_close, write_closing_panes
from latecomer.firing.columns import Lane
from latecomer.firing.empty import KnownKeys, ends_closed, write_empty_panes
from latecomer.firing.ends import ends_found, ends_to_close
from latecomer.firing.in_process import ArrowOutput, timeline
from latecomer.firing.lanes import Lanes, write_lanes
from latecomer.firing.late import touching, write_late_panes, write_retracts
from latecomer.firing.overflow import Outgrown
from latecomer.firing.side_output import side_output
from latecomer.firing.silence import has_news, silence_publishes
from latecomer.log.logged import Logged
from latecomer.model.ledger import ASSIGNMENTS
from latecomer.model.panes import Accumulation
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.model.windows import FixedWindow
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, footer, move, parquet_files, read_table, url, write_table
from latecomer.store.layout import PaneLayout
from latecomer.store.store import Store
from latecomer.store.table import DataFile, batch_of, kind_of
from latecomer.timeline.keeper import Stretch
from latecomer.windowing.columns import BATCH
from latecomer.windowing.judge import Periods, as_seen, judged
from latecomer.windowing.merge import Counts, Merger
from latecomer.windowing.tally import counts_by_batch
from latecomer.windowing.tally_in_process import counts_by_batch as counted_here

FOLD_AT = 24
"""So many files of open states, or of late panes, are merged into one."""
SMALL = 8 << 20


@dataclass(frozen=True)
class Prepared:
    """An output's files for a batch, computed but not yet visible to anyone."""

    lanes: Lanes | None = None
    consumed: Sequence[DataFile] = ()
    counts: Counts = field(default_factory=Counts)


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
        self.known_keys = KnownKeys(self.merger, self.tables.panes) if self.output.emit_empty else None
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
        counted = ends_to_close(self._window, batch, consumed)
        ends = None if counted is None else list(counted)
        lanes = self.choice.take(
            "windowing",
            lambda: self._lanes_here(batch, consumed, ends),
            lambda: self._lanes_on_spark(batch, consumed, ends),
        )
        return Prepared(lanes, consumed, lanes.counts)

    def _lanes_here(self, batch: Batch, consumed: Sequence[DataFile], ends: Sequence[int] | None) -> Lanes:
        if ends is None:
            raise Declined("windows that end too often to be counted through")
        states = [self.tables.partials.location(file) for file in consumed]
        closed = dict(batch.stretch.closed(ends))
        return self._here.lanes(batch, states, closed, self.tables.panes.new_folder(batch.number))

    def _lanes_on_spark(
        self, batch: Batch, consumed: Sequence[DataFile], ends: Sequence[int] | None
    ) -> Lanes:
        events = None if batch.events is None else self._judged(batch, batch.events)
        states = self._read(consumed) if consumed else None
        inputs = [] if events is None else [self.merger.of_events(events)]
        inputs += [] if states is None else [self.merger.of_states(states)]
        firings = batch.stretch.firings(self.spark, ends_found(events, states) if ends is None else ends)
        folder = self.tables.panes.new_folder(batch.number)
        return write_lanes(self.merger, inputs, firings, self._params(batch), folder)

    @cached_property
    def _here(self) -> ArrowOutput:
        """What computes the output in this process."""
        return ArrowOutput.of(self.merger, self.store.layout)

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

    def _judged(self, batch: Batch, events: DataFrame) -> DataFrame:
        return judged(
            as_seen(events, self.store.layout, self.output), batch.timeline(self.spark), self.output
        )

    def _read(self, files: Sequence[DataFile]) -> DataFrame:
        return self.spark.read.schema(self.merger.ddl()).parquet(*self.tables.partials.paths(files))

    def _params(self, batch: Batch) -> DataFrame:
        return batch.params(self.spark, self.output)

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
        aside = prepared.counts.fates[ASSIGNMENTS].get(Fate.SIDE_OUTPUT, Decimal(0))
        if aside and batch.logged is not None and not self.tables.late.holds(number):
            folder = self.tables.late.new_folder(number)
            self._write_side_output(batch, prepared, folder)
            failpoint(f"{self.name}.late.written", number)
            self.tables.late.commit(number, parquet_files(folder))
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
            files += self._empty_panes(self.known_keys, batch, files, self._params(batch))
        if lanes and files and self._takes_back_early and self.recent_panes:
            folder = panes.new_folder(batch.number)
            self.choice.take(
                "retracts",
                partial(self._retracts_here, lanes.files[Lane.FIRED], folder),
                partial(self._retracts_on_spark, batch, lanes.files[Lane.FIRED], folder),
            )
            files += parquet_files(folder)
        if lanes and lanes.files[Lane.LATE]:
            fired = [file for file in map(panes.describe, files) if file.rows]
            held = touching([*self.recent_panes, *fired], lanes.touched)
            folder = panes.new_folder(batch.number, Lane.LATE)
            self.choice.take(
                "late panes",
                partial(self._late_panes_here, batch, lanes, held, folder),
                partial(self._late_panes_on_spark, batch, lanes, held, folder),
            )
            late, folded = self._fold_late(parquet_files(folder), batch)
            files += late
        if self.closes:
            files += self._closing_panes(batch, files)
        return files, folded

    @property
    def _takes_back_early(self) -> bool:
        return self.output.trigger.early is not None and self.output.accumulation is Accumulation.RETRACTING

    def _empty_panes(
        self, known: KnownKeys, batch: Batch, fired: Sequence[Location], params: DataFrame
    ) -> list[Location]:
        """The panes of keys that windows before had, for windows that closed without them."""
        known.learn(fired)
        ends = ends_closed(self.name, self._window, known, batch.stretch)
        if not ends:
            return []
        folder = self.tables.panes.new_folder(batch.number)
        firings = batch.stretch.firings(self.spark, ends)
        write_empty_panes(self.spark, known, self._window, firings, ends, fired, params, folder)
        return parquet_files(folder)

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
        self, batch: Batch, new: Sequence[Location], published: Sequence[str] = ()
    ) -> list[Location]:
        """The last panes of windows for which nothing more can come, also of those that just fired."""
        panes = self.tables.panes
        # What an interrupted attempt at this batch published is no past.
        earlier = [file for file in self.recent_panes if batch_of(file) < batch.number]
        known = panes.paths(may_close(earlier, self.output, batch.stretch))
        known += [url(file) for file in new if footer(file).num_rows]
        if not known or batch.stretch.fires_at == BEGIN_OF_TIME:
            return []
        folder = panes.new_folder(batch.number, CLOSING)
        write_closing_panes(self.spark, self.merger, known, published, self._params(batch), folder)
        return parquet_files(folder)

    def _retracts_here(self, fired: Sequence[Location], folder: Location) -> None:
        earlier = [self.tables.panes.location(file) for file in self.recent_panes]
        self._here.retracts(fired, earlier, folder)

    def _retracts_on_spark(self, batch: Batch, fired: Sequence[Location], folder: Location) -> None:
        earlier = self.tables.panes.paths(self.recent_panes)
        write_retracts(self.spark, self.merger, fired, earlier, self._params(batch), folder)

    def _late_panes_here(
        self, batch: Batch, lanes: Lanes, earlier: Sequence[DataFile], folder: Location
    ) -> None:
        places = [self.tables.panes.location(file) for file in earlier]
        self._here.late_panes(lanes.files[Lane.LATE], places, lanes.touched, batch, folder)

    def _late_panes_on_spark(
        self, batch: Batch, lanes: Lanes, earlier: Sequence[DataFile], folder: Location
    ) -> None:
        paths = self.tables.panes.paths(earlier)
        write_late_panes(self.spark, self.merger, lanes.files[Lane.LATE], paths, self._params(batch), folder)

    def _write_side_output(self, batch: Batch, prepared: Prepared, folder: Location) -> None:
        self.choice.take(
            "side output",
            partial(self._write_late_here, batch, folder),
            partial(self._write_late_on_spark, batch, prepared, folder),
        )

    def _write_late_here(self, batch: Batch, folder: Location) -> None:
        self._here.side_output(batch, folder)

    def _write_late_on_spark(self, batch: Batch, prepared: Prepared, folder: Location) -> None:
        assert batch.events is not None  # noqa: S101
        self._late(batch, batch.events, prepared).coalesce(1).write.parquet(url(folder))

    def _late(self, batch: Batch, events: DataFrame, _prepared: Prepared) -> DataFrame:
        """The side output of a batch."""
        return side_output(events, batch.timeline(self.spark), self.output, self.store.layout)

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
            or (known is not None and bool(ends_closed(self.name, self._window, known, stretch)))
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
        return self.choice.take(
            "fates",
            partial(self._fates_here, batch, batch.logged, periods),
            partial(self._fates_on_spark, batch, batch.logged, periods),
        )

    def _fates_here(self, batch: Batch, logged: Logged, periods: Periods) -> dict[int, Counts]:
        return counted_here(self.merger, logged, timeline(batch), batch.number, periods)

    def _fates_on_spark(self, batch: Batch, logged: Logged, periods: Periods) -> dict[int, Counts]:
        seen = as_seen(logged.frame, self.store.layout, self.output)
        ticks = batch.stretch.frame(self.spark, with_batch=True)
        found: dict[int, Counts] = {}
        for since, under in periods or [(0, self.output)]:  # a later policy has the last word
            events = seen.where(F.col(BATCH) >= since)
            found |= counts_by_batch(self.merger, judged(events, ticks, under))
        return found
