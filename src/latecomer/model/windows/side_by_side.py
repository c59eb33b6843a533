"""Windows side by side: exactly one holds each event."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from datetime import date, timedelta
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_serializer, model_validator

from latecomer.model.array_types import Micros
from latecomer.model.durations import DAY, HOUR, PositiveDuration, SignedDuration
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.windows.base import FIRST_MOMENT, FOREVER, Assigned, Window, Windows
from latecomer.model.zones import Zone, day_of, midnight, to_local, to_utc

Unit = Literal["day", "week", "month", "quarter", "year"]
_LONGEST: dict[Unit, int] = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}


class SideBySide(Windows):
    """The base of windows of which exactly one holds each event."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The length of a window; of the longest, where they differ."""

    @property
    def step(self) -> int:
        return self.size

    @abstractmethod
    def assign(self, event_time: int) -> Window:
        """The one window that holds this event time."""

    def assign_all(self, event_time: int) -> tuple[Window, ...]:
        """Every window that holds this event time, ascending by start."""
        return (self.assign(event_time),)

    @abstractmethod
    def assign_many(self, times: Micros) -> Assigned:
        """The windows of many events."""

    def last_ends(self, times: Micros) -> Micros:
        """The end of the last window that holds each event."""
        return self.assign_many(times).end

    def starts(self, ends: Micros) -> Micros:
        """The starts of the windows that end then."""
        return self.assign_many(ends - 1).start

    def ends(self, after: int, until: int) -> Iterator[int]:
        """Every window end in `(after, until]`, ascending."""
        if after >= until:  # also at the end of time, which no calendar goes beyond
            return
        end = self.assign(after).end
        while end <= until:
            yield end
            end = self.assign(end).end


def looked_up(times: Micros, window_of: Callable[[int], Window]) -> tuple[Micros, Micros]:
    """Start and end of the window that holds each moment, for windows side by side: each window is computed once."""
    import numpy as np

    known = np.unique(times)
    starts, ends, at = [], [], 0
    while at < len(known):
        window = window_of(int(known[at]))
        starts.append(window.start)
        ends.append(window.end)
        at = int(np.searchsorted(known, window.end))
    start, end = np.array(starts, np.int64), np.array(ends, np.int64)
    place = np.searchsorted(end, times, side="right")
    return start[place], end[place]


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


class Calendar(SideBySide):
    """Days, weeks from Monday, months, quarters or years of a zone's calendar: `Calendar("month")`.

    They run from midnight to midnight of the wall clock, so their lengths differ.

    >>> from latecomer.model.durations import iso
    >>> [iso(at) for at in Calendar("month", zone="Asia/Kolkata").assign(0)]
    ['1969-12-31T18:30:00Z', '1970-01-31T18:30:00Z']
    """

    kind: ClassVar[str] = "calendar"
    example: ClassVar[str] = "calendar: day"

    calendar: Unit
    zone: Zone = "UTC"

    @property
    def size(self) -> int:
        return _LONGEST[self.calendar] * DAY

    @property
    def reach(self) -> int:
        return (_LONGEST[self.calendar] + 1) * DAY

    def assign(self, event_time: int) -> Window:
        first = self._first_day(day_of(event_time, self.zone))
        # Where a clock goes back over midnight, the wall clock may be off by one window.
        if event_time < midnight(first, self.zone):
            first = self._first_day(first - timedelta(days=1))
        elif event_time >= midnight(self._following(first), self.zone):
            first = self._following(first)
        return Window(midnight(first, self.zone), midnight(self._following(first), self.zone))

    def assign_many(self, times: Micros) -> Assigned:
        return Assigned.one_each(*looked_up(times, self.assign))

    def _first_day(self, day: date) -> date:
        match self.calendar:
            case "day":
                return day
            case "week":
                return day - timedelta(days=day.weekday())
            case "month":
                return day.replace(day=1)
            case "quarter":
                return day.replace(month=day.month - (day.month - 1) % 3, day=1)
            case "year":
                return day.replace(month=1, day=1)

    def _following(self, first: date) -> date:
        return self._first_day(first + timedelta(days=_LONGEST[self.calendar]))


class Global(SideBySide):
    """One window for all of time, which only a drain closes: `Global()`, `{global: true}`.

    >>> Global().assign(0) == Window(FIRST_MOMENT, END_OF_TIME)
    True
    """

    kind: ClassVar[str] = "global"
    example: ClassVar[str] = "global: true"
    endless: ClassVar[bool] = True

    whole: Literal[True] = Field(alias="global")

    def __init__(self, value: Literal[True] = True, /, **fields: Any) -> None:
        super().__init__(**{self.kind: value, **fields})

    @model_serializer
    def _written(self) -> dict[str, bool]:
        return {self.kind: True}

    @property
    def size(self) -> int:
        return FOREVER

    @property
    def reach(self) -> int:
        return FOREVER

    def assign(self, event_time: int) -> Window:
        return Window(FIRST_MOMENT, END_OF_TIME)

    def assign_many(self, times: Micros) -> Assigned:
        import numpy as np

        start, end = (np.full(len(times), moment, np.int64) for moment in (FIRST_MOMENT, END_OF_TIME))
        return Assigned.one_each(start, end)

    def ends(self, after: int, until: int) -> Iterator[int]:
        if after < END_OF_TIME <= until:
            yield END_OF_TIME
