"""The newest ticks of a partition that together hold enough events, counted by value.

Quantiles are computed from the counts. All data are plain lists and numbers, so that a strategy can keep them in its
state, which is JSON.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import TypedDict


class RecentTicks(TypedDict):
    """`ticks` from old to new, each as pairs of value and events; `counts` is their sum, by value."""

    events: int
    ticks: list[list[list[int]]]
    counts: list[list[int]]


def nothing() -> RecentTicks:
    return {"events": 0, "ticks": [], "counts": []}


def slide(recent: RecentTicks, tick: Iterable[tuple[int, int]], of: int) -> None:
    """Add a tick, and remove the oldest ticks as long as at least `of` events remain."""
    newest = [[value, events] for value, events in tick]
    recent["ticks"].append(newest)
    _count(recent, newest, 1)
    while recent["events"] - sum(events for _, events in recent["ticks"][0]) >= of:
        _count(recent, recent["ticks"].pop(0), -1)


def above(recent: RecentTicks, share: float) -> int:
    """How many events lie above the quantile, by nearest rank."""
    return floor(rest(share) * recent["events"])


def quantile(recent: RecentTicks, share: float) -> int:
    """The smallest value that this share of the events does not exceed.

    >>> recent = nothing()
    >>> slide(recent, [(10, 3), (20, 1)], of=100)
    >>> quantile(recent, 0.75), quantile(recent, 0.76)
    (10, 20)
    """
    over = above(recent, share)
    for value, events in reversed(recent["counts"]):
        over -= events
        if over < 0:
            return value
    raise ValueError("a quantile of nothing")


def _count(recent: RecentTicks, tick: list[list[int]], sign: int) -> None:
    counts = recent["counts"]
    for value, events in tick:
        recent["events"] += sign * events
        place = bisect_left(counts, [value])
        if place == len(counts) or counts[place][0] != value:
            counts.insert(place, [value, 0])
        counts[place][1] += sign * events
        if counts[place][1] == 0:
            del counts[place]


@lru_cache
def rest(share: float) -> Fraction:
    """1 − share, exact for its decimal form: 0.07 is seven hundredths, not the nearest binary number."""
    return 1 - Fraction(str(share))
