"""Times as people write them: `14:00:10` on the day of a scenario, with the date on any other day."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from typing import Self

from latecomer.model.durations import parse_duration, to_micros, to_moment
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT, Window

DAY = "2026-04-25"
"""The day of times without a date, by default."""
ALWAYS = Window(FIRST_MOMENT, END_OF_TIME)
"""The one window of an output whose window is global."""
_WORDS = {"none": BEGIN_OF_TIME, "end": END_OF_TIME}


class Times:
    """Reads and writes the times of one day, in UTC.

    >>> times = Times("2026-04-25")
    >>> times.write(times.read("14:00:10.5"))
    '14:00:10.5'
    >>> times.write(times.read("2026-04-26T02:00+05:30"))
    '20:30'
    >>> times.write_window(times.read_window("14:00..2026-04-26"))
    '14:00..2026-04-26'
    """

    def __init__(self, day: str | date = DAY) -> None:
        self.day = day if isinstance(day, date) else date.fromisoformat(day)

    def read(self, written: str) -> int:
        """Microseconds; a time without a zone is UTC."""
        try:
            if "-" in written[4:5]:
                moment = datetime.fromisoformat(written)
            else:
                moment = datetime.combine(self.day, time.fromisoformat(_padded(written)))
        except ValueError:
            raise ValueError("not a time; write 14:00:10, or 2026-04-25T14:00:10 for another day") from None
        return to_micros(moment)

    def write(self, micros: int) -> str:
        """The shortest exact way to write a moment."""
        for word, bound in _WORDS.items():
            if micros == bound:
                return word
        moment = to_moment(micros)
        clock = moment.strftime("%H:%M") if not micros % 60_000_000 else moment.strftime("%H:%M:%S.%f")
        if "." in clock:
            clock = clock.rstrip("0").rstrip(".")
        if moment.date() == self.day:
            return clock
        return moment.date().isoformat() + ("" if clock == "00:00" else f"T{clock}")

    def read_watermark(self, written: str) -> int:
        """A time, `none` where there is no watermark yet, `end` after a drain."""
        return _WORDS[written] if written in _WORDS else self.read(written)

    def read_window(self, written: str) -> Window:
        """`14:00..14:01`, or `always`."""
        if written == "always":
            return ALWAYS
        start, dots, end = written.partition("..")
        if not dots:
            raise ValueError("not a window; write 14:00..14:01")
        return Window(self.read(start), self.read(end))

    def write_window(self, window: Window) -> str:
        return "always" if window == ALWAYS else f"{self.write(window.start)}..{self.write(window.end)}"


def _padded(written: str) -> str:
    """`9:30` in the form that Python reads."""
    return f"0{written}" if written[1:2] == ":" else written


class ManualClock:
    """A clock that moves only when it is told to.

    >>> clock = ManualClock("14:00")
    >>> str(clock.advance("90s"))
    '14:01:30'
    """

    def __init__(self, now: str = "14:00", day: str | date = DAY) -> None:
        self.times = Times(day)
        self.now = self.times.read(now)

    def advance(self, by: str) -> Self:
        """Move it forward by a duration."""
        self.now += parse_duration(by)
        return self

    def set(self, to: str) -> Self:
        """Move it to a time; a clock of arrivals does not go back."""
        moment = self.times.read(to)
        if moment < self.now:
            raise ValueError(f"the clock stands at {self} and does not go back to {to}")
        self.now = moment
        return self

    @property
    def moment(self) -> datetime:
        return to_moment(self.now).astimezone(UTC)

    def __str__(self) -> str:
        return self.times.write(self.now)
