"""What all windows share."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from latecomer.model.base import Model

FIRST_MOMENT = -62_135_596_800_000_000
"""0001-01-01T00:00:00Z."""
FOREVER = 1 << 62
"""Longer than all of time."""


class Window(NamedTuple):
    """A half-open stretch of event time, in microseconds since the epoch."""

    start: int
    end: int

    def overlaps(self, other: Window) -> bool:
        return self.start < other.end and other.start < self.end


class Windows(Model):
    """What all share: written `{KIND: …}`, and in Python with that value first."""

    kind: ClassVar[str]
    example: ClassVar[str]
    """As it may be written, for whoever wrote something else."""
    merges: ClassVar[bool] = False
    """Whether windows are made of the events in them: they grow, and two may become one."""
    overlaps: ClassVar[bool] = False
    """Whether an event may be in several windows."""
    endless: ClassVar[bool] = False
    """Whether there is one window, without start or end."""

    @property
    def windows_each(self) -> int | None:
        """How many windows hold an event; None where that depends on when it happened."""
        return 1

    @property
    def grows_by(self) -> int:
        """How far an event may carry a window beyond itself."""
        return 0

    @property
    def joinable_after(self) -> int:
        """How much longer than its lateness a window takes events; only sessions may."""
        return 0

    def __init__(self, value: object = None, /, **fields: Any) -> None:
        if value is not None:
            fields[self.kind] = value
        super().__init__(**fields)
