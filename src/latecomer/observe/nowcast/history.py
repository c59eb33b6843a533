"""Windows that are whole, and how they filled: what the present ones are held against."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from latecomer.model.durations import shown_duration
from latecomer.model.lateness.histogram import Whole
from latecomer.model.nowcast.calibration import LEAST_TRIALS
from latecomer.model.nowcast.estimating import LEAST
from latecomer.model.nowcast.filling import Fillings
from latecomer.model.nowcast.rhythm import WEEK, Rhythm
from latecomer.model.windows import Sliding, TimedWindow, Windows, zone_of
from latecomer.observe.nowcast.arrivals import Arrivals

ENOUGH_WINDOWS = 4 * LEAST
"""So many past windows are asked for."""
MOST_WINDOWS = 300
"""So many past windows are looked at, the newest."""
WEEKS, MOST_IN_WEEKS = 5, 1000
"""So many weeks of them, for the sake of their rhythm, where these have no more windows than that: from an hour on."""
_SHARES = (0.999, 0.99, 0.95)
"""A window counts as whole when this share of events has come; the first that leaves enough windows."""


def looked_for(window: TimedWindow) -> int:
    """How long an interval of windows is asked for."""
    return ENOUGH_WINDOWS * max(window.step, window.reach)


def hoped_for(window: TimedWindow) -> int:
    """How long an interval shows their rhythm, where windows are so long that weeks can show it."""
    if _in_weeks(window) > MOST_IN_WEEKS:
        return looked_for(window)
    return most_windows(window) * max(window.step, window.reach)


def most_windows(window: TimedWindow) -> int:
    """How many past windows are looked at."""
    in_weeks = _in_weeks(window)
    return MOST_WINDOWS if in_weeks > MOST_IN_WEEKS else max(MOST_WINDOWS, in_weeks)


def _in_weeks(window: TimedWindow) -> int:
    return WEEKS * WEEK // max(window.step, window.reach)


@dataclass(frozen=True)
class History:
    """Windows that are whole, and how they filled."""

    now: int
    starts: Whole
    whole_after: int
    """How long after its end a window counts as whole."""
    length: int
    """How long a window is; of calendar windows, the longest."""
    share: float
    fillings: Fillings

    @classmethod
    def of(cls, window: Windows, arrivals: Arrivals, now: int) -> History | str:
        """Whatever can be learned from past windows, or why that is too little."""
        if not len(arrivals.times):
            return "no event is in the log yet"
        # What had happened before anybody watched has come at once: that is not how windows fill.
        begin, delays = max(arrivals.since, arrivals.watched_since), arrivals.delays
        found: History | None = None
        for share in _SHARES:
            after = max(int(np.quantile(delays, share)), 0) if len(delays) else 0
            found = cls._after(window, arrivals, now, begin, after, share)
            if found.fillings.windows >= LEAST:
                return found
        assert found is not None  # noqa: S101
        return (
            f"{found.fillings.windows} past windows are whole and were watched from their start, and {LEAST} are needed"
            f"; a window counts as whole {shown_duration(found.whole_after)} after its end"
        )

    @classmethod
    def _after(
        cls, window: Windows, arrivals: Arrivals, now: int, begin: int, after: int, share: float
    ) -> History:
        starts, ends = _windows(window, begin, now - after)
        nth = np.searchsorted(starts, arrivals.times, "right") - 1
        inside = nth >= 0
        inside[inside] = arrivals.times[inside] < ends[nth[inside]]
        number = nth[inside]
        amounts = arrivals.added(inside, ends[number])
        age = arrivals.came[inside] - starts[number]
        rhythm = Rhythm(starts, zone_of(window))
        fillings = Fillings(number, arrivals.key[inside], age, ends - starts + after, amounts, rhythm)
        length = int((ends - starts).max()) if len(starts) else 0
        return cls(now, starts, after, length, share, fillings)

    @property
    def ample(self) -> bool:
        """Whether more of the log would not make it better: enough windows, to hold some back as well."""
        return self.share == _SHARES[0] and self.fillings.windows >= LEAST + LEAST_TRIALS

    @property
    def whole_age(self) -> int:
        return self.length + self.whole_after


def _windows(window: Windows, begin: int, until: int) -> tuple[Whole, Whole]:
    """The newest windows that start from a moment on and end by another; of those that overlap, some that do not."""
    assert isinstance(window, TimedWindow)  # noqa: S101
    every = -(-window.size // window.every) if isinstance(window, Sliding) else 1
    most = most_windows(window)
    begin = max(begin, until - (most + 1) * every * window.step - window.reach)
    ends = list(window.ends(begin, until))
    if isinstance(window, Sliding):
        bounds = [(end - window.size, end) for end in ends[::-every][::-1]]
    else:
        bounds = list(pairwise(ends))
        if ends and window.assign_all(ends[0] - 1)[0].start >= begin:
            bounds.insert(0, (window.assign_all(ends[0] - 1)[0].start, ends[0]))
    found = np.array([each for each in bounds if each[0] >= begin][-most:], np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
