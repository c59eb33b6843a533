"""Past windows that are whole, and how they filled: present windows are compared with them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from latecomer.model.array_types import Integers
from latecomer.model.durations import shown_duration
from latecomer.model.nowcast.calibration import LEAST_TRIALS
from latecomer.model.nowcast.estimating import LEAST
from latecomer.model.nowcast.filling import Fillings
from latecomer.model.nowcast.rhythm import WEEK, Rhythm
from latecomer.model.windows import Sliding, TimedWindow, Windows, zone_of
from latecomer.observe.nowcast.arrivals import Arrivals

ENOUGH_WINDOWS = 4 * LEAST
"""So many past windows are needed."""
MOST_WINDOWS = 300
"""At most so many past windows are used, the newest."""
WEEKS, MOST_IN_WEEKS = 5, 1000
"""So many weeks are used, for their rhythm, where they have at most so many windows: windows of an hour or longer."""
_SHARES = (0.999, 0.99, 0.95)
"""A window counts as whole once this share of its events has arrived: the first share that leaves enough windows."""


def needed_span(window: TimedWindow) -> int:
    """How long an interval of windows is asked for."""
    return ENOUGH_WINDOWS * max(window.step, window.reach)


def rhythm_span(window: TimedWindow) -> int:
    """How long an interval shows their rhythm, where windows are so long that weeks can show it."""
    if _in_weeks(window) > MOST_IN_WEEKS:
        return needed_span(window)
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
    starts: Integers
    whole_after: int
    """How long after its end a window counts as whole."""
    length: int
    """How long a window is; of calendar windows, the longest."""
    share: float
    fillings: Fillings

    @classmethod
    def of(cls, window: Windows, arrivals: Arrivals, now: int) -> History | str:
        """The past windows, or in words why there are too few."""
        if not len(arrivals.times):
            return "no event is in the log yet"
        # Events from before the first arrival arrived all at once: that is not how windows fill.
        begin, delays = max(arrivals.since, arrivals.watched_since), arrivals.delays
        history: History | None = None
        for share in _SHARES:
            after = max(int(np.quantile(delays, share)), 0) if len(delays) else 0
            history = cls._after(window, arrivals, now, begin, after, share)
            if history.fillings.windows >= LEAST:
                return history
        assert history is not None  # noqa: S101
        return (
            f"{history.fillings.windows} past windows are whole and were watched from their start, and {LEAST} are "
            f"needed; a window counts as whole {shown_duration(history.whole_after)} after its end"
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
        """Whether there are enough windows, also to test the estimates with: then no more of the log is read."""
        return self.share == _SHARES[0] and self.fillings.windows >= LEAST + LEAST_TRIALS

    @property
    def whole_age(self) -> int:
        return self.length + self.whole_after


def _windows(window: Windows, begin: int, until: int) -> tuple[Integers, Integers]:
    """The newest windows that start at or after `begin` and end by `until`; of overlapping windows, some that do not
    overlap."""
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
    newest = np.array([each for each in bounds if each[0] >= begin][-most:], np.int64).reshape(-1, 2)
    return newest[:, 0], newest[:, 1]
