"""What an output needs to know of a batch, beside its events: a few numbers, which can be sent anywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from latecomer.config.outputs import Output
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.model.windows import Micros
from latecomer.windowing.firing.batch import by_arrival
from latecomer.windowing.judge import Flags

if TYPE_CHECKING:
    from latecomer.log.timeline.keeper import Section


@dataclass(frozen=True)
class Clocks:
    """A batch's number, where watermark and arrival clock stand, and which triggers are due. Moments are in
    microseconds."""

    batch: int
    before: int
    """The watermark before the batch."""
    now: int
    """The watermark after it."""
    began: int
    """Where the watermark began: before the batch, or where it was first known."""
    arrival: int
    """The arrival clock at the end of the batch."""
    marks: Micros
    """Where the watermark rose to in the batch, ascending."""
    ats: Micros
    """When it did."""
    early_due: bool
    """Whether the arrival clock lets early panes fire."""
    late_due: bool
    """Whether the arrival clock lets waiting panes fire."""
    arrival_before: int = BEGIN_OF_TIME
    """The arrival clock before the batch."""

    @classmethod
    def of(cls, batch: int, section: Section, output: Output) -> Clocks:
        early, late = output.trigger.early, output.trigger.late
        return cls(
            batch,
            section.watermark_before,
            section.fires_at,
            section.began_at,
            section.clock,
            np.array([step.watermark for step in section.steps], np.int64),
            np.array([step.at for step in section.steps], np.int64),
            by_arrival(early) and section.passed(early.every),
            by_arrival(late) and section.passed(late.every),
            section.before.at if section.before else BEGIN_OF_TIME,
        )

    @property
    def at_begin(self) -> Clocks:
        """As they stood before the batch."""
        mark = np.array([self.before] if self.before > BEGIN_OF_TIME else [], np.int64)
        at = np.full(len(mark), self.arrival_before, np.int64)
        return replace(
            self, now=self.before, began=self.before, arrival=self.arrival_before, marks=mark, ats=at
        )

    def closed(self, ends: Micros) -> Flags:
        """Whether windows that end so have closed by the end of the batch."""
        return (ends <= self.now) & (len(self.marks) > 0)

    def closings(self, ends: Micros, closed: Flags) -> tuple[pa.Array, pa.Array]:
        """When windows closed, and by which watermark; null where they have not."""
        place = np.where(closed, np.searchsorted(self.marks, ends), 0)
        known = [each if len(each) else np.zeros(1, np.int64) for each in (self.ats, self.marks)]
        at, mark = (pa.array(each[place], mask=~closed) for each in known)
        return at, mark

    @property
    def known(self) -> int | None:
        """The watermark after the batch; None where nothing is known yet."""
        return None if self.now == BEGIN_OF_TIME else self.now
