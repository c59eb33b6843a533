"""The course of the timeline without any delay: the newest event time when each tick's events came.

With a delay of `d` for every partition, the watermark is this course less `d`, tick by tick: idleness, silence and the
minimum over partitions do not depend on `d`. So one walk gives the exact result for every delay. The engine's own
`Timeline` does the walk. Where ticks were read in order, running maxima give the same result much faster.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from latecomer.model.array_types import Flags, Integers
from latecomer.model.sources import BySource
from latecomer.model.strategies import Bounded, Strategy, TickSummary
from latecomer.model.timeline import Timeline
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME

NOTHING = BEGIN_OF_TIME
ROOM = 30_000_000
"""The most ticks times partitions that are computed at once: 500 MB."""


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


@dataclass(frozen=True)
class RecordedTimeline:
    """A timeline as it was recorded, row by row: the ticks of each batch, and batches without data."""

    batch: Integers
    tick: Integers
    at: Integers
    row: Integers
    """The row of each summary of a partition, ascending. The columns below are of summaries."""
    code: Integers
    """The place of the partition in `names`."""
    events: Integers
    largest: Integers
    names: list[str]
    kind: Sequence[str] = ()
    """The kind of each row; empty where all are ticks."""
    named: Sequence[str | None] = ()
    """The carry of each row in which partitions were named."""

    def course(self, strategy: Strategy) -> Course:
        quick = self.quick(strategy)
        return self.walked(strategy) if quick is None else quick

    def quick(self, strategy: Strategy) -> Course | None:
        """The course by running maxima; None where only a walk gives it: where ticks are not in order, or anything else
        happened than a drain in the end.

        A tick that two batches share has a row for each part, and both are judged alike.
        """
        count = self.kind.count("tick") if self.kind else len(self.batch)
        trailing = {*self.kind[count:]}
        batch, tick, at = self.batch[:count], self.tick[:count], self.at[:count]
        simple = trailing <= {"drain"} and not any(self.named) and not isinstance(strategy, BySource)
        if count < 2 or not simple or (np.diff(tick) < 0).any():
            return None
        single = strategy.every == "event"
        every = 1 if isinstance(strategy.every, str) else strategy.every
        names, idle_after = self.names, strategy.idle_after
        if single:  # a tick that is a single event counts at once, and not only when the next tick comes
            in_order = (
                len(names) == 1 and np.array_equal(self.row, np.arange(count)) and bool(np.diff(tick).all())
            )
        else:
            small = count * len(names) <= ROOM
            in_order = bool(small and (np.diff(at) >= 0).all() and (at // every == tick).all())
        if not in_order:
            return None
        ticks, first, place = np.unique(tick, return_index=True, return_inverse=True)
        clock, summary_place = at[first], place[self.row]
        brought = np.full((len(ticks), len(names)), NOTHING, np.int64)
        np.maximum.at(brought, (summary_place, self.code), self.largest)
        reached = _before(brought)
        active = known = reached != NOTHING
        if idle_after is not None and not single:
            ends = np.full((len(ticks), len(names)), NOTHING, np.int64)
            ends[summary_place, self.code] = (ticks[summary_place] + 1) * every
            # The clip keeps the difference within 64 bits; a partition without events is not active in any case.
            active = known & (clock[:, None] - np.maximum(_before(ends), 0) < idle_after)
        slowest = np.where(active, reached, np.iinfo(np.int64).max).min(axis=1)
        newest = np.maximum.accumulate(np.where(active.any(axis=1), slowest, reached.max(axis=1)))
        risen = np.maximum.accumulate(brought[:, 0]) if single else newest
        rises = np.flatnonzero(np.diff(risen, prepend=NOTHING) > 0)
        keys = self.row * len(names) + self.code
        order = np.argsort(keys)
        spoke = {name: np.unique(at[self.row[self.code == code]]) for code, name in enumerate(names)}
        return Course(
            batch,
            tick,
            at,
            newest[place],
            np.ones(count, bool),
            risen[rises],
            clock[rises],
            names,
            keys[order],
            reached[summary_place, self.code][order],
            {name: np.diff(each) for name, each in spoke.items() if len(each) > 1},
            bool(trailing),
        )

    def walked(self, strategy: Strategy) -> Course:
        """The course, batch by batch."""
        walk = _Walk(strategy)
        starts = np.searchsorted(self.row, np.arange(len(self.batch) + 1)).tolist()
        batches = [*np.flatnonzero(np.diff(self.batch, prepend=-1)).tolist(), len(self.batch)]
        tick, at, code = self.tick.tolist(), self.at.tolist(), self.code.tolist()
        events, largest = self.events.tolist(), self.largest.tolist()
        for start, end in pairwise(batches):
            kind = self.kind[start] if self.kind else "tick"
            summaries = [
                [
                    TickSummary(tick[row], at[row], self.names[code[nth]], events[nth], largest[nth])
                    for nth in range(starts[row], starts[row + 1])
                ]
                for row in range(start, end)
            ]
            ticks = [
                (tick[row], found)
                for row, found in zip(range(start, end), summaries, strict=True)
                if found or kind == "repair"
            ]
            named = next((each for each in self.named[start:end] if each), None)
            walk.take(int(self.batch[start]), kind, max(at[start:end]), ticks, Timeline.named_in(named))
        return walk.course()


Ticks = Sequence[tuple[int, Sequence[TickSummary]]]
"""Each tick with the summaries of its partitions, in order."""
Named = Mapping[str, bool] | None


class _Walk:
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

    def take(self, batch: int, kind: str, at: int, ticks: Ticks, named: Named) -> None:
        if kind == "tick":
            self._take_ticks(batch, ticks, named)
        elif kind == "heartbeat":
            if named is not None and named != self._timeline.named:
                self._timeline.name_partitions(named)
            if (row := self._timeline.heartbeat(at)) is not None:
                self._step(row.watermark, row.at)
        elif kind == "drain":
            self._timeline.drain()
            self._drained = True
        else:
            for tick, _ in ticks:
                self._rows.append((batch, tick, at, self._timeline.watermark, False))

    def _take_ticks(self, batch: int, ticks: Ticks, named: Named) -> None:
        if not ticks and named is not None:
            self._timeline.extend([], named)
        for tick, summaries in ticks:
            early = self._own_maxima(summaries) if self._own_tick_counts else None
            (row,) = self._timeline.extend(summaries, named)
            named = None
            before = self._own_maxima(summaries) if early is None else early
            nth = len(self._rows)
            self._rows.append((batch, tick, row.at, row.watermark, True))
            for name, reached in before.items():
                code = self._codes.setdefault(name, len(self._codes))
                for column, value in zip(self._summaries, (nth, code, reached), strict=True):
                    column.append(value)
            self._step(row.watermark, row.at)
            if row.settled is not None:
                self._step(row.settled, row.at)
            for summary in summaries:
                self._spoke.setdefault(summary.partition, array("q")).append(row.at)

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


def _before(values: Integers) -> Integers:
    """The largest value of the rows before each row, column by column."""
    largest = np.full_like(values, NOTHING)
    np.maximum.accumulate(values[:-1], axis=0, out=largest[1:])
    return largest
