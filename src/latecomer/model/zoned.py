"""The time zone in which a verb of the command line reads and prints moments: UTC by default.

Everything that is stored, hashed or written to a sink is in UTC and does not use this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from zoneinfo import ZoneInfo

from latecomer.model.durations import iso, to_micros, to_moment
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.zones import to_utc

_zone = "UTC"
_own: ContextVar[str | None] = ContextVar("the zone of a part of a program", default=None)


def use_zone(zone: str) -> None:
    """Read and print moments in this zone from now on, in all threads."""
    global _zone
    _zone = zone


def current_zone() -> str:
    """The zone that was chosen last."""
    return _own.get() or _zone


@contextmanager
def in_zone(zone: str) -> Iterator[None]:
    """Read and print moments in a zone within this context, in this thread alone.

    >>> with in_zone("Asia/Kolkata"):
    ...     written(1_777_125_600_000_000)
    '2026-04-25T19:30:00+05:30'
    """
    before = _own.set(zone)
    try:
        yield
    finally:
        _own.reset(before)


def on_the_wall(micros: int) -> datetime:
    """A moment as local time in the current zone."""
    return to_moment(micros).astimezone(ZoneInfo(current_zone()))


def written(micros: int | None, zone: str | None = None) -> str | None:
    """A moment in ISO-8601, in a time zone and with its offset.

    >>> written(1_777_125_600_000_000, "Asia/Kolkata"), written(1_777_125_600_000_000, "UTC")
    ('2026-04-25T19:30:00+05:30', '2026-04-25T14:00:00Z')
    """
    zone = zone or current_zone()
    if micros is None or zone == "UTC":
        return iso(micros)
    try:
        return to_moment(micros).astimezone(ZoneInfo(zone)).isoformat()
    except OverflowError:  # the local time would be outside the calendar
        return iso(micros)


def moment(micros: int | None) -> str | None:
    """A watermark or an arrival in ISO-8601; None before the first."""
    return None if micros is None or micros == BEGIN_OF_TIME else written(micros)


def moment_in_words(micros: int | None) -> str:
    """The same, in words where there is no moment."""
    return "end of time" if micros == END_OF_TIME else moment(micros) or "none yet"


def read(text: str, zone: str | None = None) -> int:
    """The moment that a text names. Without an offset it is in the zone; without a time it is midnight.

    A local time that occurs twice is the first of the two. One that the clock skips is as long after the jump as it is
    after the local time of the jump.

    >>> written(read("2013-05-01", "America/New_York"), "UTC")
    '2013-05-01T04:00:00Z'
    """
    named = datetime.fromisoformat(text.strip())
    if named.tzinfo is not None:
        return to_micros(named)
    return to_utc(to_micros(named), zone or current_zone())
