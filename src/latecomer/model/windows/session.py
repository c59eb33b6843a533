"""Windows that grow with their events."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from latecomer.model.durations import PositiveDuration, format_duration
from latecomer.model.windows.base import FOREVER, Window, Windows


class Session(Windows):
    """For each key, events that follow one another within a gap: `Session("30m", max="8h")`.

    An event at t stands for the stretch `[t, t + gap)`; stretches that overlap become one. No stretch
    reaches across a multiple of `max`, so that no session is longer.

    >>> Session("30us", max="40us").stretch(25)
    Window(start=25, end=40)
    """

    kind: ClassVar[str] = "session"

    session: PositiveDuration
    max: PositiveDuration | None = Field(None, description="no session is longer; it is cut at multiples")

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
    def reach(self) -> int:
        """No window is longer."""
        return self.max or FOREVER

    def stretch(self, event_time: int) -> Window:
        """What one event stands for."""
        end = event_time + self.gap
        if self.max is not None:
            end = min(end, event_time - event_time % self.max + self.max)
        return Window(event_time, end)
