"""The oracle: the semantics event by event, in plain Python, slow and obviously right.

The engine works with ticks, partial aggregates and tables; the oracle works with lists and loops. The two share the
definitions (windows, verdicts, aggregates, panes). They share no code that computes a watermark or decides when a pane
fires. Every test of the semantics runs both and compares. The watermark is in `clock.py`, windows and panes are in
`books.py`, sessions in `sessions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import groupby
from operator import attrgetter

from latecomer.model.ledger import ASSIGNMENTS, EVENTS, Entry, difference, total
from latecomer.model.oracle.arrivals import (
    Arrival,
    Changed,
    Drain,
    Heartbeat,
    Joined,
    JudgedArrival,
    Key,
    OraclePane,
    OutputRules,
    Partitions,
    Repaired,
    Watermark,
)
from latecomer.model.oracle.books import BatchMoment, Book, WindowBook
from latecomer.model.oracle.clock import Marks, OracleClock
from latecomer.model.oracle.sessions import SessionBook
from latecomer.model.panes import Pane
from latecomer.model.simple_predicates import Predicate
from latecomer.model.strategies import Strategy
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, WITHOUT_WINDOW, Fate
from latecomer.model.windows import AnyWindow, Session, Window


@dataclass
class Interpretation:
    """The complete result for an input: by output, in order of occurrence.

    `watermarks` holds the watermark in force at the end of each batch. A heartbeat at which nothing
    fires is no batch. A heartbeat and a drain have no ledger entries: they receive nothing.
    """

    judged: dict[str, list[JudgedArrival]]
    published: dict[str, list[OraclePane]]
    open_windows: dict[str, list[tuple[Window, Key]]] = field(default_factory=dict)
    ledger: list[Entry] = field(default_factory=list)
    watermarks: list[int] = field(default_factory=list)
    numbers: list[int | None] = field(default_factory=list)
    """The batch that each item of the input became; None for a heartbeat at which nothing fired."""

    def with_fate(self, output: str, fate: Fate) -> list[JudgedArrival]:
        return [event for event in self.judged[output] if event.fate is fate]

    def side_output(self, output: str) -> list[JudgedArrival]:
        return self.with_fate(output, Fate.SIDE_OUTPUT)

    def panes(self, output: str) -> list[Pane]:
        return [published.pane for published in self.published[output]]


def interpret(
    batches: Sequence[
        Sequence[Arrival] | Heartbeat | Drain | Watermark | Changed | Joined | Partitions | Repaired
    ],
    strategy: Strategy,
    outputs: Mapping[str, OutputRules],
    *,
    where: Mapping[str, Predicate] | None = None,
    measures: Sequence[str] = (),
    drain: bool = False,
    reach: int | None = None,
    marks: Marks | None = None,
    when: Mapping[str, Predicate] | None = None,
) -> Interpretation:
    """Judge every arrival, batch by batch, and publish the due panes after each.

    `where` holds an output's predicate on the payload; events for which it is not true are filtered. `marks` says
    which events are marks, where a predicate punctuates the watermark. `when` holds the predicates of triggers, by
    their text. An event's id is remembered up to `reach` behind the watermark of the batch before; None means for
    ever. An output that joins later is published as if it had always existed, but no heartbeat fires only for it
    before it joins.
    """
    predicates = dict(where or {})
    if unknown := predicates.keys() - outputs.keys():
        raise ValueError(f"where names no output: {', '.join(sorted(unknown))}")
    run = _Run(
        OracleClock(strategy, marks),
        {name: _book(rules, predicates.get(name), when or {}) for name, rules in outputs.items()},
    )
    run.absent = {batch.output for batch in batches if isinstance(batch, Joined)}
    for batch in [*batches, Drain()] if drain else batches:
        number = run.number
        match batch:
            case Heartbeat():
                run.heartbeat(batch.at)
            case Drain():
                run.drain()
            case Watermark():
                run.put(batch.to)
            case Changed():
                run.clock.follow(batch.strategy)
            case Partitions():
                run.clock.name(batch.named, batch.sources)
            case Joined():
                run.absent.remove(batch.output)
            case Repaired():
                run.repair(batch.letters, measures, reach)
            case _:
                run.read(batch, measures, reach)
        run.outcome.numbers.append(number if run.number > number else None)
    run.outcome.open_windows = {name: book.open_windows() for name, book in run.books.items()}
    return run.outcome


def _book(rules: OutputRules, where: Predicate | None, when: Mapping[str, Predicate]) -> Book:
    kind = SessionBook if rules.window.merges else WindowBook
    return kind(rules, where, {sql: when[sql] for sql in rules.trigger.whens})


class _Run:
    """Processes the batches in order, and keeps the state between them."""

    def __init__(self, clock: OracleClock, books: Mapping[str, Book]) -> None:
        self.clock = clock
        self.books = books
        self.outcome = Interpretation({name: [] for name in books}, {name: [] for name in books})
        self.remembered: list[Arrival] = []
        self.positions = 0
        self.before = (BEGIN_OF_TIME, BEGIN_OF_TIME)
        self.steps: list[int] = []
        self.stepped = BEGIN_OF_TIME
        self.absent: set[str] = set()

    @property
    def number(self) -> int:
        return len(self.outcome.watermarks)

    def read(self, batch: Sequence[Arrival], measures: Sequence[str], reach: int | None) -> None:
        self._forget(reach)
        judged: dict[str, list[JudgedArrival]] = {name: [] for name in self.books}
        for position, arrival in _as_they_arrived(batch, self.positions):
            unseen = _fate_without_window(arrival, self.remembered)
            earlier = self.clock.watermark
            watermark = earlier if unseen else self.clock.in_force_for(arrival)
            self.steps += [watermark, self.clock.watermark]
            if self.before[1] == BEGIN_OF_TIME:
                # The very first tick is where the arrival clock starts from.
                self.before = (self.before[0], self.clock.at)
            # Time passes, then the watermark rises, then the event is accepted; it may raise the watermark itself.
            self.step(earlier)
            self.step(watermark)
            for name, book in self.books.items():
                if unseen:
                    judged[name].append(JudgedArrival(self.number, position, arrival, unseen))
                else:
                    judged[name] += book.take(self.number, position, arrival, watermark, self.clock.at)
            self.step(watermark)
            self.step(self.clock.watermark)
        self.clock.batch_ends()
        self.positions += len(batch)
        for name, book in self.books.items():
            self.outcome.judged[name] += judged[name]
            self.outcome.ledger += _entries(
                self.number, name, batch, judged[name], measures, book.rules.window
            )
        self.publish(self.clock.watermark)

    def repair(
        self, letters: Sequence[tuple[Arrival, Arrival]], measures: Sequence[str], reach: int | None
    ) -> None:
        """Repaired dead letters: events that are judged by the current watermark and do not move it."""
        self._forget(reach)
        moved = [(was, now) for was, now in letters if not now.dead]
        judged: dict[str, list[JudgedArrival]] = {name: [] for name in self.books}
        for position, (_, arrival) in enumerate(moved, self.positions):
            unseen = _fate_without_window(arrival, self.remembered)
            for name, book in self.books.items():
                if unseen:
                    judged[name].append(JudgedArrival(self.number, position, arrival, unseen))
                else:
                    mark = self.clock.watermark
                    judged[name] += book.take(self.number, position, arrival, mark, self.clock.at)
            self.step(self.clock.watermark)
        self.positions += len(moved)
        was, now = [each for each, _ in moved], [each for _, each in moved]
        for name, book in self.books.items():
            self.outcome.judged[name] += judged[name]
            entries = _entries(self.number, name, now, judged[name], measures, book.rules.window)
            self.outcome.ledger += [_taken_from(was, entry) for entry in entries] if moved else []
        self.publish(self.clock.watermark)

    def _forget(self, reach: int | None) -> None:
        """Forget the ids of events that are more than `reach` behind."""
        if reach is not None:
            horizon = min(self.clock.watermark, self.clock.newest_event_time) - reach
            self.remembered = [event for event in self.remembered if event.event_time >= horizon]

    def heartbeat(self, at: int) -> None:
        """Time has passed without data. Where nothing fires, the clock stays as it was, but partitions that were named
        before have joined."""
        now = self.clock
        now.batch_ends()
        self.clock = deepcopy(now)
        self.clock.heartbeat(at)
        present = [book for name, book in self.books.items() if name not in self.absent]
        passing = [(book, now.watermark) for book in present if book.fires_within]
        reached = [*passing, *((book, self.clock.watermark) for book in present)]
        if any(book.fires(self._moment(book, mark)) for book, mark in reached):
            self.step(now.watermark)
            self.publish(self.clock.watermark)
        else:
            self.clock = now

    def drain(self) -> None:
        """The input has ended. A second drain changes nothing."""
        if self.clock.watermark != END_OF_TIME:
            self.clock.drain()
            self.publish(END_OF_TIME)

    def put(self, watermark: int) -> None:
        """Set the watermark, for a test."""
        self.clock.put(watermark)
        self.publish(self.clock.watermark)

    def publish(self, watermark: int) -> None:
        """End the batch: every due pane fires."""
        for name, book in self.books.items():
            self.outcome.published[name] += book.publish(self._moment(book, watermark))
        self.outcome.watermarks.append(watermark)
        self.steps = []
        self.before = (watermark, self.clock.at)
        self.stepped = watermark

    def step(self, watermark: int) -> None:
        """A moment within a batch: outputs that fire within batches publish their due panes."""
        for name, book in self.books.items():
            if book.fires_within:
                moment = replace(self._moment(book, watermark), ends_batch=False)
                self.outcome.published[name] += book.publish(moment)
        self.stepped = watermark

    def _moment(self, book: Book, watermark: int) -> BatchMoment:
        stepped = self.stepped if book.fires_within else None
        return BatchMoment(
            self.number, watermark, self.clock.at, *self.before, tuple(self.steps), stepped=stepped
        )


def _as_they_arrived(batch: Sequence[Arrival], start: int) -> list[tuple[int, Arrival]]:
    """The batch in arrival order, and in reading order where arrival times are equal."""
    return sorted(enumerate(batch, start), key=lambda read: (read[1].arrival_time, read[0]))


def _fate_without_window(arrival: Arrival, remembered: list[Arrival]) -> Fate | None:
    """The fate of a row that reaches no output; None for all others, whose ids are remembered."""
    if arrival.dead:
        return Fate.DEAD_LETTER
    if arrival.event_id is None:
        return None
    if any(event.event_id == arrival.event_id for event in remembered):
        return Fate.DUPLICATE
    remembered.append(arrival)
    return None


# The ledger: both sides, each counted on its own


def _entries(
    batch: int,
    output: str,
    arrivals: Sequence[Arrival],
    judged: Sequence[JudgedArrival],
    measures: Sequence[str],
    window: AnyWindow,
) -> Iterator[Entry]:
    """The ledger entries of a batch: what was read, and the fates."""
    events = [list(group) for _, group in groupby(judged, attrgetter("position"))]
    best = [max(each, key=lambda one: one.window.end if one.window else 0) for each in events]
    for unit in (EVENTS, *measures):
        received = total(_worth(arrival, unit) for arrival in arrivals)
        fates = {
            fate: total(_worth(event.arrival, unit) for event in best if event.fate is fate) for fate in Fate
        }
        partly = sum(len({one.fate for one in each}) > 1 for each in events) if unit == EVENTS else 0
        behind = sum(event.late_at_source for event in best) if unit == EVENTS else 0
        yield Entry(batch, output, unit, received, fates, partly, behind)
    assigned = sum(_assignments(event, window) for event in best)
    counted = {fate: Decimal(sum(one.fate is fate for one in judged)) for fate in Fate}
    yield Entry(batch, output, ASSIGNMENTS, Decimal(assigned), counted)


def _taken_from(letters: Sequence[Arrival], entry: Entry) -> Entry:
    """The entry of repaired rows: they were received before as dead letters, and are subtracted there. A dead letter
    was one assignment."""
    unit = EVENTS if entry.unit == ASSIGNMENTS else entry.unit
    before = total(_worth(letter, unit) for letter in letters)
    fates = {**entry.fates, Fate.DEAD_LETTER: before.copy_negate()}
    return replace(entry, received=difference(entry.received, [before]), fates=fates)


def _assignments(event: JudgedArrival, window: AnyWindow) -> int:
    """How many windows an event belongs to; 1 for an event without a window."""
    if event.fate in WITHOUT_WINDOW or isinstance(window, Session):
        return 1
    return len(window.assign_all(event.arrival.event_time))


def _worth(arrival: Arrival, unit: str) -> Decimal:
    return Decimal(1) if unit == EVENTS else Decimal(arrival.payload.get(unit) or 0)
