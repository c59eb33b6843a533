"""How a pipeline is operated: retention, upkeep, the lease on its store, alerts, and scheduled rebuilds."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from latecomer.model.base import Model
from latecomer.model.durations import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    WRITTEN_POSITIVE,
    PositiveDuration,
    format_duration,
)


class Retention(Model):
    """How long the store remembers; upkeep removes what is older. Without it, for ever."""

    events: PositiveDuration | None = Field(
        default=None, description="the event log: how far back from the watermark, by event time"
    )
    late: PositiveDuration | None = Field(
        default=None, description="side output and dead letters: how far back by the arrival clock"
    )


OFF = "off"
WEEK = 7 * DAY
LEAST_KEEP = HOUR
"""A running batch or a reader may need replaced files for this long."""


def _is_off(written: Any) -> bool:
    return written is False or written == OFF  # YAML takes a bare `off` for false


def _or_off(written: Any) -> Any:
    return None if _is_off(written) else written


class Upkeep(Model):
    """What a run does by itself, in quiet moments, to keep its store in shape: as `latecomer compact` does."""

    every: Annotated[PositiveDuration | None, BeforeValidator(_or_off)] = Field(
        default=HOUR,
        description="how often a run compacts and expires; `off`: only `latecomer compact` does",
        json_schema_extra={"anyOf": [WRITTEN_POSITIVE, {"enum": [OFF, False]}]},
    )
    keep: PositiveDuration = Field(
        default=WEEK,
        description="how long files stay that were replaced; the tables say so too",
    )

    @field_validator("keep")
    @classmethod
    def _long_enough(cls, keep: int) -> int:
        if keep < LEAST_KEEP:
            raise ValueError(
                "is too short: a reader or a running batch may still need replaced files; write 1h or more"
            )
        return keep


def written_upkeep(written: Any) -> Any:
    """Upkeep as a mapping; `off` turns it off."""
    return {"every": None} if _is_off(written) else written


class Lease(Model):
    """One engine at a time has the store, wherever it runs. A store at a URL has a lease in any case; a folder has one
    where this is given, and a lock of this machine else."""

    takeover: PositiveDuration = Field(
        default=30 * SECOND,
        description="another engine takes over once the one that has the store has given no sign of life for so long",
    )

    @field_validator("takeover")
    @classmethod
    def _within_bounds(cls, takeover: int) -> int:
        if not LEAST_TAKEOVER <= takeover <= MOST_TAKEOVER:
            bounds = (
                f"{format_duration(LEAST_TAKEOVER)} or more, and {format_duration(MOST_TAKEOVER)} at most"
            )
            raise ValueError(f"cannot be {format_duration(takeover)}; write {bounds}")
        return takeover

    @property
    def seconds(self) -> float:
        return self.takeover / SECOND


LEAST_TAKEOVER, MOST_TAKEOVER = 2 * SECOND, HOUR
"""Shorter, and a slow engine is taken for dead. Longer, and a dead engine blocks the store for too long."""


class Alerts(Model):
    """When somebody is alerted; `latecomer check` and the alert rules go by it."""

    lag: PositiveDuration | None = Field(
        default=None,
        description="the budget: how far the watermark may be behind the wall clock, on average over five minutes",
    )


# Scheduled rebuilds

_FIELD = r"(\*|\d+(-\d+)?)(/\d+)?(,(\*|\d+(-\d+)?)(/\d+)?)*"
_FIRST_DAY, _DAYS = date(2000, 1, 1), 4 * 366
"""Days to look for the longest pause in: with a 29th of February."""
_CRON = re.compile(rf"{_FIELD}( {_FIELD}){{4}}")
_BOUNDS = {"minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12), "weekday": (0, 7)}
"""The fields of a crontab line in order, and the numbers that each takes."""


class Schedule(Model):
    """A scheduled rebuild: how often it runs, and how far back it goes."""

    last: PositiveDuration = Field(
        description="rebuild the windows that ended, or that late events came for, within this long"
    )
    every: PositiveDuration | None = Field(
        None, description="how often: minutes that divide the hour, hours that divide the day, or 1d"
    )
    cron: str | None = Field(None, description="or the five fields of a crontab line")

    @field_validator("cron")
    @classmethod
    def _five_fields(cls, cron: str | None) -> str | None:
        written = None if cron is None else " ".join(cron.split())
        if written is not None and not _CRON.fullmatch(written):
            raise ValueError(
                "is no time for cron; write the five fields of a crontab line in numbers: '15 3 * * *'"
            )
        for (name, (least, most)), field in zip(_BOUNDS.items(), (written or "").split(), strict=False):
            try:
                _numbers(field, least, most)
            except ValueError:
                raise ValueError(
                    f"has {field} for the {name}; write * or numbers from {least} to {most}, such as "
                    f"{least} or {least}-{most}"
                ) from None
        return written

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.every is None) == (self.cron is None):
            raise ValueError("does not say how often; write either `every` or `cron`")
        self.when()
        return self

    def longest_pause(self) -> int:
        """The longest time between two runs, in microseconds.

        >>> format_duration(Schedule(last="1d", cron="0 2 * * 1-5").longest_pause())
        '3d'
        """
        minutes, hours, days, months, weekdays = self.when().split()
        times = sorted(
            60 * hour + minute for hour in _numbers(hours, 0, 23) for minute in _numbers(minutes, 0, 59)
        )
        any_day, any_weekday = (each.startswith("*") for each in (days, weekdays))
        runs: list[int] = []
        for nth in range(_DAYS):
            day = _FIRST_DAY + timedelta(nth)
            of_month = day.day in _numbers(days, 1, 31)
            of_week = not {day.isoweekday(), day.isoweekday() % 7}.isdisjoint(_numbers(weekdays, 0, 7))
            # Where both are restricted, cron runs on a day that matches either.
            fits = of_month and of_week if any_day or any_weekday else of_month or of_week
            if fits and day.month in _numbers(months, 1, 12):
                runs += (nth * 1440 + time for time in times)
        pauses = (later - sooner for sooner, later in pairwise(runs))
        return max(pauses, default=_DAYS * 1440) * MINUTE

    def when(self) -> str:
        """The five fields of the crontab line.

        >>> Schedule(last="4h", every="15m").when(), Schedule(last="3d", every="6h").when()
        ('*/15 * * * *', '0 */6 * * *')
        """
        if self.cron is not None:
            return self.cron
        assert self.every is not None  # noqa: S101
        minutes, rest = divmod(self.every, MINUTE)
        hours = minutes // 60
        if not rest and minutes < 60 and 60 % minutes == 0:
            return "* * * * *" if minutes == 1 else f"*/{minutes} * * * *"
        if not rest and minutes % 60 == 0 and hours < 24 and 24 % hours == 0:
            return "0 * * * *" if hours == 1 else f"0 */{hours} * * *"
        if self.every == DAY:
            return "0 0 * * *"
        raise ValueError(
            f"every {format_duration(self.every)} cannot be written for cron; use minutes that divide the hour, "
            "hours that divide the day, or 1d, or write `cron`"
        )


@lru_cache(maxsize=64)
def _numbers(field: str, first: int, last: int) -> frozenset[int]:
    """The numbers that a field of a crontab line means; an error where cron takes none of these: a number beyond its
    bounds, a range that descends, or a step of 0.

    >>> sorted(_numbers("1-5/2,20", 0, 23))
    [1, 3, 5, 20]
    """
    numbers: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        begin = first if low == "*" else int(low)
        end = int(high) if high else last if low == "*" or step else begin
        if not first <= begin <= end <= last:
            raise ValueError(f"{span} is not within {first} and {last}")
        numbers.update(range(begin, end + 1, int(step or 1)))  # refuses a step of 0
    return frozenset(numbers)
