"""The rhythm of days and weeks: which past windows are like one that starts at a moment.

Windows are sorted in three ways: by the hour of the day, by the day of the week, and by both. A sorting is used if it
has repeated often enough, and if its classes differ by more than chance. Of several, the one that explains most of the
differences is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import erfc, sqrt

import numpy as np

from latecomer.model.array_types import Doubles, Flags, Integers
from latecomer.model.durations import DAY, HOUR
from latecomer.model.nowcast.estimating import LEAST
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
