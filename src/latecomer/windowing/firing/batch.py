"""A batch, as outputs are given it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

from latecomer.log.logged import Logged
from latecomer.model.triggers import Every
from latecomer.model.verdicts import END_OF_TIME

if TYPE_CHECKING:
    from latecomer.log.events import LoggedBatch
    from latecomer.log.timeline.keeper import Section


@dataclass(frozen=True)
class Batch:
    """What an output needs to know of a batch. `logged` is None where the batch brought no data."""

    number: int
    section: Section
    logged: Logged | None = None
    earliest: int = 0
    latest: int = 0
    behind: bool = True
    """Whether any of its events may have come behind the watermark."""
    history: bool = False
    """The events are the whole log, of many batches, for an output that was added later."""

    @classmethod
    def of_logged(cls, number: int, section: Section, logged: LoggedBatch, events: Logged) -> Batch:
        """A batch of data that is in the log."""
        ticks = logged.ticks
        behind = any(ticks.first.get(row.tick, END_OF_TIME + 1) <= row.watermark for _, row in section.rows)
        own_events = events if logged.received.events else None
        return cls(number, section, own_events, ticks.earliest, ticks.latest, behind)


def by_arrival(rule: object) -> TypeGuard[Every]:
    """Whether a trigger goes by the arrival clock."""
    return isinstance(rule, Every) and rule.clock == "arrival"
