"""Who is late, how that changes a number, and whose clock is ahead.

Late events come in clusters: an outage makes thousands at once. So intervals cannot assume independent events. The
history is cut into blocks of arrival time, each block is left out once, and the spread of the results gives the
interval (the delete-a-group jackknife).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import NormalDist

import numpy as np

from latecomer.model.array_types import Doubles, Integers

BLOCKS = 20
FEWEST = 5
"""A group with fewer late events is not tested."""
SURE = 0.95


@dataclass(frozen=True)
class Interval:
    low: float
    high: float


def student(share: float, freedom: int) -> float:
    """The two-sided quantile of Student's distribution, by the expansion of Cornish and Fisher.

    >>> round(student(0.95, 19), 2), round(student(0.95, 4), 1)
    (2.09, 2.8)
    """
    z = NormalDist().inv_cdf((1 + share) / 2)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )


def jackknife(
    statistic: Callable[[int | None], float | None], blocks: int, sure: float = SURE
) -> Interval | None:
    """The interval of a statistic, computed by leaving out each block in turn; None where that is not possible."""
    whole = statistic(None)
    without = [statistic(block) for block in range(blocks)]
    known = [each for each in without if each is not None]
    if whole is None or len(known) < 3 or len(known) < len(without):
        return None
    mean = sum(known) / len(known)
    spread = sqrt((len(known) - 1) / len(known) * sum((each - mean) ** 2 for each in known))
    reach = student(sure, len(known) - 1) * spread
    return Interval(whole - reach, whole + reach)


@dataclass(frozen=True)
class LateGroup:
    """A group of events that is late more often than all other events together."""

    column: str
    value: str | None
    events: int
    late: int
    times: float
    """How many times as often as the others."""
    interval: Interval | None
    """Of `times`, at 95 % for all groups of the column together (Bonferroni)."""
    share_of_late: float
    share_of_events: float


def late_groups(
    column: str, values: Sequence[str | None], events: Integers, late: Integers
) -> list[LateGroup]:
    """The groups that are over-represented among late events, the one with the most late events first.

    `events` and `late` count by group and block. A group is listed if its interval lies above 1.
    """
    total, total_late = events.sum(0), late.sum(0)
    groups = []
    tested = [nth for nth in range(len(values)) if late[nth].sum() >= FEWEST]
    for nth in tested:
        mine, my_late = events[nth], late[nth]
        others, others_late = total - mine, total_late - my_late

        def ratio(
            block: int | None, counted: Sequence[Integers] = (mine, my_late, others, others_late)
        ) -> float | None:
            n, k, m, j = (float(each.sum() - (0 if block is None else each[block])) for each in counted)
            # Half an event is added, as is usual: so a group has a ratio even if no other event is late.
            return log((k + 0.5) / (n + 1) / ((j + 0.5) / (m + 1))) if n and m else None

        times = ratio(None)
        sure = 1 - (1 - SURE) / len(tested)
        interval = jackknife(ratio, events.shape[1], sure)
        if times is None or times <= 0 or (interval is not None and interval.low <= 0):
            continue
        groups.append(
            LateGroup(
                column,
                values[nth],
                int(mine.sum()),
                int(my_late.sum()),
                exp(times),
                None if interval is None else Interval(exp(interval.low), exp(min(interval.high, 700))),
                float(my_late.sum() / max(total_late.sum(), 1)),
                float(mine.sum() / max(total.sum(), 1)),
            )
        )
    return sorted(groups, key=lambda each: -each.late)


@dataclass(frozen=True)
class Bias:
    """The change of an aggregate over all windows if late events were dropped, as a share of its value."""

    output: str
    aggregate: str
    written: str
    with_all: float
    without_late: float
    relative: float | None
    interval: Interval | None
    group: tuple[str, str | None] | None = None
    """The column and value of the group; None for all events."""


def bias(
    function: str, counts: Doubles, late_counts: Doubles, sums: Doubles, late_sums: Doubles
) -> tuple[float, float, float | None, Interval | None]:
    """`count`, `sum` or `avg` with all events and without the late ones, the change, and its interval.

    Each array has an entry for each block.
    """

    def value(block: int | None, without: bool) -> float | None:
        n, k, s, j = (
            float(each.sum() - (0 if block is None else each[block]))
            for each in (counts, late_counts, sums, late_sums)
        )
        n, s = (n - k, s - j) if without else (n, s)
        if function == "avg":
            return s / n if n else None
        return s if function == "sum" else n

    def relative(block: int | None) -> float | None:
        whole, kept = value(block, False), value(block, True)
        return None if not whole or kept is None else kept / whole - 1

    return (
        value(None, False) or 0.0,
        value(None, True) or 0.0,
        relative(None),
        jackknife(relative, len(counts)),
    )


@dataclass(frozen=True)
class Skew:
    """A producer whose events have times after their arrival: its clock is ahead by at least `ahead`."""

    producer: str
    events: int
    negative: int
    ahead: int
    """The most that an event's time was ahead of its arrival."""
    against_others: int
    """The same, plus the median of all producers' shortest delays."""


def skews(names: Sequence[str | None], events: Integers, negative: Integers, least: Integers) -> list[Skew]:
    """Producers with negative delays, the one furthest ahead first."""
    with_events = events > 0
    usual = int(np.median(least[with_events])) if with_events.any() else 0
    ahead = [
        Skew(
            names[nth] or "", int(events[nth]), int(negative[nth]), int(-least[nth]), int(usual - least[nth])
        )
        for nth in np.flatnonzero(negative > 0).tolist()
    ]
    return sorted(ahead, key=lambda each: -each.ahead)
