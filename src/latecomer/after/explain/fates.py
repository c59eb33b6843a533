"""What became of each event, worked out again from the log and the timeline. No Spark.

A window that an event's own time decides needs the watermark of the event's arrival and nothing more.
With sessions it depends on what came before: events are taken one at a time, in the order in which the
engine took them. The rules are those of `model/verdicts` and of the engine's sessions, under the policy that was
in force in the event's batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latecomer.config.outputs import Output
from latecomer.model.durations import format_duration, shown_duration
from latecomer.model.expressions import expression
from latecomer.model.simple_predicates import Predicate, needs_spark, predicate
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate, OnError, Verdict, fate_of, judge
from latecomer.model.windows import Session, Window
from latecomer.store.layout import PaneLayout
from latecomer.store.store import Store
from latecomer.windowing.fate_counts import Periods
from latecomer.windowing.session_judge import KeySessions, bound_of, session_of

ACCEPTED = (Fate.ON_TIME, Fate.LATE_ACCEPTED)
NEWEST = 2**62
"""A batch after all others: its rules are those in force now."""
UNFILTERED, FILTERED, NEEDS_SPARK = "none", "applied", "needs_spark"
"""Whether there was a filter, and whether it could be evaluated."""


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
class JudgedEvent:
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


class Policies:
    """An output under each policy it has had, and which events each of these keeps.

    A rebuild may change what an output's numbers mean. Each `where` is evaluated exactly, with the predicates of the
    testing kit, or not at all.
    """

    def __init__(self, periods: Periods, types: Mapping[str, str], filed: Collection[Any] = ()) -> None:
        self.periods = periods
        self.types = types
        self.filed = filed
        """The places of events that failed when they came: derived columns are known only as they are now."""
        self._keeps: dict[str, Predicate | None] = {}
        """Each `where` that was needed; None where only Spark can evaluate it."""
        self._kept: dict[tuple[str, Any], bool] = {}

    def at(self, batch: int) -> Output:
        """The output as it was when a batch ran."""
        return in_force(self.periods, batch)

    def leaves_out(self, event: Event, batch: int) -> Fate | None:
        """The fate of an event that the rules of a batch leave out: filtered, or failed. None where they keep it, or
        where only Spark can tell."""
        rules = self.at(batch)
        if rules.columns != self.periods[-1][1].columns and event.place in self.filed:
            return Fate.FAILED
        failed = event.failed if rules.on_error is not OnError.NULL else frozenset()
        if failed.intersection(rules.columns_in_where):
            return Fate.FAILED
        if self._holds(rules.where, event) is False:
            return Fate.FILTERED
        return Fate.FAILED if failed.intersection(rules.columns_in_numbers) else None

    def passes(self, event: Event, batch: int) -> bool | None:
        """Whether the rules of a batch keep an event; None where only Spark can tell."""
        if self.leaves_out(event, batch) is not None:
            return False
        return self._holds(self.at(batch).where, event)

    def _holds(self, where: str | None, event: Event) -> bool | None:
        if where is None:
            return True
        if where not in self._keeps:
            unknown = needs_spark(where, self.types)
            self._keeps[where] = None if unknown else predicate(where, self.types)
        keeps, place = self._keeps[where], (where, event.place)
        if keeps is None:
            return None
        # It is needed for each pane and event.
        if place not in self._kept:
            self._kept[place] = keeps(event.payload) is True
        return self._kept[place]

    @property
    def has_where(self) -> bool:
        """Whether the output has ever had a `where`."""
        return any(output.where is not None for _, output in self.periods)

    @property
    def unknown(self) -> list[str]:
        """Each `where` that was needed and that only Spark can evaluate."""
        return [where for where, keeps in self._keeps.items() if keeps is None]

    @property
    def state(self) -> str:
        """Whether every `where` that was needed could be evaluated."""
        return NEEDS_SPARK if self.unknown else FILTERED if self._keeps else UNFILTERED


def judged_for(window: Window, events: Iterable[Event], policies: Policies) -> list[JudgedEvent]:
    """The events of one window, each judged by its end."""
    return [
        _judged(event, window, policies.at(event.batch), policies.leaves_out(event, event.batch))
        for event in sorted(events, key=lambda each: each.order)
    ]


def judged_sessions(events: Iterable[Event], policies: Policies) -> list[JudgedEvent]:
    """The events of one key, each judged by the sessions that existed when it came."""
    sessions = KeySessions(session_of(policies.at(NEWEST)))
    judged = []
    for event in sorted(events, key=lambda each: each.order):
        if (left_out := policies.leaves_out(event, event.batch)) is not None:
            judged.append(JudgedEvent(event, left_out))
            continue
        rules = policies.at(event.batch)
        (bound,) = bound_of(rules, np.array([event.watermark], np.int64)).tolist()
        window = sessions.judge(*sessions.window.span(event.event_time), bound)
        judged.append(_judged(event, Window(*window), rules, None))
    return judged


def _judged(event: Event, window: Window, rules: Output, left_out: Fate | None) -> JudgedEvent:
    verdict = judge(window.end, event.watermark, rules.allowed_lateness)
    fate = fate_of(verdict, rules.late, rules.too_late)
    if left_out is not None:
        return JudgedEvent(event, left_out, window, unfiltered=fate)
    return JudgedEvent(event, fate, window, verdict)


def fates_in_windows(
    store: Store, output: str, events: Sequence[Event]
) -> tuple[list[list[Fate | None]], bool]:
    """The fates of each event, one for each of its windows, and whether a `where` needs Spark: then it has excluded no
    event. Not for sessions, where an event's fate depends on others."""
    rules = store.pipeline.outputs[output]
    windows = rules.window
    assert not isinstance(windows, Session)  # noqa: S101
    derived = {
        name for name, each in rules.columns.items() if expression(each.sql, store.layout.types).value is None
    }
    types = {
        name: kind for name, kind in PaneLayout(rules, store.layout).types.items() if name not in derived
    }
    policies = Policies(store.policies(output) or [(0, rules)], types)
    fates = [
        [
            judged.fate
            for window in windows.assign_all(event.event_time)
            for judged in judged_for(window, [event], policies)
        ]
        for event in events
    ]
    return fates, bool(policies.unknown)


def came_before(duplicate: Event, logged: Iterable[Event], was_known: Callable[[Event], bool]) -> str:
    """Why an event is a duplicate: the last delivery before it. Once an id is forgotten, it may be logged again, even
    as an event of another window: then no delivery among these was known when the duplicate came."""
    before = [
        each
        for each in logged
        if each.event_id == duplicate.event_id
        and each.batch <= duplicate.batch
        and each is not duplicate
        and was_known(each)
    ]
    if not before:
        return "its id had come before"
    last = max(before, key=lambda each: each.order)
    return f"its id had come before: batch {last.batch}, {last.file}, position {last.position}"


def reason_of(judged: JudgedEvent, rules: Output) -> str:
    """Why an event is in no pane."""
    if judged.fate is Fate.FILTERED:
        return "where excludes it"
    if judged.fate is Fate.FAILED:
        used = [name for name in rules.columns if name in judged.event.failed] or list(rules.columns)
        return f"{' or '.join(used)} cannot be computed for it"
    if judged.fate in ACCEPTED:
        return "where excludes it, since a rebuild changed it"
    if judged.verdict is Verdict.LATE:
        return f"late by {shown_duration(judged.past_end or 0)} for its window, and late is {rules.late}"
    if judged.verdict is Verdict.TOO_LATE:
        past, lateness = shown_duration(judged.past_end or 0), format_duration(rules.allowed_lateness)
        return f"late by {past} for its window: allowed are {lateness}, and too_late is {rules.too_late}"
    return "the side output has it"


def concerns(judged: JudgedEvent, window: Window) -> bool:
    """Whether an event near a session is part of it, or was rejected by it."""
    if judged.fate in ACCEPTED or judged.window is None:
        return window.start <= judged.event.event_time < window.end
    return judged.window.overlaps(window)


def as_set_aside(judged: JudgedEvent, aside: bool) -> JudgedEvent:
    """An event judged before its filter, corrected by whether the side output has it."""
    if aside:
        return replace(judged, fate=Fate.SIDE_OUTPUT)
    if judged.fate is Fate.SIDE_OUTPUT:
        return replace(judged, fate=Fate.FILTERED, unfiltered=Fate.SIDE_OUTPUT)
    return judged
