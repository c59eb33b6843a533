"""How long after their event time events came: counted in the pass that finds what each tick brought."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

BOUNDS = (1, 5, 15, 30, 60, 120, 300, 600, 1800, 3600, 14_400, 86_400)
"""Seconds. Whoever chooses `watermark.delay` looks for the elbow, which is between half a minute and ten minutes
for most sources."""
_DELAY = "unix_micros(arrival_time) - unix_micros(event_time)"


@dataclass(frozen=True)
class Delays:
    """Events by how long after their event time they came."""

    within: tuple[int, ...]
    """For each of BOUNDS, how many came no later than that; each has what the ones before it have."""
    events: int
    seconds: float
    """All delays added up. An event that was ahead of its arrival has none."""

    @classmethod
    def added_up(cls, rows: Iterable[Mapping[str, Any]]) -> Delays:
        """What the rows of the pass come to.

        >>> Delays.added_up([{**{f"delay_{n}": 1 for n in range(12)}, "delays": 2.5, "events": 1}]).seconds
        2.5
        """
        found = list(rows)
        within = tuple(sum(row[f"delay_{nth}"] for row in found) for nth in range(len(BOUNDS)))
        return cls(within, sum(row["events"] for row in found), sum(row["delays"] for row in found))


def delay_counts() -> dict[str, str]:
    """The aggregates that count delays, for a pass over the log. The bounds are constants of every plan."""
    counts = {f"delay_{nth}": f"count_if({_DELAY} <= {bound}000000L)" for nth, bound in enumerate(BOUNDS)}
    return {**counts, "delays": f"sum(greatest({_DELAY}, 0L) / 1e6D)"}
