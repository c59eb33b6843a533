"""Moments as people write them: which texts are one, and which moment each means.

The rules are those of Spark's cast of a text to a timestamp, so that a column means the same in a file, in a condition
and in an SQL query over the log.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final

from latecomer.model.zones import is_zone, to_utc

_CLOCK = (
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})"
    r"(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*)?)?)?"
)
_WRITTEN: Final = re.compile(
    rf"(?P<year>[0-9]{{4,6}})(?:-(?P<month>[0-9]{{1,2}})(?:-(?P<day>[0-9]{{1,2}})(?:[ T]{_CLOCK})?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(
    r"([+-])(?:([0-9]{1,2})|([0-9]{2}):?([0-9]{2})|([0-9]{2}):([0-9]{2}):([0-9]{2})|([0-9]{2})([0-9]{2})([0-9]{2}))"
)
_MOST_OFFSET = 18 * 3600
_PREFIXES = ("UTC", "GMT", "UT")
_SHORT_NAMES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00",
    "MST": "-07:00",
    "HST": "-10:00",
}
"""Java's short names of zones."""
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - wall-clock arithmetic
_BLANK = "".join(map(chr, (*range(0x21), 0x7F)))


def written_moment(text: str, zone: str = "UTC") -> int | None:
    """The moment that a text means, in microseconds; None where it is none. Without a zone of its own it is what the
    wall clock of `zone` shows.

    >>> written_moment("2026-01-05T14:00:00.5Z"), written_moment("2026-01-05 14:00"), written_moment("5 January")
    (1767621600500000, 1767621600000000, None)
    >>> written_moment("2026-01-05 19:30", "Asia/Kolkata") == written_moment("2026-01-05T19:30:00+05:30")
    True
    """
    read = _read(text)
    if read is None:
        return None
    wall, written = read
    local = (wall - _EPOCH) // timedelta(microseconds=1)
    if written is None:
        return local if zone == "UTC" else to_utc(local, zone)
    offset = zone_offset(written)
    if isinstance(offset, int):
        return local - offset * 1_000_000
    return None if offset is None else to_utc(local, offset)


def written_wall_clock(text: str) -> int | None:
    """What a wall clock shows, of a text without a zone, in microseconds as if it were UTC; None where it is none.

    >>> written_wall_clock("1970-01-01 00:00:01"), written_wall_clock("1970-01-01 00:00:01Z")
    (1000000, None)
    """
    read = _read(text)
    if read is None or read[1] is not None:
        return None
    return (read[0] - _EPOCH) // timedelta(microseconds=1)


def _read(text: str) -> tuple[datetime, str | None] | None:
    """The wall clock that a text shows, and the zone that it names."""
    found = _WRITTEN.fullmatch(text.strip(_BLANK))
    if found is None:
        return None
    part = found.groupdict()
    micros = int((part["fraction"] or "0")[:6].ljust(6, "0"))
    try:
        day = date(int(part["year"]), int(part["month"] or 1), int(part["day"] or 1))
        wall = datetime(  # noqa: DTZ001
            day.year,
            day.month,
            day.day,
            int(part["hour"] or 0),
            int(part["minute"] or 0),
            int(part["second"] or 0),
            micros,
        )
    except ValueError:
        return None
    return wall, part["zone"]


@lru_cache(maxsize=1024)
def zone_offset(written: str) -> int | str | None:
    """What a zone at the end of a text means: seconds east of Greenwich, or the name of a zone; None where it is none.

    >>> zone_offset("Z"), zone_offset("+05:30"), zone_offset(" Europe/Paris"), zone_offset("x")
    (0, 19800, 'Europe/Paris', None)
    """
    name = written.strip(_BLANK)
    name = re.sub(r"(\+|-)([0-9]):", r"\g<1>0\2:", name, count=1)
    name = re.sub(r"(\+|-)([0-9]{2}):([0-9])$", r"\1\2:0\3", name, count=1)
    name = _SHORT_NAMES.get(name, name)
    if name in ("Z", *_PREFIXES):
        return 0
    for prefix in ("", *_PREFIXES):
        if name.startswith((f"{prefix}+", f"{prefix}-")):
            return _seconds(name[len(prefix) :])
    return name if is_zone(name) else None


def _seconds(offset: str) -> int | None:
    found = _OFFSET.fullmatch(offset)
    if found is None:
        return None
    numbers = [int(each) for each in found.groups()[1:] if each is not None]
    hours, minutes, seconds = (*numbers, 0, 0)[:3]
    if minutes > 59 or seconds > 59:
        return None
    total = hours * 3600 + minutes * 60 + seconds
    return None if total > _MOST_OFFSET else total if found[1] == "+" else -total
