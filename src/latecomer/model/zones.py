"""Time zones: converts between wall-clock times and UTC.

A wall-clock time is stored as microseconds, as if it were UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator

from latecomer.errors import nearest
from latecomer.model.durations import to_micros, to_moment

_400_YEARS = 146_097 * 86_400
_FIRST = -62_000_000_000
_LAST = int(datetime(9998, 1, 1, tzinfo=UTC).timestamp())
"""The bounds, in seconds, of the years in which Python can compute every zone."""
_OFFSET = re.compile(r"\s*(utc|gmt|z)?\s*[+-]?\s*\d{1,2}(:?\d\d)*\s*", re.IGNORECASE)
UNKNOWN_TO_JAVA = frozenset({"Factory", "ROC", "localtime"})
"""Zones that Python knows and Java does not, so that Spark could not use them."""


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) - UNKNOWN_TO_JAVA


def is_zone(name: str) -> bool:
    """Whether both Python and Java know a zone of this name."""
    return name in _zones()


def zone_fix(name: str) -> str:
    """The fix for a name that is no zone.

    >>> zone_fix("Europe/Berlinn"), zone_fix("Mars")
    ('did you mean Europe/Berlin?', 'write an IANA name such as Asia/Kolkata or UTC')
    >>> zone_fix("GMT+2")
    'write a region such as Europe/Berlin: an offset does not follow changes of the clock'
    """
    if _OFFSET.fullmatch(name):
        return "write a region such as Europe/Berlin: an offset does not follow changes of the clock"
    return nearest(name, sorted(_zones()), "write an IANA name such as Asia/Kolkata or UTC", cutoff=0.8)


def _known_zone(name: str) -> str:
    if not is_zone(name):
        raise ValueError(f"not a time zone; {zone_fix(name)}")
    return name


Zone = Annotated[str, AfterValidator(_known_zone)]


def to_local(micros: int, zone: str) -> int:
    """The wall clock in `zone` at a UTC instant."""
    return to_micros(_wall(micros, zone))


def to_utc(local: int, zone: str) -> int:
    """The UTC instant at which the wall clock in `zone` shows `local`; the earlier of two."""
    return local - offset_at(local // 1_000_000, zone) * 1_000_000


@lru_cache(maxsize=1024)
def offset_at(wall: int, zone: str) -> int:
    """How many seconds a zone is ahead of UTC when its clock shows a time, given in seconds.

    Of a time that occurs twice, it is the earlier one. For a time that the clock skips, it is the offset before the
    change. After the last year that Python can compute, it is that of a year a multiple of 400 years earlier.

    >>> offset_at(0, "Asia/Kolkata"), offset_at(2**40, "Asia/Kolkata")
    (19800, 19800)
    """
    if wall > _LAST:
        wall -= -((_LAST - wall) // _400_YEARS) * _400_YEARS
    shown = datetime(1970, 1, 1, tzinfo=ZoneInfo(zone)) + timedelta(seconds=max(wall, _FIRST))
    offset = shown.utcoffset()
    return 0 if offset is None else round(offset.total_seconds())


def day_of(micros: int, zone: str) -> date:
    """The date in `zone` at a UTC instant."""
    return _wall(micros, zone).date()


def midnight(day: date, zone: str) -> int:
    """The UTC instant at which a day begins in `zone`.

    Where the clock jumps from midnight, the day begins with the jump.
    """
    return to_micros(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)).astimezone(UTC))


def _wall(micros: int, zone: str) -> datetime:
    return to_moment(micros).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
