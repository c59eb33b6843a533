"""One output, batch by batch: prepared first, published only when the ledger balances."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeGuard

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.errors import PipelineError, Problem
from latecomer.firing.closing import CLOSING, may_close, places_to_close, write_closing_panes
from latecomer.firing.empty import KnownKeys, write_empty_panes
from latecomer.firing.lanes import (
    BATCH,
    BEFORE,
    BEGAN,
    CLOCK,
    EARLY_DUE,
    FIRED,
    LATE,
    LATE_DUE,
    NOW,
    OPEN,
    WAITING,
    Lanes,
    write_lanes,
)
from latecomer.firing.late import touching, write_late_panes, write_retracts
from latecomer.firing.side_output import write_side_output
from latecomer.model.durations import to_micros, to_moment
from latecomer.model.ledger import ASSIGNMENTS
from latecomer.model.panes import Accumulation
from latecomer.model.triggers import Every
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.model.windows import Session
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, footer, move, parquet_files, read_table, url, write_table
from latecomer.store.layout import TIMESTAMP, PaneLayout
from latecomer.store.state_types import beyond_column, beyond_halves
from latecomer.store.store import Store
from latecomer.store.table import DataFile, batch_of, kind_of
from latecomer.timeline.keeper import Stretch
from latecomer.windowing.assign import END
from latecomer.windowing.judge import BATCH as EVENT_BATCH
from latecomer.windowing.judge import Periods, as_seen, judged
from latecomer.windowing.merge import Counts, Merger
from latecomer.windowing.states import SINCE
from latecomer.windowing.tally import counts_by_batch

LOG = logging.getLogger(__name__)
FOLD_AT = 24
"""So many files of open states, or of late panes, are merged into one."""
SMALL = 8 << 20
MOST_ENDS = 1_000_000
MOST_EMPTY = 50_000_000
"""So many empty panes in one batch are a mistake: a corrupt event time, or far too short a window."""


@dataclass(frozen=True)
class Batch:
    """What an output needs to know of a batch. `events` is None where the batch brought no data."""

    number: int
    stretch: Stretch
    events: DataFrame | None = None
    earliest: int = 0
    latest: int = 0
    history: bool = False
    """The events are the whole log, of many batches: an output that was added later catches up."""


@dataclass(frozen=True)
class Prepared:
    """An output's files for a batch, computed but not yet visible to anyone."""

    lanes: Lanes | None = None
    consumed: Sequence[DataFile] = ()
    counts: Counts = field(default_factory=Counts)


class OutputLogic:
    """Computes and publishes one output's panes."""

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
        self._outgrown: set[str] = set()
        self.remember()
        self.known_keys = KnownKeys(self.merger, self.tables.panes) if self.output.emit_empty else None

    def remember(self) -> None:
        """What is kept in mind between batches, from the tables."""
        self.open_states = self.tables.partials.files()
        self.recent_panes = self.tables.panes.files() if self.output.replaces else []

    @property
    def windows_each(self) -> int | None:
        """How many windows hold an event; None where that depends on when it happened."""
        return self.output.window.windows_each

    def prepare(self, batch: Batch) -> Prepared:
        """One pass over the batch's events and the open states they meet."""
        consumed = [] if batch.history else self._states_to_read(batch.stretch)
        inputs = []
        timeline = batch.stretch.frame(self.spark, with_batch=batch.history)
        if batch.events is not None:
            seen = as_seen(batch.events, self.store.layout)
            inputs.append(self.merger.of_events(judged(seen, timeline, self.output)))
        if consumed:
            inputs.append(self.merger.of_states(self._read(consumed)))
        if not inputs:
            return Prepared()
        firings = batch.stretch.firings(self.spark, self._ends(batch, consumed))
        folder = self.tables.panes.new_folder(batch.number)
        lanes = write_lanes(self.merger, inputs, firings, self._params(batch), folder)
        return Prepared(lanes, consumed, lanes.counts)

    def publish(self, batch: Batch, prepared: Prepared) -> None:
        """Panes, then the side output, then the open states: each visible in one step, each once.

        The open states come last: until they are committed, the ones they replace are still there for
        an attempt that has to start over.
        """
        lanes, number = prepared.lanes, batch.number
        if lanes is None and self.known_keys is None and not self.closes:
            return
        if not self.tables.panes.holds(number):
            self._publish_panes(batch, lanes)
            failpoint(f"{self.name}.panes.committed", number)
        if lanes is None:
            return
        aside = prepared.counts.fates[ASSIGNMENTS].get(Fate.SIDE_OUTPUT, Decimal(0))
        if aside and batch.events is not None and not self.tables.late.holds(number):
            self._publish_side_output(batch, batch.events)
            failpoint(f"{self.name}.late.committed", number)
        if not self.tables.partials.holds(number):
            partials = self.tables.partials
            home = _moved(lanes.files[OPEN], partials.new_folder(number))
            home += _moved(lanes.files[WAITING], partials.new_folder(number, WAITING))
            added = self.tables.partials.commit(number, home, prepared.consumed)
            gone = {file.path for file in prepared.consumed}
            self.open_states = [file for file in self.open_states if file.path not in gone] + added
            failpoint(f"{self.name}.partials.committed", number)

    def would_fire(self, stretch: Stretch) -> bool:
        """Whether a batch without data would publish anything."""
        closes = any(self._publishes_at_its_end(file, stretch) for file in self.open_states)
        early, late = self.output.trigger.early, self.output.trigger.late
        unpublished = any(file.maximum.get(SINCE, 0) > 0 for file in self._still_open())
        waiting = any(kind_of(file) == WAITING for file in self.open_states)
        return (
            closes
            or (unpublished and isinstance(early, Every) and self._passes(early, stretch))
            or (waiting and isinstance(late, Every) and stretch.passed(late.every))
            or (self.known_keys is not None and bool(self._ends_closed(Batch(0, stretch), self.known_keys)))
            or (
                self.closes
                and bool(places_to_close(self.tables.panes, self.output, stretch) - self._unpublished())
            )
        )

    @property
    def closes(self) -> bool:
        """Whether there may be closing panes: where nothing replaces a pane, each is marked as the last."""
        return self.output.trigger.closing and self.output.replaces

    def _unpublished(self) -> set[tuple[Any, ...]]:
        """The panes that will be taken back, so that there is nothing to close: none but those of sessions."""
        return set()

    def _publishes_at_its_end(self, file: DataFile, stretch: Stretch) -> bool:
        """Whether a window of this file has reached its end, and something of it is to be published."""
        if to_micros(file.minimum["window_end"]) + self._waits(file) > stretch.fires_at:
            return False
        if kind_of(file) == WAITING or not self.output.closes_silently:
            return True
        states = read_table(self.tables.partials.location(file))
        closed = pc.field("window_end") <= pa.scalar(stretch.fires_at, pa.int64()).cast(TIMESTAMP)
        return self._has_news(states.filter(closed), stretch)

    def _has_news(self, closed: pa.Table, stretch: Stretch) -> bool:
        return any(since > 0 for since in closed.column(SINCE).to_pylist())

    def _waits(self, file: DataFile) -> int:
        return self.output.settles_after if kind_of(file) == WAITING else 0

    def _passes(self, early: Every, stretch: Stretch) -> bool:
        """Whether a clock reached a multiple of the interval for a window with events yet to be published."""
        if early.clock == "arrival":
            return stretch.passed(early.every)
        if self.output.window.endless:
            return stretch.began_at // early.every < stretch.fires_at // early.every
        before = stretch.before.watermark if stretch.before else BEGIN_OF_TIME
        return any(
            max(before - start, 0) // early.every < (stretch.fires_at - start) // early.every
            for start in self._starts_unpublished()
        )

    def _still_open(self) -> list[DataFile]:
        return [file for file in self.open_states if kind_of(file) != WAITING]

    def _starts_unpublished(self) -> set[int]:
        starts: set[int] = set()
        for file in self._still_open():
            states = read_table(self.tables.partials.location(file), ["window_start", SINCE])
            unpublished = states.filter(pc.field(SINCE) > 0).column("window_start")
            starts.update(pc.unique(unpublished).cast(pa.int64()).to_pylist())
        return starts

    def fates_by_batch(self, batch: Batch, periods: Periods = ()) -> dict[int, Counts]:
        """For each batch in the log, what became of its events: for an output that catches up, or under
        the policies that it has had."""
        if batch.events is None:
            return {}
        seen = as_seen(batch.events, self.store.layout)
        timeline = batch.stretch.frame(self.spark, with_batch=True)
        found: dict[int, Counts] = {}
        for since, under in periods or [(0, self.output)]:  # a later policy has the last word
            events = seen.where(F.col(EVENT_BATCH) >= since)
            found |= counts_by_batch(self.merger, judged(events, timeline, under))
        return found

    def _publish_panes(self, batch: Batch, lanes: Lanes | None) -> None:
        number, panes, params = batch.number, self.tables.panes, self._params(batch)
        files = list(lanes.files[FIRED]) if lanes else []
        folded: list[DataFile] = []
        if self.known_keys is not None:
            files += self._empty_panes(batch, files, params)
        if lanes and files and self._takes_back_early:
            folder = panes.new_folder(number)
            earlier = panes.paths(self.recent_panes)
            if earlier:
                write_retracts(self.spark, self.merger, lanes.files[FIRED], earlier, params, folder)
                files += parquet_files(folder)
        if lanes and lanes.files[LATE]:
            fired = [file for file in map(panes.describe, files) if file.rows]
            earlier = panes.paths(touching([*self.recent_panes, *fired], lanes.touched))
            folder = panes.new_folder(number, LATE)
            write_late_panes(self.spark, self.merger, lanes.files[LATE], earlier, params, folder)
            late, folded = self._fold_late(parquet_files(folder), batch.stretch)
            files += late
        if self.closes:
            files += self._closing_panes(batch, files, params)
        failpoint(f"{self.name}.panes.written", number)
        added = panes.commit(number, files, folded)
        self._warn_of_outgrown(added)
        if self.output.replaces:
            gone = {file.path for file in folded}
            reach = batch.stretch.fires_at - self.output.allowed_lateness
            self.recent_panes = [
                file
                for file in [*self.recent_panes, *added]
                if file.path not in gone and to_micros(file.maximum["window_end"]) > reach
            ]

    def _warn_of_outgrown(self, added: Sequence[DataFile]) -> None:
        """Warn, once for each sum, that it did not fit its column somewhere: it is null there."""
        kinds = self.merger.state_columns
        kept = {
            name: column
            for name in self.layout.values
            for column in (beyond_column(name), beyond_halves(name)[0])
            if column in kinds and name not in self._outgrown
        }
        if not kept or not added:
            return
        rows = self.tables.panes.dataset(added).to_table(columns=list(kept.values()))
        for name, column in kept.items():
            if places := rows.num_rows - rows[column].null_count:
                self._outgrown.add(name)
                LOG.warning(
                    "output %s: %s does not fit %s in %d places and is null there; the exact sum is kept, and "
                    "published once it fits. In a new store sums of whole numbers have 38 digits; decimals need "
                    "fewer digits in source.schema",
                    self.name,
                    name,
                    self.layout.values[name],
                    places,
                )

    def _closing_panes(
        self, batch: Batch, new: Sequence[Location], params: DataFrame, published: Sequence[str] = ()
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
        write_closing_panes(self.spark, self.merger, known, published, params, folder)
        return parquet_files(folder)

    @property
    def _takes_back_early(self) -> bool:
        return self.output.trigger.early is not None and self.output.accumulation is Accumulation.RETRACTING

    def _empty_panes(self, batch: Batch, fired: Sequence[Location], params: DataFrame) -> list[Location]:
        """The panes of keys that windows before had, for windows that closed without them."""
        known, window = self.known_keys, self.output.window
        assert known is not None  # noqa: S101
        assert not isinstance(window, Session)  # noqa: S101
        known.learn(fired)
        ends = self._ends_closed(batch, known)
        if not ends:
            return []
        folder = self.tables.panes.new_folder(batch.number)
        firings = batch.stretch.firings(self.spark, ends)
        write_empty_panes(self.spark, known, window, firings, ends, fired, params, folder)
        return parquet_files(folder)

    def _ends_closed(self, batch: Batch, known: KnownKeys) -> list[int]:
        """Every window end that the watermark passed in this batch. A drain passes all of time, and
        publishes no window after the last one with events."""
        window, first, newest = self.output.window, known.first, known.newest
        assert not isinstance(window, Session)  # noqa: S101
        if first is None or newest is None:
            return []
        stretch = batch.stretch
        after = max(first, stretch.before.watermark if stretch.before else BEGIN_OF_TIME)
        until = newest if stretch.fires_at == END_OF_TIME else stretch.fires_at
        if until <= after:
            return []
        count = (until - after) // window.step
        if count > MOST_ENDS or count * known.table.num_rows > MOST_EMPTY:
            raise self._too_many_empty(count, known.table.num_rows, after)
        return list(window.ends(after, until))

    def _too_many_empty(self, windows: int, keys: int, after: int) -> PipelineError:
        closed = f"{windows:,} windows closed in one batch since {to_moment(after):%Y-%m-%d %H:%M}"
        fix = (
            "set emit_empty: false and run again: nothing is lost; look for an event far in the past among "
            "the first, or for a window that is too short"
        )
        message = f"{closed}, to be published as empty for {keys:,} key{'s' if keys > 1 else ''}"
        return PipelineError([Problem(f"outputs.{self.name}.emit_empty", message, True, fix)])

    def _fold_late(self, new: list[Location], stretch: Stretch) -> tuple[list[Location], list[DataFile]]:
        """Late panes come in many small files; now and then they become one.

        Those of windows that no late event reached any more before this batch are upkeep's (ADR 0017).
        """
        before = stretch.before.watermark if stretch.before else BEGIN_OF_TIME
        small = [
            file
            for file in self.recent_panes
            if file.size < SMALL
            and kind_of(file) == LATE
            and to_micros(file.maximum["window_end"]) > before - self.output.allowed_lateness
        ]
        if len(small) < FOLD_AT:
            return new, []
        parts = map(read_table, [*map(self.tables.panes.location, small), *new])
        return [write_table(pa.concat_tables(parts), new[0].with_name("folded.parquet"))], small

    def _publish_side_output(self, batch: Batch, events: DataFrame) -> None:
        folder = self.tables.late.new_folder(batch.number)
        timeline = batch.stretch.frame(self.spark, with_batch=batch.history)
        write_side_output(events, timeline, self.output, self.store.layout, folder)
        failpoint(f"{self.name}.late.written", batch.number)
        self.tables.late.commit(batch.number, parquet_files(folder))

    def _states_to_read(self, stretch: Stretch) -> list[DataFile]:
        """The open states that a pane may need; all of them when there are many files."""
        early = self.output.trigger.early
        due = early is not None and (not _by_arrival(early) or stretch.passed(early.every))
        if due or len(self.open_states) >= FOLD_AT:
            return list(self.open_states)
        return [
            file for file in self.open_states if to_micros(file.minimum["window_end"]) <= stretch.fires_at
        ]

    def _ends(self, batch: Batch, consumed: Sequence[DataFile]) -> Iterable[int]:
        """The window ends that may close in this batch."""
        window, bounds = self.output.window, []
        assert not isinstance(window, Session), "sessions have no ends of their own"  # noqa: S101
        if batch.events is not None:
            # On time is only what ends after the watermark that the batch began with.
            first = batch.stretch.rows[0][1].watermark if batch.stretch.rows else batch.earliest
            first = min(max(first, batch.earliest), batch.latest)
            earliest = window.assign_all(batch.earliest)[0].end
            bounds.append(
                (
                    max(earliest, window.assign_all(first)[0].end) if not batch.history else earliest,
                    window.assign_all(batch.latest)[-1].end,
                )
            )
        bounds += [
            (to_micros(file.minimum["window_end"]), to_micros(file.maximum["window_end"]))
            for file in consumed
        ]
        low = min(first for first, _ in bounds)
        high = min(max(last for _, last in bounds), batch.stretch.fires_at)
        if high < low:
            return []
        if (high - low) // window.step <= MOST_ENDS:
            return window.ends(low - 1, high)
        return self._ends_found(batch, consumed)

    def _ends_found(self, batch: Batch, consumed: Sequence[DataFile]) -> list[int]:
        """The ends that do occur, where counting through all that could would take too long."""
        found = []
        if batch.events is not None:
            timeline = batch.stretch.frame(self.spark, with_batch=batch.history)
            found.append(judged(as_seen(batch.events, self.store.layout), timeline, self.output).select(END))
        if consumed:
            found.append(self._read(consumed).select(F.unix_micros("window_end").alias(END)))
        ends = found[0] if len(found) == 1 else found[0].union(found[1])
        return sorted(row[END] for row in ends.distinct().toArrow().to_pylist())

    def _read(self, files: Sequence[DataFile]) -> DataFrame:
        return self.spark.read.schema(self.merger.ddl()).parquet(*self.tables.partials.paths(files))

    def _params(self, batch: Batch) -> DataFrame:
        stretch, trigger = batch.stretch, self.output.trigger
        row = {
            BATCH: batch.number,
            BEFORE: stretch.before.watermark if stretch.before else BEGIN_OF_TIME,
            NOW: stretch.fires_at,
            BEGAN: stretch.began_at,
            CLOCK: stretch.clock,
            EARLY_DUE: _by_arrival(trigger.early) and stretch.passed(trigger.early.every),
            LATE_DUE: _by_arrival(trigger.late) and stretch.passed(trigger.late.every),
        }
        return self.spark.createDataFrame(
            pa.table({name: pa.array([int(value)], pa.int64()) for name, value in row.items()})
        )


def _by_arrival(rule: object) -> TypeGuard[Every]:
    return isinstance(rule, Every) and rule.clock == "arrival"


def _moved(files: Sequence[Location], folder: Location) -> list[Location]:
    """One pass of Spark writes one folder; what of it belongs to another table goes there."""
    return [move(file, folder / file.name) for file in files]
