"""What became of each event, worked out again from the log and the timeline. No Spark.

A window that an event's own time decides needs the watermark of the event's arrival and nothing more.
With sessions it depends on what came before: events are taken one at a time, in the order in which the
engine took them. The rules are those of `model/verdicts` and `model/sessions`, under the policy that was
in force in the event's batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from latecomer.config.outputs import Output
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate, Verdict, fate_of, judge
from latecomer.model.windows import FIRST_MOMENT, Session, Window
from latecomer.windowing.session_judge import session_of

ACCEPTED = (Fate.ON_TIME, Fate.LATE_ACCEPTED)
Periods = Sequence[tuple[int, Output]]
"""An output under each policy it has had, and the batch since which that was in force."""
LeavesOut = Callable[["Event", int], Fate | None]
"""The fate of an event that an output leaves out by the rules of a batch: filtered, or failed. None where it keeps the
event, or where that is not known."""
Predicate = Callable[[Mapping[str, Any]], bool | None]


@dataclass(frozen=True)
class Event:
    """An event as it was logged, and the watermark that it met. Times are microseconds."""

    event_time: int
    arrival_time: int
    batch: int
    tick: int
    watermark: int = BEGIN_OF_TIME
    partition: str | None = None
    file: str | None = None
    position: int | None = None
    event_id: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    repeated: bool = False
    """Whether it is a repeated delivery: an event with its id and event time was in the log before."""
    first_arrival: int | None = None
    """When it first came, as a dead letter; None where it never was one."""
    failed: frozenset[str] = frozenset()
    """The derived columns that cannot be computed for it."""

    @property
    def place(self) -> tuple[int, str | None, int | None]:
        """Where it was read: no two events share it."""
        return self.batch, self.file, self.position

    @property
    def order(self) -> tuple[int, int, int, str, int]:
        """Events are taken in this order."""
        return self.batch, self.tick, self.arrival_time, self.file or "", self.position or 0

    @property
    def behind(self) -> int | None:
        """How far the watermark was past the event when it came; None where it was not."""
        late_by = self.watermark - self.event_time
        return late_by if self.watermark != BEGIN_OF_TIME and late_by > 0 else None


@dataclass(frozen=True)
class Judged:
    """An event and what became of it.

    `window` is the one by which it was judged; a session as it was then. The fate is None where only Spark can tell it.
    """

    event: Event
    fate: Fate | None
    window: Window | None = None
    verdict: Verdict | None = None
    reason: str | None = None
    unfiltered: Fate | None = None
    """The fate that lateness alone would have given an event that was left out."""

    @property
    def left_out(self) -> bool:
        """Whether lateness did not count: `where` excluded it, or it could not be computed."""
        return self.fate in (Fate.FILTERED, Fate.FAILED)

    @property
    def by_lateness(self) -> Fate | None:
        """Its fate as far as lateness decides."""
        return self.unfiltered if self.left_out else self.fate

    @property
    def accepted(self) -> bool:
        """Whether it may be in a pane, as far as lateness decides."""
        return self.by_lateness is None or self.by_lateness in ACCEPTED

    @property
    def past_end(self) -> int | None:
        """How far the watermark was past its window's end when it came; None where it was not."""
        if self.window is None or self.event.watermark == BEGIN_OF_TIME:
            return None
        past = self.event.watermark - self.window.end
        return past if past >= 0 else None


def in_force(periods: Periods, batch: int) -> Output:
    """The output as it was when a batch ran."""
    begun = [output for since, output in periods if since <= batch]
    return begun[-1] if begun else periods[0][1]


def judged_for(
    window: Window, events: Iterable[Event], periods: Periods, leaves_out: LeavesOut | None
) -> list[Judged]:
    """The events of one window, each judged by its end."""
    return [
        _judged(event, window, periods, leaves_out) for event in sorted(events, key=lambda each: each.order)
    ]


def judged_sessions(events: Iterable[Event], periods: Periods, leaves_out: LeavesOut | None) -> list[Judged]:
    """The events of one key, each judged by the sessions that existed when it came.

    As `model.sessions.SessionBook`, which keeps more of a session than its start and end.
    """
    sessions: list[Window] = []
    judged = []
    for event in sorted(events, key=lambda each: each.order):
        rules = in_force(periods, event.batch)
        if (left_out := _left_out(event, leaves_out)) is not None:
            judged.append(Judged(event, left_out))
            continue
        window = session_of(rules)
        span = window.span(event.event_time)
        touched = sorted(each for each in sessions if window.meet(each, span))
        # To a final session nothing can be added any more.
        final = [each for each in touched if event.watermark >= each.end + rules.settles_after]
        joined = Window(
            min(each.start for each in (span, *touched)), max(each.end for each in (span, *touched))
        )
        one = _judged(event, final[0] if final else joined, periods, None)
        if not final and one.fate in ACCEPTED:
            sessions = [*(each for each in sessions if each not in touched), joined]
        judged.append(one)
    return judged


def connected(events: Sequence[Event], around: Window, window: Session) -> Window:
    """The span of time that could matter for a session: all that touches it, directly or through others. What is
    beyond changes no verdict within."""
    low, high = FIRST_MOMENT, FIRST_MOMENT
    for start, end in sorted([around, *(window.span(event.event_time) for event in events)]):
        if start > high or (start == high and not window.joins):
            if low <= around.start < high:
                break
            low, high = start, end
        high = max(high, end)
    return Window(low, high)


def _judged(event: Event, window: Window, periods: Periods, leaves_out: LeavesOut | None) -> Judged:
    rules = in_force(periods, event.batch)
    verdict = judge(window.end, event.watermark, rules.allowed_lateness)
    fate = fate_of(verdict, rules.late, rules.too_late)
    if (left_out := _left_out(event, leaves_out)) is not None:
        return Judged(event, left_out, window, unfiltered=fate)
    return Judged(event, fate, window, verdict)


def _left_out(event: Event, leaves_out: LeavesOut | None) -> Fate | None:
    return None if leaves_out is None else leaves_out(event, event.batch)
