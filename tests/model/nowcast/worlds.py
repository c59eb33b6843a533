"""Sources with known delays, window by window: what the estimates are held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from latecomer.model.array_types import Doubles, Integers
from latecomer.model.nowcast.filling import NO_RHYTHM, Fillings, PastNumbers, Rhythm

MINUTE = 60_000_000
WHOLE = 6 * MINUTE
AGES = (MINUTE // 2, MINUTE, 2 * MINUTE)
Generator = np.random.Generator
Delays = Callable[[Generator, int, int], Doubles]
"""Of a window and so many events, in microseconds."""


def exponential(mean: float) -> Delays:
    return lambda rng, _, count: rng.exponential(mean * 1e6, count)


def lognormal(median: float) -> Delays:
    return lambda rng, _, count: rng.lognormal(np.log(median * 1e6), 1.2, count)


def slower_after(window: int, mean: float, later: float) -> Delays:
    return lambda rng, nth, count: rng.exponential((mean if nth < window else later) * 1e6, count)


@dataclass(frozen=True)
class World:
    """Minutes of events, of some keys; `rate` events a minute for each, or as the window has them."""

    delays: Delays
    windows: int = 200
    rate: Callable[[Generator, int], float] = lambda _rng, _window: 100.0
    sizes: tuple[float, ...] = (1.0,)
    """How much of the rate each key has."""

    @property
    def starts(self) -> Integers:
        return np.arange(self.windows) * MINUTE

    def fillings(self, seed: int) -> Fillings:
        rng = np.random.default_rng(seed)
        window, key, age, amount = [], [], [], []
        for nth in range(self.windows):
            rate = self.rate(rng, nth)
            for number, size in enumerate(self.sizes):
                count = int(rng.poisson(rate * size))
                happened = rng.integers(0, MINUTE, count)
                window.append(np.full(count, nth))
                key.append(np.full(count, number))
                age.append((happened + self.delays(rng, nth, count)).astype(np.int64))
                amount.append(rng.lognormal(3, 1, count))
        whole = np.full(self.windows, WHOLE)
        amounts = {"paise": np.concatenate(amount)}
        return Fillings(np.concatenate(window), np.concatenate(key), np.concatenate(age), whole, amounts)

    def filled(self, seed: int, ages: tuple[int, ...] = AGES) -> list[PastNumbers]:
        return list(self.fillings(seed).at(ages))


HOUR = 3_600_000_000
MONDAY = 1_767_571_200_000_000
"""A Monday, at midnight in UTC."""


@dataclass(frozen=True)
class Weeks:
    """Weeks of hours or days, each with about as many events, of which a share has come at its end; more come later.

    `late` is the mean share that is missing then, of a window so many hours after midnight on Monday."""

    late: Callable[[int, int], float]
    weeks: int = 6
    length: int = HOUR
    rate: float = 400.0

    @property
    def starts(self) -> Integers:
        return MONDAY + np.arange(self.weeks * 7 * 24 * HOUR // self.length) * self.length

    @property
    def whole(self) -> int:
        return 2 * self.length

    def filled(self, seed: int, rhythm: bool = True) -> PastNumbers:
        """All windows at their end, with what is known of their rhythm or without it."""
        rng = np.random.default_rng(seed)
        window, age = [], []
        for nth, start in enumerate(self.starts):
            hour = int(start - MONDAY) // HOUR
            count = int(rng.poisson(self.rate))
            missing = rng.random(count) < self.late(hour // 24, hour) * rng.uniform(0.8, 1.2)
            window.append(np.full(count, nth))
            age.append(np.where(missing, self.length + self.length // 2, self.length // 2))
        fillings = Fillings(
            np.concatenate(window),
            np.zeros(sum(map(len, window)), np.int64),
            np.concatenate(age),
            np.full(len(self.starts), self.whole),
            {},
            Rhythm(self.starts) if rhythm else NO_RHYTHM,
        )
        return next(fillings.at([self.length]))
