"""The life of one number: its panes in order, and the events that each took in.

Pure: panes and judged events go in, published panes come out. Each pane is checked
against the log: the events that should be in it must give its counts and sums.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from latecomer.after.explain.fates import Judged
from latecomer.after.reading.lives import PublishedPane
from latecomer.model import types
from latecomer.model.aggregates import ADDITIVE, Aggregate
from latecomer.model.ledger import EVENTS, exact_amounts
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Window

NEWEST = 2**62
"""A batch after all others: its rules are those in force now."""


@dataclass(frozen=True, kw_only=True)
class LifePane(PublishedPane):
    """A pane as it is stored. `events` and `measures` are the private counts behind its values."""

    ended_at: int | None
    """The arrival clock at the end of its batch."""
    watermark: int | None
    events: int | None = None
    measures: Mapping[str, Any] = field(default_factory=dict)

    @property
    def window(self) -> Window:
        return Window(self.window_start, self.window_end)


@dataclass(frozen=True)
class Check:
    """Whether a pane agrees with the log; None where nothing could be compared."""

    agrees: bool | None
    compared: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Published:
    """A pane, the number before it, and the events that it has and no pane before it had.

    A session that merged others follows all of them: `before` is their total, null where that cannot be known. `lost`
    are the events that these panes had and this one has not.
    """

    pane: LifePane
    before: Mapping[str, Any] | None = None
    took: Sequence[Judged] = ()
    check: Check = Check(None)
    lost: Sequence[Judged] = ()

    @property
    def differences(self) -> dict[str, Any]:
        """The changes from the pane before, for values that are numbers."""
        if self.before is None:
            return {}
        pairs = {name: (self.before.get(name), value) for name, value in self.pane.values.items()}
        with exact_amounts():
            return {
                name: after - before
                for name, (before, after) in pairs.items()
                if is_number(before) and is_number(after)
            }


@dataclass(frozen=True)
class Rules:
    """What is needed of an output to follow its numbers, as it was when a batch ran."""

    aggregates: Mapping[str, Aggregate]
    types: Mapping[str, str]
    accumulation: Accumulation
    sessions: bool
    measures: Sequence[str] = ()
    within: Collection[Timing] = ()
    """The timings of panes that fire within a batch: such a pane has the events up to one, not all of the batch."""

    @property
    def exact(self) -> dict[str, Aggregate]:
        """The aggregates that can be computed exactly here."""
        return {
            name: aggregate
            for name, aggregate in self.aggregates.items()
            if aggregate.function == "count"
            or (aggregate.function in ADDITIVE and self.types[aggregate.column or ""] not in types.FLOATS)
        }


Passes = Callable[[Judged, int], bool | None]
"""Whether an event passes the `where` of a batch; None where only Spark can tell."""


def follow(
    panes: Sequence[LifePane],
    events: Sequence[Judged],
    rules: Callable[[int], Rules],
    passes: Passes = lambda _judged, _batch: True,
) -> tuple[list[Published], list[Judged]]:
    """The panes with the events that each took in, and the events that were accepted and are in none yet.

    Each pane is checked against the rules and the `where` of the batch that published it.
    """
    following = _Following(events, rules, passes)
    published = [following.take(pane) for pane in panes]
    return published, [each for each in events if following.waits(each)]


class _Following:
    """Panes taken one after the other, in the order of publication."""

    def __init__(self, events: Sequence[Judged], rules: Callable[[int], Rules], passes: Passes) -> None:
        self.events = events
        self.rules = rules
        self.passes = passes
        self.in_panes: set[int] = set()
        """The events that any pane has had."""
        self.standing: dict[Window, dict[int, tuple[LifePane, Sequence[Judged]]]] = {}
        """The panes that stand, by window and sequence, each with its events."""
        self.retracted: list[tuple[LifePane, Sequence[Judged]]] = []
        """The panes that were taken back and not replaced yet, each with its events."""
        self.closed: set[int] = set()
        """The batches that published panes of a closed window."""
        self.rebuilt: dict[Window, int] = {}
        """The windows that were computed anew from the log, and by which batch."""

    def take(self, pane: LifePane) -> Published:
        """The next pane, with the number it followed and the events that it took in."""
        if pane.op is Op.RETRACT:
            self.retracted.append(self.standing.get(pane.window, {}).pop(pane.sequence, (pane, ())))
            return Published(pane)
        rules = self.rules(pane.batch)
        events = [each for each in self.events if self._holds(pane, each, rules)]
        discards = rules.accumulation is Accumulation.DISCARDING
        own = self.standing.setdefault(pane.window, {})
        counted = {id(each) for _, earlier in own.values() for each in earlier} if discards else set()
        stating = [each for each in events if id(each) not in counted]
        if pane.timing in rules.within and pane.events is not None:
            turn = partial(self._turn, sessions=rules.sessions)
            later = {id(each) for each in sorted(stating, key=turn)[pane.events :]}
            stating, events = ([each for each in some if id(each) not in later] for some in (stating, events))
        check = checked(pane, stating, rules, empty=not events)
        took = [each for each in events if id(each) not in self.in_panes]
        if pane.timing is Timing.CORRECTION and not check.agrees:
            took, events, stating = [], [], []
        elif pane.timing is Timing.CORRECTION:
            self.rebuilt[pane.window] = pane.batch
        replaced = self._replaced(pane, rules)
        kept = {id(each) for each in events}
        lost = [each for _, earlier in replaced for each in earlier if id(each) not in kept]
        published = Published(
            pane, _together([each for each, _ in replaced], rules), took, check, lost if check.agrees else ()
        )
        self.in_panes |= kept
        if not discards:
            own.clear()
        own[pane.sequence] = pane, stating
        if pane.timing is not Timing.EARLY:
            self.closed.add(pane.batch)
        return published

    def _turn(self, judged: Judged, sessions: bool) -> tuple[Any, ...]:
        """Events enter panes in this order: those that are in one already, those on time, the late ones. With sessions,
        lateness does not count."""
        late = judged.by_lateness is Fate.LATE_ACCEPTED and not sessions
        return id(judged) not in self.in_panes, late, judged.event.order

    def waits(self, judged: Judged) -> bool:
        """Whether an event was accepted and is in no pane yet. It is judged by the `where` of the pane to come."""
        if id(judged) in self.in_panes or not judged.accepted:
            return False
        came = judged.event.batch
        passed = self.passes(judged, max((at for at in self.closed if at >= came), default=came))
        if not self.closed:
            passed = self.passes(judged, NEWEST)
        return not judged.left_out if passed is None else passed

    def _holds(self, pane: LifePane, judged: Judged, rules: Rules) -> bool:
        """Whether a pane has an event, by when both came: an ON_TIME pane has no late events.

        A correction is computed anew from the log, so it has late events too, and so have the panes after it.
        """
        if judged.event.batch > pane.batch or (rules.sessions and not _within(judged, pane.window)):
            return False
        if judged.event.repeated and not judged.accepted:  # repeated deliveries count once
            return False
        passed = self.passes(judged, pane.batch)
        if passed is False or (passed is None and judged.left_out):
            return False
        if pane.timing is Timing.CORRECTION or self._was_rebuilt(pane, judged, rules):
            return True
        if not judged.accepted:
            return False
        late = pane.timing in (Timing.LATE, Timing.CLOSING)
        return rules.sessions or late or judged.by_lateness is not Fate.LATE_ACCEPTED

    def _was_rebuilt(self, pane: LifePane, judged: Judged, rules: Rules) -> bool:
        """Whether a correction before the pane has the event already."""
        for window, batch in self.rebuilt.items():
            same = pane.window == window or (rules.sessions and pane.window.overlaps(window))
            if same and judged.event.batch <= batch and (not rules.sessions or _within(judged, window)):
                return True
        return False

    def _replaced(self, pane: LifePane, rules: Rules) -> list[tuple[LifePane, Sequence[Judged]]]:
        """The panes that a pane replaces; a session replaces all panes that it has merged."""
        retracted, self.retracted = self.retracted, []
        if rules.sessions:
            inside = [each for each in retracted if each[0].window.overlaps(pane.window)]
            self.retracted = [each for each in retracted if not any(each is other for other in inside)]
            retracted = inside
        if rules.accumulation is Accumulation.DISCARDING:
            return retracted
        return [*retracted, *self.standing[pane.window].values()]


def _together(panes: Sequence[LifePane], rules: Rules) -> Mapping[str, Any] | None:
    """The total of panes that are replaced at once; None where there is no pane."""
    if len(panes) < 2:
        return panes[0].values if panes else None
    return {
        name: aggregate.add_up([pane.values.get(name) for pane in panes])
        if aggregate.function in ADDITIVE
        else None
        for name, aggregate in rules.aggregates.items()
    }


def _within(judged: Judged, window: Window) -> bool:
    return window.start <= judged.event.event_time < window.end


def checked(pane: LifePane, stating: Sequence[Judged], rules: Rules, empty: bool) -> Check:
    """Checks a pane against the events that should be in it."""
    expected: dict[str, tuple[Any, Any]] = {}
    if pane.events is not None:
        expected[EVENTS] = pane.events, len(stating)
    for measure, in_pane in pane.measures.items():
        if in_pane is not None:
            expected[measure] = in_pane, total(stating, measure)
    for name, aggregate in rules.exact.items():
        column = aggregate.column
        values = [None if column is None else each.event.payload[column] for each in stating]
        # The values come last: they are what is published.
        expected[name] = pane.values[name], aggregate.of_nothing() if empty else aggregate.evaluate(values)
    if not expected:
        return Check(None, reason="the output has no count or sum that could be compared with the log")
    wrong = [
        f"{name} is {by_log} by the log and {in_pane} in the pane"
        for name, (in_pane, by_log) in expected.items()
        if in_pane != by_log
    ]
    return Check(not wrong, tuple(expected), "; ".join(wrong) or None)


def total(events: Iterable[Judged], measure: str) -> Any:
    """The sum of a measure; null adds nothing."""
    with exact_amounts():
        return sum((each.event.payload[measure] or 0 for each in events), 0)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
