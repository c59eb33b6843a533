"""The recent fates of events, output by output: shares, their baseline, and how corrections grow.

They are kept for four weeks, in steps of five minutes of the wall clock. They come from the store, so that no metrics
server has to keep them. Pure: `recorded.py` reads them, and a run adds its batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from latecomer.model.durations import UNITS

SECOND, MINUTE, HOUR, DAY = (UNITS[unit] for unit in ("s", "m", "h", "d"))
STEP = 5 * MINUTE
KEPT = 28 * DAY
BASELINE = 7 * DAY
LEAST_HOURS = 24
"""A baseline needs so many hours with events."""
LEAST_DAYS = 14
"""A trend needs so many days with events."""
LEAST_CORRECTIONS = 10
"""A trend needs so many corrections a day: fewer rise and fall by chance."""


@dataclass
class Sums:
    """How many events an output received in some time, and how many were late in which way."""

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


class PipelineHistory:
    """The last four weeks of a pipeline, in steps."""

    def __init__(self) -> None:
        self._steps: dict[str, dict[int, Sums]] = {}

    def add(self, output: str, at: int, sums: Sums) -> None:
        """Add a batch that was published at a moment."""
        self._steps.setdefault(output, {}).setdefault(at // STEP, Sums()).add(sums)

    def forget(self, now: int) -> None:
        """Forget steps that are too old to be needed."""
        oldest = (now - KEPT - DAY) // STEP
        for steps in self._steps.values():
            for step in [step for step in steps if step < oldest]:
                del steps[step]

    def total(self, output: str, since: int, until: int) -> Sums:
        """The sum of all steps that begin after `since` and by `until`."""
        steps, total = self._steps.get(output, {}), Sums()
        first, last = since // STEP + 1, until // STEP
        if last - first < len(steps):
            within: Iterator[Sums | None] = (steps.get(step) for step in range(first, last + 1))
        else:
            within = (sums for step, sums in steps.items() if first <= step <= last)
        for sums in within:
            if sums is not None:
                total.add(sums)
        return total

    def baseline(self, output: str, now: int) -> float | None:
        """The usual share of side output: the median hour of the 7 days before the last hour. None where too few hours
        have events."""
        ends = range(now - HOUR, now - HOUR - BASELINE, -HOUR)
        shares = [self.total(output, end - HOUR, end).side_share for end in ends]
        known = [share for share in shares if share is not None]
        return median(known) if len(known) >= LEAST_HOURS else None

    def corrections(self, output: str, now: int) -> float | None:
        """Corrections for each event received, of the last 7 days."""
        return self.total(output, now - BASELINE, now).correction_share

    def growth(self, output: str, now: int) -> float | None:
        """By how much corrections for each event have grown in four weeks: 0.5 is half as many again.

        The line through the days is that of Theil and Sen, the median of the slopes between any two: one day with a
        rebuild does not bend it. None where too few days have events.
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
    """By how much the line through some points rises, as a share of its first value.

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
    """From moment `at` of the wall clock on, the watermark has this value; None where there is none."""

    at: int
    watermark: int | None


def average_lag(steps: Sequence[WatermarkStep], since: int, until: int) -> float | None:
    """How far the watermark was behind the wall clock, on average between two moments, in microseconds.

    Between two steps the watermark stands still while the clock goes on. None where there was no watermark.

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
