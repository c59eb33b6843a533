"""The oracle: the semantics event by event, in plain Python, slow and obviously right.

What the engine does with ticks, partial aggregates and tables is done here with lists and loops. The
two share the pipeline's words (windows, verdicts, aggregates, panes) and nothing that computes a
watermark or decides when a pane fires; every test of the semantics runs both and compares.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from typing import Any, Protocol

from latecomer.model.aggregates import Aggregate
from latecomer.model.clock import Clock, Predicate
from latecomer.model.ledger import ASSIGNMENTS, EVENTS, Entry
from latecomer.model.panes import Op, Pane, Timing, surviving
from latecomer.model.strategies import Strategy
from latecomer.model.verdicts import (
    END_OF_TIME,
    Fate,
    LatePolicy,
    TooLatePolicy,
    Verdict,
    fate_of,
    judge,
)
from latecomer.model.windows import Tumbling, Window

Key = tuple[Any, ...]
Place = tuple[Window, Key]


class OutputRules(Protocol):
    """What the oracle reads of an output; `latecomer.config.models.Output` is one."""

    @property
    def window(self) -> Tumbling: ...
    @property
    def by(self) -> tuple[str, ...]: ...
    @property
    def aggregates(self) -> Mapping[str, Aggregate]: ...
    @property
    def allowed_lateness(self) -> int: ...
    @property
    def late(self) -> LatePolicy: ...
    @property
    def too_late(self) -> TooLatePolicy: ...


@dataclass(frozen=True)
class Arrival:
    """One row as it was read. Times are microseconds; a `dead` row could not become an event."""

    event_time: int
    arrival_time: int
    partition: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    event_id: Hashable | None = None
    dead: bool = False


@dataclass(frozen=True)
class Judged:
    """What became of one arrival, for one output.

    `position` is the arrival's place in the whole input as read. A dead letter and a duplicate meet no
    watermark; they and a filtered event have no window and no verdict.
    """

    batch: int
    position: int
    arrival: Arrival
    fate: Fate
    watermark: int | None = None
    window: Window | None = None
    verdict: Verdict | None = None

    @property
    def late_at_source(self) -> bool:
        """Behind the watermark when it was read, whatever its window says."""
        return self.watermark is not None and self.arrival.event_time < self.watermark


@dataclass(frozen=True)
class Published:
    """A pane, and the batch that published it."""

    batch: int
    pane: Pane


@dataclass
class Interpretation:
    """Everything the semantics say about an input. By output, in the order in which it happened.

    `watermarks` holds the watermark in force at the end of each batch. A drain is one batch more, and
    has no ledger entries: it receives nothing.
    """

    judged: dict[str, list[Judged]]
    published: dict[str, list[Published]]
    open_windows: dict[str, list[Place]] = field(default_factory=dict)
    ledger: list[Entry] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)

    def with_fate(self, output: str, fate: Fate) -> list[Judged]:
        return [event for event in self.judged[output] if event.fate is fate]

    def side_output(self, output: str) -> list[Judged]:
        return self.with_fate(output, Fate.SIDE_OUTPUT)

    def panes(self, output: str) -> list[Pane]:
        return [published.pane for published in self.published[output]]

    def surviving(self, output: str) -> dict[tuple[int, int, Key], Pane]:
        """The pane that stands for each window and key."""
        return surviving(self.panes(output))


def cut(arrivals: Sequence[Arrival], sizes: Iterable[int]) -> list[list[Arrival]]:
    """The arrivals in batches of these sizes; what the sizes leave over is one batch more."""
    batches, start = [], 0
    for size in sizes:
        batches.append(list(arrivals[start : start + size]))
        start += size
    if start < len(arrivals):
        batches.append(list(arrivals[start:]))
    return batches


def interpret(
    batches: Sequence[Sequence[Arrival]],
    strategy: Strategy,
    outputs: Mapping[str, OutputRules],
    *,
    where: Mapping[str, Predicate] | None = None,
    measures: Sequence[str] = (),
    drain: bool = False,
    reach: int | None = None,
    marks: Predicate | None = None,
) -> Interpretation:
    """Judge every arrival, batch by batch, and publish what is due after each.

    `where` holds an output's predicate on the payload; what is not true is filtered. `marks` says
    which events are marks, where the watermark is punctuated by a predicate. `reach` is how far behind
    the watermark of the batch before an event's id is still remembered; None means for ever.
    """
    predicates = dict(where or {})
    if unknown := predicates.keys() - outputs.keys():
        raise ValueError(f"where names no output: {', '.join(sorted(unknown))}")
    clock = Clock(strategy, marks)
    books = {name: _Book(rules, predicates.get(name)) for name, rules in outputs.items()}
    told = Interpretation({name: [] for name in outputs}, {name: [] for name in outputs})
    remembered: list[Arrival] = []
    start = 0
    for number, batch in enumerate(batches):
        if reach is not None:
            horizon = min(clock.watermark, clock.newest_event_time) - reach
            remembered = [event for event in remembered if event.event_time >= horizon]
        for position, arrival in _as_they_arrived(batch, start):
            unseen = _fate_without_window(arrival, remembered)
            watermark = clock.watermark if unseen else clock.in_force_for(arrival)
            for name, book in books.items():
                if unseen:
                    told.judged[name].append(Judged(number, position, arrival, unseen))
                else:
                    told.judged[name].append(book.take(number, position, arrival, watermark))
        told.watermarks.append(clock.watermark)
        for name, book in books.items():
            told.published[name].extend(book.publish(number, clock.watermark))
            told.ledger.extend(_entries(number, name, batch, told.judged[name][start:], measures))
        start += len(batch)
    if drain:
        told.watermarks.append(END_OF_TIME)
        for name, book in books.items():
            told.published[name].extend(book.publish(len(batches), END_OF_TIME))
    told.open_windows = {name: list(book.waiting) for name, book in books.items()}
    return told


def _as_they_arrived(batch: Sequence[Arrival], start: int) -> list[tuple[int, Arrival]]:
    """The batch in arrival order, reading order among equals, whatever its order in the file."""
    return sorted(enumerate(batch, start), key=lambda read: (read[1].arrival_time, read[0]))


def _fate_without_window(arrival: Arrival, remembered: list[Arrival]) -> Fate | None:
    """The fate of a row that no output gets to see; remembers one with an id that they do."""
    if arrival.dead:
        return Fate.DEAD_LETTER
    if arrival.event_id is None:
        return None
    if any(event.event_id == arrival.event_id for event in remembered):
        return Fate.DUPLICATE
    remembered.append(arrival)
    return None


class _Book:
    """One output: the events of each window and key, and what was last said of them."""

    def __init__(self, rules: OutputRules, where: Predicate | None) -> None:
        self.rules = rules
        self.where = where
        self.on_time: dict[Place, list[Arrival]] = {}
        self.late: dict[Place, list[Arrival]] = {}
        self.waiting: dict[Place, None] = {}
        self.touched: dict[Place, None] = {}
        self.last: dict[Place, Pane] = {}

    def take(self, batch: int, position: int, arrival: Arrival, watermark: int) -> Judged:
        """The event's fate here, and its place in the window if it has one."""
        if self.where is not None and self.where(arrival.payload) is not True:
            return Judged(batch, position, arrival, Fate.FILTERED, watermark)
        rules = self.rules
        window = rules.window.assign(arrival.event_time)
        verdict = judge(window.end, watermark, rules.allowed_lateness)
        fate = fate_of(verdict, rules.late, rules.too_late)
        place = (window, tuple(arrival.payload.get(column) for column in rules.by))
        if fate is Fate.ON_TIME:
            self.on_time.setdefault(place, []).append(arrival)
            self.waiting[place] = None
        elif fate is Fate.LATE_ACCEPTED:
            self.late.setdefault(place, []).append(arrival)
            self.touched[place] = None
        return Judged(batch, position, arrival, fate, watermark, window, verdict)

    def publish(self, batch: int, watermark: int) -> Iterator[Published]:
        """First the windows that the watermark has passed, then those that late events touched."""
        for place in _by_window(self.waiting):
            if place[0].end <= watermark:
                del self.waiting[place]
                yield Published(batch, self._pane(place, Timing.ON_TIME))
        for place in _by_window(self.touched):
            last = self.last.get(place)
            if last is not None and self.rules.late is LatePolicy.RETRACT:
                yield Published(batch, _retraction(last))
            yield Published(batch, self._pane(place, Timing.LATE))
        self.touched.clear()

    def _pane(self, place: Place, timing: Timing) -> Pane:
        (start, end), key = place
        events = [*self.on_time.get(place, []), *self.late.get(place, [])]
        if timing is Timing.ON_TIME:
            events = self.on_time[place]
        values = {name: _evaluate(aggregate, events) for name, aggregate in self.rules.aggregates.items()}
        sequence = self.last[place].sequence + 1 if place in self.last else 0
        self.last[place] = Pane(start, end, key, values, sequence, timing)
        return self.last[place]


def _by_window(places: Iterable[Place]) -> list[Place]:
    """By window; within one, in the order in which its keys came."""
    return sorted(places, key=lambda place: place[0])


def _retraction(last: Pane) -> Pane:
    return Pane(
        last.window_start, last.window_end, last.key, last.values, last.sequence, Timing.LATE, Op.RETRACT
    )


def _evaluate(aggregate: Aggregate, events: Sequence[Arrival]) -> Any:
    column = aggregate.column
    return aggregate.evaluate([None if column is None else event.payload.get(column) for event in events])


def _entries(
    batch: int, output: str, arrivals: Sequence[Arrival], judged: Sequence[Judged], measures: Sequence[str]
) -> Iterator[Entry]:
    """Both sides of the ledger, each counted on its own: what was read, and what became of it."""
    for unit in (EVENTS, ASSIGNMENTS, *measures):
        received = _sum(_worth(arrival, unit) for arrival in arrivals)
        fates = {
            fate: _sum(_worth(event.arrival, unit) for event in judged if event.fate is fate) for fate in Fate
        }
        yield Entry(batch, output, unit, received, fates)


def _worth(arrival: Arrival, unit: str) -> Decimal:
    # A tumbling window gives an event one assignment; an event without a window counts as one too.
    return Decimal(1) if unit in (EVENTS, ASSIGNMENTS) else Decimal(arrival.payload.get(unit) or 0)


def _sum(amounts: Iterable[Decimal]) -> Decimal:
    with localcontext(prec=100):  # the 28 digits Python starts with are fewer than a decimal(38) has
        return sum(amounts, Decimal(0))
