"""Why a number is what it is: its panes, the events behind each, and the events that did not get in.

    panes, log, timeline, side output, duplicates → one Explanation

Everything is read without Spark. Every claim is checked against the tables: the events of each pane
must give its counts and sums, and the events set aside must be those of the side output. Where they are not, the
explanation says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any

from latecomer.after.explain.arrived import timeline
from latecomer.after.explain.evidence import Compute, Evidence
from latecomer.after.explain.explanation import Explanation
from latecomer.after.explain.fates import (
    ACCEPTED,
    NEEDS_SPARK,
    Event,
    JudgedEvent,
    Policies,
    as_set_aside,
    came_before,
    concerns,
    in_force,
    judged_for,
    judged_sessions,
    reason_of,
)
from latecomer.after.explain.life import LifePane, PublishedNumber, follow
from latecomer.after.explain.places import Finder, NumberPlace, grown_from
from latecomer.after.reading.choices import Clock
from latecomer.after.reading.reader import Reader
from latecomer.log.known_ids import remembered_since
from latecomer.model.counting import counted
from latecomer.model.durations import shown_duration, to_micros
from latecomer.model.ledger import EVENTS
from latecomer.model.panes import Op, surviving
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Session, Window
from latecomer.model.zoned import written
from latecomer.store.coverage import EVENTS as EVENT_LOG
from latecomer.store.coverage import LATE, covered_since, covers, removed_until
from latecomer.store.private_columns import EVENTS as PANE_EVENTS
from latecomer.store.private_columns import measure_column
from latecomer.store.publications import Publications
from latecomer.store.rebuilds import Rebuilds
from latecomer.store.sql import moment_literal
from latecomer.store.standing import publication_order
from latecomer.store.store import joining
from latecomer.windowing.fate_counts import Periods

LEFT_OUT = (Fate.SIDE_OUTPUT, Fate.DROPPED, Fate.FILTERED, Fate.FAILED, Fate.DUPLICATE)


def explain(
    reader: Reader,
    output: str,
    window: datetime,
    key: Mapping[str, str | None] | None = None,
    clock: Clock = Clock.PUBLISHED,
    compute: Compute | None = None,
) -> Explanation:
    """The life of the number that an output has for a key in the window that holds a moment.

    `clock` says when its panes were known: when their batch was published, or when the event that fired them arrived.
    `compute` makes the derived columns that only Spark can compute.
    """
    finder = Finder(reader, output)
    place = finder.find(window, key or {})
    case = _Case(finder, place, to_micros(window), compute)
    explanation = case.explained(clock)
    empty = not (explanation.panes or explanation.in_no_pane or any(explanation.left_out.values()))
    if empty and not place.published:
        raise finder.nothing(to_micros(window), key or {})
    return explanation


class _Case:
    """One question, and the tables it is answered from."""

    def __init__(self, finder: Finder, place: NumberPlace, moment: int, compute: Compute | None) -> None:
        self.finder = finder
        self.moment = moment
        self.store = finder.store
        self.output = finder.output
        self.place = place
        self.notes: list[str] = []
        self.covered = True
        self._since: dict[int, int] = {}
        self.periods = self.store.policies(finder.name) or [(0, self.output)]
        self.policies = Policies(self.periods, finder.book.layout.types, self._filed())
        self.evidence = Evidence(self.store, self.output, place.key, self._columns(), compute)

    def explained(self, clock: Clock) -> Explanation:
        self._note_coverage()
        judged = self._judged()
        panes = self._panes()
        published, unpublished = follow(panes, judged, self.policies)
        left_out = self._left_out(judged, [*(each for pane in published for each in pane.took), *unpublished])
        self._note_repairs(judged)
        self.notes += (
            f"where {where!r} can only be evaluated by Spark: the events are shown before the filter, and some of them "
            "may not have passed it"
            for where in self.policies.unknown
        )
        self._note_checks(published)
        return Explanation(
            self.finder.name,
            self.output,
            self._shown_window(published),
            self.place.key,
            published,
            unpublished,
            left_out,
            self.store.measures(),
            self.policies.state,
            self.notes,
            self.evidence.files,
            len(self.evidence.read),
            self._rebuilds(),
            self.policies,
            clock,
            any(each.order_by is not None for each in self.store.pipeline.views.values()),
            self._watermarks(judged, panes),
        )

    def _watermarks(self, judged: Sequence[JudgedEvent], panes: Sequence[LifePane]) -> list[tuple[int, int]]:
        """The watermarks from the start of the window to the last event or pane."""
        arrivals = [each.event.arrival_time for each in judged]
        arrivals += [pane.fired_at for pane in panes if pane.fired_at is not None]
        if not arrivals:
            return []
        return timeline(self.store, min(self.place.window.start, *arrivals), max(arrivals))

    # Panes

    def _panes(self) -> list[LifePane]:
        """The panes of this window, or of all the windows that this session has had, in order."""
        start, end = map(moment_literal, self.place.window)
        inside = f"window_start >= {start} and window_end <= {end}"
        if not self._session:
            inside = f"window_start = {start} and window_end = {end}"
        chosen = " and ".join([inside, *self.finder.conditions(self.place.key)])
        rows = self.finder.book.tables.panes.query_rows(
            f"select * from t where {chosen} order by {publication_order(self.output)}"
        )
        if not rows:
            return []
        batches = [row["batch"] for row in rows]
        first, last = min(batches), max(batches)
        ends = self._batch_ends(first, last)
        times = Publications(self.store).times(first, last, self.finder.name)
        measures = self.store.measures()
        return [
            LifePane.of_row(
                row,
                (),
                self.policies.at(row["batch"]).aggregates,
                times,
                ended_at=ends.get(row["batch"], _micros(row["fired_at"])),
                watermark=_micros(row["watermark"]),
                events=row.get(PANE_EVENTS),
                measures={measure: row.get(measure_column(measure)) for measure in measures},
            )
            for row in rows
        ]

    def _batch_ends(self, first: int, last: int) -> dict[int, int]:
        """The arrival clock at the end of these batches."""
        rows = self.store.watermarks.query_rows(
            f"select batch, max(at) as ended from t where batch between {first} and {last} "
            "and at is not null group by batch"
        )
        return {row["batch"]: to_micros(row["ended"]) for row in rows}

    def _shown_window(self, published: Sequence[PublishedNumber]) -> Window:
        """The window; of a session, the one it has now. Where it has become several, the one that holds the moment."""
        if not self._session or not published:
            return self.place.window
        windows = [Window(*place[:2]) for place in surviving(each.pane for each in published)]
        holding = [window for window in windows if window.start <= self.moment < window.end]
        return (holding or windows or [published[-1].pane.window])[-1]

    # Events

    def _judged(self) -> list[JudgedEvent]:
        """The events that concern this number, each with its fate."""
        if not isinstance(self.output.window, Session):
            window = self.place.window
            judged = judged_for(window, self._events(window), self.policies)
            return self._against_side_output(judged)
        events = self._connected(self.output.window)
        judged = judged_sessions(events, self.policies)
        if self.policies.unknown:
            judged = [JudgedEvent(each.event, None) for each in judged]
        if not self.place.published:
            self.place = replace(self.place, window=self._session_asked_for(judged))
        return self._against_side_output([each for each in judged if concerns(each, self.place.window)])

    def _session_asked_for(self, judged: Sequence[JudgedEvent]) -> Window:
        """The session to show where none holds the moment: one that rejected an event whose span does, and of several
        such events the nearest."""
        wanted, window = self.place.window, self.output.window
        assert isinstance(window, Session)  # noqa: S101
        near = [each for each in judged if window.span(each.event.event_time).overlaps(wanted)]
        if not near:
            return wanted
        nearest = min(near, key=lambda each: abs(each.event.event_time - wanted.start))
        rejecting = nearest.window or window.span(nearest.event.event_time)
        return grown_from([rejecting], self.finder.windows_of(self.place.key))

    def _connected(self, window: Session) -> list[Event]:
        """The events that can have had a part in this session, rejected ones and their sessions included."""
        around, margin = self.place.window, window.gap
        while True:
            wider = Window(around.start - margin, around.end + margin)
            events = self._events(wider)
            spans = [window.span(event.event_time) for event in events]
            reach = grown_from([around], spans, window.joins)
            if wider.start <= reach.start - window.gap and reach.end + window.gap <= wider.end:
                return events
            margin *= 4

    def _against_side_output(self, judged: Sequence[JudgedEvent]) -> list[JudgedEvent]:
        """Compare with the side output, which has exactly the events of that fate. Where `where` needs Spark, the side
        output shows which events the filter kept; else both must agree."""
        aside = self._side_output()
        passes = self.policies.passes
        unknown = {each.event.place for each in judged if passes(each.event, each.event.batch) is None}
        judged = [
            as_set_aside(each, each.event.place in aside) if each.event.place in unknown else each
            for each in judged
        ]
        ours = {each.event.place for each in judged if each.fate is Fate.SIDE_OUTPUT} - unknown
        aside -= unknown
        removed = max(removed_until(self.store, EVENT_LOG), removed_until(self.store, LATE, self.finder.name))
        ours, aside = ({place for place in places if place[0] > removed} for places in (ours, aside))
        if ours != aside:
            self.notes.append(
                f"the side output has {counted(len(aside), 'event')} of this window and key, the log and the timeline "
                f"say {len(ours)}: they cannot be reconciled"
            )
        return judged

    def _left_out(
        self, judged: Sequence[JudgedEvent], in_a_pane_or_waiting: Sequence[JudgedEvent]
    ) -> dict[Fate, list[JudgedEvent]]:
        """The events that are in no pane, by fate. An accepted event in no pane was excluded later, by a rebuild."""
        known = {id(each) for each in in_a_pane_or_waiting}
        logged = [each.event for each in judged]
        left_out: dict[Fate, list[JudgedEvent]] = {fate: [] for fate in LEFT_OUT}
        for each in judged:
            if id(each) not in known and each.fate is not None:
                fate = Fate.FILTERED if each.fate in ACCEPTED else each.fate
                reason = each.reason or reason_of(each, self.policies.at(each.event.batch))
                if each.event.repeated:
                    before = came_before(each.event, logged, partial(self._was_known, each.event))
                    reason = f"{reason}; {before}"
                left_out[fate].append(replace(each, reason=reason))
        left_out[Fate.DUPLICATE] = self._duplicates(judged)
        return left_out

    def _filed(self) -> set[tuple[Any, ...]]:
        """The places of events that failed when they came, where the output has had other derived columns."""
        if len({str(then.columns) for _, then in self.periods}) < 2:
            return set()
        letters = self.finder.book.tables.dead_letters
        rows = letters.query_rows("select batch, origin, position from t")
        return {(row["batch"], row["origin"], row["position"]) for row in rows}

    def _side_output(self) -> set[tuple[Any, ...]]:
        start, end = map(moment_literal, self.place.window)
        chosen = f"window_start = {start} and window_end = {end}"
        if self._session:
            chosen = f"window_start < {end} and window_end > {start}"
        names = self.finder.book.layout.late_columns
        rows = self.finder.book.tables.late.query_rows(f"select * from t where {chosen}")
        key = {names[column]: value for column, value in self.place.key.items()}
        return {
            (row["batch"], row["origin"], row["position"])
            for row in rows
            if all(_same(row[column], value) for column, value in key.items())
        }

    def _events(self, span: Window) -> list[Event]:
        """The events that this output has seen."""
        return [each for each in self.evidence.events(span) if not self._is_duplicate(each)]

    def _is_duplicate(self, event: Event) -> bool:
        """Whether an event of the log is a duplicate for an output that was computed from the log."""
        return event.repeated and event.batch <= self.store.ledger.last_batch(joining(self.finder.name))

    def _duplicates(self, judged: Sequence[JudgedEvent]) -> list[JudgedEvent]:
        """The duplicates, each with the delivery before it, if that is one of these events."""
        window = self.place.window
        repeated = list(filter(self._is_duplicate, self.evidence.events(window)))
        duplicates = sorted([*self.evidence.duplicates(window), *repeated], key=lambda each: each.order)
        logged = [*(each.event for each in judged), *repeated]
        return [
            JudgedEvent(
                each, Fate.DUPLICATE, reason=came_before(each, logged, partial(self._was_known, each))
            )
            for each in duplicates
        ]

    def _was_known(self, duplicate: Event, earlier: Event) -> bool:
        """Whether the id of an event was known when a duplicate of it came. A repeated delivery in the log is known by
        its time as well."""
        if duplicate.repeated:
            return earlier.event_time == duplicate.event_time
        return earlier.batch == duplicate.batch or earlier.event_time >= self._known_since(duplicate.batch)

    def _known_since(self, batch: int) -> int:
        """The moment since which a batch knew ids."""
        if batch not in self._since:
            outputs = [in_force(periods, batch) for periods in self._periods_of_all]
            self._since[batch] = remembered_since(self.finder.reader.timeline(batch - 1), outputs)
        return self._since[batch]

    @cached_property
    def _periods_of_all(self) -> list[Periods]:
        outputs = self.store.pipeline.outputs
        return [self.store.policies(name) or [(0, output)] for name, output in outputs.items()]

    # What the output says

    @property
    def _session(self) -> bool:
        return self.output.window.merges

    def _columns(self) -> list[str]:
        """The source columns to read. A predicate may look at any of them."""
        if self.policies.has_where or self.output.columns:
            return list(self.store.layout.columns)
        aggregates = [each for _, output in self.periods for each in output.aggregates.values()]
        summed = [each.column for each in aggregates if each.column is not None]
        return list(dict.fromkeys([*summed, *self.store.measures()]))

    # In words

    def _rebuilds(self) -> dict[int, str]:
        """Each rebuild in words, by its batch."""
        words = {}
        for each in Rebuilds(self.store.root, self.finder.name):
            if each.batch is not None:
                meaning = ", under another definition" if each.record.definition is not None else ""
                words[each.batch] = (
                    f"rebuild {each.id}, by the log up to batch {each.record.through}{meaning}"
                )
        return words

    def _note_coverage(self) -> None:
        """Note where the log no longer has all events of this number."""
        since = covered_since(self.store)
        self.covered = since is None or covers(self.store, self.place.window.start, self.output.window)
        if not self.covered:
            self.notes.append(
                f"retention has removed events from the log: it is whole from {written(since)} on, and this window "
                "is shown with the events that are left"
            )

    def _note_repairs(self, judged: Sequence[JudgedEvent]) -> None:
        """Note which events were late because they were repaired."""
        delays = [
            each.event.first_arrival - each.event.event_time
            for each in judged
            if each.event.first_arrival is not None
        ]
        if delays:
            one = len(delays) == 1
            count = "1 event was a dead letter" if one else f"{len(delays)} events were dead letters"
            them, was = ("it", "was") if one else ("they", "were")
            took = shown_duration(max(max(delays), 0))
            self.notes.append(
                f"{count} at first, and may be behind the watermark because {them} {was} repaired later; "
                f"first_arrival_time is when {them} first came, at most {took} after {them} happened"
            )

    def _note_checks(self, published: Sequence[PublishedNumber]) -> None:
        """Note where the log does not give what a pane says; and where it does although the filter is not known.

        If all events before the filter are as many as the pane has, they are the same events.
        """
        inserts = [each.check for each in published if each.pane.op is Op.INSERT]
        counts_agree = all(each.agrees and EVENTS in each.compared for each in inserts)
        if self.policies.state == NEEDS_SPARK and inserts and counts_agree:
            self.notes.append("every pane has as many events as are shown: the filter excluded none of them")
        for each in published:
            if each.check.agrees is False:
                cause = "the log does not hold what the pane was computed from"
                if not self.covered:
                    cause = "retention has removed them"
                elif self.policies.state == NEEDS_SPARK:
                    cause = "the filter is the likely cause"
                self.notes.append(
                    f"the events of pane {each.pane.sequence} ({each.pane.timing}) cannot be reconciled: "
                    f"{each.check.reason}; {cause}"
                )


def _same(one: Any, other: Any) -> bool:
    return bool(one == other or (one != one and other != other))


def _micros(moment: datetime | None) -> int | None:
    return None if moment is None else to_micros(moment)
