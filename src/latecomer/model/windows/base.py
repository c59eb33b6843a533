"""The base of all windows."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from latecomer.model.array_types import Integers, Micros
from latecomer.model.base import Model

FIRST_MOMENT = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z."""
FOREVER = 1 << 62
"""Longer than all of time."""


class Window(NamedTuple):
    """A half-open interval of event time, in microseconds since the epoch."""

    start: int
    end: int

    def overlaps(self, other: Window) -> bool:
        return self.start < other.end and other.start < self.end


class Assigned(NamedTuple):
    """The windows of many events: a row for each event and window, by event and then by start."""

    nth: Integers
    """The number of the event."""
    start: Micros
    end: Micros
    first_end: Micros
    """The end of the event's earliest window."""

    @classmethod
    def one_each(cls, start: Micros, end: Micros) -> Assigned:
        """For windows of which exactly one holds each event."""
        import numpy as np

        return cls(np.arange(len(start), dtype=np.int64), start, end, end)


class Windows(Model):
    """The base of all windows: `{KIND: VALUE}` in the pipeline file, and in Python with the value as first argument."""

    kind: ClassVar[str]
    example: ClassVar[str]
    """An example for error messages."""
    merges: ClassVar[bool] = False
    """Whether windows depend on the events in them: they grow, and two may become one."""
    overlaps: ClassVar[bool] = False
    """Whether an event may be in several windows."""
    endless: ClassVar[bool] = False
    """Whether there is one window, without start or end."""

    @property
    def windows_each(self) -> int | None:
        """How many windows hold an event; None where that depends on its time."""
        return 1

    @property
    def most_each(self) -> int:
        """The most windows that may hold an event."""
        return 1

    @property
    def grows_by(self) -> int:
        """How far after an event's time it may extend a window."""
        return 0

    @property
    def joinable_after(self) -> int:
        """How much longer than its allowed lateness a window accepts events; 0 except for sessions."""
        return 0

    def __init__(self, value: object = None, /, **fields: Any) -> None:
        if value is not None:
            fields[self.kind] = value
        super().__init__(**fields)
