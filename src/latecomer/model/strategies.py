"""Watermark strategies: how far one source partition has come.

A strategy is a declarative class with two methods. `advance` adds the summary of one tick to the partition's state
(anything that JSON can hold). `mark` computes the partition's own watermark from that state. They run on the driver,
once for each tick and partition, never per row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from latecomer.errors import PipelineError, Problem
from latecomer.model import recent_ticks as recent
from latecomer.model.base import Model
from latecomer.model.durations import WRITTEN_POSITIVE, Duration, PositiveDuration, format_duration
from latecomer.model.predicates import check_where, with_names_quoted

State = Any
REACH = 4096
"""How many resolutions a histogram reaches back before its tick; older events count in its oldest bin."""


@dataclass(frozen=True)
class Needs:
    """The statistics of a tick that a strategy needs, besides the number of events and the largest event time.

    `resolution`, in microseconds, asks for `TickSummary.times`. `where`, an SQL predicate over the source's
    columns, or `marker`, one of these columns, asks for `TickSummary.marked`.
    """

    resolution: int | None = None
    where: str | None = None
    marker: str | None = None

    def __post_init__(self) -> None:
        whole = isinstance(self.resolution, int) and not isinstance(self.resolution, bool)
        if self.resolution is not None and not (whole and self.resolution > 0):
            fix = "give microseconds, more than 0, or None"
            raise PipelineError([Problem("resolution", "is not a length", self.resolution, fix, "Needs")])
        named: dict[str, object] = {"where": self.where, "marker": self.marker}
        for name, value in named.items():
            if value is not None and not isinstance(value, str):
                fix = "give it as text, or None"
                raise PipelineError([Problem(name, "has the wrong kind of value", value, fix, "Needs")])
        if self.where is not None:
            try:
                check_where(self.where)
            except ValueError as error:
                reason, _, fix = str(error).partition("; ")
                raise PipelineError([Problem("where", reason, self.where, fix, "Needs")]) from None
            object.__setattr__(self, "where", with_names_quoted(self.where))

    @property
    def marks(self) -> bool:
        return self.where is not None or self.marker is not None


PLAIN = Needs()
"""Only the statistics that every tick has."""


@dataclass(frozen=True)
class TickSummary:
    """The statistics of one tick of one source partition. All times are microseconds since the epoch.

    `marked` is the largest event time among the events that `Needs.where` or a boolean `Needs.marker`
    is true for; with a marker that holds times, the largest of these. `times` is a histogram: event time
    rounded down to `Needs.resolution` → events.
    """

    tick: int
    at: int
    partition: str
    events: int
    max_event_time: int
    marked: int | None = None
    times: Mapping[int, int] = field(default_factory=dict)

    @classmethod
    def joined(cls, tick: int, at: int, summaries: Sequence[TickSummary]) -> TickSummary:
        """One summary for this tick, from several of the same partition."""
        times: Counter[int] = Counter()
        for summary in summaries:
            times.update(summary.times)
        marks = [summary.marked for summary in summaries if summary.marked is not None]
        return cls(
            tick,
            at,
            summaries[0].partition,
            sum(summary.events for summary in summaries),
            max(summary.max_event_time for summary in summaries),
            max(marks, default=None),
            dict(times),
        )


def _off(value: object) -> object:
    # YAML reads a bare `off` as false.
    return None if value is False or value == "off" else value


def _share(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= 1:
        raise ValueError("not a share; write a number above 0 and at most 1, such as 0.95")
    return float(value)


OptionalDuration = Annotated[
    PositiveDuration | None,
    BeforeValidator(_off),
    WithJsonSchema({"anyOf": [WRITTEN_POSITIVE, {"enum": ["off", False]}, {"type": "null"}]}),
]
Every = Annotated[
    Annotated[Literal["event"], Tag("event")] | Annotated[PositiveDuration, Tag("tick-length")],
    Discriminator(lambda value: "event" if value == "event" else "tick-length"),
    WithJsonSchema({"anyOf": [WRITTEN_POSITIVE, {"const": "event"}]}),
]
Share = Annotated[
    float,
    BeforeValidator(_share),
    WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "maximum": 1}),
]
ShareBelowOne = Annotated[
    Share, WithJsonSchema({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1})
]
Resolution = Annotated[
    PositiveDuration, Field(description="how finely event times are counted; exact with `every: event`")
]


class Strategy(Model):
    """The base of every strategy, yours included: ticks, idleness, the guard against corrupt timestamps.

    The base class itself follows the largest event time. Fields of a subclass are its options, which
    pydantic checks. State belongs to the strategy, which may change it in place. It is stored as JSON and
    restored after a restart, so it holds None, numbers, text, lists, and dicts with text for keys. None is
    the state of a partition about which nothing is known.
    """

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

    @property
    def needs(self) -> Needs:
        """The statistics of a tick that `advance` needs."""
        return PLAIN

    def advance(self, state: State, summary: TickSummary) -> State:
        """The partition's state after this tick."""
        return summary.max_event_time if state is None else max(state, summary.max_event_time)

    def mark(self, state: State, partition: str) -> int | None:
        """The partition's own watermark; None as long as it has none, which holds the others back, too.

        It is not called where the state is None.
        """
        return int(state) - self.lag(state, partition)

    def lag(self, state: State, partition: str) -> int:
        """How far the watermark stays behind the clock once every partition is silent."""
        return 0

    def own(self, partition: str) -> tuple[Strategy, str]:
        """The strategy of a partition, and the partition's name in that strategy."""
        return self, partition

    def of_source(self, source: str) -> Strategy:
        """The strategy for the partitions of a source."""
        return self

    def place(self, partition: str) -> str:
        """The section of the pipeline file with a partition's strategy."""
        return "watermark"

    def stand_in(self, partition: str) -> str | None:
        """The name that stood for this partition while it was not known; None if there was none."""
        return None

    @property
    def keeps(self) -> str:
        """The kind of the stored state. A state of another kind is not reused: it starts anew."""
        owner = next(each for each in type(self).__mro__ if "advance" in vars(each))
        return "newest" if owner is Strategy else f"{owner.__module__}:{owner.__qualname__}"


class _Delayed(Strategy):
    """A fixed delay, with exceptions."""

    delay: Duration = Field(0, description="how far the watermark stays behind")
    delays: dict[str, Duration] = Field({}, description="partition: its own delay, instead of `delay`")

    def lag(self, state: State, partition: str) -> int:
        return self.delays.get(partition, self.delay)


class Bounded(_Delayed):
    """The largest event time seen, less a fixed delay: `Bounded("30s")`."""

    strategy: Literal["bounded"] = "bounded"
    delay: Duration

    def __init__(self, delay: object = None, /, **fields: Any) -> None:
        super().__init__(**_with("delay", delay, fields))


class Ascending(Strategy):
    """The largest event time seen: for sources whose event times never go back."""

    strategy: Literal["ascending"] = "ascending"


class Percentile(_Delayed):
    """A quantile of the newest event times, less a delay: `Percentile(0.99, of=10_000)`.

    A few timestamps from the future move nothing. The newest events are those of the newest whole ticks
    that hold at least `of` together. A partition holds the watermark until it has brought so many events
    that the quantile lies below the largest of them: before that, one event alone would decide.
    """

    strategy: Literal["percentile"] = "percentile"
    p: ShareBelowOne = Field(0.99, description="the share of the newest events that the watermark passes")
    of: int = Field(10_000, ge=1, description="how many of the newest events count", validate_default=True)
    resolution: Resolution = 1_000_000

    def __init__(self, p: object = None, /, **fields: Any) -> None:
        super().__init__(**_with("p", p, fields))

    @field_validator("p")
    @classmethod
    def _below_one(cls, p: float) -> float:
        if p == 1:
            raise ValueError("1 is the largest event time itself; write less, or use strategy: bounded")
        return p

    @field_validator("of")
    @classmethod
    def _enough(cls, of: int, info: ValidationInfo) -> int:
        p = info.data.get("p")
        if p is not None and (least := ceil(1 / recent.rest(p))) > of:
            raise ValueError(
                f"too few for the {p:g} quantile: one event alone would decide; write {least} or more"
            )
        return of

    @property
    def needs(self) -> Needs:
        return Needs(resolution=self.resolution)

    def advance(self, state: State, summary: TickSummary) -> State:
        state = recent.nothing() if state is None else state
        recent.slide(state, sorted(summary.times.items()), self.of)
        return state

    def mark(self, state: State, partition: str) -> int | None:
        if not recent.above(state, self.p):
            return None
        return recent.quantile(state, self.p) - self.lag(state, partition)


class Adaptive(Strategy):
    """The largest event time, less a delay that follows how late events come: `Adaptive(0.99)`.

    The delay is the `completeness` quantile of how far the newest events came behind the largest event
    time before their tick. It widens in a burst of late events and tightens after it.
    """

    strategy: Literal["adaptive"] = "adaptive"
    completeness: Share = Field(0.99, description="the share of events that should come in time")
    of: int = Field(10_000, ge=1, description="how many of the newest events are measured")
    at_least: Duration = Field(0, description="the shortest delay")
    at_most: Duration = Field(600_000_000, description="the longest delay")
    resolution: Resolution = 1_000_000

    def __init__(self, completeness: object = None, /, **fields: Any) -> None:
        super().__init__(**_with("completeness", completeness, fields))

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.at_most < self.at_least:
            raise ValueError(
                "at_most is shorter than at_least; "
                f"write at_most: {format_duration(self.at_least)} or more, or a shorter at_least"
            )
        return self

    @property
    def needs(self) -> Needs:
        return Needs(resolution=self.resolution)

    def advance(self, state: State, summary: TickSummary) -> State:
        state = {"newest": None, **recent.nothing()} if state is None else state
        newest = state["newest"]
        behind: Counter[int] = Counter()
        for time, events in summary.times.items():
            behind[0 if newest is None else max(0, newest - time)] += events
        recent.slide(state, sorted(behind.items()), self.of)
        state["newest"] = summary.max_event_time if newest is None else max(newest, summary.max_event_time)
        return state

    def mark(self, state: State, partition: str) -> int:
        return int(state["newest"]) - self.lag(state, partition)

    def lag(self, state: State, partition: str) -> int:
        if state is None:
            return self.at_most
        return min(max(self.at_least, recent.quantile(state, self.completeness)), self.at_most)


class Punctuated(_Delayed):
    """The largest mark that the source itself has set, less a delay: `Punctuated(where="kind = 'mark'")`.

    `where` is an SQL predicate: events for which it is true mark their own event time. `marker` is a
    column: true marks the event's own time, a time marks itself. A time further ahead of its arrival than
    `max_future` marks nothing. A partition holds the watermark until its first mark.
    """

    strategy: Literal["punctuated"] = "punctuated"
    where: str | None = Field(None, description="an SQL predicate; an event it is true for is a mark")
    marker: str | None = Field(
        None, description="a column: true marks the event's own time, a time marks itself"
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.where is None) == (self.marker is None):
            raise ValueError("needs one condition for its marks; write either where: or marker:")
        return self

    @field_validator("where")
    @classmethod
    def _only_a_condition(cls, where: str | None) -> str | None:
        if where is not None:
            check_where(where)
        return where

    @property
    def needs(self) -> Needs:
        return Needs(where=self.where, marker=self.marker)

    def advance(self, state: State, summary: TickSummary) -> State:
        marks = [mark for mark in (state, summary.marked) if mark is not None]
        return max(marks, default=None)


class Custom(Strategy):
    """A strategy of your own as the file names it: the class, and what to make it with.

    It stands for the class until the file is loaded; see `latecomer.config.loading_classes`.
    """

    strategy: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$",
            description="module:Class, found beside the pipeline file or where Python looks",
        ),
    ]
    options: dict[str, Any] = Field({}, description="the fields of the class")


def _with(name: str, given: object, fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, with the one that was given without its name."""
    return fields if given is None else {**fields, name: given}


OWN = "module:Class"
STRATEGIES: dict[str, type[Strategy]] = {
    "bounded": Bounded,
    "ascending": Ascending,
    "percentile": Percentile,
    "adaptive": Adaptive,
    "punctuated": Punctuated,
    OWN: Custom,
}


def _kind(written: object) -> str:
    if not isinstance(written, dict):
        return "bounded"
    name = str(written.get("strategy", "bounded"))
    return OWN if ":" in name else name


AnyStrategy = Annotated[
    Annotated[Bounded, Tag("bounded")]
    | Annotated[Ascending, Tag("ascending")]
    | Annotated[Percentile, Tag("percentile")]
    | Annotated[Adaptive, Tag("adaptive")]
    | Annotated[Punctuated, Tag("punctuated")]
    | Annotated[Custom, Tag(OWN)],
    Discriminator(_kind),
]
"""What stands under `watermark:` in the file, by its `strategy`."""
