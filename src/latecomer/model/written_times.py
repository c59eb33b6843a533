"""Dates and times in text: which texts are valid, and what each means.

Arrow reads columns in the usual form (`source/decode/typed_columns.py`, `log/moments.py`). This module reads all other
forms. They are those of Spark's casts, so that a text means the same in a file, in a condition and in an SQL query over
the log: parts of one or two digits, a year alone, offsets and names of zones.
"""

from __future__ import annotations

import re

from latecomer.model.zones import is_zone, offset_at

_BLANK = "".join(map(chr, range(0x21))) + "\x7f"
_DATE = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_MOMENT = re.compile(
    r"([+-]?)([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9].*)?)?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"([+-])(?:([0-9])|([0-9]{2})(?:(:?)([0-5][0-9])(?:\4([0-5][0-9]))?)?)")
_ONE_DIGIT_HOUR, _ONE_DIGIT_MINUTE = re.compile(r"([+-])([0-9]):"), re.compile(r"([+-][0-9]{2}):([0-9])$")
_REGION = re.compile(r"[A-Za-z][A-Za-z0-9~/._+-]+")
_FARTHEST = 18 * 3600
_SHORT = {
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
"""The short names that Java knows."""
_DAY, _SECOND = 86_400_000_000, 1_000_000
_MOST = (1 << 63) - 1
_MOST_DAYS = (1 << 31) - 1


def written_date(text: str) -> int | None:
    """The date in a text, as days since 1970; None where it is not valid.

    >>> written_date("2026-1-5"), written_date("2026-01-05T14:00"), written_date("5 January")
    (20458, 20458, None)
    """
    match = _matched(_DATE, text)
    if match is None:
        return None
    sign, year, month, day = match.groups()
    return _days(int(sign + year), int(month or 1), int(day or 1))


def written_wall_clock(text: str) -> int | None:
    """The moment in a text without a zone, as wall-clock time; None where it has a zone.

    >>> written_wall_clock("1970-01-01 00:00:01"), written_wall_clock("1970-01-01 00:00:01Z")
    (1000000, None)
    """
    return written_moment(text, None)


def written_moment(text: str, zone: str | None = "UTC") -> int | None:
    """The moment in a text, in microseconds. A text without a zone is in the time of `zone`; where that is None, a text
    with a zone is refused. None where the text is not valid; a time of day alone is not.

    >>> written_moment("1970-01-01T00:00:01+00:01"), written_moment("1970"), written_moment("12:30")
    (-59000000, 0, None)
    >>> written_moment("2026-01-05 19:30", "Asia/Kolkata") == written_moment("2026-01-05T19:30:00+05:30")
    True
    """
    match = _MOMENT.fullmatch(text.strip(_BLANK)) if zone is None else _matched(_MOMENT, text)
    if match is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, written = match.groups()
    days = _days(int(sign + year), int(month or 1), int(day or 1))
    time = int(hour or 0), int(minute or 0), int(second or 0)
    if days is None or time[0] > 23 or time[1] > 59 or time[2] > 59 or (written is not None and zone is None):
        return None
    seconds = days * 86_400 + time[0] * 3600 + time[1] * 60 + time[2]
    if written is not None:
        offset = _offset(written.strip(_BLANK), seconds)
    else:
        offset = 0 if zone in (None, "UTC") else offset_at(seconds, str(zone))
    if offset is None:
        return None
    micros = (seconds - offset) * _SECOND + int((fraction or "")[:6].ljust(6, "0"))
    return micros if -_MOST - 1 <= micros <= _MOST else None


def _matched(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The match of a text; the letters GMT in it are ignored where it does not match with them."""
    match = pattern.fullmatch(text.strip(_BLANK))
    if match is None and "GMT" in text:
        return pattern.fullmatch(text.replace("GMT", "").strip(_BLANK))
    return match


def _days(year: int, month: int, day: int) -> int | None:
    """Days since 1970 in the Gregorian calendar, extended in both directions."""
    if not 1 <= month <= 12 or not 1 <= day <= 31:
        return None
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if (day > (29 if leap else 28) and month == 2) or (day == 31 and month in (4, 6, 9, 11)):
        return None
    since_march = year - (month <= 2)
    era, month = since_march // 400, (month + 9) % 12
    of_era = since_march - era * 400
    days = era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + (153 * month + 2) // 5 + day - 719_469
    return days if -_MOST_DAYS - 1 <= days <= _MOST_DAYS else None


def _offset(zone: str, wall: int) -> int | None:
    """How many seconds a zone is ahead of UTC when its clock shows a time; None where there is no such zone."""
    zone = _ONE_DIGIT_MINUTE.sub(r"\1:0\2", _ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", zone, count=1))
    zone = _SHORT.get(zone, zone)
    for prefix in ("UTC", "GMT", "UT"):
        if zone == prefix:
            return 0
        if zone.startswith(prefix) and zone[len(prefix)] in "+-":
            return _written_offset(zone[len(prefix) :])
    if zone == "Z":
        return 0
    if zone.startswith(("+", "-")):
        return _written_offset(zone)
    if _REGION.fullmatch(zone) is None or not is_zone(zone):
        return None
    return offset_at(wall, zone)


def _written_offset(text: str) -> int | None:
    match = _OFFSET.fullmatch(text)
    if match is None:
        return None
    sign, digit, hours, _, minutes, seconds = match.groups()
    size = int(digit or hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)
    if size > _FARTHEST:
        return None
    return -size if sign == "-" else size
