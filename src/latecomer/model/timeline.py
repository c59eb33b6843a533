"""The watermark timeline: the watermark in force for every tick of arrival time.

The timeline gets ticks as they are read, each with the summaries of its source partitions. For each tick it computes
the watermark that judges the events in it. That watermark depends only on the ticks before, so an event can never make
itself late. A tick that two batches share keeps its first watermark. So verdicts do not depend on where batches are
cut.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from latecomer.model.partition_marks import Active, Marks, Moving, PartitionMark, SummaryColumns
from latecomer.model.silent_partitions import PATIENCE, SilentPartition
from latecomer.model.strategies import Ascending, Bounded, State, Strategy, TickSummary
from latecomer.model.strategy_calls import advanced, lag_of, mark_of, storable
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT

Kind = Literal["tick", "heartbeat", "drain", "rebuild", "repair"]


@dataclass(frozen=True)
class TimelineRow:
    """One tick of one batch: the watermark in force for its events.

    `settled` is the watermark once the tick is over; it is known at once only where a tick is one event.
    `held_by` names the partition that the watermark waits for, and `held_with` the others with the same mark.
    `unheld` is the mark of the partition that is furthest ahead: None where no partition is further ahead.
    """

    tick: int
    at: int
    watermark: int
    settled: int | None = None
    kind: Kind = "tick"
    held_by: str | None = None
    held_with: tuple[str, ...] = ()
    unheld: int | None = None
    summaries: tuple[TickSummary, ...] = ()


@dataclass
class PartitionProgress:
    """How far one source partition has come, and the end of its last tick with events.

    The state is None where nothing is known about the partition: then it holds the watermark.
    """

    state: State
    seen_at: int
    heard: bool = True
    """False while it was named and had no events."""
    mark: int | None = field(default=None, compare=False)
    """Its own watermark, once the strategy has computed it: it depends on the state alone."""


@dataclass(frozen=True)
class OutOfStep:
    """The events of a batch that arrived clearly before events that had been read already."""

    events: int
    by: int
    """The longest time by which they arrived before."""


@dataclass
class Timeline:
    """The state between two batches; `carry` and `restore` keep it in the store."""

    strategy: Strategy
    watermark: int = BEGIN_OF_TIME
    last_tick: int | None = None
    last_at: int = BEGIN_OF_TIME
    newest: int = BEGIN_OF_TIME
    newest_arrival: int = BEGIN_OF_TIME
    """The newest tick with events that was read. Unlike `last_at`, it is not moved by heartbeats."""
    partitions: dict[str, PartitionProgress] = field(default_factory=dict)
    open_summaries: list[TickSummary] = field(default_factory=list)
    named: dict[str, bool] = field(default_factory=dict)
    """The partitions that the source itself names, and whether each has more data to read."""
    _all_marks: Marks | None = field(default=None, init=False, repr=False, compare=False)
    """The marks of all partitions; None where they must be computed again."""

    def extend(
        self, summaries: Iterable[TickSummary], named: Mapping[str, bool] | None = None
    ) -> list[TimelineRow]:
        """The rows for the ticks of one batch, in tick order. `named` has all partitions, and whether each has more
        data after this batch; None where the source does not name them."""
        if (
            isinstance(summaries, SummaryColumns)
            and len(summaries)
            and type(self.strategy) in (Bounded, Ascending)
        ):
            return self._extend_by_columns(summaries, named)
        ordered = sorted(summaries, key=attrgetter("tick", "partition"))
        if named is not None:
            self.name_partitions(named, max([self.last_at, *(summary.at for summary in ordered[:1])]))
        self.newest_arrival = max([self.newest_arrival, *(summary.at for summary in ordered)])
        return [self._tick(tick, tuple(group)) for tick, group in groupby(ordered, attrgetter("tick"))]

    def _extend_by_columns(
        self, summaries: SummaryColumns, named: Mapping[str, bool] | None
    ) -> list[TimelineRow]:
        """The same for summaries in columns, where marks follow the largest event times. The rows have no summaries.
        Ticks are processed one by one up to the first new one, and then with all partitions of a tick at once."""
        if named is not None:
            self.name_partitions(named, max(self.last_at, summaries[0].at))
        self.newest_arrival = max(self.newest_arrival, summaries[-1].at)
        ticks, rows, opened = pairwise(summaries.bounds), list[TimelineRow](), False
        begin = end = 0
        while not opened and end < len(summaries):
            begin, end = next(ticks)
            brought = tuple(summaries[begin:end])
            opened = self.last_tick is None or brought[0].tick > self.last_tick
            rows.append(replace(self._tick(brought[0].tick, brought), summaries=()))
        first, moving = begin, self._moving(summaries)
        for following, until in ticks:
            moving.settle(begin, end, self._tick_ends())
            begin, end, tick = following, until, int(summaries.tick[following])
            at = max(tick * summaries.every, self.last_at)
            marks = self._marks(at)
            self._reach(marks.slowest if marks else moving.marks.furthest)
            self.last_tick, self.last_at = tick, at
            rows.append(_held(TimelineRow(tick, at, self.watermark), marks))
        if begin > first:
            self.newest = max(self.newest, int(summaries.latest[first:begin].max()))
            self.open_summaries = list(summaries[begin:end])
            self.partitions |= {name: PartitionProgress(newest, at) for name, newest, at in moving.heard()}
        return rows

    def _moving(self, summaries: SummaryColumns) -> Moving:
        """The partitions of these summaries, with what is known about them."""

        def known(name: str, newest: int, seen_at: int) -> PartitionMark:
            return self._what_is_known(name, PartitionProgress(newest, seen_at))

        lags = np.array([lag_of(self.strategy, None, name) for name in summaries.names], np.int64)
        before = [
            self.partitions.get(name, PartitionProgress(None, BEGIN_OF_TIME)) for name in summaries.names
        ]
        newest = np.array([BEGIN_OF_TIME if each.state is None else each.state for each in before], np.int64)
        seen_at = np.array([each.seen_at for each in before], np.int64)
        return Moving(summaries, self._gathered(), lags, newest, seen_at, known)

    def name_partitions(self, named: Mapping[str, bool], at: int | None = None) -> None:
        """Name all partitions, and say whether each has more data to read.

        A new partition holds the watermark. Its silence counts from `at`, or between two batches from the last tick.
        So does the silence of a partition that had more data until now.
        """
        at = self.last_at if at is None else at
        self._all_marks = None
        for name, unread in self.named.items():
            if unread and name in self.partitions:
                self.partitions[name].seen_at = max(self.partitions[name].seen_at, at)
        self.named = dict(named)
        for name in named:
            self.partitions.setdefault(name, PartitionProgress(None, at, heard=False))
        for name in list(self.partitions):
            self._known(name)

    def known(self) -> dict[str, bool]:
        """Every partition that was named or had events, and whether it had more data when it was named last."""
        heard = (*self.partitions, *(summary.partition for summary in self.open_summaries))
        return {partition: self.named.get(partition, False) for partition in heard}

    def out_of_step(self, summaries: Iterable[TickSummary]) -> OutOfStep | None:
        """The events of a batch that arrived clearly before events that were read already: by more than a tick, and by
        more than the delay of the watermark. They may be late only because of the reading order. It is called before
        the batch is added."""
        if isinstance(summaries, SummaryColumns):  # summaries of the newest tick cannot be clearly before it
            summaries = summaries.before(self.newest_arrival - summaries.every)
        behind = [
            (self.newest_arrival - summary.at, summary.events)
            for summary in summaries
            if self.newest_arrival > summary.at
            and self.newest_arrival - summary.at > self._tolerance(summary.partition)
            and not self._was_awaited(summary.partition)
        ]
        if self.newest_arrival == BEGIN_OF_TIME or not behind:
            return None
        return OutOfStep(sum(events for _, events in behind), max(by for by, _ in behind))

    def _was_awaited(self, partition: str) -> bool:
        """Whether a partition was known to have more data: then its events cannot be late because of reading order."""
        stand_in = self.strategy.stand_in(partition)
        return self.named.get(partition, False) or (stand_in is not None and self.named.get(stand_in, False))

    def _tolerance(self, partition: str) -> int:
        known, every = self.partitions.get(partition), self.strategy.every
        lag = lag_of(self.strategy, known.state if known else None, partition)
        return max(lag, 1_000_000 if every == "event" else every)

    def holding(self) -> list[SilentPartition]:
        """The silent partitions that the watermark waits for, the one with the longest silence first.

        A partition with `idle_after` does not hold it for ever. Where all are silent, none waits for another.
        """
        if len(self.partitions) < 2:
            return []
        marks = {name: self._mark(name, known) for name, known in self.partitions.items()}
        heard = {summary.partition for summary in self.open_summaries}
        silent = {
            name
            for name, known in self.partitions.items()
            if name not in heard
            and not self.named.get(name, False)
            and self._idle_after(name) is None
            and self.last_at - known.seen_at >= self._patience(name)
        }
        speaking = sorted(mark for name, mark in marks.items() if name not in silent)
        if not speaking:
            return []
        holding = [
            SilentPartition(
                name,
                (since := self.partitions[name].seen_at),
                self.last_at - since,
                self.watermark,
                sum(mark > marks[name] for mark in speaking),
                self._patience(name),
                self.strategy.place(name),
            )
            for name in silent
            if marks[name] < speaking[0]
        ]
        return sorted(holding, key=lambda each: (each.since, each.partition))

    def marks(self) -> dict[str, int]:
        """The own watermark of each partition that is not idle; BEGIN_OF_TIME where nothing is known about it. The
        watermark waits for the slowest."""
        return dict(self._marks(self.last_at).items())

    def _patience(self, name: str) -> int:
        return max(PATIENCE, lag_of(self.strategy, self.partitions[name].state, name))

    def heartbeat(self, at: int) -> TimelineRow | None:
        """A tick without events: the open tick is over, and silence counts up to this moment.

        None where the clock is still within the open tick.
        """
        if self.last_tick is None:
            return None
        tick = self.last_tick + 1 if self.strategy.every == "event" else at // self.strategy.every
        if tick <= self.last_tick:
            return None
        marks = self._close_tick(at)
        if self.strategy.on_idle == "advance" and self.partitions and not marks:
            lags = [lag_of(self.strategy, known.state, name) for name, known in self.partitions.items()]
            self._reach(at - max(lags))
        self.last_tick, self.last_at = tick, at
        return _held(TimelineRow(tick, at, self.watermark, kind="heartbeat"), marks)

    def put(self, watermark: int) -> TimelineRow:
        """A batch without data that sets the watermark, whatever the partitions allow."""
        self._reach(watermark)
        return TimelineRow(self.last_tick or 0, self.last_at, self.watermark, kind="heartbeat")

    def repaired(self, ticks: Iterable[int]) -> list[TimelineRow]:
        """The rows of a batch of repaired dead letters: judged by the watermark in force, which does not move.

        The source delivered them long ago, so they do not show how far it is now.
        """
        known = sorted(set(ticks)) or [self.last_tick or 0]
        return [TimelineRow(tick, self.last_at, self.watermark, kind="repair") for tick in known]

    def drain(self) -> TimelineRow:
        """The end of a bounded input: every window ends."""
        self._close_tick(self.last_at)
        self.watermark = END_OF_TIME
        self.last_tick = (self.last_tick or 0) + 1
        return TimelineRow(self.last_tick, self.last_at, END_OF_TIME, kind="drain")

    def carry(self) -> str:
        """The state that the next batch needs, as JSON."""
        return json.dumps(
            {
                "watermark": self.watermark,
                "last_tick": self.last_tick,
                "last_at": self.last_at,
                "newest": self.newest,
                "newest_arrival": self.newest_arrival,
                "keeps": self.strategy.keeps,
                "partitions": {
                    name: [
                        storable(progress.state, name),
                        progress.seen_at,
                        *([] if progress.heard else [False]),
                    ]
                    for name, progress in sorted(self.partitions.items())
                },
                "open": [_written(summary) for summary in self.open_summaries],
                **({"named": self.named} if self.named else {}),
            },
            separators=(",", ":"),
        )

    @staticmethod
    def named_in(carry: str | None) -> dict[str, bool] | None:
        """The partitions that the source had named, from a stored state; None if it names none."""
        return None if carry is None else json.loads(carry).get("named")

    @classmethod
    def restore(cls, strategy: Strategy, carry: str | None) -> Timeline:
        """The timeline after the last batch.

        The states of another kind of strategy cannot be used: the partitions start anew. The watermark stays where it
        is, and each partition holds it until it has events or is idle.
        """
        if carry is None:
            return cls(strategy)
        saved = json.loads(carry)
        timeline = cls(
            strategy,
            watermark=saved["watermark"],
            last_tick=saved["last_tick"],
            last_at=saved["last_at"],
            newest_arrival=saved.get("newest_arrival", saved["last_at"]),
            partitions={name: PartitionProgress(*values) for name, values in saved["partitions"].items()},
            open_summaries=[_read(values) for values in saved["open"]],
            named=saved.get("named", {}),
        )
        # The first versions stored neither `newest` nor `keeps`; their state was the newest event time.
        states = (progress.state for progress in timeline.partitions.values())
        timeline.newest = saved["newest"] if "newest" in saved else max(states, default=BEGIN_OF_TIME)
        if saved.get("keeps", "newest") != strategy.keeps:
            timeline._forget()
        return timeline

    @property
    def newest_event_time(self) -> int:
        """The largest event time of all ticks; BEGIN_OF_TIME before the first."""
        return max([self.newest, *(summary.max_event_time for summary in self.open_summaries)])

    def _known(self, name: str) -> None:
        """Remove the name that stood for a partition, now that the partition is known."""
        stand_in = self.strategy.stand_in(name)
        if stand_in in self.partitions and not self.partitions[stand_in].heard:
            del self.partitions[stand_in]
            self._all_marks = None

    def _tick(self, tick: int, summaries: tuple[TickSummary, ...]) -> TimelineRow:
        at = max(summaries[0].at, self.last_at)
        if self.last_tick is None:
            for known in self.partitions.values():  # named before the arrival clock was known
                known.seen_at = at
            self._all_marks = None
        if self.last_tick is None or tick > self.last_tick:
            marks = self._close_tick(at)
            self.last_tick, self.last_at, self.open_summaries = tick, at, list(summaries)
        else:
            # The rest of the last batch's tick, or an older tick read out of order: it joins the open
            # tick, and is judged by the watermark in force.
            self.open_summaries.extend(summaries)
            marks = self._marks(at)
        row = _held(TimelineRow(tick, at, self.watermark, summaries=summaries), marks)
        if self.strategy.every != "event":
            return row
        self._close_tick(at)
        return replace(row, settled=self.watermark)

    def _close_tick(self, at: int) -> Active:
        """Close the open tick, and move the watermark to what is known at `at`. Returns the active marks."""
        for summary in self._open_tick():
            known = self.partitions.get(summary.partition)
            state = advanced(self.strategy, known.state if known else None, summary)
            seen_at = max(self._tick_ends(), known.seen_at if known else BEGIN_OF_TIME)
            self._move(summary.partition, PartitionProgress(state, seen_at))
            self._known(summary.partition)
        self.newest = self.newest_event_time
        self.open_summaries = []
        marks = self._marks(at)
        if marks:
            self._reach(marks.slowest)
        elif self.partitions:
            self._reach(max(self._mark(*known) for known in self.partitions.items()))
        return marks

    def _move(self, name: str, progress: PartitionProgress) -> None:
        self.partitions[name] = progress
        marks = self._all_marks
        if marks and not marks.move(name, self._mark(name, progress), progress.seen_at):
            marks.add([self._what_is_known(name, progress)])

    def _reach(self, moment: int) -> None:
        """Move the watermark, but never back, and never before the first moment of the calendar."""
        if moment >= FIRST_MOMENT:
            self.watermark = max(self.watermark, moment)

    def _open_tick(self) -> Iterator[TickSummary]:
        """The summaries of the open tick, one for each partition, even if it was read in several batches."""
        brought: dict[str, list[TickSummary]] = {}
        for summary in self.open_summaries:
            brought.setdefault(summary.partition, []).append(summary)
        for summaries in brought.values():
            if len(summaries) == 1 and summaries[0].tick == self.last_tick:
                yield summaries[0]
            else:
                yield TickSummary.joined(self.last_tick or 0, self.last_at, summaries)

    def _forget(self) -> None:
        """Drop the state of every partition and keep only its `seen_at`; the open tick counts for that, too."""
        for summary in self.open_summaries:
            self.partitions[summary.partition] = PartitionProgress(None, self._tick_ends())
        self.newest, self.open_summaries = self.newest_event_time, []
        for progress in self.partitions.values():
            progress.state = progress.mark = None
        self._all_marks = None

    def _marks(self, at: int) -> Active:
        """The watermark of every partition that is not idle. A partition with more data in the source is not idle: when
        the rest of it came is not known yet."""
        return self._gathered().active(at)

    def _gathered(self) -> Marks:
        if self._all_marks is None:
            self._all_marks = Marks(self._what_is_known(*known) for known in self.partitions.items())
        return self._all_marks

    def _what_is_known(self, name: str, progress: PartitionProgress) -> PartitionMark:
        idle_after = None if self.named.get(name, False) else self._idle_after(name)
        return PartitionMark(name, self._mark(name, progress), progress.seen_at, idle_after)

    def _idle_after(self, name: str) -> int | None:
        return self.strategy.own(name)[0].idle_after

    def _mark(self, name: str, known: PartitionProgress) -> int:
        if known.mark is None:
            known.mark = mark_of(self.strategy, known.state, name)
        return known.mark

    def _tick_ends(self) -> int:
        """The latest time at which events of the open tick may have come: silence counts from there."""
        if self.strategy.every == "event":
            return self.last_at
        return max(((self.last_tick or 0) + 1) * self.strategy.every, self.last_at)


def _held(row: TimelineRow, marks: Active) -> TimelineRow:
    """The row, with the partitions that hold the watermark back."""
    if not marks:
        return row
    slowest, furthest = marks.slowest, marks.furthest
    first, *others = marks.at(slowest)
    if furthest == slowest:
        return replace(row, held_by=first)
    unheld = furthest if furthest >= FIRST_MOMENT else None
    return replace(row, held_by=first, held_with=tuple(others), unheld=unheld)


def _written(summary: TickSummary) -> list[Any]:
    """A summary as JSON; statistics that only some strategies need come last, and are left out where there are none."""
    written: list[Any] = [summary.tick, summary.at, summary.partition, summary.events, summary.max_event_time]
    if summary.marked is not None or summary.times:
        written += [summary.marked, sorted(summary.times.items())]
    return written


def _read(written: list[Any]) -> TickSummary:
    asked_for = written[5:] or [None, ()]
    return replace(TickSummary(*written[:5]), marked=asked_for[0], times=dict(asked_for[1]))
