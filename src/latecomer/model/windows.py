"""Windows: which stretch of event time an event belongs to.

Pure arithmetic on microseconds. A window `[start, end)` holds the events with
`start <= event_time < end`; its end is what the watermark is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator, BaseModel, ConfigDict

from latecomer.model.durations import PositiveDuration, SignedDuration, to_micros

_EPOCH_NAIVE = datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock arithmetic, on purpose without zone


class Window(NamedTuple):
    """A half-open stretch of event time, in microseconds since the epoch."""

    start: int
    end: int


def _known_zone(name: str) -> str:
    if name not in available_timezones():
        raise ValueError("not a time zone; write an IANA name such as Asia/Kolkata or UTC")
    return name


Zone = Annotated[str, AfterValidator(_known_zone)]


class Tumbling(BaseModel):
    """Windows of one length, side by side: `Tumbling("1m")`, `{tumbling: 1d, zone: Asia/Kolkata}`.

    They are aligned to midnight of 1970-01-01 in `zone`, moved by `offset`. In a zone with
    daylight saving a window keeps its wall-clock bounds, so a day may last 23 or 25 hours.

    >>> Tumbling("1m").assign(90_000_000)
    Window(start=60000000, end=120000000)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    tumbling: PositiveDuration
    offset: SignedDuration = 0
    zone: Zone = "UTC"

    def __init__(self, size: object = None, /, **fields: object) -> None:
        if size is not None:
            fields["tumbling"] = size
        super().__init__(**fields)

    @property
    def size(self) -> int:
        return self.tumbling

    def assign(self, event_time: int) -> Window:
        """The one window that holds this event time."""
        if self.zone == "UTC":
            start = event_time - (event_time - self.offset) % self.size
            return Window(start, start + self.size)
        local = _to_local(event_time, self.zone)
        start = local - (local - self.offset) % self.size
        return Window(_to_utc(start, self.zone), _to_utc(start + self.size, self.zone))

    def ends(self, after: int, until: int) -> Iterator[int]:
        """Every window end in `(after, until]`, ascending."""
        end = self.assign(after).end
        while end <= until:
            yield end
            end = self.assign(end).end


def _to_local(micros: int, zone: str) -> int:
    """The wall clock in `zone` at a UTC instant, as if it were UTC microseconds."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
    wall = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    return (wall - _EPOCH_NAIVE) // timedelta(microseconds=1)


def _to_utc(local: int, zone: str) -> int:
    """The UTC instant at which the wall clock in `zone` shows `local`; the earlier of two."""
    wall = _EPOCH_NAIVE + timedelta(microseconds=local)
    return to_micros(wall.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC))


