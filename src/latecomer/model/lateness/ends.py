"""The ends of the windows that hold events, for many events at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from latecomer.model.lateness.histogram import Flags, Whole
from latecomer.model.windows import AnyWindow, FixedWindow, Session, Sliding, Tumbling


class WindowEnds:
    """The ends of the windows that hold each event: one array for each window that an event may be in.

    Where an event is in several, the last array has the window that ends last. A session is computed as if the event
    were alone in it, so it may end later than computed.
    """

    def __init__(self, window: AnyWindow) -> None:
        self.window = window
        self._bounds = np.zeros(0, np.int64)

    @property
    def known(self) -> bool:
        """Whether windows have ends."""
        return not self.window.endless

    @property
    def alone(self) -> bool:
        """Whether the ends are computed as if each event were alone in its window."""
        return self.window.merges

    def last(self, times: Whole) -> Whole:
        """The end of the window that ends last."""
        window = self.window
        if isinstance(window, Session):
            return np.asarray(times + window.session, np.int64)
        if isinstance(window, Sliding):
            newest = times - (times - window.offset) % window.every
            return np.asarray(newest + window.size, np.int64)
        if isinstance(window, Tumbling) and window.zone == "UTC":
            return np.asarray(times - (times - window.offset) % window.size + window.size, np.int64)
        return self._looked_up(times, window)

    def all(self, times: Whole) -> Iterator[tuple[Whole, Flags | None]]:
        """Arrays of ends, each with a flag for the events that it is for; None means all events."""
        last = self.last(times)
        if isinstance(self.window, Sliding):
            size, every = self.window.size, self.window.every
            for back in range(1, -(-size // every)):
                ends = last - back * every
                yield ends, ends > times
        yield last, None

    def _looked_up(self, times: Whole, window: FixedWindow) -> Whole:
        """Ends of calendar windows: all ends are listed once, and each event's is the next one."""
        if not len(times):
            return times
        low, high = int(times.min()), int(times.max())
        known = self._bounds
        if not len(known) or low < known[0] or high >= known[-1]:
            first = low if not len(known) else min(low, int(known[0]))
            last = high if not len(known) else max(high, int(known[-1]))
            self._bounds = _listed(first, last, window)
        return np.asarray(self._bounds[np.searchsorted(self._bounds, times, side="right")], np.int64)


def _listed(first: int, last: int, window: FixedWindow) -> Whole:
    start, _ = window.assign_all(first)[0]
    end = window.assign_all(last)[0].end
    return np.array([start, *window.ends(start, end)], np.int64)
