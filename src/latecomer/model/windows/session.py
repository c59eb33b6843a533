"""Windows that grow with their events."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from latecomer.model.array_types import Micros
from latecomer.model.base import without_defaults
from latecomer.model.durations import PositiveDuration, format_duration
from latecomer.model.windows.base import FOREVER, Window, Windows


class Session(Windows):
    """For each key, events that follow one another within a gap: `Session("30m", max="8h")`.

    An event at t stands for the span `[t, t + gap)`; spans that overlap become one, and with `touching: joins` those
    that only touch, too. No span reaches across a multiple of `max`, so that no session is longer.

    >>> Session("30us", max="40us").span(25)
    Window(start=25, end=40)
    """

    kind: ClassVar[str] = "session"
    example: ClassVar[str] = "session: 30m"
    merges: ClassVar[bool] = True

    session: PositiveDuration
    max: PositiveDuration | None = Field(None, description="no session is longer; it is cut at multiples")
    touching: Literal["separate", "joins"] = Field(
        "separate",
        description="events exactly a gap apart: two sessions, or one as in Flink, Kafka and Spark",
    )

    final: Literal["at_once", "after_gap"] = Field(
        "at_once",
        description="after_gap: an event whose own span is not too late joins a session whose lateness is over",
    )

    @model_serializer(mode="wrap")
    def _as_written(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return without_defaults(dump(self), touching="separate", final="at_once")

    @model_validator(mode="after")
    def _max_holds_the_gap(self) -> Self:
        if self.max is not None and self.max < self.gap:
            raise ValueError(
                f"max is shorter than the gap; write max: {format_duration(self.gap)} or more, or leave max out"
            )
        return self

    @property
    def gap(self) -> int:
        return self.session

    @property
    def grows_by(self) -> int:
        return self.gap

    @property
    def reach(self) -> int:
        return self.max or FOREVER

    @property
    def joinable_after(self) -> int:
        """An event that touches a session lies before its end, so its own span ends at most a gap after that."""
        return self.gap if self.final == "after_gap" else 0

    def last_ends(self, times: Micros) -> Micros:
        """The end of each event's session as if the event were alone in it and nothing cut it: it may end later."""
        return times + self.gap

    @property
    def joins(self) -> bool:
        """Whether spans that only touch are one session."""
        return self.touching == "joins"

    def meet(self, one: Window, other: Window) -> bool:
        """Whether two spans of a key belong to one session."""
        if one.overlaps(other) or not self.joins:
            return one.overlaps(other)
        first, second = sorted((one, other))
        return first.end == second.start and (self.max is None or second.start % self.max != 0)

    def span(self, event_time: int) -> Window:
        end = event_time + self.gap
        if self.max is not None:
            end = min(end, event_time - event_time % self.max + self.max)
        return Window(event_time, end)
