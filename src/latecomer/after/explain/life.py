"""The life of one number: its panes in order, and the events that each took in.

Pure: panes and judged events go in, published panes come out. Each pane is checked
against the log: the events that should be in it must give its counts and sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

from latecomer.after.explain.fates import NEWEST, JudgedEvent, Policies
from latecomer.after.reading.choices import Clock
from latecomer.after.reading.lives import PublishedPane, standing_of
from latecomer.config.outputs import Output
from latecomer.model import types
from latecomer.model.aggregates import ADDITIVE
from latecomer.model.durations import format_duration
from latecomer.model.ledger import EVENTS, exact_amounts
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.triggers import per_firing
from latecomer.model.verdicts import END_OF_TIME, Fate
from latecomer.model.windows import Window
from latecomer.model.zoned import written


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
class PublishedNumber:
    """A pane, the number before it, and the events that it has and no pane before it had.

    A session that merged others follows all of them: `before` is their total, null where that cannot be known. `lost`
    are the events that these panes had and this one has not.
    """

    pane: LifePane
    before: Mapping[str, Any] | None = None
    took: Sequence[JudgedEvent] = ()
    check: Check = Check(None)
    lost: Sequence[JudgedEvent] = ()

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


def follow(
    panes: Sequence[LifePane], events: Sequence[JudgedEvent], policies: Policies
) -> tuple[list[PublishedNumber], list[JudgedEvent]]:
    """The panes with the events that each took in, and the events that were accepted and are in none yet.

    Each pane is checked against the policy of the batch that published it.
    """
    following = _Following(events, policies)
    published = [following.take(pane) for pane in panes]
    return published, [each for each in events if following.waits(each)]


class _Following:
    """Panes taken one after the other, in the order of publication."""

    def __init__(self, events: Sequence[JudgedEvent], policies: Policies) -> None:
        self.events = events
        self.policies = policies
        self.in_panes: set[int] = set()
        """The events that any pane has had."""
        self.standing: dict[Window, dict[int, tuple[LifePane, Sequence[JudgedEvent]]]] = {}
        """The panes that stand, by window and sequence, each with its events."""
        self.retracted: list[tuple[LifePane, Sequence[JudgedEvent]]] = []
        """The panes that were taken back and not replaced yet, each with its events."""
        self.closed: set[int] = set()
        """The batches that published panes of a closed window."""
        self.rebuilt: dict[Window, int] = {}
        """The windows that were computed anew from the log, and by which batch."""

    def take(self, pane: LifePane) -> PublishedNumber:
        """The next pane, with the number it followed and the events that it took in."""
        if pane.op is Op.RETRACT:
            self.retracted.append(self.standing.get(pane.window, {}).pop(pane.sequence, (pane, ())))
            return PublishedNumber(pane)
        rules = self.policies.at(pane.batch)
        events = [each for each in self.events if self._holds(pane, each, rules)]
        discards = rules.accumulation is Accumulation.DISCARDING
        own = self.standing.setdefault(pane.window, {})
        counted = {id(each) for _, earlier in own.values() for each in earlier} if discards else set()
        stating = [each for each in events if id(each) not in counted]
        if pane.timing in _within_batch(rules) and pane.events is not None:
            turn = partial(self._turn, sessions=rules.window.merges)
            later = {id(each) for each in sorted(stating, key=turn)[pane.events :]}
            stating, events = ([each for each in some if id(each) not in later] for some in (stating, events))
        check = checked(pane, stating, rules, self.policies.types, empty=not events)
        took = [each for each in events if id(each) not in self.in_panes]
        if pane.timing is Timing.CORRECTION and not check.agrees:
            took, events, stating = [], [], []
        elif pane.timing is Timing.CORRECTION:
            self.rebuilt[pane.window] = pane.batch
        replaced = self._replaced(pane, rules)
        kept = {id(each) for each in events}
        lost = [each for _, earlier in replaced for each in earlier if id(each) not in kept]
        published = PublishedNumber(
            pane, _together([each for each, _ in replaced], rules), took, check, lost if check.agrees else ()
        )
        self.in_panes |= kept
        if not discards:
            own.clear()
        own[pane.sequence] = pane, stating
        if pane.timing is not Timing.EARLY:
            self.closed.add(pane.batch)
        return published

    def _turn(self, judged: JudgedEvent, sessions: bool) -> tuple[Any, ...]:
        """Events enter panes in this order: those that are in one already, those on time, the late ones. With sessions,
        lateness does not count."""
        late = judged.by_lateness is Fate.LATE_ACCEPTED and not sessions
        return id(judged) not in self.in_panes, late, judged.event.order

    def waits(self, judged: JudgedEvent) -> bool:
        """Whether an event was accepted and is in no pane yet. It is judged by the `where` of the pane to come."""
        if id(judged) in self.in_panes or not judged.accepted:
            return False
        came = judged.event.batch
        passed = self.policies.passes(
            judged.event, max((at for at in self.closed if at >= came), default=came)
        )
        if not self.closed:
            passed = self.policies.passes(judged.event, NEWEST)
        return not judged.left_out if passed is None else passed

    def _holds(self, pane: LifePane, judged: JudgedEvent, rules: Output) -> bool:
        """Whether a pane has an event, by when both came: an ON_TIME pane has no late events.

        A correction is computed anew from the log, so it has late events too, and so have the panes after it.
        """
        if judged.event.batch > pane.batch or (rules.window.merges and not _within(judged, pane.window)):
            return False
        if judged.event.repeated and not judged.accepted:  # repeated deliveries count once
            return False
        passed = self.policies.passes(judged.event, pane.batch)
        if passed is False or (passed is None and judged.left_out):
            return False
        if pane.timing is Timing.CORRECTION or self._was_rebuilt(pane, judged, rules):
            return True
        if not judged.accepted:
            return False
        late = pane.timing in (Timing.LATE, Timing.CLOSING)
        return rules.window.merges or late or judged.by_lateness is not Fate.LATE_ACCEPTED

    def _was_rebuilt(self, pane: LifePane, judged: JudgedEvent, rules: Output) -> bool:
        """Whether a correction before the pane has the event already."""
        for window, batch in self.rebuilt.items():
            same = pane.window == window or (rules.window.merges and pane.window.overlaps(window))
            if same and judged.event.batch <= batch and (not rules.window.merges or _within(judged, window)):
                return True
        return False

    def _replaced(self, pane: LifePane, rules: Output) -> list[tuple[LifePane, Sequence[JudgedEvent]]]:
        """The panes that a pane replaces; a session replaces all panes that it has merged."""
        retracted, self.retracted = self.retracted, []
        if rules.window.merges:
            inside = [each for each in retracted if each[0].window.overlaps(pane.window)]
            self.retracted = [each for each in retracted if not any(each is other for other in inside)]
            retracted = inside
        if rules.accumulation is Accumulation.DISCARDING:
            return retracted
        return [*retracted, *self.standing[pane.window].values()]


def _together(panes: Sequence[LifePane], rules: Output) -> Mapping[str, Any] | None:
    """The total of panes that are replaced at once; None where there is no pane."""
    if len(panes) < 2:
        return panes[0].values if panes else None
    return {
        name: aggregate.add_up([pane.values.get(name) for pane in panes])
        if aggregate.function in ADDITIVE
        else None
        for name, aggregate in rules.aggregates.items()
    }


def _within_batch(rules: Output) -> Sequence[Timing]:
    """The timings of panes that fire within a batch: such a pane has the events up to one, not all of the batch."""
    # The event that closes a session may come before events that extend it.
    if rules.window.merges and rules.trigger.fires_within:
        return Timing.EARLY, Timing.ON_TIME, Timing.LATE
    timed = {Timing.EARLY: rules.trigger.early, Timing.LATE: rules.trigger.late}
    return [timing for timing, rule in timed.items() if per_firing(rule)]


def _within(judged: JudgedEvent, window: Window) -> bool:
    return window.start <= judged.event.event_time < window.end


def checked(
    pane: LifePane, stating: Sequence[JudgedEvent], rules: Output, kinds: Mapping[str, str], empty: bool
) -> Check:
    """Checks a pane against the events that should be in it."""
    expected: dict[str, tuple[Any, Any]] = {}
    if pane.events is not None:
        expected[EVENTS] = pane.events, len(stating)
    for measure, in_pane in pane.measures.items():
        if in_pane is not None:
            expected[measure] = in_pane, total(stating, measure)
    for name, aggregate in rules.aggregates.items():
        column = aggregate.column
        if aggregate.function != "count" and not (
            aggregate.function in ADDITIVE and kinds[column or ""] not in types.FLOATS
        ):
            continue  # it cannot be computed exactly here
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


def total(events: Iterable[JudgedEvent], measure: str) -> Any:
    """The sum of a measure; null adds nothing."""
    with exact_amounts():
        return sum((each.event.payload[measure] or 0 for each in events), 0)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


@dataclass(frozen=True)
class NumberHistory:
    """What was found of the life of one number. Times are microseconds."""

    output: str
    rules: Output
    window: Window
    key: Mapping[str, Any]
    panes: Sequence[PublishedNumber]
    in_no_pane: Sequence[JudgedEvent]
    """Events that were accepted and are in no pane yet."""
    left_out: Mapping[Fate, Sequence[JudgedEvent]]
    measures: Mapping[str, str]
    """The ledger's measures and their types."""
    filter: str
    notes: Sequence[str]
    files: int
    files_read: int
    rebuilds: Mapping[int, str]
    """The rebuilds of the output: batch → which."""
    policies: Policies
    """The output under each policy and definition it has had."""
    clock: Clock
    """The clock that says when a pane was known."""
    by_arrival: bool
    """Whether the source has an arrival column: then the batch of a pane does not say when it could be known."""
    watermarks: Sequence[tuple[int, int]]
    """Where the watermark stood while its events came: a moment of the arrival clock, and the watermark."""

    @cached_property
    def stands(self) -> Mapping[str, Any] | None:
        """The number as it is now; discarding panes are added up. None where there is none."""
        return standing_of(self.rules, [each.pane for each in self.panes if each.pane.window == self.window])

    @property
    def reconciled(self) -> bool:
        """Whether every pane agrees with the log."""
        return all(published.check.agrees is not False for published in self.panes)

    def why(self, published: PublishedNumber) -> str:
        """In a sentence, why a pane was published."""
        pane = published.pane
        if pane.op is Op.RETRACT:
            return f"sequence {pane.sequence} was taken back"
        match pane.timing:
            case Timing.EARLY:
                return "the window was still open, and the early trigger was due"
            case Timing.ON_TIME if pane.watermark == END_OF_TIME:
                return "the input had ended"
            case Timing.ON_TIME:
                return f"the watermark had reached {written(pane.watermark)}: the window was over"
            case Timing.LATE:
                lateness = format_duration(self.under(published).allowed_lateness)
                return f"events came after the window was over, within the allowed lateness of {lateness}"
            case Timing.CLOSING:
                return "nothing more can come for the window: its allowed lateness was over"
            case Timing.CORRECTION:
                return f"{self.rebuilds.get(pane.batch, 'a correction')}: the number was computed anew"

    def known_at(self, published: PublishedNumber) -> int | None:
        """When a pane was known, by the clock of the explanation."""
        return published.pane.published_at if self.clock is Clock.PUBLISHED else self.drawn_at(published)

    def drawn_at(self, published: PublishedNumber) -> int | None:
        """Where a pane stands on the arrival clock: at the end of its batch, or where it was fired."""
        moments = [published.pane.ended_at, published.pane.fired_at]
        if self.by_arrival or self.clock is Clock.ARRIVAL:
            moments.reverse()
        return moments[1] if moments[0] is None else moments[0]

    def under(self, published: PublishedNumber) -> Output:
        """The output as it was when a pane was published."""
        return self.policies.at(published.pane.batch)

    def defined_otherwise(self, published: PublishedNumber) -> str | None:
        """The definition of a pane's number, where that is not the output's definition now."""
        then, now = self.under(published), self.rules
        changed = [
            f"{name} is {each}" for name, each in then.aggregates.items() if now.aggregates.get(name) != each
        ]
        if then.where != now.where:
            changed.insert(0, "no where" if then.where is None else f"where {then.where}")
        return ", ".join(changed) or None
