"""Where watermark and arrival clock stand in a batch, which triggers are due at its end, and where they fire within it.

`Clocks` is a few numbers, which can be sent to any process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import TYPE_CHECKING, TypeGuard, TypeVar

import numpy as np
import pyarrow as pa

from latecomer.config.outputs import Output
from latecomer.model.array_types import Flags, Integers, Micros
from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Rule, Until, When, per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME

if TYPE_CHECKING:
    from latecomer.log.timeline.keeper import Section


NEVER = np.iinfo(np.int64).max
"""The end of a pane that does not fire."""
_Moments = TypeVar("_Moments", int, Micros)


@dataclass(frozen=True)
class Clocks:
    """Moments are in microseconds."""

    batch: int
    before: int
    """The watermark before the batch."""
    now: int
    """The watermark after it."""
    began: int
    """The watermark before the batch; if there was none, the first one."""
    arrival: int
    """The arrival clock at the end of the batch."""
    marks: Micros
    """The watermarks of the batch, ascending."""
    ats: Micros
    """When each of them was reached."""
    early_due: bool
    """Whether the arrival clock lets early panes fire."""
    late_due: bool
    """Whether the arrival clock lets waiting panes fire."""
    arrival_before: int = BEGIN_OF_TIME
    """The arrival clock before the batch."""

    @classmethod
    def of(cls, batch: int, section: Section, output: Output) -> Clocks:
        early, late = output.trigger.early, output.trigger.late
        return cls(
            batch,
            section.watermark_before,
            section.fires_at,
            section.began_at,
            section.clock,
            np.array([step.watermark for step in section.steps], np.int64),
            np.array([step.at for step in section.steps], np.int64),
            by_arrival(early) and section.passed(early.every),
            by_arrival(late) and section.passed(late.every),
            section.before.at if section.before else BEGIN_OF_TIME,
        )

    @property
    def at_begin(self) -> Clocks:
        """The clocks before the batch."""
        mark = np.array([self.before] if self.before > BEGIN_OF_TIME else [], np.int64)
        at = np.full(len(mark), self.arrival_before, np.int64)
        return replace(
            self, now=self.before, began=self.before, arrival=self.arrival_before, marks=mark, ats=at
        )

    def closed(self, ends: Micros) -> Flags:
        """Whether windows with these ends have closed by the end of the batch."""
        return (ends <= self.now) & (len(self.marks) > 0)

    def closings(self, ends: Micros, closed: Flags) -> tuple[pa.Array, pa.Array]:
        """When windows closed, and by which watermark; null where they have not."""
        place = np.where(closed, np.searchsorted(self.marks, ends), 0)
        known = [each if len(each) else np.zeros(1, np.int64) for each in (self.ats, self.marks)]
        at, mark = (pa.array(each[place], mask=~closed) for each in known)
        return at, mark

    @property
    def known(self) -> int | None:
        """The watermark after the batch; None where nothing is known yet."""
        return None if self.now == BEGIN_OF_TIME else self.now


# Triggers that are looked at when a batch ends


def by_arrival(rule: object) -> TypeGuard[Every]:
    """Whether a trigger goes by the arrival clock."""
    return isinstance(rule, Every) and rule.clock == "arrival"


def early_due(output: Output, clocks: Clocks, since: Integers, start: Micros) -> Flags:
    """Whether open windows fire: `since` is how many events no pane has published, `start` where each window begins."""
    rule = output.trigger.early
    if rule is None or per_firing(rule):
        return np.zeros(len(since), bool)
    match rule:
        case Count(count=count):
            return since >= count
    assert isinstance(rule, Every)  # noqa: S101
    return (since > 0) & interval_passed(rule, output, clocks, start)


def interval_passed(rule: Every, output: Output, clocks: Clocks, start: Micros) -> Flags:
    """Whether the clock of an early trigger reached a multiple of its interval, for windows that begin there."""
    now, every = clocks.now, rule.every
    if rule.clock == "arrival":
        return np.full(len(start), clocks.early_due)
    if output.window.endless:
        # It has no start: its intervals are those of the clock, from the first watermark on.
        return np.full(len(start), now > BEGIN_OF_TIME and now // every > clocks.began // every)
    reached, earlier = (np.maximum(0, (mark - start) // every) for mark in (now, clocks.before))
    return (now > start) & (reached > earlier)


def late_due(output: Output, clocks: Clocks, waiting: Integers, end: Micros) -> Flags:
    """Whether closed windows fire: `waiting` is how many late events no pane has published, `end` where each ends."""
    rule = output.trigger.late
    if per_firing(rule):
        return np.zeros(len(end), bool)
    over = clocks.now >= settled_at(output, end)
    match rule:
        case Count(count=count):
            return over | (waiting >= count)
        case Every():
            return over | clocks.late_due
    return np.ones(len(end), bool)


def settled_at(output: Output, end: Micros) -> Micros:
    """The watermark from which on nothing more can come for windows with these ends."""
    settled: Micros = np.minimum(end + output.settles_after, END_OF_TIME)
    return settled


def settled_by(output: Output, watermark: int) -> int:
    """The last end of windows for which nothing more can come at this watermark."""
    return END_OF_TIME if watermark == END_OF_TIME else watermark - output.settles_after


# Triggers that fire within a batch. Each rule gives, for every event, the end of a pane that begins with it. The panes
# of a window and key follow from that, one after the other.


def by_clock(rule: Every | AfterFirst, first: _Moments) -> _Moments:
    """When a rule by the arrival clock fires for events whose first came at `first`. For one window, or for many."""
    if isinstance(rule, AfterFirst):
        return first + rule.after_first
    return (first // rule.every + 1) * rule.every


def by_watermark(every: int, start: _Moments, mark: _Moments) -> _Moments:
    """The watermark at which a rule fires for events whose first met the watermark `mark`: the next multiple, counted
    from the start of the window."""
    return start + ((mark - start) * (mark > start) // every + 1) * every


@dataclass(frozen=True)
class Turns:
    """Events in the order in which they came, place after place: a place is a window and key. What earlier batches
    left open is one row, the first of its place."""

    place: Integers
    """Ascending, from 0, without gaps."""
    count: Integers
    """How many events each row stands for."""
    clock: Micros
    """Where the arrival clock stood at the first of them."""
    mark: Micros
    """The watermark that it met."""
    holds: Mapping[str, Flags]
    """For each predicate of the trigger, whether it is true for one of them."""
    starts: Micros
    """Where the window of each place begins."""
    until: Micros
    """Until when, by the arrival clock, a rule may fire in each place after its last event."""
    before: Micros
    """The watermark that closes the window of each place."""
    clocks: Clocks
    endless: bool
    """Whether windows have no beginning: intervals are those of the clock, from the first watermark on."""

    @cached_property
    def bounds(self) -> Integers:
        """Where each place begins, and the last one ends."""
        return np.append(np.flatnonzero(np.diff(self.place, prepend=-1)), len(self.place))

    @cached_property
    def ends(self) -> Integers:
        """For each row, where its place ends."""
        return self.bounds[1:][self.place]

    # Where a pane that begins with a row ends

    def pane_ends(self, rule: Rule) -> Integers:
        """For each row, the end of a pane that begins with it: the row after its last one, or NEVER if it does not
        fire."""
        match rule:
            case AnyOf():
                return reduce(np.minimum, map(self.pane_ends, rule.any))
            case AllOf():
                return reduce(np.maximum, map(self.pane_ends, rule.all))
            case Count():
                upto = np.concatenate([[0], np.cumsum(self.count)])
                return self._within(np.searchsorted(upto, upto[:-1] + rule.count))
            case When():
                true = np.flatnonzero(self.holds[rule.when])
                nth = np.searchsorted(true, np.arange(len(self.place)))
                return self._within(np.append(true + 1, NEVER)[nth])
            case AfterFirst() | Every(clock="arrival"):
                return self._reached(self.clock, by_clock(rule, self.clock))
            case Every():
                return self._passed(rule.every)
        raise TypeError(f"no rule: {rule!r}")

    def _within(self, ends: Integers) -> Integers:
        return np.where(ends <= self.ends, ends, NEVER)

    def _reached(self, now: Micros, moments: Micros) -> Integers:
        """Where the arrival clock reaches these moments."""
        return self._first(now, moments, moments <= self.until[self.place])

    def _passed(self, every: int) -> Integers:
        """Where the watermark reaches the next multiple of an interval, counted from the start of the window."""
        start, steps = self.starts[self.place], self.clocks.marks
        if self.endless:
            moments = (np.maximum(self.mark, self.clocks.began) // every + 1) * every
        else:
            moments = by_watermark(every, start, self.mark)
        nth = np.searchsorted(steps, moments)
        risen = np.append(steps, NEVER)[nth]
        return self._first(self.mark, moments, risen < self.before[self.place])

    def _first(self, clock: Micros, moments: Micros, after: Flags) -> Integers:
        """For each row, the first row of its place at which a clock has reached a moment. If the clock did so only
        `after` the last row, the end of the place."""
        known = np.unique(clock)
        width = len(known) + 1
        reached = self.place * width + np.searchsorted(known, clock)
        rows = np.searchsorted(reached, self.place * width + np.searchsorted(known, moments))
        return np.where(rows < self.ends, rows, np.where(after, self.ends, NEVER))


@dataclass(frozen=True)
class Cuts:
    """Which pane each row belongs to."""

    pane: Integers
    """For each row, which pane of its place publishes it first, from 0."""
    fires: Flags
    """Whether that pane fires. Only the last one of a place may not."""


def cuts(rule: Rule, turns: Turns, whole: Turns | None = None, over: Flags | None = None) -> Cuts:
    """The panes of each place. For an Until, `whole` describes all events of a window, and `over` is whether the rule
    of each place has ended before."""
    last = np.full(len(turns.bounds) - 1, NEVER)
    if isinstance(rule, Until):
        assert whole is not None  # noqa: S101
        assert over is not None  # noqa: S101
        last = np.where(over, turns.bounds[:-1], whole.pane_ends(rule.until)[turns.bounds[:-1]])
        rule = rule.repeat
    ends = np.minimum(turns.pane_ends(rule), last[turns.place])
    # A state that has published all its events begins no pane.
    some = np.append(np.flatnonzero(turns.count), NEVER)
    begins = some[np.searchsorted(some, turns.bounds[:-1])]
    begins = begins[begins < turns.bounds[1:]]
    closes = np.zeros(len(turns.place), bool)
    following, limits = ends.tolist(), turns.ends.tolist()
    for begin in begins[(ends[begins] < NEVER) & (ends[begins] > begins)].tolist():
        end, limit = following[begin], limits[begin]
        while end < NEVER:
            closes[end - 1] = True
            if end == limit or following[end] <= end:
                break
            end = following[end]
    total = np.cumsum(closes) - closes
    pane = total - total[turns.bounds[:-1]][turns.place]
    # A pane fires if its last row closes it. All panes but the last of a place do.
    fires = closes[turns.bounds[1:] - 1][turns.place] | (pane < pane[turns.bounds[1:] - 1][turns.place])
    return Cuts(pane, fires)
