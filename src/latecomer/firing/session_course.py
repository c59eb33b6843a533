"""What happens to the sessions of a key in the course of a batch, where triggers fire within it.

Events are taken one after the other, and between them time passes: sessions grow, are joined, close, and publish.
Nothing but times and counts is known here. What each pane holds is said by *nodes*: the rows that are new in it, and
the nodes of the panes that it has grown from. `session_within.py` merges them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TypeAlias

from latecomer.config.outputs import Output
from latecomer.firing.clocks import Clocks
from latecomer.model.panes import Accumulation, Timing
from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Rule, Until, When, per_firing
from latecomer.model.verdicts import END_OF_TIME
from latecomer.windowing.session_judge import KeySessions, session_of

Point: TypeAlias = tuple[int, int]
"""A moment of a batch: where the arrival clock and the watermark stand."""
AT_ONCE: Point = (-1 << 63, -1 << 63)
NEVER: Point = (1 << 63, 1 << 63)


class Shows(Enum):
    """What of its session a pane or a state holds."""

    ALL = "all"
    NEW = "new"
    NOTHING = "nothing"


@dataclass(slots=True)
class Since:
    """Some events of a session, as far as rules ask about them."""

    count: int
    clock: int
    """The arrival clock at the first of them."""
    mark: int
    """The watermark that it met."""
    holds: tuple[int, ...] = ()
    """For each predicate of the trigger, for how many of them it is true."""

    def plus(self, more: Since) -> Since:
        """These and others."""
        if not self.count or not more.count:
            return self if self.count else more
        return Since(
            self.count + more.count,
            min(self.clock, more.clock),
            min(self.mark, more.mark),
            tuple(map(int.__add__, self.holds, more.holds)),
        )


NONE = Since(0, 0, 0)
Due: TypeAlias = Callable[[Since, int], Point]
"""When a rule fires for events of a session that starts so."""


@dataclass(slots=True)
class Course:
    """A session in the course of a batch."""

    start: int
    end: int
    at: Point
    """Everything that was due until then has been published."""
    since: Since
    """The events that no pane has published."""
    whole: Since
    """All of its events."""
    unsettled: int
    """On-time events that no pane has published since it closed."""
    waiting: int
    """Late events that no pane has published."""
    closed: bool = False
    over: bool = False
    """Its early trigger has ended."""
    rows: list[int] = field(default_factory=list)
    """The rows that no node holds."""
    nodes: list[int] = field(default_factory=list)
    standing: list[int] = field(default_factory=list)
    """The panes that stand for it, or for sessions that it swallowed."""


@dataclass(slots=True)
class Shown:
    """What of a session is published, or kept."""

    session: Course
    """As it was then."""
    node: int
    is_new: bool
    """Whether nothing else has shown the rows of this node."""
    shows: Shows


@dataclass(slots=True)
class Fired:
    """A pane."""

    shown: Shown
    sequence: int
    timing: Timing
    is_last: bool
    back: list[int]
    """The panes that it takes back."""


@dataclass(slots=True)
class Event:
    """A row that enters a session: an event, or several of which the order says nothing."""

    row: int
    start: int
    end: int
    at: Point
    since: Since
    unsettled: int
    waiting: int


@dataclass(slots=True)
class Pane:
    """A pane, as far as it is known which it is."""

    start: int
    end: int
    sequence: int


class Courses:
    """The sessions of a bucket's keys: what they publish in a batch."""

    def __init__(self, output: Output, clocks: Clocks, panes: Sequence[Pane]) -> None:
        self.output, self.clocks = output, clocks
        self.panes = list(panes)
        """Those that stood before, then those that were fired."""
        self.fired: list[Fired] = []
        self.own: list[list[int]] = []
        """The rows of each node that are new in it."""
        self.children: list[list[int]] = []
        """The nodes that each has grown from."""
        self._marks = clocks.marks.tolist()
        self._ats = clocks.ats.tolist()
        early, late = output.trigger.early, output.trigger.late
        self._until = self._when(early.until) if isinstance(early, Until) else None
        self._early = (
            self._when(early.repeat if isinstance(early, Until) else early) if per_firing(early) else None
        )
        self._late = self._when(late) if per_firing(late) else None
        self._mode = output.accumulation

    def node(self, rows: list[int], children: list[int]) -> int:
        """A new node."""
        self.own.append(rows)
        self.children.append(children)
        return len(self.own) - 1

    def run(self, sessions: Sequence[Course], events: Iterable[Event]) -> list[Course]:
        """The sessions of a key, ascending, and its events in the order in which they came → its sessions after the
        batch."""
        standing = KeySessions(session_of(self.output))
        standing.starts, standing.ends = [each.start for each in sessions], [each.end for each in sessions]
        running = list(sessions)
        for event in events:
            low, high = standing.met(event.start, event.end)
            touched = running[low:high]
            for each in touched:
                self._advance(each, event.at)
            standing.put(event.start, event.end, low, high)
            session = self._joined(touched, event)
            session.start, session.end = standing.starts[low], standing.ends[low]
            session.closed = session.end <= event.at[1]
            running[low:high] = [session]
            self._advance(session, event.at)
        end = (self.clocks.arrival, self.clocks.now)
        for each in running:
            self._advance(each, end)
        return running

    def kept(self, session: Course) -> Shown:
        """A session as it is kept for the next batch."""
        return self._show(session)

    # Sessions grow

    def _joined(self, touched: Sequence[Course], event: Event) -> Course:
        """What an event makes of the sessions that it touches."""
        if not touched:
            session = Course(event.start, event.end, event.at, event.since, event.since, 0, 0)
        else:
            session = touched[0]
            for other in touched[1:]:
                session.since = session.since.plus(other.since)
                session.whole = session.whole.plus(other.whole)
                session.unsettled += other.unsettled
                session.waiting += other.waiting
                session.over |= other.over
                session.rows += other.rows
                session.nodes += other.nodes
                session.standing += other.standing
            session.since, session.whole = session.since.plus(event.since), session.whole.plus(event.since)
            session.at = max(session.at, event.at)
        session.unsettled += event.unsettled
        session.waiting += event.waiting
        session.rows.append(event.row)
        return session

    # Time passes

    def _advance(self, session: Course, upto: Point) -> None:
        """Publish what is due until then."""
        while True:
            if session.closed:
                if not session.waiting or self._late is None:
                    return
                over = self._risen(min(session.end + self.output.settles_after, END_OF_TIME))
                due = max(session.at, min(self._late(session.since, session.start), over))
                if due[0] > upto[0] or due[1] > upto[1]:
                    return
                session.at = due
                self._fire(session, Timing.LATE)
                continue
            due, ends = self._early_due(session)
            if due[1] < session.end and due[0] <= upto[0] and due[1] <= upto[1]:
                session.at = due
                if session.since.count:
                    self._fire(session, Timing.EARLY)
                session.over |= ends
                continue
            if session.end > upto[1]:
                return
            session.at, session.closed = max(session.at, self._risen(session.end)), True
            self._close(session)

    def _early_due(self, session: Course) -> tuple[Point, bool]:
        """When an open session fires next, and whether its trigger ends then."""
        if self._early is None or session.over:
            return NEVER, False
        due = self._early(session.since, session.start) if session.since.count else NEVER
        if self._until is None:
            return max(session.at, due), False
        last = self._until(session.whole, session.start)
        return max(session.at, min(due, last)), last <= max(session.at, due)

    def _close(self, session: Course) -> None:
        published = self.output.closes_silently and session.since.count == session.waiting
        if session.unsettled and not published:
            again = session.whole.count > session.unsettled
            self._fire(session, Timing.LATE if again else Timing.ON_TIME)
        session.unsettled = 0

    def _fire(self, session: Course, timing: Timing) -> None:
        same = self._stands(session)
        sequence = 1 + max((self.panes[nth].sequence for nth in session.standing), default=-1) if same else 0
        back = [] if same and self._mode is not Accumulation.RETRACTING else session.standing
        final = min(session.end + self.output.settles_after, END_OF_TIME)
        is_last = timing is not Timing.EARLY and session.at[1] >= final
        session.since, session.waiting = NONE, 0
        shown = self._show(session)
        self.fired.append(Fired(shown, sequence, timing, is_last, list(back)))
        adds_up = self._mode is Accumulation.DISCARDING and same
        session.standing = [*(session.standing if adds_up else ()), len(self.panes)]
        self.panes.append(Pane(session.start, session.end, sequence))

    def _stands(self, session: Course) -> bool:
        """Whether the panes that stand for a session are of the very window that it has now."""
        panes = (self.panes[nth] for nth in session.standing)
        return all(pane.start == session.start and pane.end == session.end for pane in panes)

    def _show(self, session: Course) -> Shown:
        """A session as it is now. One that discards shows what is new, unless its window is another than before."""
        is_new = bool(session.rows)
        if is_new:
            session.nodes, session.rows = [self.node(session.rows, session.nodes)], []
        (node,) = session.nodes
        shows = Shows.ALL
        if self._mode is Accumulation.DISCARDING and self._stands(session):
            shows = Shows.NEW if is_new else Shows.NOTHING
        return Shown(replace(session), node, is_new, shows)

    # When rules fire

    def _when(self, rule: Rule) -> Due:
        match rule:
            case AnyOf():
                some = [self._when(part) for part in rule.any]
                return lambda since, start: min(each(since, start) for each in some)
            case AllOf():
                parts = [self._when(part) for part in rule.all]
                return lambda since, start: max(each(since, start) for each in parts)
            case Count(count=count):
                return lambda since, _: AT_ONCE if since.count >= count else NEVER
            case When():
                nth = self.output.trigger.whens.index(rule.when)
                return lambda since, _: AT_ONCE if since.count and since.holds[nth] else NEVER
            case AfterFirst(after_first=after):
                return lambda since, _: self._reached(since.clock + after)
            case Every(every=every, clock="arrival"):
                return lambda since, _: self._reached((since.clock // every + 1) * every)
            case Every(every=every):
                return lambda since, start: self._risen(
                    start + (max(since.mark - start, 0) // every + 1) * every
                )
        raise TypeError(f"no rule: {rule!r}")

    def _reached(self, clock: int) -> Point:
        """When the arrival clock is here: time passes before the watermark rises."""
        if clock > self.clocks.arrival:
            return NEVER
        risen = bisect_left(self._ats, clock)
        return clock, self._marks[risen - 1] if risen else self.clocks.before

    def _risen(self, mark: int) -> Point:
        """When the watermark is here."""
        if mark <= self.clocks.before:
            return AT_ONCE
        nth = bisect_left(self._marks, mark)
        return (self._ats[nth], self._marks[nth]) if nth < len(self._marks) else NEVER
