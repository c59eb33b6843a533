"""The elbow: the delay after which waiting longer buys little.

The curve is completeness over delay, from the first delay to `reach`, the delay that 99.99 % of the events need. Both
axes are stretched to run from 0 to 1. The elbow is where the curve is furthest above the straight line between its
ends. `sharpness` is that distance: near 1 for a corner, 0 for a curve without any. Below `LEAST` there is no elbow.
`low` and `high` frame the delays that are as good but for a twentieth of the distance: the margin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from latecomer.model.lateness.histogram import Histogram

REACH = 0.9999
LEAST = 0.1
"""An even spread has 0, and 0.1 is seen by eye; an exponential one has 0.65."""
MARGIN = 0.05


@dataclass(frozen=True)
class Elbow:
    """Where a curve bends most, and how sure that is. Delays in microseconds."""

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
