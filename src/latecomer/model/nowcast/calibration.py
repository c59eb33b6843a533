"""Tests whether intervals are as reliable as they claim: estimates past numbers from what was known at the time.

Windows are processed in order. Each is estimated from the windows that were complete at that time, and compared with
its final number. The newer half of the windows, and a change in how windows fill, show whether the past is still a
guide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

from latecomer.model.array_types import Doubles, Integers
from latecomer.model.nowcast.estimating import LEAST, LEVEL
from latecomer.model.nowcast.filling import EVENTS, SURE, PastNumbers, kruskal

TRIALS = 200
"""The most past numbers that are estimated: the newest ones."""
LEAST_TRIALS = 20
"""The fewest trials for a result."""
LEAST_DRIFT = 0.01
"""The smallest difference between shares that is reported: a smaller one does not change estimates."""
_NEWEST = (2, 4, 8)
"""The newest half, quarter and eighth of the windows are compared with the windows before them."""


@dataclass(frozen=True)
class Calibration:
    """How often intervals contained the final number."""

    trials: int
    held: int
    windows: int
    """The number of windows. Trials of one window depend on each other, so only these count as independent."""
    newest_trials: int = 0
    newest_held: int = 0
    """Of the newer half of the windows."""
    width: float | None = None
    """The median width of the intervals, as a share of the estimate."""

    @property
    def coverage(self) -> float | None:
        return self.held / self.trials if self.trials else None


@dataclass(frozen=True)
class FillingDrift:
    """A change in how windows fill: how full the newest windows and those before were at an age."""

    age: int
    newest: int
    """How many of the newest windows differ from those before."""
    older: float
    newer: float


def calibrated(
    filled: Sequence[PastNumbers],
    names: Sequence[str],
    starts: Integers,
    whole_after: int,
    trials: int = TRIALS,
) -> Calibration:
    """Estimates past numbers, at each of these ages in turn, and compares them with the final numbers.

    `starts` are the starts of the windows; a window is complete `whole_after` its start.
    """
    if not filled or not len(filled[0].window):
        return Calibration(0, 0, 0)
    held_in: dict[int, list[bool]] = {}
    widths: list[float] = []
    windows = _candidates(filled, starts, whole_after)[-trials:]
    rows_each = max(trials // max(len(windows), 1), 1)
    for nth, window in enumerate(windows):
        each = filled[nth % len(filled)]
        known = int(np.searchsorted(starts, starts[window] + each.age - whole_after, "right"))
        rows = np.flatnonzero((each.window == window) & (each.seen[EVENTS] > 0))
        step = max(len(rows) // rows_each, 1)
        for row in rows[nth % step :: step]:
            for name in names:
                past = each.chosen(name, int(each.key[row]), known, int(starts[window]))
                estimate = past.estimate(float(each.seen[name][row]))
                if estimate is None:
                    continue
                final = float(each.final[name][row])
                slack = 1e-9 * max(abs(final), 1.0)
                held_in.setdefault(window, []).append(estimate.low - slack <= final <= estimate.high + slack)
                widths.append((estimate.high - estimate.low) / estimate.value if estimate.value else 0.0)
    return _summed_up(held_in, widths)


def _candidates(filled: Sequence[PastNumbers], starts: Integers, whole_after: int) -> list[int]:
    """The windows that can be estimated, in order: enough windows were complete before them."""
    windows = np.unique(filled[0].window)
    if len(windows) <= LEAST:
        return []
    youngest = min(each.age for each in filled)
    oldest = starts[windows[LEAST - 1]] + whole_after - youngest
    return [int(window) for window in windows[starts[windows] >= oldest]]


def _summed_up(held_in: dict[int, list[bool]], widths: list[float]) -> Calibration:
    order = sorted(held_in)
    every, newest = (
        [held for window in windows for held in held_in[window]]
        for windows in (order, order[len(order) // 2 :])
    )
    width = float(np.median(widths)) if widths else None
    return Calibration(len(every), sum(every), len(order), len(newest), sum(newest), width)


def falls_short(calibration: Calibration, level: float = LEVEL) -> bool:
    """Whether the intervals of the newer half contained too few final numbers to be explained by chance.

    Trials of one window may all fail together, so windows count as the independent trials.
    """
    windows = calibration.windows - calibration.windows // 2
    if calibration.newest_trials < LEAST_TRIALS or not windows:
        return False
    share = calibration.newest_held / calibration.newest_trials
    error = sqrt(level * (1 - level) / min(windows, calibration.newest_trials))
    return share < level and _both_tails((level - share) / error) / 2 < SURE


def drift(filled: Sequence[PastNumbers]) -> FillingDrift | None:
    """The age at which the newest windows differ most from those before; None where chance explains the difference, or
    where it is less than a percentage point."""
    worst: tuple[float, FillingDrift] | None = None
    for each in filled:
        windows, shares = each.shares()
        for newest in {len(windows) // part for part in _NEWEST}:
            if newest < LEAST_TRIALS // 2 or len(windows) < 2 * LEAST_TRIALS:
                continue
            older, newer = shares[:-newest], shares[-newest:]
            change = FillingDrift(each.age, newest, float(np.median(older)), float(np.median(newer)))
            if abs(change.newer - change.older) < LEAST_DRIFT:
                continue
            chance = rank_test(older, newer) * len(filled) * len(_NEWEST)
            if chance < SURE and (worst is None or chance < worst[0]):
                worst = chance, change
    return None if worst is None else worst[1]


def rank_test(one: Doubles, other: Doubles) -> float:
    """The probability that chance alone makes two samples differ so much (Mann and Whitney, with ties).

    >>> round(rank_test(np.arange(30.0), np.arange(30.0)), 2), rank_test(np.zeros(9), np.zeros(9))
    (1.0, 1.0)
    >>> rank_test(np.arange(30.0), np.arange(30.0) + 25) < 1e-6
    True
    """
    statistic, _ = kruskal(np.concatenate([one, other]), np.repeat([0, 1], [len(one), len(other)]))
    return _both_tails(sqrt(statistic))


def _both_tails(sigmas: float) -> float:
    return erfc(sigmas / sqrt(2))
