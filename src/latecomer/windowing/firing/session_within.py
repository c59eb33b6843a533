"""Sessions that fire within a batch: one pane for each firing of the trigger, wherever batches are cut.

The course of the sessions (`session_course.py`) gives what each pane holds; here that is merged. Only keys that may
fire before the end of a batch, the *busy* ones, take this way. All others are merged by `session_bucket.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from latecomer.model.array_types import Flags, Integers
from latecomer.model.arrays import flat
from latecomer.model.panes import Accumulation, Op
from latecomer.model.triggers import per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.store.private_columns import (
    EARLY_IS_OVER,
    FIRST_CLOCK,
    FIRST_MARK,
    HELD,
    SINCE,
    SINCE_CLOCK,
    SINCE_MARK,
    UNSETTLED,
    WAITING_EVENTS,
    since_when_column,
    when_column,
)
from latecomer.windowing.fate_counts import CODES
from latecomer.windowing.firing.clocks import Clocks
from latecomer.windowing.firing.panes import constant, numbers, taken_back
from latecomer.windowing.firing.session_bucket import (
    Bucket,
    SessionRows,
    Sessions,
    merge_sessions,
    parts_apart,
)
from latecomer.windowing.firing.session_course import (
    Courses,
    Event,
    PaneKey,
    SessionCourse,
    ShownPane,
    Shows,
    Since,
)
from latecomer.windowing.firing.session_lanes import session_lanes
from latecomer.windowing.firing.within_batch import FiringWithin, merged_by
from latecomer.windowing.judge import JudgedEvents
from latecomer.windowing.merge import Merger, replaced, with_columns
from latecomer.windowing.private_columns import (
    BATCH,
    END,
    FATE,
    LAST_ARRIVAL,
    LAST_WATERMARK,
    START,
    PaneLane,
)
from latecomer.windowing.session_judge import ORDER, order_of_arrival
from latecomer.windowing.sessions import Places, covering, firsts, in_order

_ON_TIME = CODES[Fate.ON_TIME]


def lanes_of(
    bucket: Bucket, judged: JudgedEvents | None, clocks: Clocks, merger: Merger
) -> dict[str, pa.Table]:
    """A bucket → panes, states and published panes, by lane; `judged` are its suspects."""
    rows = bucket.rows(judged, merger)
    if not merger.output.fires_within:
        return session_lanes(merge_sessions(rows), clocks, merger)
    busy = _busy(rows)
    sessions = merge_sessions(rows.only([~which for which in busy]))
    within = _Within(_Rows(**vars(rows.only(busy)), clocks=clocks))
    if within.sessions is not None:
        sessions = _together(sessions, within.sessions)
    lanes = session_lanes(sessions, clocks, merger)
    if within.fired.num_rows:
        at_the_end = [lanes[PaneLane.FIRED]] if PaneLane.FIRED in lanes else []
        lanes[PaneLane.FIRED] = pa.concat_tables([within.fired, *at_the_end])
    return lanes


def _busy(rows: SessionRows) -> list[Flags]:
    """Which events, states, published panes and panes of closed sessions are of busy keys: all, where open sessions
    fire; else those of keys with late events."""
    fresh = rows.fresh
    enters = np.asarray(flat(fresh.column(FATE))) == _ON_TIME
    if per_firing(rows.merger.output.trigger.early):
        return [enters, *(np.ones(each.num_rows, bool) for each in rows.tables[1:])]
    of_keys = rows.keys
    busy = of_keys[1][numbers(rows.states, WAITING_EVENTS) > 0]
    if BATCH in fresh.column_names:
        suspect = enters & (numbers(fresh, START) <= numbers(fresh, LAST_WATERMARK))
        busy = np.union1d(busy, of_keys[0][suspect])
    of_fresh, *others = (np.isin(each, busy) for each in of_keys)
    return [of_fresh & enters, *others]


def _together(one: Sessions, other: Sessions) -> Sessions:
    """The sessions of two sets of keys as one."""
    return Sessions(
        pa.concat_tables([one.merged, other.merged.select(one.merged.column_names)]),
        pa.concat_tables([one.panes, other.panes]),
        np.concatenate([one.of, other.of + one.merged.num_rows]),
    )


@dataclass(frozen=True)
class _Rows(SessionRows):
    """The rows of busy keys, and the sessions and events that are made from them."""

    clocks: Clocks

    @cached_property
    def standing(self) -> pa.Table:
        """The panes that stood before."""
        return pa.concat_tables([self.published, self.closed])

    @cached_property
    def _of_published(self) -> Integers:
        """The state that each published pane is of."""
        by = self.merger.output.by
        return covering(Places.of_panes(self.states, by), Places.of_panes(self.published, by))

    @cached_property
    def _apart(self) -> Flags:
        """Whether a published pane holds what the state beside it does not."""
        if self.merger.output.accumulation is not Accumulation.DISCARDING:
            return np.zeros(len(self._of_published), bool)
        return parts_apart(self.merger, self.published, self.states, self._of_published)

    @cached_property
    def inputs(self) -> pa.Table:
        """Rows to be merged: states, panes that hold what these do not, panes of closed sessions, and events."""
        merger = self.merger
        stored = (self.states, self.published.filter(pa.array(self._apart)), self.closed)
        parts = [*(merger.of_states(each, Fate.ON_TIME) for each in stored), self.fresh]
        names = [START, END, *merger.input_keys, FATE]
        names += [name for name in parts[0].column_names if name not in names and name not in ORDER]
        return pa.concat_tables([each.select(names) for each in parts], promote_options="default")

    @cached_property
    def _begins(self) -> list[int]:
        """Where parts of the inputs begin: panes that hold what states do not, panes of closed sessions, events."""
        return list(accumulate([self.states.num_rows, int(self._apart.sum()), self.closed.num_rows]))

    @property
    def whens(self) -> list[str]:
        return self.merger.output.trigger.whens

    def by_key(self, courses: Courses) -> Iterator[tuple[list[SessionCourse], list[Event]]]:
        """For each key its sessions before the batch, and its events in the order in which they came."""
        of_fresh, of_states, _, of_closed = self.keys
        sessions: dict[int, list[SessionCourse]] = {}
        for code, course in (*self._of_states(courses, of_states), *self._of_closed(courses, of_closed)):
            sessions.setdefault(code, []).append(course)
        groups = self._events(of_fresh)
        for code in sessions.keys() | groups.keys():
            earlier = sorted(sessions.get(code, ()), key=lambda each: each.start)
            yield earlier, groups.get(code, [])

    def _of_states(self, courses: Courses, keys: Integers) -> Iterator[tuple[int, SessionCourse]]:
        panes: dict[int, list[int]] = {}
        for nth, state in enumerate(self._of_published.tolist()):
            panes.setdefault(state, []).append(nth)
        parts = dict(zip(np.flatnonzero(self._apart).tolist(), range(*self._begins[:2]), strict=True))
        stored = self._courses(self.states, self._since(self.states, SINCE))
        for nth, (code, course) in enumerate(zip(keys.tolist(), stored, strict=True)):
            course.rows, course.standing = [nth], self._in_turn(panes.get(nth, []))
            if apart := [parts[pane] for pane in course.standing if pane in parts]:
                course.nodes = [courses.node(apart, [])]
                if not course.since.count:  # it holds nothing of its own
                    course.rows = []
            yield code, course

    def _of_closed(self, courses: Courses, keys: Integers) -> Iterator[tuple[int, SessionCourse]]:
        before = self.published.num_rows
        stored = self._courses(self.closed, [Since() for _ in range(self.closed.num_rows)])
        by_place: dict[tuple[int, int, int], SessionCourse] = {}
        for nth, (code, course) in enumerate(zip(keys.tolist(), stored, strict=True)):
            place = (code, course.start, course.end)
            if (
                same := by_place.setdefault(place, course)
            ) is not course and course.whole.count > same.whole.count:
                same.whole, same.over = course.whole, course.over
            same.rows.append(self._begins[1] + nth)
            same.standing.append(before + nth)
            same.unsettled = same.waiting = 0
        for (code, _, _), course in by_place.items():
            course.nodes, course.rows = [courses.node(course.rows, [])], []
            course.standing = self._in_turn(course.standing)
            yield code, course

    @cached_property
    def _sequences(self) -> list[int]:
        return list(numbers(self.standing, "sequence").tolist())

    def _in_turn(self, panes: list[int]) -> list[int]:
        """Panes that stand, ascending by sequence."""
        return sorted(panes, key=self._sequences.__getitem__) if len(panes) > 1 else panes

    def _courses(self, rows: pa.Table, since: Sequence[Since]) -> Iterator[SessionCourse]:
        """The sessions of stored rows."""
        at = (self.clocks.arrival_before, self.clocks.before)
        places = Places.of_panes(rows, self.merger.output.by)
        columns = (numbers(rows, name).tolist() for name in (UNSETTLED, WAITING_EVENTS))
        over = numbers(rows, EARLY_IS_OVER).tolist()
        for start, end, new, whole, unsettled, waiting, is_over in zip(
            places.start.tolist(),
            places.end.tolist(),
            since,
            self._since(rows, HELD, FIRST_CLOCK, FIRST_MARK, when_column),
            *columns,
            over,
            strict=True,
        ):
            closed = end <= self.clocks.before
            yield SessionCourse(start, end, at, new, whole, unsettled, waiting, closed, is_over > 0)

    def _since(
        self,
        rows: pa.Table,
        count: str,
        clock: str = SINCE_CLOCK,
        mark: str = SINCE_MARK,
        when: Callable[[str], str] = since_when_column,
    ) -> list[Since]:
        """What rules need to know about some events of each row."""
        counts = numbers(rows, count).tolist()
        clocks = numbers(rows, clock, self.clocks.arrival_before).tolist()
        marks = numbers(rows, mark, BEGIN_OF_TIME).tolist()
        holds = zip(*(numbers(rows, when(sql)).tolist() for sql in self.whens), strict=True)
        some = holds if self.whens else ((),) * rows.num_rows
        return list(map(Since, counts, clocks, marks, some))

    def _events(self, keys: Integers) -> dict[int, list[Event]]:
        """What entered the sessions of each key, in order of arrival. Events without an order come first."""
        rows = self.fresh
        ordered = BATCH in rows.column_names
        order = order_of_arrival(keys, rows) if ordered else in_order(keys)
        clocks, marks = (numbers(rows, name)[order] for name in (SINCE_CLOCK, LAST_WATERMARK))
        if not ordered:
            clocks = np.full(len(order), self.clocks.arrival_before)
            marks = np.full(len(order), self.clocks.before)
        names = (SINCE, UNSETTLED, WAITING_EVENTS)
        holds = [numbers(rows, since_when_column(sql))[order].tolist() for sql in self.whens]
        events = list(
            zip(
                (order + self._begins[2]).tolist(),
                *(numbers(rows, name)[order].tolist() for name in (START, END)),
                clocks.tolist(),
                marks.tolist(),
                *(numbers(rows, name)[order].tolist() for name in names),
                zip(*holds, strict=True) if holds else [()] * len(order),
                strict=True,
            )
        )
        of_key = keys[order]
        bounds = [*np.flatnonzero(firsts(of_key)).tolist(), len(of_key)]
        return {int(of_key[first]): events[first:last] for first, last in pairwise(bounds)}


class _Within:
    """The sessions and panes of busy keys."""

    def __init__(self, rows: _Rows) -> None:
        self.rows, self.merger, self.clocks = rows, rows.merger, rows.clocks
        places = Places.of_panes(rows.standing, ())
        columns = (places.start.tolist(), places.end.tolist(), numbers(rows.standing, "sequence").tolist())
        self.courses = Courses(self.merger.output, self.clocks, list(map(PaneKey, *columns)))
        running = [each for key in rows.by_key(self.courses) for each in self.courses.run(*key)]
        self.unfinished = [each for each in running if not each.closed or each.waiting]
        """The sessions that have more to publish."""
        self.kept = [self.courses.show(each) for each in self.unfinished]

    @cached_property
    def fired(self) -> pa.Table:
        """The panes that were fired, and what they take back."""
        fired = self.courses.fired
        return pa.concat_tables([self._fired, self._back]) if fired else self._fired

    @cached_property
    def sessions(self) -> Sessions | None:
        """The sessions that have more to publish, with the panes that they will take back."""
        if not self.unfinished:
            return None
        of = np.repeat(np.arange(len(self.unfinished)), [len(each.standing) for each in self.unfinished])
        panes = [nth for each in self.unfinished for nth in each.standing]
        merged = self._shown.slice(len(self.courses.fired))
        return Sessions(merged, self._panes.take(pa.array(panes, pa.int64())), of)

    # Rows

    @cached_property
    def _panes(self) -> pa.Table:
        """The panes that stood before, and those that were fired."""
        return pa.concat_tables([self.rows.standing, self._fired])

    @cached_property
    def _back(self) -> pa.Table:
        fired = self.courses.fired
        which = np.repeat(np.arange(len(fired)), [len(each.back) for each in fired])
        panes = [nth for each in fired for nth in each.back]
        to_take_back = self._panes.take(pa.array(panes, pa.int64()))
        return self.merger.uncounted(taken_back(to_take_back, self._fired.take(pa.array(which))))

    @cached_property
    def _fired(self) -> pa.Table:
        fired, count = self.courses.fired, len(self.courses.fired)
        if not fired:
            return self.merger.schema.empty_table()
        due = self._shown.slice(0, count)
        closes = np.array([each.closes for each in fired], bool)
        clock, mark = (np.array([each.at[side] for each in fired], np.int64) for side in (0, 1))
        met = np.where(closes, mark, numbers(due, LAST_WATERMARK))
        firing = {
            "sequence": pa.array([each.sequence for each in fired]),
            "timing": pa.array([each.timing.value for each in fired]),
            "op": pa.array([Op.INSERT.value] * count),
            "is_last": pa.array([each.is_last for each in fired]),
            "batch": constant(self.clocks.batch, count),
            "fired_at": pa.array(np.where(closes, clock, np.maximum(clock, numbers(due, LAST_ARRIVAL)))),
            "watermark": pa.array(met, mask=met <= BEGIN_OF_TIME),
        }
        panes = self.merger.published(due, firing)
        return replaced(panes, UNSETTLED, 0)

    @cached_property
    def _shown(self) -> pa.Table:
        """What panes and states hold: first the fired panes, then the states."""
        shown = [*(each.shown for each in self.courses.fired), *self.kept]
        own = self._own
        nodes = np.array([each.node for each in shown], np.int64)
        whole = np.array([each.shows is Shows.ALL for each in shown], bool)
        empty = np.array([each.shows is Shows.NOTHING for each in shown], bool)
        if whole.any():
            every = pa.concat_tables([own, self._cumulative(own)])
            rows = every.take(pa.array(np.where(whole, nodes + own.num_rows, nodes)))
        else:
            rows = own.take(pa.array(nodes))
        columns = {name: flat(own.column(name)).take(pa.array(nodes)) for name in self.merger.new_columns}
        rows = with_columns(rows, {**columns, **self._counted(shown)})
        is_old = np.array([not each.is_new for each in shown], bool)
        rows = self.merger.uncounted(rows, is_old)
        return self.merger.emptied(rows, empty) if empty.any() else rows

    def _counted(self, shown: Sequence[ShownPane]) -> dict[str, pa.Array]:
        """The columns of bounds and counts of sessions."""
        since, whole = [each.since for each in shown], [each.whole for each in shown]
        columns = {
            START: [each.start for each in shown],
            END: [each.end for each in shown],
            SINCE: [each.count if each else 0 for each in since],
            SINCE_CLOCK: [each.clock if each else None for each in since],
            SINCE_MARK: [each.mark if each else None for each in since],
            HELD: [each.count for each in whole],
            FIRST_CLOCK: [each.clock for each in whole],
            FIRST_MARK: [each.mark for each in whole],
            UNSETTLED: [each.unsettled for each in shown],
            WAITING_EVENTS: [each.waiting for each in shown],
            EARLY_IS_OVER: [int(each.over) for each in shown],
        }
        for nth, sql in enumerate(self.rows.whens):
            columns[since_when_column(sql)] = [each.holds[nth] if each else 0 for each in since]
            columns[when_column(sql)] = [each.holds[nth] for each in whole]
        wanted = {START, END, *self.merger.state_columns}
        return {name: pa.array(values, pa.int64()) for name, values in columns.items() if name in wanted}

    # Nodes

    @cached_property
    def _own(self) -> pa.Table:
        """What is new in each node, merged."""
        own = self.courses.own
        rows = np.fromiter((row for each in own for row in each), np.int64)
        node = np.repeat(np.arange(len(own)), [len(each) for each in own])
        return merged_by(self.merger, self.rows.inputs.take(pa.array(rows)), node)

    def _cumulative(self, own: pa.Table) -> pa.Table:
        """Each node merged with all nodes that it has grown from.

        Nodes make chains: each node follows the largest one that it has grown from. The others that it has grown from
        are ends of other chains, which are merged before. So there are few rounds, however sessions are joined.
        """
        children = self.courses.children
        if not any(children):
            return own
        size, chain, rounds = [1] * len(children), list(range(len(children))), [0] * len(children)
        side: list[tuple[int, int]] = []
        for node, below in enumerate(children):
            if below:
                size[node] += sum(size[each] for each in below)
                longest = max(below, key=size.__getitem__)
                chain[node] = chain[longest]
                for each in below:
                    if each != longest:
                        side.append((node, each))
                        rounds[chain[node]] = max(rounds[chain[node]], rounds[chain[each]] + 1)
        of_chain, round_of = np.array(chain), np.array(rounds)
        turn = round_of[of_chain]
        sides = np.array(side, np.int64).reshape(-1, 2)
        place, finished = np.full(len(chain), -1), list[pa.Table]()
        firing = FiringWithin(self.merger)
        for nth in range(int(turn.max()) + 1):
            nodes = np.flatnonzero(turn == nth)
            nodes = nodes[np.lexsort((nodes, of_chain[nodes]))]
            rows = own.take(pa.array(nodes))
            ours = sides[turn[sides[:, 0]] == nth]
            if len(ours):
                at = np.empty(len(chain), np.int64)
                at[nodes] = np.arange(len(nodes))
                others = pa.concat_tables(finished).take(pa.array(place[ours[:, 1]]))
                both = pa.concat_tables([self.merger.as_inputs(rows), self.merger.as_inputs(others)])
                rows = merged_by(self.merger, both, np.concatenate([np.arange(len(nodes)), at[ours[:, 0]]]))
            place[nodes] = sum(each.num_rows for each in finished) + np.arange(len(nodes))
            finished.append(firing.running(rows, np.unique(of_chain[nodes], return_inverse=True)[1]))
        return pa.concat_tables(finished).take(pa.array(place))
