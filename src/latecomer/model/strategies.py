"""Watermark strategies: how far one source partition has come.

A strategy is a declarative class with two methods. `advance` folds the summary of one tick into the
partition's state (anything JSON can hold), `mark` reads the partition's own watermark off that state.
It runs on the driver, once for each tick and partition, never per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from latecomer.model.durations import Duration, PositiveDuration

State = Any


@dataclass(frozen=True)
class Head:
    """What one tick brought from one source partition."""

    tick: int
    at: int
    partition: str
    events: int
    max_event_time: int


def _off(value: object) -> object:
    # YAML reads a bare `off` as false.
    return None if value is False or value == "off" else value


OptionalDuration = Annotated[
    PositiveDuration | None,
    BeforeValidator(_off),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "null"}, {"const": False}]}),
]
Every = Annotated[
    Literal["event"] | PositiveDuration,
    WithJsonSchema({"type": "string", "examples": ["1s", "event"]}),
]


class Strategy(BaseModel):
    """What every strategy shares: ticks, idleness, and the guard against corrupt timestamps."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    idle_after: OptionalDuration = Field(
        None, description="a partition silent for so long stops holding the others back"
    )
    on_idle: Literal["advance", "hold"] = Field(
        "advance", description="all partitions silent: follow the clock, or hold the watermark"
    )
    max_future: OptionalDuration = Field(
        300_000_000,
        description="an event further ahead of its arrival is a dead letter; `off` allows any",
    )
    every: Every = Field(1_000_000, description="the length of a tick of arrival time, or `event`")

    lag: ClassVar[int] = 0

    def advance(self, state: State, head: Head) -> State:
        """The partition's state after this tick."""
        return head.max_event_time if state is None else max(state, head.max_event_time)

    def mark(self, state: State) -> int:
        """The partition's own watermark."""
        return int(state) - self.behind

    @property
    def behind(self) -> int:
        """How far the watermark trails the clock when everything is idle."""
        return self.lag


class Bounded(Strategy):
    """The largest event time seen, less a fixed delay: `Bounded("30s")`."""

    strategy: Literal["bounded"] = "bounded"
    delay: Duration

    def __init__(self, delay: object = None, /, **fields: Any) -> None:
        if delay is not None:
            fields["delay"] = delay
        super().__init__(**fields)

    @property
    def behind(self) -> int:
        return self.delay


class Ascending(Strategy):
    """The largest event time seen: for sources whose event times never go back."""

    strategy: Literal["ascending"] = "ascending"


AnyStrategy = Annotated[Bounded | Ascending, Field(discriminator="strategy")]
