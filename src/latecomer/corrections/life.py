"""The life of one number: its panes in order, and the events that each took in.

Pure: panes and judged events go in, told panes come out. A pane is held against the log before anything
is claimed of it: the events that should be in it must give its counts and sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from latecomer.config import columns as types
from latecomer.corrections.fates import ACCEPTED, Judged
from latecomer.model.aggregates import ADDITIVE, Aggregate
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Window

EVENTS = "events"


@dataclass(frozen=True)
class LifePane:
    """A pane as it is stored. `events` and `measures` are the private counts behind its values."""

    window: Window
    values: Mapping[str, Any]
    sequence: int
    timing: Timing
    op: Op
    is_last: bool
    batch: int
    published_at: int | None
    fired_at: int | None
    watermark: int | None
    events: int | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Check:
    """Whether the log gives what a pane says. `agrees` is None where nothing could be compared."""

    agrees: bool | None
    compared: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Told:
    """A pane, the number it followed, and the events that it took in and no pane before it had."""

    pane: LifePane
    before: Mapping[str, Any] | None = None
    took: Sequence[Judged] = ()
    check: Check = Check(None)

    @property
    def differences(self) -> dict[str, Any]:
        """What changed against the pane before, for the numbers among the values."""
        if self.before is None:
            return {}
        pairs = {name: (self.before[name], value) for name, value in self.pane.values.items()}
        return {
            name: after - before
            for name, (before, after) in pairs.items()
            if is_number(before) and is_number(after)
        }


@dataclass(frozen=True)
class Rules:
    """What has to be known of an output to follow its numbers."""

    aggregates: Mapping[str, Aggregate]
    types: Mapping[str, str]
    accumulation: Accumulation
    sessions: bool
    measures: Sequence[str] = ()

    @property
    def exact(self) -> dict[str, Aggregate]:
        """The aggregates that can be computed again here to the last digit."""
        return {
            name: aggregate
            for name, aggregate in self.aggregates.items()
            if aggregate.function in ADDITIVE and self._exact(aggregate)
        }

    def _exact(self, aggregate: Aggregate) -> bool:
        if aggregate.function == "count":
            return True
        return self.types[aggregate.column or ""] not in types.FLOATS


def follow(
    panes: Sequence[LifePane], events: Sequence[Judged], rules: Rules
) -> tuple[list[Told], list[Judged]]:
    """The panes with the events that each took in, and the events that were accepted and are in none yet."""
    candidates = [each for each in events if each.fate is None or each.fate in ACCEPTED]
    told: list[Told] = []
    taken: set[int] = set()
    stated: dict[Window, set[int]] = {}
    before: Mapping[str, Any] | None = None
    for pane in panes:
        if pane.op is Op.RETRACT:
            told.append(Told(pane))
            continue
        held = [each for each in _pool(pane, events, candidates) if _holds(pane, each, rules)]
        said = stated.setdefault(pane.window, set())
        stating = held
        if rules.accumulation is Accumulation.DISCARDING:
            stating = [each for each in held if id(each) not in said]
        check = checked(pane, stating, rules, empty=not held)
        took = [each for each in held if id(each) not in taken]
        if pane.timing is Timing.CORRECTION and not check.agrees:
            took, held = [], []
        told.append(Told(pane, before, took, check))
        taken |= {id(each) for each in held}
        said |= {id(each) for each in held}
        before = None if rules.accumulation is Accumulation.DISCARDING else pane.values
    return told, [each for each in candidates if id(each) not in taken]


def _pool(pane: LifePane, events: Sequence[Judged], candidates: Sequence[Judged]) -> Sequence[Judged]:
    """The events that a pane may hold. A correction is computed anew, so lateness does not keep any out."""
    if pane.timing is not Timing.CORRECTION:
        return candidates
    left_out = (Fate.FILTERED, Fate.DUPLICATE)
    return [each for each in events if each.fate not in left_out and not each.event.again]


def _holds(pane: LifePane, judged: Judged, rules: Rules) -> bool:
    """Whether a pane holds an event, by when both came: the ON_TIME pane has no late ones."""
    if judged.event.batch > pane.batch:
        return False
    if rules.sessions:
        return pane.window.start <= judged.event.event_time < pane.window.end
    return pane.timing in (Timing.LATE, Timing.CORRECTION) or judged.fate is not Fate.LATE_ACCEPTED


def checked(pane: LifePane, stating: Sequence[Judged], rules: Rules, empty: bool) -> Check:
    """The pane against the events that should be in it."""
    expected: dict[str, tuple[Any, Any]] = {}
    if pane.events is not None:
        expected[EVENTS] = pane.events, len(stating)
    for measure, said in pane.measures.items():
        if said is not None:
            expected[measure] = said, total(stating, measure)
    for name, aggregate in rules.exact.items():
        values = [_value(each, aggregate) for each in stating]
        # The values come last: they are what is published.
        expected[name] = pane.values[name], aggregate.of_nothing() if empty else aggregate.evaluate(values)
    if not expected:
        return Check(None, reason="the output has no count or sum that could be compared with the log")
    wrong = [
        f"{name} is {there} by the log and {said} in the pane"
        for name, (said, there) in expected.items()
        if said != there
    ]
    return Check(not wrong, tuple(expected), "; ".join(wrong) or None)


def total(events: Iterable[Judged], measure: str) -> Any:
    """The sum of a measure; null adds nothing."""
    return sum((each.event.payload[measure] or 0 for each in events), 0)


def standing(told: Sequence[Told]) -> list[LifePane]:
    """The panes that stand: of each window the last one, unless it was taken back."""
    last: dict[Window, LifePane] = {}
    for each in told:
        pane = each.pane
        if pane.op is Op.INSERT:
            last[pane.window] = pane
        elif pane.window in last and last[pane.window].sequence == pane.sequence:
            del last[pane.window]
    return list(last.values())


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _value(judged: Judged, aggregate: Aggregate) -> Any:
    return None if aggregate.column is None else judged.event.payload[aggregate.column]
