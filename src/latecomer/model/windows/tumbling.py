"""Windows side by side."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import model_validator

from latecomer.model.array_types import Micros
from latecomer.model.durations import DAY, HOUR, PositiveDuration, SignedDuration
from latecomer.model.windows.base import Assigned, SideBySide, Window, looked_up
from latecomer.model.zones import Zone, to_local, to_utc


class Tumbling(SideBySide):
    """Windows of one length, side by side: `Tumbling("1m")`, `{tumbling: 1d, zone: Asia/Kolkata}`.

    In UTC they are aligned to 1970-01-01, moved by `offset`. In a zone they follow the wall clock (ADR
    0010): whole days run from midnight to midnight, so a day may last 23 or 25 hours, and windows of six
    hours begin at 00:00, 06:00, 12:00 and 18:00 on every day, so one may last five or seven.

    >>> Tumbling("1m").assign(90_000_000)
    Window(start=60000000, end=120000000)
    """

    kind: ClassVar[str] = "tumbling"
    example: ClassVar[str] = "tumbling: 1m"

    tumbling: PositiveDuration
    offset: SignedDuration = 0
    zone: Zone = "UTC"

    @model_validator(mode="after")
    def _fits_the_wall_clock(self) -> Self:
        fits = self.size % DAY == 0 or (HOUR if self.size < HOUR else DAY) % self.size == 0
        if self.zone != "UTC" and not fits:
            raise ValueError(
                "with a zone, a window is whole days, or divides a day, and below an hour divides an hour; "
                "write 15m, 1h, 6h, 1d or 7d, or leave zone out"
            )
        return self

    @property
    def size(self) -> int:
        return self.tumbling

    @property
    def step(self) -> int:
        return self.size

    @property
    def reach(self) -> int:
        if self.zone == "UTC":
            return self.size
        return self.size + min(self.size, DAY)

    @property
    def frame(self) -> int:
        """The length of the whole days that hold a window: they begin and end at midnight despite clock changes."""
        return max(self.size, DAY)

    @property
    def cell(self) -> int:
        """The length of the intervals with a fixed begin on the wall clock; windows below an hour divide hours."""
        return max(self.size, HOUR)

    @property
    def within_days(self) -> bool:
        """Whether several windows of a zone's wall clock make up a day."""
        return self.zone != "UTC" and self.size < DAY

    def assign(self, event_time: int) -> Window:
        if self.zone == "UTC":
            start = event_time - (event_time - self.offset) % self.size
            return Window(start, start + self.size)
        first, days = self._days(event_time)
        return self._part(event_time, self._cell(event_time, first, days)) if self.within_days else days

    def assign_many(self, times: Micros) -> Assigned:
        if self.zone == "UTC":
            start = times - (times - self.offset) % self.size
            return Assigned.one_each(start, start + self.size)
        start, end = looked_up(times, lambda time: self._days(time)[1])
        if self.within_days:
            changed = end - start != DAY
            # A day of 24 hours is divided evenly. The windows of any other day are computed one by one.
            start += (times - start) // self.size * self.size
            end = start + self.size
            start[changed], end[changed] = looked_up(times[changed], self.assign)
        return Assigned.one_each(start, end)

    def _at(self, local: int) -> int:
        return to_utc(local, self.zone)

    def _days(self, event_time: int) -> tuple[int, Window]:
        """The days that hold an instant, and the wall-clock time at which they begin."""
        first = self._first(event_time)
        return first, Window(self._at(first), self._at(first + self.frame))

    def _first(self, event_time: int) -> int:
        """The wall-clock time at which the days that hold an instant begin."""
        local = to_local(event_time, self.zone)
        first = local - (local - self.offset) % self.frame
        # At a clock change the wall clock may be off by one frame.
        if event_time < self._at(first):
            return first - self.frame
        if event_time >= self._at(first + self.frame):
            return first + self.frame
        return first

    def _cell(self, event_time: int, first: int, day: Window) -> Window:
        """The interval between two times of the wall clock that holds an instant of this day.

        After a clock change by more than an interval, the intervals have no order: then it is the whole day.
        """
        longer, into = day.end - day.start - DAY, event_time - day.start
        if not longer:
            begin = event_time - into % self.cell
            return Window(begin, begin + self.cell)
        if abs(longer) > self.cell:
            return day
        # Its number, counted from the begin and from the end of the day: the two differ by one at most.
        low, high = sorted((into // self.cell, (into - longer) // self.cell))
        begin = first + (high if self._at(first + high * self.cell) <= event_time else low) * self.cell
        return Window(self._at(begin), self._at(begin + self.cell))

    def _part(self, event_time: int, cell: Window) -> Window:
        """The window of an interval that holds an instant: as many windows as fit, and the last one takes the rest."""
        last = max((cell.end - cell.start) // self.size, 1) - 1
        nth = min((event_time - cell.start) // self.size, last)
        start = cell.start + nth * self.size
        return Window(start, cell.end if nth == last else start + self.size)
