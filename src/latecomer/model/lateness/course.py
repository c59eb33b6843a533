"""The course of the timeline without any delay: the newest event time when each tick's events came.

With a delay of `d` for every partition, the watermark is this course less `d`, tick by tick: idleness, silence and the
minimum over partitions do not depend on `d`. So one walk gives the exact result for every delay. The engine's own
`Timeline` does the walk. Where ticks were read in order, running maxima give the same result much faster.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from latecomer.model.array_types import Flags, Integers
from latecomer.model.sources import BySource
from latecomer.model.strategies import Bounded, Strategy, TickSummary
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME

NOTHING = BEGIN_OF_TIME


@dataclass(frozen=True)
class RecordedBatch:
    """A batch of the timeline, as it was recorded."""

    batch: int
    kind: str
    at: int
    ticks: Sequence[tuple[int, Sequence[TickSummary]]] = ()
    """Each tick with the summaries of its partitions, in order."""
    named: Mapping[str, bool] | None = None


@dataclass
class Course:
    """For each tick of each batch, the newest event time that judges it, and the newest one of each of its partitions.

    `newest` is the watermark with a delay of zero, before the tick's own events. `step_newest` and `step_at` say when
    it rose.
    """

    batch: Integers
    tick: Integers
    at: Integers
    newest: Integers
    counts: Flags
    """False for repaired dead letters: they do not show how late events come."""
    step_newest: Integers
    step_at: Integers
    partitions: list[str]
    summary_key: Integers
    """Row of the tick times the number of partitions, plus the partition."""
    summary_before: Integers
    """The newest event time of that partition before the tick; NOTHING where it had none."""
    silences: dict[str, Integers] = field(default_factory=dict)
    """The lengths of each partition's silences between two ticks with events."""
    drained: bool = False

    @property
    def span(self) -> int:
        """The time from the first arrival to the last."""
        return int(self.at.max() - self.at.min()) if len(self.at) else 0

    def row_of(self, batch: Integers, tick: Integers) -> Integers:
        """The row of each event's tick; -1 where the course has none."""
        if not len(self.batch):
            return np.full(len(tick), -1, np.int64)
        first, width = int(self.tick.min()), int(self.tick.max() - self.tick.min()) + 1
        keys = self.batch * width + (self.tick - first)
        wanted = batch * width + (tick - first)
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        known = (keys[place] == wanted) & (tick >= first) & (tick < first + width)
        return np.where(known, place, -1)

    def before(self, row: Integers, partition: Integers) -> Integers:
        """The newest event time of each event's own partition before its tick; NOTHING where it had none."""
        wanted = row * len(self.partitions) + partition
        if not len(self.summary_key):
            return np.full(len(row), NOTHING, np.int64)
        place = np.minimum(np.searchsorted(self.summary_key, wanted), len(self.summary_key) - 1)
        return np.where(self.summary_key[place] == wanted, self.summary_before[place], NOTHING)

    def closing(self, ends: Integers, delay: int) -> tuple[Integers, Flags]:
        """The step that closes each window with a delay, and whether there is one."""
        step = np.searchsorted(self.step_newest, ends + delay)
        closed = step < len(self.step_newest)
        return np.minimum(step, max(len(self.step_newest) - 1, 0)), closed

    @property
    def reached(self) -> int:
        """The newest event time that counts at the end."""
        return int(self.step_newest[-1]) if len(self.step_newest) else NOTHING


def without_delay(strategy: Strategy) -> Strategy:
    """The same ticks and the same idleness, with the largest event time and no delay."""
    if isinstance(strategy, BySource):
        return BySource.of_strategies({name: without_delay(each) for name, each in strategy.sources.items()})
    return Bounded(
        "0s",
        idle_after=None if strategy.idle_after is None else f"{strategy.idle_after}us",
        on_idle=strategy.on_idle,
        every="event" if strategy.every == "event" else f"{strategy.every}us",
    )


class Walk:
    """Replays the recorded batches in order."""

    def __init__(self, strategy: Strategy) -> None:
        self._timeline = Timeline(without_delay(strategy))
        self._own_tick_counts = strategy.every == "event"
        self._rows: list[tuple[int, int, int, int, bool]] = []
        self._summaries = array("q"), array("q"), array("q")
        """Row, partition and the partition's newest event time before, for every summary."""
        self._steps: list[tuple[int, int]] = []
        self._codes: dict[str, int] = {}
        self._spoke: dict[str, array[int]] = {}
        self._drained = False

    def take(self, recorded: RecordedBatch) -> None:
        if recorded.kind == "tick":
            self._take_ticks(recorded)
        elif recorded.kind == "heartbeat":
            self._take_heartbeat(recorded)
        elif recorded.kind == "drain":
            self._timeline.drain()
            self._drained = True
        else:
            for tick, _ in recorded.ticks:
                self._rows.append((recorded.batch, tick, recorded.at, self._timeline.watermark, False))

    def _take_ticks(self, recorded: RecordedBatch) -> None:
        named = recorded.named
        for tick, summaries in recorded.ticks:
            early = self._own_maxima(summaries) if self._own_tick_counts else None
            (row,) = self._timeline.extend(summaries, named)
            named = None
            before = self._own_maxima(summaries) if early is None else early
            nth = len(self._rows)
            self._rows.append((recorded.batch, tick, row.at, row.watermark, True))
            for name, reached in before.items():
                code = self._codes.setdefault(name, len(self._codes))
                for column, value in zip(self._summaries, (nth, code, reached), strict=True):
                    column.append(value)
            self._step(row.watermark, row.at)
            if row.settled is not None:
                self._step(row.settled, row.at)
            for summary in summaries:
                self._spoke.setdefault(summary.partition, array("q")).append(row.at)
        if not recorded.ticks and named is not None:
            self._timeline.extend([], named)

    def _take_heartbeat(self, recorded: RecordedBatch) -> None:
        if recorded.named is not None and recorded.named != self._timeline.named:
            self._timeline.name_partitions(recorded.named)
        row = self._timeline.heartbeat(recorded.at)
        if row is not None:
            self._step(row.watermark, row.at)

    def _own_maxima(self, summaries: Sequence[TickSummary]) -> dict[str, int]:
        known = self._timeline.partitions
        return {
            summary.partition: NOTHING
            if summary.partition not in known or known[summary.partition].state is None
            else int(known[summary.partition].state)
            for summary in summaries
        }

    def _step(self, newest: int, at: int) -> None:
        if BEGIN_OF_TIME < newest < END_OF_TIME and (not self._steps or newest > self._steps[-1][0]):
            self._steps.append((newest, at))

    def course(self) -> Course:
        columns = _columns(self._rows, 5)
        width = len(self._codes)
        nth, code, before = (np.array(each, np.int64) for each in self._summaries)
        keys = nth * width + code
        newest, at = _columns(self._steps, 2)
        order = np.lexsort((columns[1], columns[0]))
        moved = np.empty(len(order), np.int64)
        moved[order] = np.arange(len(order))
        if width:
            keys = moved[keys // width] * width + keys % width
            sort = np.argsort(keys)
            keys, before = keys[sort], before[sort]
        silences = {name: np.diff(np.unique(np.array(spoke))) for name, spoke in self._spoke.items()}
        batch, tick, clock, reached, counts = (column[order] for column in columns)
        return Course(
            batch,
            tick,
            clock,
            reached,
            counts.astype(bool),
            newest,
            at,
            list(self._codes),
            keys,
            before,
            {name: each for name, each in silences.items() if len(each)},
            self._drained,
        )


def _columns(rows: Sequence[tuple[Any, ...]], width: int) -> list[Integers]:
    table = np.array(rows, np.int64).reshape(-1, width)
    return [np.ascontiguousarray(table[:, nth]) for nth in range(width)]


def course_in_order(
    tick: Integers, at: Integers, largest: Integers, partition: str = "", single_events: bool = False
) -> Course:
    """The course of one partition whose ticks come once each and in order, from the largest event time of each.

    A tick that is a single event counts at once, and not only when the next tick comes.
    """
    reached = np.maximum.accumulate(largest) if len(largest) else largest
    newest = np.concatenate([[NOTHING], reached[:-1]]) if len(largest) else largest
    risen = reached if single_events else newest
    rises = np.flatnonzero(np.diff(risen, prepend=NOTHING) > 0)
    gaps = np.diff(at)
    return Course(
        np.zeros(len(tick), np.int64),
        tick,
        at,
        newest,
        np.ones(len(tick), bool),
        risen[rises],
        at[rises],
        [partition],
        np.arange(len(tick)),
        newest,
        {partition: gaps} if len(gaps) else {},
    )


ROOM = 30_000_000
"""The most ticks times partitions that are computed at once: 500 MB."""


def course_of_partitions(
    batch: Integers,
    tick: Integers,
    at: Integers,
    summary_row: Integers,
    summary_code: Integers,
    largest: Integers,
    names: list[str],
    every: int,
    idle_after: int | None,
) -> Course | None:
    """The course of partitions whose ticks are in order; None where only a walk gives the result.

    A tick that two batches share has a row for each part, and both are judged alike. Each summary is given with its
    row, its partition, and its largest event time.
    """
    in_order = len(tick) > 1 and (np.diff(tick) >= 0).all() and (np.diff(at) >= 0).all()
    if not in_order or (at // every != tick).any() or len(tick) * len(names) > ROOM:
        return None
    ticks, first, place = np.unique(tick, return_index=True, return_inverse=True)
    clock, summary_place = at[first], place[summary_row]
    brought = np.full((len(ticks), len(names)), NOTHING, np.int64)
    np.maximum.at(brought, (summary_place, summary_code), largest)
    ends = np.full((len(ticks), len(names)), NOTHING, np.int64)
    ends[summary_place, summary_code] = (ticks[summary_place] + 1) * every
    reached = _before(brought)
    known = reached != NOTHING
    active = known
    if idle_after is not None:
        # The clip keeps the difference within 64 bits; a partition without events is not active in any case.
        active = known & (clock[:, None] - np.maximum(_before(ends), 0) < idle_after)
    slowest = np.where(active, reached, np.iinfo(np.int64).max).min(axis=1)
    newest = np.maximum.accumulate(np.where(active.any(axis=1), slowest, reached.max(axis=1)))
    rises = np.flatnonzero(np.diff(newest, prepend=NOTHING) > 0)
    keys = summary_row * len(names) + summary_code
    order = np.argsort(keys)
    spoke = {name: np.unique(at[summary_row[summary_code == code]]) for code, name in enumerate(names)}
    return Course(
        batch,
        tick,
        at,
        newest[place],
        np.ones(len(tick), bool),
        newest[rises],
        clock[rises],
        names,
        keys[order],
        reached[summary_place, summary_code][order],
        {name: np.diff(each) for name, each in spoke.items() if len(each) > 1},
    )


def _before(values: Integers) -> Integers:
    """The largest value of the rows before each row, column by column."""
    largest = np.full_like(values, NOTHING)
    np.maximum.accumulate(values[:-1], axis=0, out=largest[1:])
    return largest
