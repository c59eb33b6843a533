"""How a pipeline is operated: retention, upkeep, the lease on its store, and alerts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, field_validator

from latecomer.model.base import Model
from latecomer.model.durations import DAY, HOUR, SECOND, WRITTEN_POSITIVE, PositiveDuration, format_duration


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
        json_schema_extra={"default": "7d"},
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
        json_schema_extra={"default": "30s"},
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
