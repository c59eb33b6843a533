"""Histograms of durations, with bins so fine that a percentile is exact to one part in several hundred.

Up to `2 * 2**bits` microseconds every value has its own bin. Above that, each octave is cut into `2**bits` bins. So a
quantile is never too small, and too large by at most one part in `2**bits`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil

import numpy as np

from latecomer.model.array_types import Doubles, Integers

FINE, COARSE = 9, 6
"""The bits of the bins: for all events together, and for each of many groups."""
LARGEST = 1 << 52
"""Longer durations, of more than a hundred years, count as this."""
PERCENTILES = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999)


def bin_of(sizes: Integers, bits: int) -> Integers:
    """The bin of each duration; none may be negative.

    >>> bin_of(np.array([0, 7, 1023, 1024, 1025, 1026]), 9).tolist()
    [0, 7, 1023, 1024, 1024, 1025]
    """
    sizes = np.minimum(sizes, LARGEST)
    _, exponents = np.frexp(sizes.astype(np.float64))
    octave = np.maximum(exponents.astype(np.int64) - 1 - bits, 0)
    return np.asarray((octave << bits) + (sizes >> octave), np.int64)


def top_of(bins: Integers, bits: int) -> Integers:
    """The largest duration of each bin.

    >>> top_of(np.array([0, 1023, 1024]), 9).tolist()
    [0, 1023, 1025]
    """
    octave = np.maximum((bins >> bits) - 1, 0)
    return np.asarray((((bins - (octave << bits)) + 1) << octave) - 1, np.int64)


BINS = {bits: int(bin_of(np.array([LARGEST]), bits)[0]) + 1 for bits in (FINE, COARSE)}


@dataclass
class Histogram:
    """How many events there are of each duration. Negative durations (clocks that are ahead) are counted apart."""

    bits: int = FINE
    ahead: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    behind: Integers = field(default_factory=lambda: np.zeros(0, np.int64))
    least: int = 0
    most: int = 0

    def __post_init__(self) -> None:
        if not len(self.behind):
            self.ahead, self.behind = (np.zeros(BINS[self.bits], np.int64) for _ in range(2))

    @property
    def count(self) -> int:
        return int(self.ahead.sum() + self.behind.sum())

    @property
    def negative(self) -> int:
        """How many are below zero."""
        return int(self.ahead.sum())

    def add(self, durations: Integers) -> None:
        if not len(durations):
            return
        first, least, most = not self.count, int(durations.min()), int(durations.max())
        self.least = least if first else min(self.least, least)
        self.most = most if first else max(self.most, most)
        below = durations < 0
        if below.any():
            self.ahead += np.bincount(bin_of(-durations[below], self.bits), minlength=len(self.ahead))
            durations = durations[~below]
        self.behind += np.bincount(bin_of(durations, self.bits), minlength=len(self.behind))

    def quantile(self, share: float) -> int:
        """The smallest duration that this share of the events does not exceed."""
        rank = min(max(ceil(share * self.count), 1), self.count)
        if rank <= self.negative:
            # The most negative durations come first.
            nth = len(self.ahead) - 1 - int(np.searchsorted(np.cumsum(self.ahead[::-1]), rank))
            low = int(top_of(np.array([nth - 1]), self.bits)[0]) + 1
            return max(-low, self.least)
        nth = int(np.searchsorted(np.cumsum(self.behind), rank - self.negative))
        return min(int(top_of(np.array([nth]), self.bits)[0]), self.most)

    def quantiles(self, shares: Iterable[float] = PERCENTILES) -> dict[float, int]:
        return {share: self.quantile(share) for share in shares} if self.count else {}

    def at_least(self, duration: int) -> int:
        """How many durations are as long or longer; limited by the bins, but never too few."""
        if duration < 0:
            return self.count
        return int(self.behind[int(bin_of(np.array([duration]), self.bits)[0]) :].sum())

    def bars(self, most: int = 40) -> list[tuple[int, int, int]]:
        """The histogram in a few bars of growing width: first duration, last duration, count."""
        bars: list[tuple[int, int, int]] = []
        if self.negative:
            bars.append((self.least, -1, self.negative))
        filled = np.flatnonzero(self.behind)
        if len(filled) and not filled[0]:
            bars.append((0, 0, int(self.behind[0])))
            filled = filled[1:]
        if not len(filled):
            return bars
        first, last = int(filled[0]), int(filled[-1]) + 1
        # On a logarithmic scale all bars have the same width.
        low, high = max(int(top_of(np.array([first - 1]), self.bits)[0]) + 1, 1), self.most + 1
        edges = np.unique(np.geomspace(low, high, most + 1).round().astype(np.int64))
        cuts = np.clip(bin_of(edges, self.bits), first, last)
        cuts[-1] = last
        for start, end in pairwise(cuts.tolist()):
            if end > start:
                low = int(top_of(np.array([start - 1]), self.bits)[0]) + 1
                top = int(top_of(np.array([end - 1]), self.bits)[0])
                bars.append((low, min(top, self.most), int(self.behind[start:end].sum())))
        return bars

    def curve(self) -> tuple[Integers, Doubles]:
        """Durations, ascending from zero, and the share of events that do not exceed each."""
        filled = np.flatnonzero(self.behind)
        shares = (self.negative + np.cumsum(self.behind)[filled]) / max(self.count, 1)
        return np.minimum(top_of(filled, self.bits), self.most), shares


# The elbow

REACH = 0.9999
LEAST = 0.1
"""A uniform distribution has 0, an exponential one 0.65; 0.1 is visible to the eye."""
MARGIN = 0.05


@dataclass(frozen=True)
class Elbow:
    """Where a curve bends most, and how clearly. Delays are microseconds."""

    delay: int
    low: int
    high: int
    completeness: float
    sharpness: float


def elbow_of(delays: Histogram, reach: float = REACH) -> Elbow | None:
    """The elbow of completeness over delay, after which waiting longer gains little; None where there is none, or too
    few delays to tell.

    The curve is completeness over delay, from the first delay to the one that the share `reach` (99.99 %) of the events
    needs. Both axes are scaled to run from 0 to 1. The elbow is where the curve is furthest above the straight line
    between its ends. `sharpness` is that distance: near 1 for a corner, 0 for a straight line. Below `LEAST` there is
    no elbow. `low` and `high` bound the delays whose distance is smaller by at most a twentieth (`MARGIN`).
    """
    if not delays.count:
        return None
    times, shares = delays.curve()
    end = delays.quantile(reach)
    kept = times <= end
    times, shares = times[kept], shares[kept]
    if len(times) < 3 or times[-1] <= 0:
        return None
    start = delays.negative / delays.count
    x = np.concatenate([[0.0], times / times[-1]])
    y = (np.concatenate([[start], shares]) - start) / (shares[-1] - start)
    distance = y - x
    best = int(np.argmax(distance))
    sharpness = float(distance[best])
    if best == 0 or sharpness < LEAST:
        return None
    good = np.flatnonzero(distance >= sharpness * (1 - MARGIN))
    return Elbow(
        int(times[best - 1]),
        int(times[max(good[0] - 1, 0)]),
        int(times[good[-1] - 1]),
        float(shares[best - 1]),
        sharpness,
    )
