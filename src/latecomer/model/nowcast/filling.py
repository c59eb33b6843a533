"""How past windows filled: how much of each had come at an age, and which of them are like one that starts at a moment.

The age of a window is the arrival clock less its start. Its final number is what had come until a certain time after
its end. That time is the same for every window, so the newest windows do not look fuller than they are.

Windows have a rhythm of days and weeks. They are sorted in three ways: by the hour of the day, by the day of the week,
and by both. A sorting is used if it has repeated often enough, and if its classes differ by more than chance. Of
several, the one that explains most of the differences is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import erfc, sqrt

import numpy as np

from latecomer.model.array_types import Doubles, Flags, Integers
from latecomer.model.durations import DAY, HOUR
from latecomer.model.nowcast.estimating import LEAST, MOST, Past
from latecomer.model.zones import to_local

WEEK = 7 * DAY
CYCLES = 3
"""The fewest repetitions of a rhythm."""
SURE = 0.001
"""A difference with a lower probability than this is not chance."""
_MONDAY = 4 * DAY
"""1970 began on a Thursday; the first Monday was the fifth of January."""


@dataclass(frozen=True)
class Sorting:
    """A way to sort windows: the class of each, and the day or week that it belongs to."""

    name: str
    classes: Integers
    cycles: Integers

    def class_of(self, start: int) -> int:
        """The class of a window that starts at a moment of the wall clock."""
        return int(_classes(self.name, np.array([start], np.int64))[0])


@dataclass(frozen=True)
class Rhythm:
    """The starts of past windows, with their places in the day and in the week of a time zone."""

    starts: Integers
    zone: str = "UTC"

    @cached_property
    def sortings(self) -> tuple[Sorting, ...]:
        """The sortings that have several classes and have repeated often enough."""
        local = np.array([self._local(int(start)) for start in self.starts], np.int64)
        sortings: list[Sorting] = []
        for name, cycle in (("hour", DAY), ("weekday", WEEK), ("hour and weekday", WEEK)):
            classes, cycles = _classes(name, local), (local - _MONDAY) // cycle
            if _new(classes, sortings) and len(np.unique(cycles)) >= CYCLES:
                sortings.append(Sorting(name, classes, cycles))
        return tuple(sortings)

    def like(self, errors: Doubles, windows: Integers, start: int) -> tuple[str, Flags] | None:
        """The name of the sorting, and which past numbers are of windows like one that starts at a moment.

        `errors` are the errors of their common line for each number, `windows` the window of each. None where there is
        no rhythm, or too few numbers are alike.
        """
        local, best, chosen = self._local(start), 0.0, None
        for each in self.sortings:
            classes = each.classes[windows]
            alike = classes == each.class_of(local)
            if np.count_nonzero(alike) < LEAST or len(np.unique(each.cycles[windows[alike]])) < CYCLES:
                continue
            share = max(explained(values, classes) for values in (errors, np.abs(errors)))
            if share > best:
                best, chosen = share, (each.name, alike)
        return chosen

    def evened(self, values: Doubles, windows: Integers) -> Doubles:
        """The values of windows, one each, without the effect of their place in the day or week."""
        shares = [explained(values, each.classes[windows]) for each in self.sortings]
        if not any(shares):
            return values
        evened, classes = values.copy(), self.sortings[int(np.argmax(shares))].classes[windows]
        for each in np.unique(classes):
            of_class = classes == each
            evened[of_class] -= np.median(values[of_class])
        return np.asarray(evened + np.median(values), np.float64)

    def _local(self, start: int) -> int:
        return start if self.zone == "UTC" else to_local(start, self.zone)


NO_RHYTHM = Rhythm(np.zeros(0, np.int64))
"""For windows whose starts are not known."""


def _new(classes: Integers, others: Sequence[Sorting]) -> bool:
    """Whether a sorting has several classes, and differs from those before it."""
    known, numbers = np.unique(classes, return_inverse=True)
    same = [np.array_equal(numbers, np.unique(each.classes, return_inverse=True)[1]) for each in others]
    return len(known) > 1 and not any(same)


def _classes(name: str, local: Integers) -> Integers:
    hour, weekday = local % DAY // HOUR, (local - _MONDAY) // DAY % 7
    if name == "hour":
        return np.asarray(hour)
    return np.asarray(weekday if name == "weekday" else 24 * weekday + hour)


def explained(values: Doubles, classes: Integers) -> float:
    """The share of the variation of values, by rank, that their classes explain; 0 where it may be chance.

    The test of Kruskal and Wallis, with ties.

    >>> explained(np.array([1.0, 2.0, 3.0, 4.0] * 9), np.arange(36) // 18)
    0.0
    >>> round(explained(np.arange(36.0), np.arange(36) // 18), 2)
    0.74
    """
    statistic, freedom = kruskal(values, classes)
    if not freedom or len(values) <= freedom + 1 or _chance(statistic, freedom) >= SURE:
        return 0.0
    return max((statistic - freedom) / (len(values) - freedom - 1), 0.0)


def kruskal(values: Doubles, classes: Integers) -> tuple[float, int]:
    """The statistic of Kruskal and Wallis, with ties, and its degrees of freedom: none where all values are equal. Of
    two classes it is the square of that of Mann and Whitney."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    _, of, sizes = np.unique(classes, return_inverse=True, return_counts=True)
    away = ranks - (len(values) + 1) / 2
    spread = float(away @ away)
    if spread <= 0:
        return 0.0, 0
    between = float((np.bincount(of, away) ** 2 / sizes).sum())
    return (len(values) - 1) * between / spread, len(sizes) - 1


def _chance(statistic: float, freedom: int) -> float:
    """The probability of a larger statistic by chance (chi squared, after Wilson and Hilferty)."""
    small = 2 / (9 * freedom)
    sigmas = ((statistic / freedom) ** (1 / 3) - (1 - small)) / sqrt(small)
    return erfc(sigmas / sqrt(2)) / 2


# Filling

EVENTS = ""
"""The name for the number of events, besides the names of aggregates."""


@dataclass(frozen=True)
class PastNumbers:
    """Every past number at one age, in order of key and then of time."""

    age: int
    window: Integers
    """The number of the window."""
    key: Integers
    seen: Mapping[str, Doubles]
    final: Mapping[str, Doubles]
    begin: Integers
    end: Integers
    """Where each key begins and ends."""
    rhythm: Rhythm = NO_RHYTHM
    _all: dict[tuple[str, int], tuple[Past, Integers]] = field(default_factory=dict, compare=False)
    _alike: dict[tuple[str, str], bool] = field(default_factory=dict, compare=False)

    def past(self, name: str, key: int | None, before: int) -> tuple[Past, Integers]:
        """The past numbers of a key, or of all keys, in windows before one: those that had an event at this age. And
        the window of each."""
        if key is not None:
            if not 0 <= key < len(self.begin):
                return _NOTHING, np.zeros(0, np.int64)
            first, last = int(self.begin[key]), int(self.end[key])
            last = first + int(np.searchsorted(self.window[first:last], before))
            present = np.flatnonzero(self.seen[EVENTS][first:last] > 0) + first
            return Past(self.seen[name][present], self.final[name][present]), self.window[present]
        if (name, before) not in self._all:
            present = np.flatnonzero((self.seen[EVENTS] > 0) & (self.window < before))
            present = present[np.argsort(self.window[present], kind="stable")][-MOST:]
            past = Past(self.seen[name][present], self.final[name][present], alike=False)
            self._all[name, before] = past, self.window[present]
        return self._all[name, before]

    def chosen(self, name: str, key: int, before: int, start: int | None = None) -> Past:
        """The past numbers to compare with one whose window starts at a moment: those of its key where there are
        enough, otherwise those of all keys. Where there is a rhythm, only those that are like it."""
        past, windows = self.past(name, key, before)
        if len(past) < LEAST:
            past, windows = self.past(name, None, before)
        if start is None or len(past) < LEAST or not self.rhythm.sortings:
            return past
        similar = self.rhythm.like(past.misses, windows, start)
        if similar is None:
            return past
        like, alike = similar
        return replace(past, seen=past.seen[alike], final=past.final[alike], like=like)

    def alike(self, one: str, other: str) -> bool:
        """Whether two numbers are the same in all of the past."""
        if (one, other) not in self._alike:
            same = np.array_equal(self.seen[one], self.seen[other])
            self._alike[one, other] = same and np.array_equal(self.final[one], self.final[other])
        return self._alike[one, other]

    def shares(self) -> tuple[Integers, Doubles]:
        """For each window with events in the end, the share of them that had come; all keys together, and without the
        rhythm of days and weeks."""
        count = int(self.window.max()) + 1 if len(self.window) else 0
        final = np.bincount(self.window, self.final[EVENTS], count)
        seen = np.bincount(self.window, self.seen[EVENTS], count)
        present = np.flatnonzero(final > 0)
        return present, self.rhythm.evened(seen[present] / final[present], present)


_NOTHING = Past(np.zeros(0), np.zeros(0))


class Fillings:
    """The events of past windows, by key and age. Windows are numbered in order of time, and do not overlap."""

    def __init__(
        self,
        window: Integers,
        key: Integers,
        age: Integers,
        whole_at: Integers,
        amounts: Mapping[str, Doubles],
        rhythm: Rhythm = NO_RHYTHM,
    ) -> None:
        """`whole_at` is for each window the age at which its number counts as final."""
        self.rhythm = rhythm
        kept = age <= whole_at[window]
        window, key, age = window[kept], key[kept], age[kept]
        width = len(whole_at) or 1
        places = key * width + window
        place, count = numbered(places, (int(key.max()) + 1 if len(key) else 0) * width)
        known = np.zeros(count, np.int64)
        known[place] = places
        self.window: Integers = known % width
        self.key: Integers = known // width
        keys = np.arange(int(self.key[-1]) + 1 if len(self.key) else 0)
        self.begin, self.end = (
            np.searchsorted(self.key, keys, "left"),
            np.searchsorted(self.key, keys, "right"),
        )
        order = np.argsort(age, kind="stable")
        self._age, self._place = age[order], place[order]
        self._amounts = {EVENTS: np.ones(len(order)), **{n: each[kept][order] for n, each in amounts.items()}}
        self.final = {name: self._sums(each, 0, len(order)) for name, each in self._amounts.items()}

    def __len__(self) -> int:
        return len(self.window)

    @property
    def windows(self) -> int:
        """How many past windows have an event."""
        return len(np.unique(self.window))

    def share(self, age: int) -> float:
        """The share of the events that had come at an age, over all windows."""
        return int(np.searchsorted(self._age, age, "right")) / (len(self._age) or 1)

    def at(self, ages: Sequence[int]) -> Iterator[PastNumbers]:
        """Every past number at each of these ages, ascending."""
        seen = {name: np.zeros(len(self)) for name in self._amounts}
        done = 0
        for age in sorted(ages):
            until = int(np.searchsorted(self._age, age, "right"))
            seen = {n: seen[n] + self._sums(each, done, until) for n, each in self._amounts.items()}
            done = until
            yield PastNumbers(age, self.window, self.key, seen, self.final, self.begin, self.end, self.rhythm)

    def _sums(self, amounts: Doubles, first: int, last: int) -> Doubles:
        sums = np.bincount(self._place[first:last], amounts[first:last], len(self))
        return np.asarray(sums, np.float64)


def numbered(codes: Integers, width: int) -> tuple[Integers, int]:
    """Codes below a width, renumbered from 0 on without gaps and in the same order; and how many there are.

    >>> numbered(np.array([7, 2, 7]), 8)
    (array([1, 0, 1]), 2)
    """
    if width > 8 * len(codes) + 1024:  # few codes in a large range: sorting is faster than counting
        known, place = np.unique(codes, return_inverse=True)
        return np.asarray(place, np.int64), len(known)
    present = np.bincount(codes, minlength=width) > 0
    place = np.cumsum(present) - 1
    return np.asarray(place[codes], np.int64), int(present.sum())
