"""The effects of several settings on one output, counted in one pass, exact to the tick.

An event is `overdue` by how far the course of the timeline, without any delay, was past the end of its window when it
came. With a delay `d` and an allowed lateness `g`, it is on time if that is less than `d`, late if it is less than
`d + g`, and too late otherwise. So it is enough to find the two bounds of the settings that each event lies between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Literal

import numpy as np

from latecomer.model.array_types import Flags, Integers, Micros, Unsigned
from latecomer.model.durations import DAY, MINUTE
from latecomer.model.lateness.course import Course
from latecomer.model.windows import AnyWindow, Sliding

MOST = 60
"""The most settings: each has one flag in 64 bits."""
ROOM = 1 << 21
"""The most things that are kept. Each takes 16 bytes, and those that wait to be merged take as much again."""


@dataclass(frozen=True, order=True)
class Setting:
    """A delay and an allowed lateness, in microseconds."""

    delay: int
    lateness: int


@dataclass(frozen=True)
class WhatIf:
    """The effect of a setting. Durations are microseconds; shares are of the events.

    `published_after` is how long after its end a window's first number is published, by the arrival clock, and
    `waits_for` the same by the newest event time; both are means over the windows that close, and None where none
    does. `corrections` and `upserts` count panes: those that replace a number, and all of them.
    """

    setting: Setting
    on_time: int
    late: int
    too_late: int
    published_after: float | None
    published_after_p99: int | None
    waits_for: float | None
    windows: int
    first_numbers: int
    corrections: int
    corrections_a_minute: float
    upserts_a_day: float
    retained: int
    """The most states of windows and keys that are kept at one time."""
    retained_bytes: int
    error: float
    """The relative standard error of panes and states; 0 where they are counted."""

    @property
    def events(self) -> int:
        return self.on_time + self.late + self.too_late

    @property
    def on_time_share(self) -> float:
        return self.on_time / self.events if self.events else 1.0

    @property
    def completeness(self) -> float:
        """The share of the events that are in a published number, at first or after a correction."""
        return (self.on_time + self.late) / self.events if self.events else 1.0


def all_ends(window: AnyWindow, times: Micros) -> Iterator[tuple[Micros, Flags | None]]:
    """The ends of all windows that hold each event: an array for each window that an event may be in, with a flag for
    the events that are in it; None means all of them. The last array has the windows that end last. A session is
    computed as if its event were alone."""
    last = window.last_ends(times)
    if isinstance(window, Sliding):
        for back in range(1, window.most_each):
            ends = last - back * window.every
            yield ends, ends > times
    yield last, None


class Sweep:
    """Counts the effects of several settings on an output."""

    def __init__(self, window: AnyWindow, settings: Sequence[Setting], accepts: bool) -> None:
        if len(settings) > MOST:
            raise ValueError(f"there are {len(settings)} settings; give at most {MOST}")
        self.settings = sorted(set(settings))
        self.window = window
        self.accepts = accepts
        """Whether late events enter the number; if not, the allowed lateness has no effect."""
        bounds = {each.delay for each in settings} | {each.delay + each.lateness for each in settings}
        self._bounds = np.array(sorted(bounds), np.int64)
        self._events = np.zeros(len(self._bounds) + 1, np.int64)
        self._panes = Distinct("least")
        self._corrections = Distinct("any")
        self._windows: dict[int, int] = {}
        """Window end → the least bound that any of its events is below."""
        self._pane_ends: dict[int, int] = {}
        self._flags = self._flags_by_bound()

    def _place(self, bound: int) -> int:
        return int(np.searchsorted(self._bounds, bound))

    def _flags_by_bound(self) -> Unsigned:
        """For events that fall between two bounds: the settings under which they are late and accepted."""
        flags = np.zeros(len(self._bounds) + 1, np.uint64)
        for nth, each in enumerate(self.settings):
            low, high = self._place(each.delay), self._place(each.delay + each.lateness)
            flags[low + 1 : high + 1] |= np.uint64(1 << nth)
        return flags

    def take(self, newest: Integers, times: Integers, keys: Unsigned, batch: Integers) -> None:
        """Count events, given the course at their arrival, their times, keys and batches."""
        if not len(times):
            return
        for ends, only in all_ends(self.window, times):
            overdue = newest - ends
            place = np.searchsorted(self._bounds, overdue, side="right")
            if only is None:
                self._events += np.bincount(place, minlength=len(self._events))
                self._take(place, ends, keys, batch)
            else:
                self._take(place[only], ends[only], keys[only], batch[only])

    def _take(self, place: Integers, ends: Integers, keys: Unsigned, batch: Integers) -> None:
        if not len(place):
            return
        panes = mixed(ends.view(np.uint64), keys)
        # The flags hold the number of the window, so that a sample has it, too.
        self._panes.add(panes, (place.astype(np.uint64) << np.uint64(48)) | self._noted(ends, place))
        late = place > 0
        if self.accepts and late.any():
            flags = self._flags[place[late]]
            some = flags > 0
            things = mixed(panes[late][some], batch[late][some].view(np.uint64))
            self._corrections.add(things, flags[some])

    def _noted(self, ends: Integers, place: Integers) -> Unsigned:
        """Note the least bound of each window's events. Returns the numbers of the windows."""
        distinct, inverse = np.unique(ends, return_inverse=True)
        earliest = np.full(len(distinct), len(self._bounds), np.int64)
        np.minimum.at(earliest, inverse, place)
        codes = np.empty(len(distinct), np.uint64)
        for nth, (end, least) in enumerate(zip(distinct.tolist(), earliest.tolist(), strict=True)):
            known = self._windows.get(end)
            self._windows[end] = least if known is None else min(known, least)
            codes[nth] = self._pane_ends.setdefault(end, len(self._pane_ends))
        return codes[inverse]

    def answers(self, course: Course, state_bytes: float = 0.0) -> list[WhatIf]:
        self._panes.settle()
        self._corrections.settle()
        ends = np.array(sorted(self._windows), np.int64)
        least = np.array([self._windows[int(end)] for end in ends], np.int64)
        pane_least = (self._panes.flags >> np.uint64(48)).astype(np.int64)
        codes = (self._panes.flags & np.uint64((1 << 48) - 1)).astype(np.int64)
        pane_ends = np.array(list(self._pane_ends), np.int64)[codes]
        span, weight = max(course.span, 1), self._panes.weight
        answers = []
        for nth, setting in enumerate(self.settings):
            low, high = self._place(setting.delay), self._place(setting.delay + setting.lateness)
            with_number = ends[least <= low]
            step, closed = course.closing(with_number, setting.delay)
            closed_by, closed_ends = step[closed], with_number[closed]
            published = course.step_at[closed_by] - closed_ends
            waits = course.step_newest[closed_by] - closed_ends
            closes = pane_ends + setting.delay <= course.reached
            first_numbers = int(np.count_nonzero(closes & (pane_least <= low))) * weight
            flagged = self._corrections.flags & np.uint64(1 << nth)
            corrections = int(np.count_nonzero(flagged)) * self._corrections.weight
            kept_for = setting.delay + (setting.lateness if self.accepts else 0)
            retained = _most_within(pane_ends, kept_for) * weight
            answers.append(
                WhatIf(
                    setting,
                    *_parts(self._events, low, high),
                    float(published.mean()) if len(published) else None,
                    int(np.quantile(published, 0.99, method="inverted_cdf")) if len(published) else None,
                    float(waits.mean()) if len(waits) else None,
                    int(np.count_nonzero(closed)),
                    first_numbers,
                    corrections,
                    corrections * MINUTE / span,
                    (first_numbers + corrections) * DAY / span,
                    retained,
                    round(retained * state_bytes),
                    max(self._panes.error, self._corrections.error),
                )
            )
        return answers


def _parts(counts: Integers, low: int, high: int) -> tuple[int, int, int]:
    return int(counts[: low + 1].sum()), int(counts[low + 1 : high + 1].sum()), int(counts[high + 1 :].sum())


def _most_within(ends: Integers, length: int) -> int:
    """The most ends in any interval of this length: at least this many states are kept at one time."""
    if not len(ends):
        return 0
    ordered = np.sort(ends)
    return int((np.arange(1, len(ordered) + 1) - np.searchsorted(ordered, ordered - length)).max())


# Counting distinct things


@dataclass
class Distinct:
    """Distinct things, each with the flags of all its occurrences: their union (`any`), or the smallest (`least`).

    A thing is a 64-bit hash. While there are few, all are kept and the count is exact. When there are too many, only
    those below a threshold are kept, and the threshold is halved as often as needed. The result is a sample of the
    distinct things: one that comes a thousand times counts once.
    """

    keep: Literal["any", "least"]
    room: int = ROOM
    things: Unsigned = field(default_factory=lambda: np.zeros(0, np.uint64))
    flags: Unsigned = field(default_factory=lambda: np.zeros(0, np.uint64))
    halved: int = 0
    _waiting: list[tuple[Unsigned, Unsigned]] = field(default_factory=list)
    _waits: int = 0

    def add(self, things: Unsigned, flags: Unsigned) -> None:
        """Add things, which may have duplicates."""
        things, flags = self._sampled(things, flags)
        if not len(things):
            return
        self._waiting.append(self._merged(things, flags))
        self._waits += len(self._waiting[-1][0])
        if self._waits > self.room:
            self.settle()

    def settle(self) -> None:
        """Merge the waiting things."""
        if not self._waiting:
            return
        waiting = [(self.things, self.flags), *self._waiting]
        things = np.concatenate([each for each, _ in waiting])
        flags = np.concatenate([each for _, each in waiting])
        self.things, self.flags = self._merged(things, flags)
        self._waiting, self._waits = [], 0
        while len(self.things) > self.room:
            self.halved += 1
            self.things, self.flags = self._sampled(self.things, self.flags)

    def _sampled(self, things: Unsigned, flags: Unsigned) -> tuple[Unsigned, Unsigned]:
        if not self.halved:
            return things, flags
        kept = things < np.uint64(1 << (64 - self.halved))
        return things[kept], flags[kept]

    def _merged(self, things: Unsigned, flags: Unsigned) -> tuple[Unsigned, Unsigned]:
        order = np.argsort(things)
        things, flags = things[order], flags[order]
        first = np.flatnonzero(np.concatenate([[True], things[1:] != things[:-1]]))
        together = np.bitwise_or if self.keep == "any" else np.minimum
        return things[first], together.reduceat(flags, first)

    @property
    def weight(self) -> int:
        """How many things each kept one stands for."""
        return 1 << self.halved

    @property
    def error(self) -> float:
        """The relative standard error of a count of all of them; 0 where it is exact."""
        self.settle()
        return sqrt((self.weight - 1) / (self.weight * len(self.things))) if self.halved else 0.0


def mixed(*columns: Unsigned) -> Unsigned:
    """A 64-bit hash of each row over all columns."""
    mix = np.full(len(columns[0]), 0x9E3779B97F4A7C15, np.uint64)
    for column in columns:
        mix = mix ^ (column.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15) + (mix << np.uint64(6)))
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mix = (mix ^ (mix >> np.uint64(shift))) * np.uint64(factor)
        mix ^= mix >> np.uint64(31)
    return mix
