"""Windows of the calendar."""

from __future__ import annotations

from datetime import date, timedelta
from typing import ClassVar, Literal

from latecomer.model.array_types import Micros
from latecomer.model.durations import DAY
from latecomer.model.windows.base import Assigned, SideBySide, Window, looked_up
from latecomer.model.zones import Zone, day_of, midnight

Unit = Literal["day", "week", "month", "quarter", "year"]
_LONGEST: dict[Unit, int] = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}


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
    def step(self) -> int:
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
