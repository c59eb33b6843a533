"""The time axis of a picture: linear where that can be read, else with long gaps shortened.

A life may take seconds and begin years after its window. Then the moments that matter (panes, the window,
the first and last events) get room by the order of magnitude of the time between them. Panes that share a
moment stand beside one another: their moment is given a width.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import log2

from latecomer.model.durations import UNITS
from latecomer.model.zoned import current_zone, on_the_wall
from latecomer.model.zones import to_local, to_utc

APART = 16
"""The distance between dots that share a moment, if there is room; and the least distance between two moments."""
_MOST_SHORTENED, _SHORTENED = 8.0, 4
_CLOSE = 2 * UNITS["s"]
_STEPS = [
    each * UNITS[unit]
    for unit, several in (
        ("us", (1, 10, 100)),
        ("ms", (1, 10, 100)),
        ("s", (1, 2, 5, 10, 15, 30)),
        ("m", (1, 2, 5, 10, 15, 30)),
        ("h", (1, 2, 3, 6, 12)),
        ("d", (1, 2, 7, 14, 30, 91, 365, 3650, 36500)),
    )
    for each in several
]
_LONG = (("y", 365 * UNITS["d"]), *((unit, UNITS[unit]) for unit in ("d", "h", "m", "s", "ms", "us")))


@dataclass(frozen=True)
class Tick:
    """A moment that is written below the axis: the time of day, and the date where it is another."""

    x: float
    time: str
    date: str


@dataclass(frozen=True)
class Gap:
    """An interval that is drawn shorter than it was."""

    x: float
    length: str


@dataclass(frozen=True)
class TimeAxis:
    """Moments on an interval of paper."""

    moments: Sequence[int]
    """The moments that must be distinct on paper; ascending, at least one."""
    crowd: Mapping[int, int]
    """How many dots stand at a moment, where more than one do."""
    left: float
    right: float

    @cached_property
    def step(self) -> float:
        """The distance between dots that share a moment."""
        beside = sum(count - 1 for count in self.crowd.values())
        return min(APART, 0.6 * (self.right - self.left) / beside) if beside else 0.0

    @cached_property
    def linear(self) -> bool:
        """Whether every moment has room where it would stand by the clock."""
        span = self.moments[-1] - self.moments[0]
        if not span:
            return True
        scale = (self.right - self.left) / span
        return all(
            (after - before) * scale >= APART + self._width(before)
            for before, after in pairwise(self.moments)
        ) and not self._width(self.moments[-1])

    @cached_property
    def places(self) -> list[float]:
        """Where each of the moments is."""
        room = self.right - self.left - sum(map(self._width, self.moments))
        gaps = [after - before for before, after in pairwise(self.moments)]
        if not gaps:
            return [self.left + room / 2]
        shares: list[float] = [float(gap) for gap in gaps]
        if not self.linear:
            shares = [min(1 + log2(gap / min(gaps)) / 2, _MOST_SHORTENED) for gap in gaps]
        places, total = [self.left], sum(shares)
        for before, share in zip(self.moments, shares, strict=False):
            places.append(places[-1] + self._width(before) + room * share / total)
        return places

    def __call__(self, moment: int, nth: int = 0) -> float:
        """Where a moment is; of dots that share it, the nth."""
        index = bisect_right(self.moments, moment) - 1
        if index < 0:
            return self.left
        start = self.places[index]
        if self.moments[index] == moment or index + 1 == len(self.moments):
            return round(start + self.step * nth, 1)
        start += self._width(self.moments[index])
        before, after = self.moments[index : index + 2]
        return round(start + (self.places[index + 1] - start) * (moment - before) / (after - before), 1)

    def ticks(self) -> list[Tick]:
        """The labels below the axis; no two overlap."""
        even = self._even() if self.linear else []
        moments = even if len(even) > 1 else list(self.moments)
        # Parts of a second are written where moments are that close.
        close = min((after - before for before, after in pairwise(moments)), default=0) < _CLOSE
        fine = close and any(moment % UNITS["s"] for moment in moments)
        seconds = any(moment % UNITS["m"] for moment in moments)
        form = "%H:%M:%S.%f" if fine else "%H:%M:%S" if seconds else "%H:%M"
        days = len(even) > 1 and not any(to_local(at, current_zone()) % UNITS["d"] for at in moments)
        width = 70 if fine or days else 58 if seconds else 44
        # The ends first: they frame what is between them.
        order = sorted(moments, key=lambda moment: moment not in (moments[0], moments[-1]))
        kept: list[int] = []
        room = max(width, 66) if len({on_the_wall(moment).date() for moment in moments}) > 1 else width
        for moment in order:
            if all(abs(self(moment) - self(other)) >= room for other in kept):
                kept.append(moment)
        return list(self._written(sorted(kept), "" if days else form))

    def gaps(self) -> list[Gap]:
        """Where the axis is much shorter than elsewhere for the same time."""
        between = [
            (after - before, self.places[index] + self._width(before), self.places[index + 1])
            for index, (before, after) in enumerate(pairwise(self.moments))
        ]
        most = max(((end - start) / time for time, start, end in between), default=0.0)
        return [
            Gap(round((start + end) / 2, 1), _roughly(time))
            for time, start, end in between
            if _SHORTENED * (end - start) / time < most
        ]

    def _width(self, moment: int) -> float:
        return self.step * (self.crowd.get(moment, 1) - 1)

    def _even(self) -> list[int]:
        """Moments at even distances by the clock of the zone."""
        zone = current_zone()
        low, high = self.moments[0], self.moments[-1]
        step = next((each for each in _STEPS if (high - low) // each <= 6), _STEPS[-1])
        first, last = to_local(low, zone), to_local(high, zone)
        even = (to_utc(at, zone) for at in range(-(-first // step) * step, last + 1, step))
        return [at for at in even if low <= at <= high]

    def _written(self, moments: Sequence[int], form: str) -> Iterator[Tick]:
        last = ""
        for at in moments:
            moment = on_the_wall(at)
            date = moment.strftime("%Y-%m-%d")
            time = moment.strftime(form).removesuffix("000") if form else ""
            yield Tick(self(at), time, date if date != last else "")
            last = date


def _roughly(micros: int) -> str:
    """A length of time in its largest unit.

    >>> _roughly(90 * UNITS["m"]), _roughly(400 * UNITS["d"])
    ('1h', '1y')
    """
    unit, size = next(((unit, size) for unit, size in _LONG if micros >= size), _LONG[-1])
    return f"{micros // size}{unit}"
