"""When a rebuild is to be run, for whoever runs things by the clock: a line for cron."""

from __future__ import annotations

import re
from typing import Self

from pydantic import Field, field_validator, model_validator

from latecomer.model.base import Model
from latecomer.model.durations import UNITS, PositiveDuration, format_duration

_FIELD = r"(\*|\d+(-\d+)?)(/\d+)?(,(\*|\d+(-\d+)?)(/\d+)?)*"
_CRON = re.compile(rf"{_FIELD}( {_FIELD}){{4}}")


class Schedule(Model):
    """A rebuild by the clock: how often, and how far back."""

    last: PositiveDuration = Field(description="rebuild the windows of this long before the watermark")
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
        return written

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.every is None) == (self.cron is None):
            raise ValueError("does not say how often; write either `every` or `cron`")
        self.when()
        return self

    def when(self) -> str:
        """The five fields of the crontab line.

        >>> Schedule(last="4h", every="15m").when(), Schedule(last="3d", every="6h").when()
        ('*/15 * * * *', '0 */6 * * *')
        """
        if self.cron is not None:
            return self.cron
        assert self.every is not None  # noqa: S101
        minutes, rest = divmod(self.every, UNITS["m"])
        hours = minutes // 60
        if not rest and minutes < 60 and 60 % minutes == 0:
            return "* * * * *" if minutes == 1 else f"*/{minutes} * * * *"
        if not rest and minutes % 60 == 0 and hours < 24 and 24 % hours == 0:
            return "0 * * * *" if hours == 1 else f"0 */{hours} * * *"
        if self.every == UNITS["d"]:
            return "0 0 * * *"
        raise ValueError(
            f"every {format_duration(self.every)} is no step of cron's; use minutes that divide the hour, "
            "hours that divide the day, or 1d, or write `cron`"
        )
