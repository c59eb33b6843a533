"""An estimate of a final number, with an interval that is based on past numbers alone.

Past numbers are taken at the age that the number has now: the value of each at that age (`seen`), and its final value
(`final`). The value that was still to come is a straight line in the value that had come. The interval assumes no
distribution: it is as wide as the errors of the line for past numbers, each computed from a line without that number.
The ends of an interval of whole numbers are whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor

import numpy as np

from latecomer.model.array_types import Doubles, Flags

LEVEL = 0.9
"""The share of intervals that contain the final number."""
LEAST = 30
"""The fewest past numbers. An interval of 90 % needs at least 19, and a line needs some more."""
MOST = 2000
"""The most past numbers: the newest ones."""
_SLOPES = 50
"""The fewest past numbers that show how the error grows with the number."""


@dataclass(frozen=True)
class Estimate:
    """The estimate of a final number."""

    value: float
    low: float
    high: float
    past: int
    """How many past numbers it is based on."""
    unlike: bool = False
    """Whether the number is far outside the range of past numbers at this age."""


@dataclass(frozen=True)
class Line:
    """The value still to come, given the value that has come: `base + growth * seen`, and its past errors."""

    base: float
    growth: float
    power: float
    """The error grows as `seen ** power`."""
    floor: float
    """Added to `seen` for weights, so that 0 has a weight."""
    misses: Doubles
    """The error of the line for each past number, relative to its size, in order of time."""

    @cached_property
    def errors(self) -> Doubles:
        """The misses, ascending."""
        return np.sort(self.misses)

    def of(self, seen: float, level: float) -> tuple[float, float, float]:
        """The lower end, the middle and the upper end of the interval of the final number.

        The value that has come stays: neither a count nor a sum of non-negative amounts shrinks. Where the lower end is
        that value, the final number cannot be below it, and the interval may miss on its upper side only.
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
    """Past numbers at one age, in order of time: the value of each at that age, and its final value."""

    seen: Doubles
    final: Doubles
    alike: bool = True
    """Whether they are of one group, so that their values can be compared; otherwise only shares can."""
    like: str = ""
    """What they have in common with the number that is estimated: their hour, their weekday, or both."""

    @property
    def misses(self) -> Doubles:
        """The error of their line for each of them, relative to its size."""
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
        """The range of past numbers, extended by half its width on both sides. A number outside is unlike them."""
        least, most = float(self.seen.min()), float(self.seen.max())
        return least - (most - least) / 2, most + (most - least) / 2

    @cached_property
    def _counted(self) -> bool:
        return all(bool((each == np.floor(each)).all()) for each in (self.seen, self.final))

    def estimate(self, seen: float, level: float = LEVEL) -> Estimate | None:
        """The estimate for a number that has this value now; None where there are too few past numbers."""
        if len(self) < LEAST:
            return None
        unlike = not self._known[0] <= seen <= self._known[1]
        low, value, high = self._line.of(seen, level)
        if self.alike and unlike:  # the rest may be as usual or in proportion: the interval covers both
            by_share = self._share.of(seen, level)
            low, value, high = min(low, by_share[0]), by_share[1], max(high, by_share[2])
        if self._counted:
            low, high = _whole(low, high)
            value = min(max(value, low), high)
        return Estimate(value, low, high, len(self), unlike)


def _whole(low: float, high: float) -> tuple[int, int]:
    """An interval of whole numbers: the nearest ones, or both neighbours where none lies between the ends.

    >>> _whole(1.6, 3.4), _whole(1.4, 3.6), _whole(2.6, 2.7), _whole(2.0, 2.0)
    ((2, 3), (1, 4), (2, 3), (2, 2))
    """
    by_rounding = 1e-9
    return min(round(low), floor(high + by_rounding)), max(round(high), ceil(low - by_rounding))


def _fitted(seen: Doubles, final: Doubles, with_base: bool) -> Line:
    """The line that fits best, with each past number weighted by one over its value. It never predicts less than zero.

    The error for each number is that of the line without it.
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


def _power(size: Doubles, errors: Doubles) -> float:
    """How the error grows with the number: not at all (0), as its root (0.5), or in proportion (1)."""
    nonzero: Flags = errors != 0
    count = int(np.count_nonzero(nonzero))
    if count < _SLOPES:
        return 0.5
    x, y = np.log(size[nonzero]), np.log(np.abs(errors[nonzero]))
    x -= x.sum() / count
    spread = float(x @ x)
    return 0.5 if spread < 1e-9 else min(max(float(x @ y) / spread, 0.0), 1.0)
