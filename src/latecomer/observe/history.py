"""What became of events lately, output by output: shares, their baseline, and how corrections grow.

It is kept in steps of five minutes of the wall clock for four weeks, and read from the store: no metrics server has to
remember it. Pure: `recorded.py` reads it, and a run adds its batches to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from latecomer.model.durations import UNITS

MINUTE, HOUR, DAY = UNITS["m"], UNITS["h"], UNITS["d"]
STEP = 5 * MINUTE
KEPT = 28 * DAY
BASELINE = 7 * DAY
LEAST_HOURS = 24
"""So many hours with events a baseline needs."""
LEAST_DAYS = 14
"""So many days with events a trend needs."""
LEAST_CORRECTIONS = 10
"""So many corrections a day a trend needs: fewer rise and fall by chance."""


@dataclass
class Sums:
    """What an output received in some time, and what became of it."""

    received: int = 0
    side_output: int = 0
    late_panes: int = 0
    rebuilt: int = 0

    def add(self, other: Sums) -> None:
        self.received += other.received
        self.side_output += other.side_output
        self.late_panes += other.late_panes
        self.rebuilt += other.rebuilt

    @property
    def corrections(self) -> int:
        return self.late_panes + self.rebuilt

    @property
    def side_share(self) -> float | None:
        """The share that went to the side output; None where nothing was received."""
        return self.side_output / self.received if self.received > 0 else None

    @property
    def correction_share(self) -> float | None:
        """Corrections for each event received."""
        return self.corrections / self.received if self.received > 0 else None


class History:
    """The last four weeks of a pipeline, in steps."""

    def __init__(self) -> None:
        self._steps: dict[str, dict[int, Sums]] = {}

    @property
    def outputs(self) -> Sequence[str]:
        return sorted(self._steps)

    def add(self, output: str, at: int, sums: Sums) -> None:
        """What a batch did that was published at a moment."""
        self._steps.setdefault(output, {}).setdefault(at // STEP, Sums()).add(sums)

    def forget(self, now: int) -> None:
        """Let go of what is too old to be asked for."""
        oldest = (now - KEPT - DAY) // STEP
        for steps in self._steps.values():
            for step in [step for step in steps if step < oldest]:
                del steps[step]

    def total(self, output: str, since: int, until: int) -> Sums:
        """All steps that begin after one moment and not after another."""
        steps, total = self._steps.get(output, {}), Sums()
        first, last = since // STEP + 1, until // STEP
        if last - first < len(steps):
            found: Iterator[Sums | None] = (steps.get(step) for step in range(first, last + 1))
        else:
            found = (sums for step, sums in steps.items() if first <= step <= last)
        for sums in found:
            if sums is not None:
                total.add(sums)
        return total

    def baseline(self, output: str, now: int) -> float | None:
        """The usual share of side output: the median hour of the days before the last hour. None where there are too
        few hours to say what is usual."""
        ends = range(now - HOUR, now - HOUR - BASELINE, -HOUR)
        shares = [self.total(output, end - HOUR, end).side_share for end in ends]
        known = [share for share in shares if share is not None]
        return median(known) if len(known) >= LEAST_HOURS else None

    def corrections(self, output: str, now: int) -> float | None:
        """Corrections for each event received, of the last 7 days."""
        return self.total(output, now - BASELINE, now).correction_share

    def growth(self, output: str, now: int) -> float | None:
        """By how much corrections for each event have grown in four weeks: 0.5 is half as many again.

        The line through the days is Theil and Sen's, the median of the slopes between any two: one day with a rebuild
        does not bend it. None where there are too few days to see one.
        """
        ends = range(now - KEPT + DAY, now + 1, DAY)
        days = [(nth, self.total(output, end - DAY, end)) for nth, end in enumerate(ends)]
        shares = [(nth, share) for nth, day in days if (share := day.correction_share) is not None]
        if len(shares) < LEAST_DAYS:
            return None
        if median(day.corrections for _, day in days if day.received > 0) < LEAST_CORRECTIONS:
            return 0.0
        return growth_of(shares)


def growth_of(points: Sequence[tuple[int, float]]) -> float:
    """How much higher the line through some points ends than it begins, as a share of where it begins.

    >>> growth_of([(0, 1.0), (1, 1.1), (2, 9.0), (3, 1.3), (4, 1.4)])
    0.4
    """
    slope = median((y - x) / (later - first) for (first, x), (later, y) in combinations(points, 2))
    level = median(share - slope * nth for nth, share in points)
    begins, ends = level + slope * points[0][0], level + slope * points[-1][0]
    usual = median(share for _, share in points)
    return round((ends - begins) / max(begins, usual / 4), 9) if usual > 0 else 0.0


# The watermark's lag


@dataclass(frozen=True)
class WatermarkStep:
    """From a moment of the wall clock on, the watermark is here; None where there is none, as after a drain."""

    at: int
    watermark: int | None


def average_lag(steps: Sequence[WatermarkStep], since: int, until: int) -> float | None:
    """How far the watermark was behind the wall clock, on average between two moments, in microseconds.

    Between two steps the watermark stands and the clock goes on. None where there was no watermark.

    >>> average_lag([WatermarkStep(0, 0), WatermarkStep(10, 10)], 0, 20)
    5.0
    """
    weighed = length = 0.0
    ends = [*(step.at for step in steps[1:]), until]
    for step, end in zip(steps, ends, strict=False):
        begin, stop = max(step.at, since), min(end, until)
        if begin < stop and step.watermark is not None:
            weighed += (stop - begin) * ((begin + stop) / 2 - step.watermark)
            length += stop - begin
    return weighed / length if length else None
