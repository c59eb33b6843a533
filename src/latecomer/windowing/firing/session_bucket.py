"""A batch of sessions, in two functions that can each run in many tasks.

    fold_events     events of a split              → partial states, suspects, witnesses
    merge_sessions  all of that for some keys      → sessions, and the panes that they take back
                    + their open states
                    + the panes that stand for them

A split is any part of a batch's events. Its results are divided by key; those of one key go to one `merge_sessions`.
Partial states are of the prompt events only, merged into the sessions that these make among themselves: two accepted
events of a key whose spans meet are always in one session, and a prompt event is always accepted. Suspects stay as they
are until they have been judged. Witnesses are needed only where the batch may have suspects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.model.array_types import Flags, Integers, Micros
from latecomer.model.arrays import flat
from latecomer.model.panes import Accumulation
from latecomer.model.triggers import per_firing
from latecomer.model.verdicts import Fate
from latecomer.store.private_columns import EVENTS, HELD, SINCE, UNSETTLED, WAITING_EVENTS
from latecomer.windowing.fate_counts import CODES, ENTERS, Periods
from latecomer.windowing.judge import JudgedEvents
from latecomer.windowing.merge import Merger, replaced, with_columns
from latecomer.windowing.private_columns import END, FATE, START
from latecomer.windowing.session_judge import (
    ORDER,
    SessionArrivals,
    divided,
    judged_suspects,
    prompt_fates,
    session_of,
    together,
)
from latecomer.windowing.sessions import Places, covering, key_codes, numbered


@dataclass(frozen=True)
class FoldedSessions:
    """The results of one split of a batch's events."""

    partials: pa.Table | None
    """Prompt events, as inputs of a merge."""
    suspects: SessionArrivals | None = None
    witnesses: pa.Table | None = None


def fold_events(
    arrivals: SessionArrivals, merger: Merger, last: int | None, alone: bool = False
) -> FoldedSessions:
    """Fold the events of one split, as `divided` takes them. With `alone`, prompt events are not merged: the order in
    which they came matters."""
    prompt, late, witnesses = divided(arrivals, merger.output, last)
    partials = _each_alone if alone else _partials
    return FoldedSessions(partials(prompt, merger) if len(prompt) else None, late, witnesses)


def in_order_of_arrival(output: Output, last: int | None) -> bool:
    """Whether the order in which prompt events came matters: open sessions fire within a batch, or late ones do and
    there may be late events."""
    return per_firing(output.trigger.early) or (output.fires_within and last is not None)


def _each_alone(prompt: SessionArrivals, merger: Merger) -> pa.Table:
    """Prompt events as inputs of a merge, with the columns of ORDER."""
    window = session_of(merger.output)
    places = prompt.places(merger.output.by, window)
    inputs = merger.of_events(prompt.judged(places.start, places.end, prompt_fates(prompt)))
    return _with_order(inputs, prompt)


def _partials(prompt: SessionArrivals, merger: Merger) -> pa.Table:
    """Prompt events, merged into the sessions that they make among themselves."""
    output = merger.output
    window = session_of(output)
    places = prompt.places(output.by, window)
    (codes,) = key_codes([places])
    start, end = places.start.copy(), places.end.copy()
    kept = prompt.kept
    found = numbered(codes[kept], start[kept], end[kept], window)
    start[kept], end[kept] = found.start, found.end
    return merger.as_inputs(merger.merge([merger.of_events(prompt.judged(start, end, prompt_fates(prompt)))]))


@dataclass(frozen=True)
class Bucket:
    """All that a batch has of some keys. Panes and states are as they are stored."""

    folded: Sequence[FoldedSessions] = ()
    states: pa.Table | None = None
    """The sessions that had something left to publish."""
    published: pa.Table | None = None
    """The panes that these will take back."""
    closed: pa.Table | None = None
    """The panes of sessions that have published everything and that a suspect may touch."""

    @cached_property
    def suspects(self) -> SessionArrivals | None:
        """The suspects of all splits."""
        found = [each.suspects for each in self.folded if each.suspects is not None and len(each.suspects)]
        return together(found) if found else None

    def judged(self, periods: Periods) -> JudgedEvents | None:
        """The suspects with their fates."""
        if self.suspects is None:
            return None
        by = periods[-1][1].by
        standing = [Places.of_panes(each, by) for each in (self.states, self.closed) if each is not None]
        witnesses = [each.witnesses for each in self.folded if each.witnesses is not None]
        return judged_suspects(self.suspects, witnesses, standing, periods)

    def rows(self, judged: JudgedEvents | None, merger: Merger) -> SessionRows:
        """What sessions are merged from; `judged` are the suspects."""
        parts = [each.partials for each in self.folded if each.partials is not None]
        if judged is not None and self.suspects is not None:
            inputs = _entered(merger.of_events(judged))
            parts.append(_with_order(inputs, self.suspects) if merger.output.fires_within else inputs)
        none = merger.of_states(merger.or_empty(None), Fate.ON_TIME)
        stored = map(merger.or_empty, (self.states, self.published, self.closed))
        return SessionRows(merger, pa.concat_tables([none, *parts], promote_options="default"), *stored)


@dataclass(frozen=True)
class SessionRows:
    """What sessions are merged from."""

    merger: Merger
    fresh: pa.Table
    """Events, as inputs of a merge."""
    states: pa.Table
    published: pa.Table
    closed: pa.Table

    @property
    def tables(self) -> list[pa.Table]:
        return [self.fresh, self.states, self.published, self.closed]

    @property
    def keys(self) -> list[Integers]:
        """A number for the key of each row: the same in all tables."""
        inputs, *panes = self.tables
        by = self.merger.output.by
        return key_codes([Places.of_inputs(inputs, by), *(Places.of_panes(each, by) for each in panes)])

    def only(self, which: Sequence[Flags]) -> SessionRows:
        """Some rows of each table."""
        some = (rows.filter(pa.array(each)) for rows, each in zip(self.tables, which, strict=True))
        return SessionRows(self.merger, *some)


@dataclass(frozen=True)
class Sessions:
    """Sessions after a batch, and the panes that stand for them or for sessions that became part of them."""

    merged: pa.Table
    """One row a session and, for the ledger, one for each fate of events that entered no session."""
    panes: pa.Table
    of: Integers
    """Which session each pane is of."""


def merge_sessions(rows: SessionRows) -> Sessions:
    """Merge the rows of a bucket."""
    merger, fresh, states = rows.merger, rows.fresh, rows.states
    by, window = merger.output.by, session_of(merger.output)
    enters = np.asarray(flat(fresh.column(FATE))) == CODES[Fate.ON_TIME]
    parts = [Places.of_inputs(fresh.filter(pa.array(enters)), by)]
    parts += [Places.of_panes(each, by) for each in (states, rows.closed)]
    found = numbered(
        np.concatenate(key_codes(parts)),
        np.concatenate([part.start for part in parts]),
        np.concatenate([part.end for part in parts]),
        window,
    )
    bounds = np.cumsum([len(part) for part in parts])[:-1]
    of_fresh, of_states, of_closed = zip(
        *(np.split(each, bounds) for each in (found.start, found.end)), strict=True
    )
    every = np.ones(states.num_rows, bool)
    inputs = [
        _spanning(fresh, enters, *of_fresh),
        _spanning(merger.of_states(states, Fate.ON_TIME), every, *of_states),
        _of_closed(merger, rows.closed, *of_closed),
    ]
    if _discards(merger):
        inputs.append(_published_apart(merger, rows.published, states, *of_states))
    merged = merger.merge(inputs)
    standing = pa.concat_tables([rows.published, rows.closed])
    ours = np.flatnonzero(np.asarray(flat(merged.column(FATE))) == CODES[Fate.ON_TIME])
    sessions = Places.of_merged(merged.take(pa.array(ours)), by)
    return Sessions(merged, standing, ours[covering(sessions, Places.of_panes(standing, by))])


def _discards(merger: Merger) -> bool:
    return merger.output.accumulation is Accumulation.DISCARDING


def _entered(inputs: pa.Table) -> pa.Table:
    """Suspects as inputs. Accepted ones get the fate on time, so that they merge with the other events of a session."""
    fate = np.asarray(flat(inputs.column(FATE)))
    return with_columns(inputs, {FATE: np.where(fate <= ENTERS, CODES[Fate.ON_TIME], fate)})


def _with_order(inputs: pa.Table, arrivals: SessionArrivals) -> pa.Table:
    """Events as inputs, with the columns of ORDER."""
    came = arrivals.rows(list(ORDER.values()))
    for name, stored in ORDER.items():
        inputs = inputs.append_column(name, flat(came.column(stored)))
    return inputs


def _spanning(inputs: pa.Table, which: Flags, start: Micros, end: Micros) -> pa.Table:
    """Inputs with the window of the session that each is part of; the others have no window."""
    for name, moments in ((START, start), (END, end)):
        whole = np.zeros(len(which), np.int64)
        whole[which] = moments
        inputs = with_columns(inputs, {name: pa.array(whole, mask=~which)})
    return inputs


def _of_closed(merger: Merger, closed: pa.Table, start: Micros, end: Micros) -> pa.Table:
    """Closed sessions as inputs. With `discarding`, what was published for the same window is not published again."""
    if _discards(merger):
        closed = with_columns(closed, {HELD: closed.column(EVENTS)})
        closed = merger.emptied(closed, _same(closed, merger, start, end))
    inputs = merger.of_states(closed, Fate.ON_TIME)
    return _spanning(inputs, np.ones(closed.num_rows, bool), start, end)


def _published_apart(
    merger: Merger, published: pa.Table, states: pa.Table, start: Micros, end: Micros
) -> pa.Table:
    """With `discarding`: what open sessions have published and no longer hold. They hold it again once their window
    changes."""
    by = merger.output.by
    of = covering(Places.of_panes(states, by), Places.of_panes(published, by))
    apart = parts_apart(merger, published, states, of)
    rows, of = published.filter(pa.array(apart)), of[apart]
    for name in (HELD, SINCE, UNSETTLED, WAITING_EVENTS):
        rows = replaced(rows, name, 0)
    rows = merger.emptied(rows, _same(rows, merger, start[of], end[of]))
    inputs = merger.of_states(rows, Fate.ON_TIME)
    return _spanning(inputs, np.ones(rows.num_rows, bool), start[of], end[of])


def parts_apart(merger: Merger, published: pa.Table, states: pa.Table, of: Integers) -> Flags:
    """With `discarding`: whether each pane of an open session holds what the session's state, `of`, no longer holds."""
    before = Places.of_panes(states.take(pa.array(of)), merger.output.by)
    return _same(published, merger, before.start, before.end)


def _same(panes: pa.Table, merger: Merger, start: Micros, end: Micros) -> Flags:
    """Whether each pane is of the window that its session has now."""
    places = Places.of_panes(panes, merger.output.by)
    same: Flags = (places.start == start) & (places.end == end)
    return same


def standing_panes(panes: pa.Table, bucket: Bucket, merger: Merger) -> pa.Table | None:
    """The stored panes that stand for closed sessions of keys with suspects; None where there are none.

    A session that has more to publish is among the states, and its panes are left out.
    """
    output = merger.output
    by, suspects = output.by, bucket.suspects
    if suspects is None:
        return None
    places = Places.of_panes(panes, by)
    wanted, codes = key_codes([suspects.places(by, session_of(output)), places])
    stands = np.isin(codes, wanted) & _stand(panes, places, codes, _discards(merger))
    rows = panes.filter(pa.array(stands))
    if bucket.states is not None:
        left = covering(Places.of_panes(bucket.states, by), Places.of_panes(rows, by)) < 0
        rows = rows.filter(pa.array(left))
    return rows if rows.num_rows else None


def _stand(panes: pa.Table, places: Places, codes: Integers, discards: bool) -> Flags:
    """Whether each pane stands: the last one of its window and key, if it was not taken back. With `discarding` panes
    add up: each one stands that was not taken back."""
    sequence = np.asarray(flat(panes.column("sequence")))
    back = np.asarray(pc.not_equal(flat(panes.column("op")), "insert"))
    order = np.lexsort((back, sequence, places.end, places.start, codes))
    same = np.ones(len(order), bool)
    for each in (codes, places.start, places.end, *([sequence] if discards else [])):
        same &= np.append(each[order][1:] == each[order][:-1], False) if len(order) else same
    stands = np.zeros(len(order), bool)
    stands[order] = ~same & ~back[order]
    return stands
