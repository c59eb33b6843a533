"""Windows: which stretch of event time an event belongs to.

Pure arithmetic on microseconds. A window `[start, end)` holds the events with
`start <= event_time < end`; its end is what the watermark is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, NamedTuple, Self
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from latecomer.model.durations import DAY, PositiveDuration, SignedDuration, to_micros

_EPOCH_NAIVE = datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock arithmetic, on purpose without zone


class Window(NamedTuple):
    """A half-open stretch of event time, in microseconds since the epoch."""

    start: int
    end: int


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


def _known_zone(name: str) -> str:
    if name not in _zones():
        raise ValueError("not a time zone; write an IANA name such as Asia/Kolkata or UTC")
    return name


Zone = Annotated[str, AfterValidator(_known_zone)]


class Tumbling(BaseModel):
    """Windows of one length, side by side: `Tumbling("1m")`, `{tumbling: 1d, zone: Asia/Kolkata}`.

    In UTC they are aligned to 1970-01-01, moved by `offset`. In a zone, whole days run from midnight
    to midnight of the wall clock (so a day may last 23 or 25 hours), and shorter windows divide each
    such day from its start; the last one before a clock change's midnight may be cut short.

    >>> Tumbling("1m").assign(90_000_000)
    Window(start=60000000, end=120000000)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tumbling: PositiveDuration
    offset: SignedDuration = 0
    zone: Zone = "UTC"

    def __init__(self, size: object = None, /, **fields: Any) -> None:
        if size is not None:
            fields["tumbling"] = size
        super().__init__(**fields)

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

    def ends(self, after: int, until: int) -> Iterator[int]:
        """Every window end in `(after, until]`, ascending."""
        end = self.assign(after).end
        while end <= until:
            yield end
            end = self.assign(end).end

    def _framed(self, event_time: int) -> Window:
        """The stretch of whole wall-clock days that holds an instant."""
        local = _to_local(event_time, self.zone)
        first = local - (local - self.offset) % self.frame
        # At a clock change the wall clock can mislead by one frame.
        if event_time < _to_utc(first, self.zone):
            first -= self.frame
        elif event_time >= _to_utc(first + self.frame, self.zone):
            first += self.frame
        return Window(_to_utc(first, self.zone), _to_utc(first + self.frame, self.zone))


def _to_local(micros: int, zone: str) -> int:
    """The wall clock in `zone` at a UTC instant, as if it were UTC microseconds."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    wall = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return (wall - _EPOCH_NAIVE) // timedelta(microseconds=1)


def _to_utc(local: int, zone: str) -> int:
    """The UTC instant at which the wall clock in `zone` shows `local`; the earlier of two."""
    wall = _EPOCH_NAIVE + timedelta(microseconds=local)
    return to_micros(wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC))
