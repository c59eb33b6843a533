"""Windows side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from pydantic import model_validator

from latecomer.model.durations import DAY, PositiveDuration, SignedDuration
from latecomer.model.windows.base import Window, Windows
from latecomer.model.zones import Zone, to_local, to_utc


class Tumbling(Windows):
    """Windows of one length, side by side: `Tumbling("1m")`, `{tumbling: 1d, zone: Asia/Kolkata}`.

    In UTC they are aligned to 1970-01-01, moved by `offset`. In a zone, whole days run from midnight
    to midnight of the wall clock (so a day may last 23 or 25 hours), and shorter windows divide each
    such day from its start; the last one before a clock change's midnight may be cut short.

    >>> Tumbling("1m").assign(90_000_000)
    Window(start=60000000, end=120000000)
    """

    kind: ClassVar[str] = "tumbling"

    tumbling: PositiveDuration
    offset: SignedDuration = 0
    zone: Zone = "UTC"

    @model_validator(mode="after")
    def _fits_the_day(self) -> Self:
        if self.zone != "UTC" and self.size % DAY and DAY % self.size:
            raise ValueError(
                "with a zone, a window is whole days or divides a day; write 1h, 6h, 1d or 7d, or leave zone out"
            )
        return self

    @property
    def size(self) -> int:
        return self.tumbling

    @property
    def step(self) -> int:
        """From one window's end to the next."""
        return self.size

    @property
    def reach(self) -> int:
        """No window is longer."""
        return self.size if self.zone == "UTC" or self.size < DAY else self.size + DAY

    @property
    def frame(self) -> int:
        """What is aligned to the wall clock of a zone: the days that windows are, or divide."""
        return max(self.size, DAY)

    def assign(self, event_time: int) -> Window:
        """The one window that holds this event time."""
        if self.zone == "UTC":
            start = event_time - (event_time - self.offset) % self.size
            return Window(start, start + self.size)
        begin, end = self._framed(event_time)
        start = event_time - (event_time - begin) % self.size if self.size < DAY else begin
        return Window(start, min(start + self.size, end) if self.size < DAY else end)

    def assign_all(self, event_time: int) -> tuple[Window, ...]:
        """Every window that holds this event time, ascending by start."""
        return (self.assign(event_time),)

    def ends(self, after: int, until: int) -> Iterator[int]:
        """Every window end in `(after, until]`, ascending."""
        end = self.assign(after).end
        while end <= until:
            yield end
            end = self.assign(end).end

    def _framed(self, event_time: int) -> Window:
        """The stretch of whole wall-clock days that holds an instant."""
        local = to_local(event_time, self.zone)
        first = local - (local - self.offset) % self.frame
        # At a clock change the wall clock can mislead by one frame.
        if event_time < to_utc(first, self.zone):
            first -= self.frame
        elif event_time >= to_utc(first + self.frame, self.zone):
            first += self.frame
        return Window(to_utc(first, self.zone), to_utc(first + self.frame, self.zone))
