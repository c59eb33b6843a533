"""What happens to the sessions of a key in the course of a batch, where triggers fire within it.

Events are taken one after the other, and between them time passes: sessions grow, are joined, close, and publish.
This module deals with times and counts only. What each pane holds is described by *nodes*: the rows that are new in it,
and the nodes of the panes that it has grown from. `session_within.py` merges them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, TypeAlias

from latecomer.config.outputs import Output
from latecomer.model.panes import Accumulation, Timing
from latecomer.model.triggers import AfterFirst, AllOf, AnyOf, Count, Every, Rule, Until, When, per_firing
from latecomer.model.verdicts import END_OF_TIME
from latecomer.windowing.firing.clocks import Clocks, by_clock, by_watermark
from latecomer.windowing.session_judge import KeySessions, session_of

Point: TypeAlias = tuple[int, int]
"""A moment of a batch: where the arrival clock and the watermark stand."""
AT_ONCE: Point = (-1 << 63, -1 << 63)
NEVER: Point = (1 << 63, 1 << 63)


class Shows(Enum):
    """Which events of its session a pane or a state holds."""

    ALL = "all"
    NEW = "new"
    NOTHING = "nothing"


@dataclass(slots=True)
class Since:
    """What rules need to know about some events of a session."""

    count: int = 0
    clock: int = 0
    """The arrival clock at the first of them."""
    mark: int = 0
    """The watermark that it met."""
    holds: tuple[int, ...] = ()
    """For each predicate of the trigger, for how many of them it is true."""

    def add(self, count: int, clock: int, mark: int, holds: tuple[int, ...]) -> None:
        """Add other events."""
        if not self.count:
            self.count, self.clock, self.mark, self.holds = count, clock, mark, holds
        elif count:
            self.count += count
            if clock < self.clock:
                self.clock = clock
            if mark < self.mark:
                self.mark = mark
            if holds:
                self.holds = tuple(map(int.__add__, self.holds, holds))

    def join(self, other: Since) -> None:
        """Add the events of another session."""
        self.add(other.count, other.clock, other.mark, other.holds)


Due: TypeAlias = Callable[[Since, int], Point]
"""When a rule fires, by some events of a session and the session's start."""


Event: TypeAlias = tuple[int, int, int, int, int, int, int, int, tuple[int, ...]]
"""What enters a session: one event, or several whose order does not matter. Its row, its span, the arrival clock and
the watermark that it met, how many events it is, how many of them on time and how many late, and for how many of them
each predicate of the trigger is true."""


class PaneKey(NamedTuple):
    """What identifies a pane of a key."""

    start: int
    end: int
    sequence: int


@dataclass(slots=True)
class SessionCourse:
    """A session in the course of a batch."""

    start: int
    end: int
    at: Point
    """Everything that was due up to this point has been published."""
    since: Since = field(default_factory=Since)
    """The events that no pane has published."""
    whole: Since = field(default_factory=Since)
    """All of its events."""
    unsettled: int = 0
    """On-time events that no pane has published since it closed."""
    waiting: int = 0
    """Late events that no pane has published."""
    closed: bool = False
    over: bool = False
    """Its early trigger has ended."""
    due: Point = AT_ONCE
    """When something happens next, if no event comes and the session does not close before."""
    rows: list[int] = field(default_factory=list)
    """The rows that no node holds."""
    nodes: list[int] = field(default_factory=list)
    standing: list[int] = field(default_factory=list)
    """The panes that stand for it, or for the sessions that became part of it; ascending by sequence."""

    def join(self, other: SessionCourse) -> None:
        """Make another session part of this one."""
        self.since.join(other.since)
        self.whole.join(other.whole)
        self.unsettled += other.unsettled
        self.waiting += other.waiting
        self.over |= other.over
        self.rows += other.rows
        self.nodes += other.nodes
        self.standing += other.standing


class ShownPane(NamedTuple):
    """A session as it is published, or kept."""

    start: int
    end: int
    since: Since | None
    """The events that no pane has published; None where all are."""
    whole: Since
    unsettled: int
    waiting: int
    over: bool
    node: int
    is_new: bool
    """Whether no pane or state has shown the rows of this node before."""
    shows: Shows


class FiredPane(NamedTuple):
    """A pane."""

    shown: ShownPane
    sequence: int
    timing: Timing
    is_last: bool
    at: Point
    closes: bool
    """Whether it fired because its session closed."""
    back: Sequence[int]
    """The panes that it takes back."""


class Courses:
    """What the sessions of a bucket's keys publish in a batch."""

    def __init__(self, output: Output, clocks: Clocks, panes: Sequence[PaneKey]) -> None:
        self.output, self.clocks = output, clocks
        self.panes = list(panes)
        """Those that stood before, then those that were fired."""
        self.fired: list[FiredPane] = []
        self.own: list[list[int]] = []
        """The rows of each node that are new in it."""
        self.children: list[list[int]] = []
        """The nodes that each has grown from."""
        self._marks, self._ats = clocks.marks.tolist(), clocks.ats.tolist()
        early, late = output.trigger.early, output.trigger.late
        self._until = self._when(early.until) if isinstance(early, Until) else None
        repeat = early.repeat if isinstance(early, Until) else early
        self._early = self._when(repeat) if per_firing(repeat) else None
        self._late = self._when(late) if per_firing(late) else None
        self._retracts = output.accumulation is Accumulation.RETRACTING
        self._discards = output.accumulation is Accumulation.DISCARDING

    def node(self, rows: list[int], children: list[int]) -> int:
        """A new node."""
        self.own.append(rows)
        self.children.append(children)
        return len(self.own) - 1

    def run(self, sessions: Sequence[SessionCourse], events: Iterable[Event]) -> list[SessionCourse]:
        """The sessions of a key, ascending, and its events in order of arrival → its sessions after the batch."""
        standing = KeySessions(session_of(self.output))
        standing.starts, standing.ends = [each.start for each in sessions], [each.end for each in sessions]
        running = list(sessions)
        for each in running:
            each.due = self._next(each)
        for row, start, end, clock, mark, count, unsettled, waiting, holds in events:
            at = (clock, mark)
            low, high = standing.met(start, end)
            for each in running[low:high]:
                if each.end <= mark or each.due[0] <= clock:
                    self._advance(each, at)
            if low < high:
                session = running[low]
                for each in running[low + 1 : high]:
                    session.join(each)
                del running[low + 1 : high]
            else:
                session = SessionCourse(start, end, at)
                running.insert(low, session)
            standing.put(start, end, low, high)
            session.start, session.end = standing.starts[low], standing.ends[low]
            session.since.add(count, clock, mark, holds)
            session.whole.add(count, clock, mark, holds)
            session.unsettled += unsettled
            session.waiting += waiting
            session.rows.append(row)
            session.closed = session.end <= mark
            session.at = max(session.at, at)
            session.due = self._next(session)
            if session.due[0] <= clock:
                self._advance(session, at)
        for each in running:
            self._advance(each, (self.clocks.arrival, self.clocks.now))
        return running

    # Time passes

    def _advance(self, session: SessionCourse, upto: Point) -> None:
        """Publish what is due up to a point."""
        clock, mark = upto
        while True:
            due = session.due
            if due[0] <= clock and due[1] <= mark:
                session.at = due
                if session.closed:
                    self._fire(session, Timing.LATE)
                else:
                    ends = self._until is not None and self._until(session.whole, session.start) <= due
                    if session.since.count:
                        self._fire(session, Timing.EARLY)
                    session.over |= ends
            elif not session.closed and session.end <= mark:
                session.at, session.closed = max(session.at, self._risen(session.end)), True
                self._close(session)
            else:
                return
            session.due = self._next(session)

    def _next(self, session: SessionCourse) -> Point:
        """When its trigger fires or ends next, if no event comes; NEVER where the session closes before."""
        since = session.since
        if session.closed:
            if not session.waiting or self._late is None:
                return NEVER
            over = self._risen(self._settled_at(session))
            return max(session.at, min(self._late(since, session.start), over))
        if self._early is None or session.over:
            return NEVER
        due = self._early(since, session.start) if since.count else NEVER
        if self._until is not None:
            due = min(due, self._until(session.whole, session.start))
        due = max(session.at, due)
        return due if due[1] < session.end else NEVER

    def _close(self, session: SessionCourse) -> None:
        """A session closes. If its last early pane has published everything, it may close without a pane."""
        published = self.output.closes_silently and session.since.count == session.waiting
        if session.unsettled and not published:
            is_update = session.whole.count > session.unsettled
            self._fire(session, Timing.LATE if is_update else Timing.ON_TIME, closes=True)
        session.unsettled = 0

    def _fire(self, session: SessionCourse, timing: Timing, closes: bool = False) -> None:
        stands = self._stands(session)
        sequence = self.panes[session.standing[-1]].sequence + 1 if stands else 0
        back = [] if stands and not self._retracts else list(session.standing)
        is_last = timing is not Timing.EARLY and session.at[1] >= self._settled_at(session)
        session.since.count = session.waiting = 0
        shown = self.show(session)
        self.fired.append(FiredPane(shown, sequence, timing, is_last, session.at, closes, back))
        if not (self._discards and stands):
            session.standing = []
        session.standing.append(len(self.panes))
        self.panes.append(PaneKey(session.start, session.end, sequence))

    def _settled_at(self, session: SessionCourse) -> int:
        return min(session.end + self.output.settles_after, END_OF_TIME)

    def _stands(self, session: SessionCourse) -> bool:
        """Whether panes stand for the window that a session has now: then no panes stand for another one."""
        if not session.standing:
            return False
        pane = self.panes[session.standing[-1]]
        return pane.start == session.start and pane.end == session.end

    def show(self, session: SessionCourse) -> ShownPane:
        """A session as it is now. With `discarding` it shows only what is new, unless its window has changed."""
        is_new = bool(session.rows)
        if is_new:
            session.nodes, session.rows = [self.node(session.rows, session.nodes)], []
        (node,) = session.nodes
        shows = Shows.ALL
        if self._discards and self._stands(session):
            shows = Shows.NEW if is_new else Shows.NOTHING
        since = session.since if session.since.count else None
        whole = session.whole
        return ShownPane(
            session.start,
            session.end,
            since,
            Since(whole.count, whole.clock, whole.mark, whole.holds),
            session.unsettled,
            session.waiting,
            session.over,
            node,
            is_new,
            shows,
        )

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
            case AfterFirst() | Every(clock="arrival"):
                return lambda since, _: self._reached(by_clock(rule, since.clock))
            case Every(every=every):
                return lambda since, start: self._risen(by_watermark(every, start, since.mark))
        raise TypeError(f"no rule: {rule!r}")

    def _reached(self, clock: int) -> Point:
        """When the arrival clock reaches a moment. It does so before the watermark rises at that moment."""
        if clock > self.clocks.arrival:
            return NEVER
        risen = bisect_left(self._ats, clock)
        return clock, self._marks[risen - 1] if risen else self.clocks.before

    def _risen(self, mark: int) -> Point:
        """When the watermark reaches `mark`."""
        if mark <= self.clocks.before:
            return AT_ONCE
        nth = bisect_left(self._marks, mark)
        return (self._ats[nth], self._marks[nth]) if nth < len(self._marks) else NEVER
