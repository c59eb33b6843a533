"""The ends of the windows that hold events, for many events at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from latecomer.model.array_types import Flags, Integers
from latecomer.model.windows import AnyWindow, Session, Sliding


class WindowEnds:
    """The ends of the windows that hold each event: one array for each window that an event may be in.

    Where an event is in several, the last array has the window that ends last. A session is computed as if the event
    were alone in it, so it may end later than computed.
    """

    def __init__(self, window: AnyWindow) -> None:
        self.window = window

    @property
    def known(self) -> bool:
        """Whether windows have ends."""
        return not self.window.endless

    @property
    def alone(self) -> bool:
        """Whether the ends are computed as if each event were alone in its window."""
        return self.window.merges

    def last(self, times: Integers) -> Integers:
        window = self.window
        if isinstance(window, Session):
            return np.asarray(times + window.session, np.int64)
        if isinstance(window, Sliding):
            newest = times - (times - window.offset) % window.every
            return np.asarray(newest + window.size, np.int64)
        return window.assign_many(times).end

    def all(self, times: Integers) -> Iterator[tuple[Integers, Flags | None]]:
        """Arrays of ends, each with a flag for the events that it is for; None means all events."""
        last = self.last(times)
        if isinstance(self.window, Sliding):
            size, every = self.window.size, self.window.every
            for back in range(1, -(-size // every)):
                ends = last - back * every
                yield ends, ends > times
        yield last, None
