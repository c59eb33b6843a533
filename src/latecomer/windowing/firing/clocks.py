"""Where watermark and arrival clock stand in a batch, and which triggers are due at its end.

`Clocks` is a few numbers, which can be sent to any process.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeGuard

import numpy as np
import pyarrow as pa

from latecomer.config.outputs import Output
from latecomer.model.array_types import Flags, Integers, Micros
from latecomer.model.triggers import Count, Every, per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME

if TYPE_CHECKING:
    from latecomer.log.timeline.keeper import Section


@dataclass(frozen=True)
class Clocks:
    """Moments are in microseconds."""

    batch: int
    before: int
    """The watermark before the batch."""
    now: int
    """The watermark after it."""
    began: int
    """The watermark before the batch; if there was none, the first one."""
    arrival: int
    """The arrival clock at the end of the batch."""
    marks: Micros
    """The watermarks of the batch, ascending."""
    ats: Micros
    """When each of them was reached."""
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
        """The clocks before the batch."""
        mark = np.array([self.before] if self.before > BEGIN_OF_TIME else [], np.int64)
        at = np.full(len(mark), self.arrival_before, np.int64)
        return replace(
            self, now=self.before, began=self.before, arrival=self.arrival_before, marks=mark, ats=at
        )

    def closed(self, ends: Micros) -> Flags:
        """Whether windows with these ends have closed by the end of the batch."""
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


# Triggers that are looked at when a batch ends


def by_arrival(rule: object) -> TypeGuard[Every]:
    """Whether a trigger goes by the arrival clock."""
    return isinstance(rule, Every) and rule.clock == "arrival"


def early_due(output: Output, clocks: Clocks, since: Integers, start: Micros) -> Flags:
    """Whether open windows fire: `since` is how many events no pane has published, `start` where each window begins."""
    rule = output.trigger.early
    if rule is None or per_firing(rule):
        return np.zeros(len(since), bool)
    match rule:
        case Count(count=count):
            return since >= count
    assert isinstance(rule, Every)  # noqa: S101
    return (since > 0) & interval_passed(rule, output, clocks, start)


def interval_passed(rule: Every, output: Output, clocks: Clocks, start: Micros) -> Flags:
    """Whether the clock of an early trigger reached a multiple of its interval, for windows that begin there."""
    now, every = clocks.now, rule.every
    if rule.clock == "arrival":
        return np.full(len(start), clocks.early_due)
    if output.window.endless:
        # It has no start: its intervals are those of the clock, from the first watermark on.
        return np.full(len(start), now > BEGIN_OF_TIME and now // every > clocks.began // every)
    reached, earlier = (np.maximum(0, (mark - start) // every) for mark in (now, clocks.before))
    return (now > start) & (reached > earlier)


def late_due(output: Output, clocks: Clocks, waiting: Integers, end: Micros) -> Flags:
    """Whether closed windows fire: `waiting` is how many late events no pane has published, `end` where each ends."""
    rule = output.trigger.late
    if per_firing(rule):
        return np.zeros(len(end), bool)
    over = clocks.now >= settled_at(output, end)
    match rule:
        case Count(count=count):
            return over | (waiting >= count)
        case Every():
            return over | clocks.late_due
    return np.ones(len(end), bool)


def settled_at(output: Output, end: Micros) -> Micros:
    """The watermark from which on nothing more can come for windows with these ends."""
    settled: Micros = np.minimum(end + output.settles_after, END_OF_TIME)
    return settled


def settled_by(output: Output, watermark: int) -> int:
    """The last end of windows for which nothing more can come at this watermark."""
    return END_OF_TIME if watermark == END_OF_TIME else watermark - output.settles_after
