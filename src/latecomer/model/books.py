"""The oracle's books: what an output holds for each window and key, and what it publishes when.

Everything is kept for ever and looked through again after every batch: nothing is merged early, and
what has been published is marked on each event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from latecomer.errors import LatecomerError
from latecomer.model.arrivals import Arrival, Judged, Key, OutputRules, Published
from latecomer.model.clock import Predicate
from latecomer.model.panes import Accumulation, Op, Pane, Timing
from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Rule, Until, When, per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate, OnError, Verdict, fate_of, judge
from latecomer.model.windows import FixedWindow, Window

ACCEPTED = (Fate.ON_TIME, Fate.LATE_ACCEPTED)


@dataclass(frozen=True)
class Moment:
    """The end of a batch, or a moment within it: where watermark and arrival clock stand, and where they stood before
    the batch."""

    batch: int
    watermark: int
    clock: int
    watermark_before: int
    clock_before: int
    steps: tuple[int, ...] = ()
    """Where the watermark stood in the course of the batch, ascending."""
    ends_batch: bool = True
    stepped: int | None = None
    """Within a batch: the watermark of the moment before."""

    def closed_at(self, end: int) -> int:
        """The watermark that closed a window in this batch."""
        return next((step for step in self.steps if step >= end), self.watermark)

    @property
    def first_watermark(self) -> int:
        """Where the watermark stood before the batch; in the very first one, where it was first known."""
        if self.watermark_before != BEGIN_OF_TIME:
            return self.watermark_before
        return next((step for step in self.steps if step != BEGIN_OF_TIME), self.watermark)

    @property
    def drained(self) -> bool:
        return self.watermark == END_OF_TIME


@dataclass
class Taken:
    """An accepted event, and the timing of the pane that published it; one that is EARLY gives way."""

    arrival: Arrival
    late: bool
    nth: int
    published: Timing | None = None
    clock: int = 0
    """Where the arrival clock stood."""
    watermark: int = BEGIN_OF_TIME
    holds: frozenset[str] = frozenset()
    """The predicates of the trigger that are true of it."""

    @property
    def settled(self) -> bool:
        """Published since the window has closed, or published early where that was enough."""
        return self.published in (Timing.ON_TIME, Timing.LATE)


@dataclass
class Holding:
    """One window and key: the events it took, and its panes that stand."""

    window: Window
    key: Key
    taken: list[Taken] = field(default_factory=list)
    standing: list[Pane] = field(default_factory=list)
    early_is_over: bool = False
    """The trigger has fired for the last time before the window closes."""

    @property
    def on_time(self) -> list[Taken]:
        return [event for event in self.taken if not event.late]

    @property
    def unpublished_events(self) -> list[Taken]:
        return [event for event in self.taken if event.published is None]

    @property
    def waiting(self) -> list[Taken]:
        """Late events that no pane has published."""
        return [event for event in self.unpublished_events if event.late]

    @property
    def unsettled(self) -> list[Taken]:
        """On-time events that the window has yet to publish once it is closed."""
        return [event for event in self.on_time if not event.settled]


class Book(ABC):
    """One output. The two kinds differ in where an event belongs and in what is due."""

    def __init__(
        self, rules: OutputRules, where: Predicate | None, when: Mapping[str, Predicate] | None = None
    ) -> None:
        self.rules = rules
        self.where = where
        self.when = when or {}
        self.clock = BEGIN_OF_TIME
        self.accepted = 0
        self.unpublished: list[Holding] = []
        self.sequences: dict[tuple[Window, Key], int] = {}

    @property
    def fires_within(self) -> bool:
        """Whether panes fire within a batch, not at its end alone."""
        return self.rules.trigger.fires_within

    def take(self, batch: int, position: int, arrival: Arrival, watermark: int, clock: int) -> list[Judged]:
        """The event's fate for each of its windows, and its place in those that accept it."""
        self.clock = clock
        if (aside := self._aside(arrival)) is not None:
            return [Judged(batch, position, arrival, aside, watermark)]
        key = tuple(arrival.payload.get(column) for column in self.rules.by)
        return [
            Judged(batch, position, arrival, fate, watermark, window, verdict)
            for window, verdict, fate in self._take(arrival, key, watermark)
        ]

    def _aside(self, arrival: Arrival) -> Fate | None:
        """The fate of an event that enters no window: `where` leaves it out, or it cannot be computed."""
        rules = self.rules
        failed = arrival.failed if rules.on_error is not OnError.NULL else frozenset()
        fate: Fate | None = None
        if failed & set(rules.asked):
            fate = Fate.FAILED
        elif self.where is not None and self.where(arrival.payload) is not True:
            fate = Fate.FILTERED
        elif failed & set(rules.counted):
            fate = Fate.FAILED
        if fate is Fate.FAILED and rules.on_error is OnError.FAIL:
            raise LatecomerError(f"{', '.join(sorted(failed))} cannot be computed, and on_error is fail")
        return fate

    @abstractmethod
    def _take(self, arrival: Arrival, key: Key, watermark: int) -> list[tuple[Window, Verdict, Fate]]: ...

    @abstractmethod
    def due(self, moment: Moment) -> list[tuple[Holding, Timing]]:
        """What fires at the end of a batch, in order."""

    @abstractmethod
    def holdings(self) -> list[Holding]:
        """Every window and key there has been."""

    def fires(self, moment: Moment) -> bool:
        """Whether anything is published at the end of a batch."""
        return bool(self.due(moment) or self._to_close(moment))

    def publish(self, moment: Moment) -> Iterator[Published]:
        """Every pane that is due; what it replaces is taken back right before it."""
        for holding, timing in self.due(moment):
            last = self._nothing_more(holding.window, timing, moment)
            for pane in self._fire(holding, timing, last):
                yield Published(moment.batch, pane)
        for holding in self.unpublished:
            self._settle(holding, moment)
        for holding in self.unpublished:
            is_open = holding.window.end > moment.watermark
            holding.early_is_over |= is_open and self._early_ends(holding, moment)
        for holding in self._to_close(moment):
            for pane in self._fire(holding, Timing.CLOSING, last=True):
                yield Published(moment.batch, pane)
        self.unpublished = [
            each for each in self.unpublished if not all(event.settled for event in each.taken)
        ]

    def open_windows(self) -> list[tuple[Window, Key]]:
        return [(holding.window, holding.key) for holding in self.unpublished if holding.unsettled]

    def _judge(self, window: Window, watermark: int) -> tuple[Window, Verdict, Fate]:
        verdict = judge(window.end, watermark, self.rules.allowed_lateness)
        return window, verdict, fate_of(verdict, self.rules.late, self.rules.too_late)

    def _new(self, arrival: Arrival, fate: Fate, watermark: int) -> Taken:
        self.accepted += 1
        holds = frozenset(sql for sql, predicate in self.when.items() if predicate(arrival.payload) is True)
        late = fate is Fate.LATE_ACCEPTED
        return Taken(arrival, late, self.accepted, None, self.clock, watermark, holds)

    def _remember(self, holding: Holding) -> None:
        if not any(each is holding for each in self.unpublished):
            self.unpublished.append(holding)

    # When

    def _closes(self, holding: Holding, moment: Moment) -> bool:
        """The window has closed, and has on-time events to publish: all of them, or what is new."""
        if holding.window.end > moment.watermark:
            return False
        if self.rules.trigger.on_time == "always":
            return bool(holding.unsettled)
        return any(event.published is None for event in holding.unsettled)

    def _settle(self, holding: Holding, moment: Moment) -> None:
        """A window that closed without a pane of its own is published all the same: by its last early one."""
        if holding.window.end <= moment.watermark:
            for event in holding.unsettled:
                event.published = Timing.ON_TIME

    def _to_close(self, moment: Moment) -> list[Holding]:
        """The windows for which nothing more can come, where no pane is the last one yet."""
        if not self.rules.trigger.closing or not moment.ends_batch:
            return []
        return in_order(
            each
            for each in self.holdings()
            if each.standing
            and not each.standing[-1].is_last
            and self._is_final(each.window, moment.watermark)
        )

    def _is_final(self, window: Window, watermark: int) -> bool:
        """Nothing can be added to this window any more."""
        return watermark >= min(window.end + self.rules.settles_after, END_OF_TIME)

    def _early_is_due(self, holding: Holding, moment: Moment) -> bool:
        """The window is open, holds what no pane has published, and the trigger is due."""
        early, start = self.rules.trigger.early, holding.window.start
        if early is None or holding.window.end <= moment.watermark or not holding.unpublished_events:
            return False
        if per_firing(early):
            return self._early_fires(early, holding, moment)
        if not moment.ends_batch:
            return False
        if isinstance(early, Count):
            return len(holding.unpublished_events) >= early.count
        assert isinstance(early, Every)  # noqa: S101
        if early.clock == "event":
            if self.rules.window.endless:  # it has no start to count from
                return passed(moment.first_watermark, moment.watermark, early.every)
            return passed(max(moment.watermark_before, start), moment.watermark, early.every, start)
        return passed(moment.clock_before, moment.clock, early.every)

    def _late_is_due(self, holding: Holding, moment: Moment) -> bool:
        """Late events wait, and the trigger says now or nothing more can come."""
        if holding.window.end > moment.watermark or not holding.waiting:
            return False
        late, waiting = self.rules.trigger.late, len(holding.waiting)
        if per_firing(late):
            final = self._is_final(holding.window, moment.watermark)
            return final or self._ready(late, holding.waiting, holding, moment)
        if not moment.ends_batch:
            return False
        if self._is_final(holding.window, moment.watermark):
            return True
        if isinstance(late, Every):
            return passed(moment.clock_before, moment.clock, late.every)
        return not isinstance(late, Count) or waiting >= late.count

    # Rules that fire within a batch

    def _early_fires(self, rule: Rule, holding: Holding, moment: Moment) -> bool:
        if not isinstance(rule, Until):
            return self._ready(rule, holding.unpublished_events, holding, moment)
        if holding.early_is_over:
            return False
        return self._early_ends(holding, moment) or self._ready(
            rule.repeat, holding.unpublished_events, holding, moment
        )

    def _early_ends(self, holding: Holding, moment: Moment) -> bool:
        """Whether a trigger that ends has come to its end."""
        rule = self.rules.trigger.early
        return isinstance(rule, Until) and self._ready(rule.until, holding.taken, holding, moment)

    def _ready(self, rule: Rule, events: Sequence[Taken], holding: Holding, moment: Moment) -> bool:
        """Whether a rule fires for these events, in the order in which they came."""
        first = events[0]
        match rule:
            case AnyOf():
                return any(self._ready(part, events, holding, moment) for part in rule.any)
            case AllOf():
                return all(self._ready(part, events, holding, moment) for part in rule.all)
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
                start = holding.window.start
                return passed(max(first.watermark, start), max(moment.watermark, start), rule.every, start)
        raise ValueError(f"the oracle does not know {type(rule).__name__}")

    def _nothing_more(self, window: Window, timing: Timing, moment: Moment) -> bool:
        """Whether a pane is the last of its window. The pane of a window that closed is, where the watermark that
        closed it left no time for late events; a late pane is, where the batch's end leaves none."""
        on_time = timing is Timing.ON_TIME
        return self._is_final(window, moment.closed_at(window.end) if on_time else moment.watermark)

    # What

    def _fire(self, holding: Holding, timing: Timing, last: bool) -> list[Pane]:
        mode, window, key = self.rules.accumulation, holding.window, holding.key
        outgrown = [pane for pane in holding.standing if (pane.window_start, pane.window_end) != window]
        replaced = holding.standing if mode is Accumulation.RETRACTING else outgrown
        held = holding.on_time if timing is Timing.ON_TIME else holding.taken
        news = [event for event in held if event.published is None]
        # The panes of the sessions that it swallowed are gone: a new window publishes everything.
        shown = news if mode is Accumulation.DISCARDING and not outgrown else held
        sequence = self.sequences.get((window, key), -1) + 1
        empty = not held and not (timing is Timing.CLOSING and mode is Accumulation.DISCARDING)
        pane = Pane(*window, key, self._values(shown, empty), sequence, timing, Op.INSERT, last)
        retracts = [replace(each, timing=timing, op=Op.RETRACT, is_last=False) for each in replaced]
        for event in held:
            if timing is not Timing.CLOSING and (timing is not Timing.EARLY or event.published is None):
                event.published = timing
        kept = [each for each in holding.standing if each not in outgrown]
        holding.standing = [*kept, pane] if mode is Accumulation.DISCARDING else [pane]
        self.sequences[window, key] = sequence
        return [*retracts, pane]

    def _values(self, events: Sequence[Taken], empty: bool) -> dict[str, Any]:
        """What the aggregates say of these events; of an empty window, what they say of nothing."""
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
    """Windows that an event's own time decides: one or, where they slide, several for an event."""

    def __init__(
        self,
        rules: OutputRules,
        window: FixedWindow,
        where: Predicate | None,
        when: Mapping[str, Predicate] | None = None,
    ) -> None:
        super().__init__(rules, where, when)
        self.window = window
        self.places: dict[tuple[Window, Key], Holding] = {}

    def _take(self, arrival: Arrival, key: Key, watermark: int) -> list[tuple[Window, Verdict, Fate]]:
        judged = [self._judge(window, watermark) for window in self.window.assign_all(arrival.event_time)]
        for window, _, fate in judged:
            if fate in ACCEPTED:
                holding = self._holding(window, key)
                holding.taken.append(self._new(arrival, fate, watermark))
                self._remember(holding)
        return judged

    def due(self, moment: Moment) -> list[tuple[Holding, Timing]]:
        """First the windows that closed, then those that late events touched, then those still open."""
        closed = [each for each in self.unpublished if self._closes(each, moment)]
        late = [each for each in self.unpublished if self._late_is_due(each, moment)]
        early = [each for each in self.unpublished if self._early_is_due(each, moment)]
        return [
            *((each, Timing.ON_TIME) for each in in_order([*closed, *self._empty(moment)])),
            *((each, Timing.LATE) for each in in_order(late)),
            *((each, Timing.EARLY) for each in in_order(early)),
        ]

    def holdings(self) -> list[Holding]:
        return list(self.places.values())

    def _empty(self, moment: Moment) -> Iterator[Holding]:
        """The windows that closed in this batch without the keys that windows before them had."""
        if not self.rules.emit_empty:
            return
        closed = [
            each for each in self.places.values() if each.on_time and each.window.end <= moment.watermark
        ]
        # A drain closes all of time; it publishes no window after the last one with events.
        until = max((each.window.end for each in closed), default=0) if moment.drained else moment.watermark
        for key in dict.fromkeys(each.key for each in closed):
            first = min(each.window.end for each in closed if each.key == key)
            before = moment.watermark_before if moment.stepped is None else moment.stepped
            for end in self.window.ends(max(first, before), until):
                (window,) = [each for each in self.window.assign_all(end - 1) if each.end == end]
                holding = self._holding(window, key)
                if not holding.on_time:
                    yield holding

    def _holding(self, window: Window, key: Key) -> Holding:
        return self.places.setdefault((window, key), Holding(window, key))


def in_order(holdings: Iterable[Holding]) -> list[Holding]:
    """By window; within one, in the order in which the events came that are to be published."""
    return sorted(
        holdings,
        key=lambda each: (each.window, min((event.nth for event in each.unpublished_events), default=0)),
    )


def passed(before: int, now: int, every: int, start: int = 0) -> bool:
    """Whether a clock that stood at `before` has reached a further multiple of `every`.

    >>> passed(before=59, now=60, every=60), passed(before=60, now=119, every=60)
    (True, False)
    """
    return (before - start) // every < (now - start) // every
