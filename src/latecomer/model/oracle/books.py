"""The oracle's outputs: what each holds for a window and key, and which panes it publishes when.

All events are kept for ever and are read again after every batch. Nothing is merged early, and each event is marked
with the pane that published it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from latecomer.errors import LatecomerError
from latecomer.model.oracle.arrivals import Arrival, JudgedArrival, Key, OraclePane, OutputRules
from latecomer.model.panes import Accumulation, Op, Pane, Timing
from latecomer.model.simple_predicates import Predicate
from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Rule, Until, When, per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate, OnError, Verdict, fate_of, judge
from latecomer.model.windows import FixedWindow, Session, Window

ACCEPTED = (Fate.ON_TIME, Fate.LATE_ACCEPTED)


@dataclass(frozen=True)
class BatchMoment:
    """The end of a batch, or a moment within it: watermark and arrival clock, now and before the batch."""

    batch: int
    watermark: int
    clock: int
    watermark_before: int
    clock_before: int
    steps: tuple[int, ...] = ()
    """The watermarks during the batch, ascending."""
    ends_batch: bool = True
    stepped: int | None = None
    """Within a batch: the watermark of the moment before."""

    def closed_at(self, end: int) -> int:
        """The watermark that closed a window in this batch."""
        return next((step for step in self.steps if step >= end), self.watermark)

    @property
    def first_watermark(self) -> int:
        """The watermark before the batch; for the very first batch, the first watermark that was known."""
        if self.watermark_before != BEGIN_OF_TIME:
            return self.watermark_before
        return next((step for step in self.steps if step != BEGIN_OF_TIME), self.watermark)

    @property
    def drained(self) -> bool:
        return self.watermark == END_OF_TIME


@dataclass
class AcceptedEvent:
    """An accepted event, and the timing of the pane that published it; a later pane replaces EARLY."""

    arrival: Arrival
    late: bool
    nth: int
    published: Timing | None = None
    clock: int = 0
    """The arrival clock when the event was accepted."""
    watermark: int = BEGIN_OF_TIME
    holds: frozenset[str] = frozenset()
    """The predicates of the trigger that are true for it."""

    @property
    def settled(self) -> bool:
        """Whether it was published when the window closed or later, or early and nothing had to follow."""
        return self.published in (Timing.ON_TIME, Timing.LATE)


@dataclass
class KeyedWindow:
    """One window and key: its accepted events, and its panes that stand."""

    window: Window
    key: Key
    accepted: list[AcceptedEvent] = field(default_factory=list)
    standing: list[Pane] = field(default_factory=list)
    early_is_over: bool = False
    """The trigger has fired for the last time before the window closes."""

    @property
    def on_time(self) -> list[AcceptedEvent]:
        return [event for event in self.accepted if not event.late]

    @property
    def unpublished_events(self) -> list[AcceptedEvent]:
        return [event for event in self.accepted if event.published is None]

    @property
    def waiting(self) -> list[AcceptedEvent]:
        """Late events that no pane has published."""
        return [event for event in self.unpublished_events if event.late]

    @property
    def unsettled(self) -> list[AcceptedEvent]:
        """On-time events that the window must still publish when it closes."""
        return [event for event in self.on_time if not event.settled]


class Book(ABC):
    """One output. The two kinds differ in how events get to windows and in which panes are due."""

    def __init__(self, rules: OutputRules, where: Predicate | None, when: Mapping[str, Predicate]) -> None:
        self.rules = rules
        self.where = where
        self.when = when
        self.clock = BEGIN_OF_TIME
        self.accepted_count = 0
        self.unpublished: list[KeyedWindow] = []
        self.sequences: dict[tuple[Window, Key], int] = {}

    @property
    def fires_within(self) -> bool:
        """Whether panes may fire within a batch, not only at its end."""
        return self.rules.trigger.fires_within

    def take(
        self, batch: int, position: int, arrival: Arrival, watermark: int, clock: int
    ) -> list[JudgedArrival]:
        """Add the event to the windows that accept it. Returns its fate for each of its windows."""
        self.clock = clock
        if (aside := self._aside(arrival)) is not None:
            return [JudgedArrival(batch, position, arrival, aside, watermark)]
        key = tuple(arrival.payload.get(column) for column in self.rules.by)
        return [
            JudgedArrival(batch, position, arrival, fate, watermark, window, verdict)
            for window, verdict, fate in self._take(arrival, key, watermark)
        ]

    def _aside(self, arrival: Arrival) -> Fate | None:
        """The fate of an event that enters no window, because of `where` or of a failed column; None for all others."""
        rules = self.rules
        failed = arrival.failed if rules.on_error is not OnError.NULL else frozenset()
        fate: Fate | None = None
        if failed & set(rules.columns_in_where):
            fate = Fate.FAILED
        elif self.where is not None and self.where(arrival.payload) is not True:
            fate = Fate.FILTERED
        elif failed & set(rules.columns_in_numbers):
            fate = Fate.FAILED
        if fate is Fate.FAILED and rules.on_error is OnError.FAIL:
            raise LatecomerError(f"{', '.join(sorted(failed))} cannot be computed, and on_error is fail")
        return fate

    @abstractmethod
    def _take(self, arrival: Arrival, key: Key, watermark: int) -> list[tuple[Window, Verdict, Fate]]: ...

    @abstractmethod
    def due(self, moment: BatchMoment) -> list[tuple[KeyedWindow, Timing]]:
        """The windows that fire at this moment, in order."""

    @abstractmethod
    def keyed_windows(self) -> list[KeyedWindow]:
        """Every window and key there has been."""

    def fires(self, moment: BatchMoment) -> bool:
        """Whether anything is published at the end of a batch."""
        return bool(self.due(moment) or self._to_close(moment))

    def publish(self, moment: BatchMoment) -> Iterator[OraclePane]:
        """Every pane that is due, each right after the retraction of the panes that it replaces."""
        for keyed, timing in self.due(moment):
            last = self._nothing_more(keyed.window, timing, moment)
            for pane in self._fire(keyed, timing, last):
                yield OraclePane(moment.batch, pane)
        for keyed in self.unpublished:
            self._settle(keyed, moment)
        for keyed in self.unpublished:
            is_open = keyed.window.end > moment.watermark
            keyed.early_is_over |= is_open and self._early_ends(keyed, moment)
        for keyed in self._to_close(moment):
            for pane in self._fire(keyed, Timing.CLOSING, last=True):
                yield OraclePane(moment.batch, pane)
        self.unpublished = [
            each for each in self.unpublished if not all(event.settled for event in each.accepted)
        ]

    def open_windows(self) -> list[tuple[Window, Key]]:
        return [(keyed.window, keyed.key) for keyed in self.unpublished if keyed.unsettled]

    def _judge(self, window: Window, watermark: int) -> tuple[Window, Verdict, Fate]:
        verdict = judge(window.end, watermark, self.rules.allowed_lateness)
        return window, verdict, fate_of(verdict, self.rules.late, self.rules.too_late)

    def _new(self, arrival: Arrival, fate: Fate, watermark: int) -> AcceptedEvent:
        self.accepted_count += 1
        holds = frozenset(sql for sql, predicate in self.when.items() if predicate(arrival.payload) is True)
        late = fate is Fate.LATE_ACCEPTED
        return AcceptedEvent(arrival, late, self.accepted_count, None, self.clock, watermark, holds)

    def _remember(self, keyed: KeyedWindow) -> None:
        if not any(each is keyed for each in self.unpublished):
            self.unpublished.append(keyed)

    # When

    def _closes(self, keyed: KeyedWindow, moment: BatchMoment) -> bool:
        """Whether the window has closed and has on-time events to publish: all of them, or the new ones."""
        if keyed.window.end > moment.watermark:
            return False
        if self.rules.trigger.on_time == "always":
            return bool(keyed.unsettled)
        return any(event.published is None for event in keyed.unsettled)

    def _settle(self, keyed: KeyedWindow, moment: BatchMoment) -> None:
        """Where a window closed without a pane, its last early pane counts as the one that published it."""
        if keyed.window.end <= moment.watermark:
            for event in keyed.unsettled:
                event.published = Timing.ON_TIME

    def _to_close(self, moment: BatchMoment) -> list[KeyedWindow]:
        """The windows that are final and have no pane marked as last yet."""
        if not self.rules.trigger.closing or not moment.ends_batch:
            return []
        return in_order(
            each
            for each in self.keyed_windows()
            if each.standing
            and not each.standing[-1].is_last
            and self._is_final(each.window, moment.watermark)
        )

    def _is_final(self, window: Window, watermark: int) -> bool:
        """Nothing can be added to this window any more."""
        return watermark >= min(window.end + self.rules.settles_after, END_OF_TIME)

    def _early_is_due(self, keyed: KeyedWindow, moment: BatchMoment) -> bool:
        """Whether the window is open, holds unpublished events, and the trigger is due."""
        early, start = self.rules.trigger.early, keyed.window.start
        if early is None or keyed.window.end <= moment.watermark or not keyed.unpublished_events:
            return False
        if per_firing(early):
            return self._early_fires(early, keyed, moment)
        if not moment.ends_batch:
            return False
        if isinstance(early, Count):
            return len(keyed.unpublished_events) >= early.count
        assert isinstance(early, Every)  # noqa: S101
        if early.clock == "event":
            if self.rules.window.endless:  # it has no start to count from
                return passed(moment.first_watermark, moment.watermark, early.every)
            return passed(max(moment.watermark_before, start), moment.watermark, early.every, start)
        return passed(moment.clock_before, moment.clock, early.every)

    def _late_is_due(self, keyed: KeyedWindow, moment: BatchMoment) -> bool:
        """Whether late events wait, and either the trigger is due or the window is final."""
        if keyed.window.end > moment.watermark or not keyed.waiting:
            return False
        late, waiting = self.rules.trigger.late, len(keyed.waiting)
        if per_firing(late):
            final = self._is_final(keyed.window, moment.watermark)
            return final or self._ready(late, keyed.waiting, keyed, moment)
        if not moment.ends_batch:
            return False
        if self._is_final(keyed.window, moment.watermark):
            return True
        if isinstance(late, Every):
            return passed(moment.clock_before, moment.clock, late.every)
        return not isinstance(late, Count) or waiting >= late.count

    # Rules that fire within a batch

    def _early_fires(self, rule: Rule, keyed: KeyedWindow, moment: BatchMoment) -> bool:
        if not isinstance(rule, Until):
            return self._ready(rule, keyed.unpublished_events, keyed, moment)
        if keyed.early_is_over:
            return False
        return self._early_ends(keyed, moment) or self._ready(
            rule.repeat, keyed.unpublished_events, keyed, moment
        )

    def _early_ends(self, keyed: KeyedWindow, moment: BatchMoment) -> bool:
        """Whether an `until` trigger has reached its end."""
        rule = self.rules.trigger.early
        return isinstance(rule, Until) and self._ready(rule.until, keyed.accepted, keyed, moment)

    def _ready(
        self, rule: Rule, events: Sequence[AcceptedEvent], keyed: KeyedWindow, moment: BatchMoment
    ) -> bool:
        """Whether a rule fires for these events, in the order in which they came."""
        first = events[0]
        match rule:
            case AnyOf():
                return any(self._ready(part, events, keyed, moment) for part in rule.any)
            case AllOf():
                return all(self._ready(part, events, keyed, moment) for part in rule.all)
            case Count():
                return len(events) >= rule.count
            case When():
                return any(rule.when in event.holds for event in events)
            case AfterFirst():
                return moment.clock >= first.clock + rule.after_first
            case Every(clock="arrival"):
                return passed(first.clock, moment.clock, rule.every)
            case Every() if self.rules.window.endless:  # it has no start to count from
                known = first.watermark != BEGIN_OF_TIME
                return passed(
                    first.watermark if known else moment.first_watermark, moment.watermark, rule.every
                )
            case Every():
                start = keyed.window.start
                return passed(max(first.watermark, start), max(moment.watermark, start), rule.every, start)
        raise ValueError(f"the oracle does not know {type(rule).__name__}")

    def _nothing_more(self, window: Window, timing: Timing, moment: BatchMoment) -> bool:
        """Whether a pane is the last of its window. An ON_TIME pane is, if the watermark that closed the window left no
        time for late events. A late pane is, if the batch's end leaves none."""
        on_time = timing is Timing.ON_TIME
        return self._is_final(window, moment.closed_at(window.end) if on_time else moment.watermark)

    # What

    def _fire(self, keyed: KeyedWindow, timing: Timing, last: bool) -> list[Pane]:
        mode, window, key = self.rules.accumulation, keyed.window, keyed.key
        outgrown = [pane for pane in keyed.standing if (pane.window_start, pane.window_end) != window]
        replaced = keyed.standing if mode is Accumulation.RETRACTING else outgrown
        events = keyed.on_time if timing is Timing.ON_TIME else keyed.accepted
        new_events = [event for event in events if event.published is None]
        # The panes of merged sessions no longer stand: the new window publishes all events.
        shown = new_events if mode is Accumulation.DISCARDING and not outgrown else events
        sequence = self.sequences.get((window, key), -1) + 1
        empty = not events and not (timing is Timing.CLOSING and mode is Accumulation.DISCARDING)
        pane = Pane(*window, key, self._values(shown, empty), sequence, timing, Op.INSERT, last)
        retracts = [replace(each, timing=timing, op=Op.RETRACT, is_last=False) for each in replaced]
        for event in events:
            if timing is not Timing.CLOSING and (timing is not Timing.EARLY or event.published is None):
                event.published = timing
        kept = [each for each in keyed.standing if each not in outgrown]
        keyed.standing = [*kept, pane] if mode is Accumulation.DISCARDING else [pane]
        self.sequences[window, key] = sequence
        return [*retracts, pane]

    def _values(self, events: Sequence[AcceptedEvent], empty: bool) -> dict[str, Any]:
        """The aggregates of these events, or of an empty window."""
        values = {}
        by_time = sorted(
            events, key=lambda each: (each.arrival.event_time, each.arrival.arrival_time, each.nth)
        )
        for name, aggregate in self.rules.aggregates.items():
            column = aggregate.column
            given = [None if column is None else event.arrival.payload.get(column) for event in by_time]
            values[name] = aggregate.of_nothing() if empty else aggregate.evaluate(given)
        return values


class WindowBook(Book):
    """Windows that depend on an event's own time: one for an event, or several where they slide."""

    def __init__(self, rules: OutputRules, where: Predicate | None, when: Mapping[str, Predicate]) -> None:
        super().__init__(rules, where, when)
        assert not isinstance(rules.window, Session)  # noqa: S101
        self.window: FixedWindow = rules.window
        self.places: dict[tuple[Window, Key], KeyedWindow] = {}

    def _take(self, arrival: Arrival, key: Key, watermark: int) -> list[tuple[Window, Verdict, Fate]]:
        judged = [self._judge(window, watermark) for window in self.window.assign_all(arrival.event_time)]
        for window, _, fate in judged:
            if fate in ACCEPTED:
                keyed = self._keyed_window(window, key)
                keyed.accepted.append(self._new(arrival, fate, watermark))
                self._remember(keyed)
        return judged

    def due(self, moment: BatchMoment) -> list[tuple[KeyedWindow, Timing]]:
        """First the windows that closed, then those with late events, then the open ones."""
        closed = [each for each in self.unpublished if self._closes(each, moment)]
        late = [each for each in self.unpublished if self._late_is_due(each, moment)]
        early = [each for each in self.unpublished if self._early_is_due(each, moment)]
        return [
            *((each, Timing.ON_TIME) for each in in_order([*closed, *self._empty(moment)])),
            *((each, Timing.LATE) for each in in_order(late)),
            *((each, Timing.EARLY) for each in in_order(early)),
        ]

    def keyed_windows(self) -> list[KeyedWindow]:
        return list(self.places.values())

    def _empty(self, moment: BatchMoment) -> Iterator[KeyedWindow]:
        """The windows that closed in this batch without events, for each key that an earlier window had."""
        if not self.rules.emit_empty:
            return
        closed = [
            each for each in self.places.values() if each.on_time and each.window.end <= moment.watermark
        ]
        # A drain closes every window; it publishes none after the last one with events.
        until = max((each.window.end for each in closed), default=0) if moment.drained else moment.watermark
        for key in dict.fromkeys(each.key for each in closed):
            first = min(each.window.end for each in closed if each.key == key)
            before = moment.watermark_before if moment.stepped is None else moment.stepped
            for end in self.window.ends(max(first, before), until):
                (window,) = [each for each in self.window.assign_all(end - 1) if each.end == end]
                keyed = self._keyed_window(window, key)
                if not keyed.on_time:
                    yield keyed

    def _keyed_window(self, window: Window, key: Key) -> KeyedWindow:
        return self.places.setdefault((window, key), KeyedWindow(window, key))


def in_order(keyed_windows: Iterable[KeyedWindow]) -> list[KeyedWindow]:
    """Sorted by window, then by the arrival of the first event to publish."""
    return sorted(
        keyed_windows,
        key=lambda each: (each.window, min((event.nth for event in each.unpublished_events), default=0)),
    )


def passed(before: int, now: int, every: int, start: int = 0) -> bool:
    """Whether a clock that stood at `before` has reached a further multiple of `every`.

    >>> passed(before=59, now=60, every=60), passed(before=60, now=119, every=60)
    (True, False)
    """
    return (before - start) // every < (now - start) // every
