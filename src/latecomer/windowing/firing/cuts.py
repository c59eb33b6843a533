"""Where triggers fire within a batch: which events of a window and key each pane is the first to publish.

Each rule gives, for every event, the end of a pane that begins with it. The panes of a window and key follow from that,
one after the other. Pure functions of numpy arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeVar

import numpy as np

from latecomer.model.array_types import Flags, Integers, Micros
from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Rule, Until, When
from latecomer.windowing.firing.clocks import Clocks

NEVER = np.iinfo(np.int64).max
"""The end of a pane that does not fire."""
_Moments = TypeVar("_Moments", int, Micros)


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
