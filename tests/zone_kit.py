"""Clock changes of a zone, found by asking its clock, and the moments around them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from latecomer.model.durations import DAY, to_micros, to_moment

SECOND, MINUTE, HOUR = 1_000_000, 60_000_000, 3_600_000_000


def wall(micros: int, zone: str) -> datetime:
    """What the clock on the wall shows."""
    return to_moment(micros).astimezone(ZoneInfo(zone)).replace(tzinfo=None)


def changes(zone: str, first_year: int, last_year: int) -> Iterator[int]:
    """Every instant at which the zone's clock jumps, in these years."""
    at, until = (
        to_micros(datetime(year, 1, 1, tzinfo=UTC)) // SECOND for year in (first_year, last_year + 1)
    )
    while at < until:
        after = at + 5 * DAY // SECOND
        if _offset(at, zone) != _offset(after, zone):
            low, high = at, after
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(middle, zone) == _offset(at, zone) else (low, middle)
            yield high * SECOND
        at = after


def _offset(seconds: int, zone: str) -> timedelta:
    return wall(seconds * SECOND, zone) - wall(seconds * SECOND, "UTC")
