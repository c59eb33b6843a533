"""Windows that overlap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from pydantic import model_validator

from latecomer.model.array_types import Micros
from latecomer.model.durations import PositiveDuration, SignedDuration, format_duration
from latecomer.model.windows.base import Assigned, Window, Windows

MOST = 10_000
"""The most windows that may hold one event, which becomes one row for each."""


class Sliding(Windows):
    """Windows of one length that start every so often: `Sliding("5m", every="1m")`.

    >>> Sliding("3us", every="2us").assign_all(4)
    (Window(start=2, end=5), Window(start=4, end=7))
    """

    kind: ClassVar[str] = "sliding"
    example: ClassVar[str] = "sliding: 5m, every: 1m"
    overlaps: ClassVar[bool] = True

    sliding: PositiveDuration
    every: PositiveDuration
    offset: SignedDuration = 0

    @model_validator(mode="after")
    def _leaves_no_gap(self) -> Self:
        if self.every > self.size:
            raise ValueError(
                "between two windows there would be events in none; "
                f"write every: {format_duration(self.size)} or less"
            )
        return self

    @model_validator(mode="after")
    def _few_hold_an_event(self) -> Self:
        if self.most_each > MOST:
            raise ValueError(
                f"an event would be in {self.most_each} windows, and {MOST} is the most; "
                f"write every: {format_duration(-(-self.size // MOST))} or more"
            )
        return self

    @property
    def windows_each(self) -> int | None:
        return None if self.size % self.every else self.size // self.every

    @property
    def most_each(self) -> int:
        return -(-self.size // self.every)

    @property
    def size(self) -> int:
        return self.sliding

    @property
    def step(self) -> int:
        return self.every

    @property
    def reach(self) -> int:
        return self.size

    def assign_all(self, event_time: int) -> tuple[Window, ...]:
        """Every window that holds this event time, ascending by start."""
        newest = event_time - (event_time - self.offset) % self.every
        starts = range(newest, event_time - self.size, -self.every)
        return tuple(Window(start, start + self.size) for start in reversed(starts))

    def assign_many(self, times: Micros) -> Assigned:
        import numpy as np

        newest = times - (times - self.offset) % self.every
        oldest = newest - (newest - times + self.size - 1) // self.every * self.every
        count = (newest - oldest) // self.every + 1
        nth = np.repeat(np.arange(len(times), dtype=np.int64), count)
        into = np.arange(len(nth), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
        start = oldest[nth] + into * self.every
        return Assigned(nth, start, start + self.size, oldest[nth] + self.size)

    def last_ends(self, times: Micros) -> Micros:
        """The end of the last window that holds each event."""
        return times - (times - self.offset) % self.every + self.size

    def starts(self, ends: Micros) -> Micros:
        """The starts of the windows that end then."""
        return ends - self.size

    def ends(self, after: int, until: int) -> Iterator[int]:
        """Every window end in `(after, until]`, ascending."""
        first = after - (after - self.offset - self.size) % self.every + self.every
        yield from range(first, until + 1, self.every)
