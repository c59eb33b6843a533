"""The elbow: the delay after which waiting longer gains little.

The curve is completeness over delay, from the first delay to the one that the share `reach` (99.99 %) of the events
needs. Both axes are scaled to run from 0 to 1. The elbow is where the curve is furthest above the straight line between
its ends. `sharpness` is that distance: near 1 for a corner, 0 for a straight line. Below `LEAST` there is no elbow.
`low` and `high` bound the delays whose distance is smaller by at most a twentieth (`MARGIN`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latecomer.model.lateness.histogram import Histogram

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
    """The elbow of completeness over delay; None where there is none, or too few delays to tell."""
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
