"""An estimate of a final number, with an interval that rests on past numbers alone.

Past numbers are taken at the age that the number has now: what each had then (`seen`), and in the end (`final`). What
was still to come is described by a straight line in what had come. The interval is not that of a distribution that
somebody supposed: it is as wide as the line was wrong about past numbers, about each one without its own help. The
ends of an interval of whole numbers are whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import Any

import numpy as np

from latecomer.model.lateness.histogram import Flags, Whole

Real = np.ndarray[Any, np.dtype[np.float64]]

LEVEL = 0.9
"""The share of intervals that hold the final number."""
LEAST = 30
"""So many past numbers are needed. For an interval of 90 % at least 19 are, and a line needs some more."""
MOST = 2000
"""Of more past numbers the newest are taken."""
_SLOPES = 50
"""So many past numbers show how the error grows with the number."""


@dataclass(frozen=True)
class Estimate:
    """What a number will probably be in the end."""

    value: float
    low: float
    high: float
    past: int
    """How many past numbers it rests on."""
    unlike: bool = False
    """Whether it is far beyond all that past numbers had at this age."""


@dataclass(frozen=True)
class Line:
    """What is still to come, given what has come: `base + growth * seen`, and how wrong that was."""

    base: float
    growth: float
    power: float
    """The error grows as `seen ** power`."""
    floor: float
    """Added to what has come before it is a weight: nothing has no weight."""
    misses: Real
    """How wrong the line was about each past number, for its size, in order of time."""

    @cached_property
    def errors(self) -> Real:
        """The same, ascending."""
        return np.sort(self.misses)

    def of(self, seen: float, level: float) -> tuple[float, float, float]:
        """The lower end, the middle and the upper end of what the final number may be.

        What has come stays: no count shrinks, and no sum of amounts that are not below zero. Where the lower end is
        what has come, nothing can be below it, and all that the interval may miss is above.
        """
        size = (seen + self.floor) ** self.power
        expected = seen + self.base + self.growth * seen
        count, spare = len(self.errors), (1 - level) / 2
        low = expected + size * float(self.errors[max(floor((count + 1) * spare), 1) - 1])
        share = level if low <= seen else 1 - spare
        high = expected + size * float(self.errors[min(ceil((count + 1) * share), count) - 1])
        middle = expected + size * float(self.errors[count // 2])
        low, high = max(low, seen), max(high, seen)
        return low, min(max(middle, low), high), high


@dataclass(frozen=True)
class Past:
    """Past numbers at one age, in order of time: what each had, and what it had in the end."""

    seen: Real
    final: Real
    alike: bool = True
    """Whether they are of one group, so that one may expect as much of each; else only shares can be compared."""
    like: str = ""
    """In what they are all like the number that is estimated: their hour, their weekday, or both."""

    @property
    def misses(self) -> Real:
        """How wrong all of them together are about each one, for its size."""
        return self._line.misses

    def __len__(self) -> int:
        return len(self.seen)

    @cached_property
    def _line(self) -> Line:
        return _fitted(self.seen, self.final, self.alike)

    @cached_property
    def _share(self) -> Line:
        return _fitted(self.seen, self.final, False)

    @cached_property
    def _known(self) -> tuple[float, float]:
        """What past numbers had, and half as much again on both sides: beyond it a number is unlike all of them."""
        least, most = float(self.seen.min()), float(self.seen.max())
        return least - (most - least) / 2, most + (most - least) / 2

    @cached_property
    def _counted(self) -> bool:
        """Whether they are whole numbers."""
        return all(bool((each == np.floor(each)).all()) for each in (self.seen, self.final))

    def estimate(self, seen: float, level: float = LEVEL) -> Estimate | None:
        """The final number of one that has so much now; None where there are too few past ones."""
        if len(self) < LEAST:
            return None
        unlike = not self._known[0] <= seen <= self._known[1]
        low, value, high = self._line.of(seen, level)
        if self.alike and unlike:  # as much as ever, or in proportion: who has not seen the like cannot tell
            by_share = self._share.of(seen, level)
            low, value, high = min(low, by_share[0]), by_share[1], max(high, by_share[2])
        if self._counted:
            low, high = _whole(low, high)
            value = min(max(value, low), high)
        return Estimate(value, low, high, len(self), unlike)


def _whole(low: float, high: float) -> tuple[int, int]:
    """An interval of whole numbers: the nearest ones, and both neighbours where none lies between the ends.

    >>> _whole(1.6, 3.4), _whole(1.4, 3.6), _whole(2.6, 2.7), _whole(2.0, 2.0)
    ((2, 3), (1, 4), (2, 3), (2, 2))
    """
    by_rounding = 1e-9
    return min(round(low), floor(high + by_rounding)), max(round(high), ceil(low - by_rounding))


def _fitted(seen: Real, final: Real, with_base: bool) -> Line:
    """The line that fits best, each past number weighted by one over what it had; it never expects less than nothing.

    The error about each number is that of the line without it.
    """
    to_come = final - seen
    least = 0.01 * float(final.sum()) / len(final) or 1.0
    size = seen + least
    weight = 1 / size
    total, ahead = float(weight.sum()), float(weight @ seen)
    square, come = float(weight @ seen**2), float(weight @ to_come)
    cross = float((weight * seen) @ to_come)
    base, growth = 0.0, cross / square if square else 0.0
    leverage = weight * seen**2 / square if square else np.zeros_like(seen)
    spread = total * square - ahead**2
    if with_base and spread > 1e-9 * total * square:
        both = (square * come - ahead * cross) / spread, (total * cross - ahead * come) / spread
        if both[1] < 0:
            base, growth, leverage = come / total, 0.0, weight / total
        elif both[0] >= 0:
            base, growth = both
            leverage = weight * (square - 2 * seen * ahead + seen**2 * total) / spread
    errors = (to_come - base - growth * seen) / (1 - np.minimum(leverage, 0.99))
    power = _power(size, errors)
    return Line(base, growth, power, least, errors / size**power)


def _power(size: Real, errors: Real) -> float:
    """How the error grows with the number: not at all (0), as its root, or in proportion (1)."""
    nonzero: Flags = errors != 0
    count = int(np.count_nonzero(nonzero))
    if count < _SLOPES:
        return 0.5
    x, y = np.log(size[nonzero]), np.log(np.abs(errors[nonzero]))
    x -= x.sum() / count
    spread = float(x @ x)
    return 0.5 if spread < 1e-9 else min(max(float(x @ y) / spread, 0.0), 1.0)


def in_groups(codes: Whole) -> tuple[Whole, Whole]:
    """Where each group begins and ends, for codes in ascending order; a group is a code from 0 on."""
    most = int(codes[-1]) + 1 if len(codes) else 0
    every = np.arange(most)
    return np.searchsorted(codes, every, "left"), np.searchsorted(codes, every, "right")
