"""Durations as people write them: `500ms`, `30s`, `5m`, `1h`, `1d`, also `1h30m`.

Internally, every time and every duration is a whole number of microseconds: exact, comparable, and the same in
Python, in Spark and in the tables.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

UNITS = {
    "us": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
SECOND, MINUTE, HOUR, DAY = (UNITS[unit] for unit in "smhd")
EARLIEST = -62_104_060_800_000_000  # 0002-01-01T00:00:00Z
LATEST = 253_339_142_400_000_000  # 9997-12-31T00:00:00Z
"""The bounds of event times. They leave room in the calendar for the windows, the windows after them, and any time
zone."""
LONGEST = 365_243 * DAY
"""A thousand years: its sum with any moment fits into the calendar and into 64 bits."""

_PART = re.compile(r"(\d+)(us|ms|s|m|h|d)")
_WHOLE = re.compile(r"-?(?:\d+(?:us|ms|s|m|h|d))+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DURATION_FIX = "write a number and a unit: 500ms, 30s, 5m, 1h or 1d"


def parse_duration(value: object) -> int:
    """Microseconds of a written duration.

    >>> parse_duration("1h30m")
    5400000000
    >>> parse_duration("soon")
    Traceback (most recent call last):
    ...
    ValueError: not a duration; write a number and a unit: 500ms, 30s, 5m, 1h or 1d
    """
    micros = _micros(value)
    if abs(micros) > LONGEST:
        raise ValueError(f"longer than a thousand years; write {format_duration(LONGEST)} or less")
    return micros


def _micros(value: object) -> int:
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, str):
        text = value.strip()
        if text in ("0", "-0"):
            return 0
        if _WHOLE.fullmatch(text):
            micros = sum(int(count) * UNITS[unit] for count, unit in _PART.findall(text))
            return -micros if text.startswith("-") else micros
    elif value == 0 and not isinstance(value, bool):
        return 0
    raise ValueError(f"not a duration; {DURATION_FIX}")


def format_duration(micros: int) -> str:
    """The shortest exact way to write a duration.

    >>> format_duration(5_400_000_000)
    '1h30m'
    >>> format_duration(0)
    '0s'
    """
    if micros == 0:
        return "0s"
    rest, parts = abs(micros), []
    for unit in ("d", "h", "m", "s", "ms", "us"):
        count, rest = divmod(rest, UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if micros < 0 else "") + "".join(parts)


def shown_duration(micros: int) -> str:
    """A measured duration for people, cut to two units: what is below a limit never looks like the limit.
    `format_duration` writes one that can be parsed.

    >>> shown_duration(661_788_479), shown_duration(3_599_999_999), shown_duration(1_500)
    ('11m 1s', '59m 59s', '1ms 500us')
    """
    sizes = list(UNITS.values())
    largest = max((index for index, size in enumerate(sizes) if size <= abs(micros)), default=0)
    step = sizes[max(largest - 1, 0)]
    parts = re.findall(r"\d+[a-z]+", format_duration(abs(micros) // step * step))
    return ("-" if micros < 0 else "") + " ".join(parts)


def _non_negative(value: object) -> int:
    micros = parse_duration(value)
    if micros < 0:
        raise ValueError("a duration cannot be negative here; write 0, or one such as 30s")
    return micros


def _positive(value: object) -> int:
    micros = parse_duration(value)
    if micros <= 0:
        raise ValueError("a duration must be longer than zero here; write one such as 30s")
    return micros


PARTS = "([0-9]+(us|ms|s|m|h|d))+"
"""The pattern of a duration without a sign."""


def _as_written(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern, "examples": ["500ms", "30s", "5m", "1h", "1d"]}


WRITTEN_POSITIVE = _as_written(f"^(?=.*[1-9]){PARTS}$")
"""The JSON Schema of a duration that is longer than zero."""
_ZERO = {"const": 0}
_SIGNED = {"anyOf": [_as_written(f"^(-?{PARTS}|-?0)$"), _ZERO]}
_NOT_NEGATIVE = {"anyOf": [_as_written(f"^({PARTS}|0)$"), _ZERO]}
_written = PlainSerializer(format_duration, return_type=str)

Duration = Annotated[int, BeforeValidator(_non_negative), _written, WithJsonSchema(_NOT_NEGATIVE)]
PositiveDuration = Annotated[int, BeforeValidator(_positive), _written, WithJsonSchema(WRITTEN_POSITIVE)]
SignedDuration = Annotated[int, BeforeValidator(parse_duration), _written, WithJsonSchema(_SIGNED)]


def to_micros(moment: datetime) -> int:
    """Microseconds since the epoch; a moment without zone is read as UTC."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_moment(micros: int) -> datetime:
    """The UTC moment of microseconds since the epoch."""
    return _EPOCH + timedelta(microseconds=micros)


def iso(micros: int | None) -> str | None:
    """ISO-8601 in UTC, without trailing zeros.

    >>> iso(1_777_125_600_000_000)
    '2026-04-25T14:00:00Z'
    """
    if micros is None:
        return None
    return to_moment(micros).isoformat().replace("+00:00", "Z")
