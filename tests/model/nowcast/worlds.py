"""Sources with known delays, window by window: what the estimates are held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from latecomer.model.nowcast.estimating import Real
from latecomer.model.nowcast.filling import Filled, Fillings

MINUTE = 60_000_000
WHOLE = 6 * MINUTE
AGES = (MINUTE // 2, MINUTE, 2 * MINUTE)
Generator = np.random.Generator
Delays = Callable[[Generator, int, int], Real]
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
    def starts(self) -> np.ndarray[Any, np.dtype[np.int64]]:
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

    def filled(self, seed: int, ages: tuple[int, ...] = AGES) -> list[Filled]:
        return list(self.fillings(seed).at(ages))
