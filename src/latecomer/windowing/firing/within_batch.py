"""Panes that fire within a batch: one for each firing of the trigger, wherever batches are cut.

Events come in the order of their arrival, or already merged where no firing can lie between them (`folded`). They are
cut into panes (`clocks.py`), each pane is merged, and where panes accumulate each is merged with those before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.config.outputs import Output
from latecomer.log.timeline.watermarks import micros_of
from latecomer.model.array_types import Flags, Integers
from latecomer.model.arrays import flat
from latecomer.model.panes import Accumulation, Timing
from latecomer.model.triggers import AfterFirst, Every, Rule, Until, per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.private_columns import (
    EVENTS,
    FIRST_CLOCK,
    FIRST_MARK,
    HELD,
    SINCE,
    SINCE_CLOCK,
    SINCE_MARK,
    since_when_column,
    when_column,
)
from latecomer.windowing.fate_counts import CODES
from latecomer.windowing.firing.clocks import NEVER, Clocks, Cuts, Turns, by_clock, cuts
from latecomer.windowing.firing.panes import Firing, next_sequence, numbers, places_of
from latecomer.windowing.judge import JudgedEvents
from latecomer.windowing.merge import Merger, replaced, with_columns
from latecomer.windowing.private_columns import (
    BATCH,
    END,
    FATE,
    LAST_ARRIVAL,
    LAST_SEQUENCE,
    LAST_WATERMARK,
    START,
    PaneLane,
)
from latecomer.windowing.sessions import firsts, text_ranks

_STEP = f"{PRIVATE}step"
_ON_TIME, _LATE = CODES[Fate.ON_TIME], CODES[Fate.LATE_ACCEPTED]


def firing_of(merger: Merger) -> Firing:
    """The maker of an output's panes."""
    return FiringWithin(merger) if merger.output.fires_within else Firing(merger)


# Where events are judged


def folded(events: pa.Table, judged: JudgedEvents, merger: Merger) -> pa.Table:
    """Judged events as partial states: merged where no firing can lie between them."""
    output, intervals = merger.output, np.zeros(len(judged), np.int64)
    alone = np.zeros(len(judged), bool)
    for fate, rule in ((_ON_TIME, output.trigger.early), (_LATE, output.trigger.late)):
        ours = judged.fate == fate
        if isinstance(rule, Every) and rule.clock == "arrival":
            intervals[ours] = judged.clock[ours] // rule.every
        elif per_firing(rule):
            alone |= ours
    inputs = merger.of_events(judged)
    together = places_of([pa.table({START: judged.start, END: judged.end, _STEP: intervals})])[~alone]
    each, rest = np.flatnonzero(alone), np.flatnonzero(~alone)
    order = {
        BATCH: pa.array(micros_of(events, "batch")[judged.nth]),
        ORIGIN: judged.columns[ORIGIN].cast(pa.string()),
        POSITION: judged.columns[POSITION].cast(pa.int64()),
    }
    some = merged_by(merger, inputs.take(pa.array(each)), np.arange(len(each)))
    more = merged_by(merger, inputs.take(pa.array(rest)), together)
    for name, column in order.items():
        some = some.append_column(name, column.take(pa.array(each)))
        more = more.append_column(name, pa.nulls(more.num_rows, column.type))
    return pa.concat_tables([some, more])


def merged_by(merger: Merger, inputs: pa.Table, groups: Integers) -> pa.Table:
    """Inputs merged by the number of their group, in the order of these numbers."""
    merged = merger.merge([inputs.append_column(_STEP, pa.array(groups))], within=_STEP)
    order = np.argsort(np.asarray(flat(merged.column(_STEP))), kind="stable")
    return merged.drop_columns([_STEP]).take(pa.array(order))


# Where they are merged


@dataclass(frozen=True)
class Panes:
    """The events of each pane merged, place after place, in order."""

    rows: pa.Table
    place: Integers
    fires: Flags
    first: Flags
    """Whether a pane is the first of its place."""

    @property
    def last(self) -> Flags:
        """Whether a pane is the last of its place."""
        return np.append(self.first[1:], True) if len(self.first) else self.first

    @property
    def nth(self) -> Integers:
        """Which pane of its place each is, from 0."""
        within_place: Integers = np.arange(len(self.place)) - _begins(self.first)
        return within_place


class FiringWithin(Firing):
    """Makes the panes of an output whose trigger fires within batches."""

    def lanes(
        self, partials: Sequence[pa.Table], states: pa.Table | None, clocks: Clocks
    ) -> dict[str, pa.Table]:
        fresh = pa.concat_tables(partials) if partials else None
        parts: list[Mapping[str, pa.Table]] = []
        trigger = self.output.trigger
        for late, rule in ((False, trigger.early), (True, trigger.late)):
            rows = _chosen(fresh, _are_late(fresh), late)
            stored = _chosen(states, None if states is None else _waits(states), late)
            if not per_firing(rule):
                parts.append(super().lanes([] if rows is None else [rows], stored, clocks))
            elif late:
                parts.append(self._late_lanes(rule, rows, stored, clocks))
            else:
                enters = None if rows is None else np.asarray(flat(rows.column(FATE))) == _ON_TIME
                rest = _chosen(rows, enters, False)
                parts.append(super().lanes([] if rest is None else [rest], None, clocks))
                parts.append(self._early_lanes(rule, _chosen(rows, enters, True), stored, clocks))
        names = {name for part in parts for name in part}
        return {name: pa.concat_tables(part[name] for part in parts if name in part) for name in names}

    # Early

    def _early_lanes(
        self, rule: Rule, fresh: pa.Table | None, states: pa.Table | None, clocks: Clocks
    ) -> Mapping[str, pa.Table]:
        merged = self._panes(rule, fresh, states, clocks, Fate.ON_TIME)
        if merged is None:
            return {}
        discards = self.output.accumulation is Accumulation.DISCARDING
        shown = merged.rows if discards else self.running(merged.rows, merged.place)
        sequence = _sequences(merged) + merged.nth
        shown = with_columns(
            shown, {**self._of_window(merged), LAST_SEQUENCE: pa.array(sequence, mask=sequence < 0)}
        )
        early = self._early(rule, shown, merged, clocks, discards)
        left = self._left(shown, merged, discards)
        lanes = self.laned(left, np.zeros(left.num_rows, bool), clocks)
        lanes[PaneLane.FIRED] = pa.concat_tables([early, lanes[PaneLane.FIRED]])
        return lanes

    def _early(self, rule: Rule, shown: pa.Table, merged: Panes, clocks: Clocks, discards: bool) -> pa.Table:
        """The panes that fire before the window closes."""
        fires = pa.array(merged.fires)
        due = shown.filter(fires)
        came, began = numbers(due, LAST_ARRIVAL), numbers(merged.rows.filter(fires), SINCE_CLOCK)
        match rule:
            case AfterFirst() | Every(clock="arrival"):
                came = np.maximum(came, by_clock(rule, began))
        mark = numbers(due, LAST_WATERMARK)
        met = pa.array(mark, mask=mark <= BEGIN_OF_TIME)
        panes = self.as_panes(due, clocks, Timing.EARLY, next_sequence(due), pa.array(came), met)
        # What accumulates is counted once, where all of it is.
        return panes if discards else self.merger.uncounted(panes)

    def _left(self, shown: pa.Table, merged: Panes, discards: bool) -> pa.Table:
        """The state of each place after its early panes: one row each."""
        last = pa.array(merged.last)
        left, own = shown.filter(last), merged.rows.filter(last)
        fired = merged.fires[merged.last]
        for name in self._since:
            left = with_columns(left, {name: flat(own.column(name))})
            left = replaced(left, name, None if name in (SINCE_CLOCK, SINCE_MARK) else 0, fired)
        if discards:
            left = self.merger.emptied(self.merger.uncounted(left, fired), fired)
        sequence = pc.if_else(pa.array(fired), next_sequence(left), flat(left.column(LAST_SEQUENCE)))
        return with_columns(left, {LAST_SEQUENCE: sequence})

    @property
    def _since(self) -> list[str]:
        """The private columns that each early pane resets."""
        whens = map(since_when_column, self.output.trigger.whens)
        return [
            name for name in (SINCE, SINCE_CLOCK, SINCE_MARK, *whens) if name in self.merger.state_columns
        ]

    def _of_window(self, merged: Panes) -> dict[str, Any]:
        """The private columns that describe all events of a window, up to each pane."""
        state_columns, columns = self.merger.state_columns, dict[str, Any]()
        starts = _begins(merged.first)
        for name in (HELD, *map(when_column, self.output.trigger.whens)):
            if name in state_columns:
                counts = numbers(merged.rows, name)
                upto = np.cumsum(counts)
                columns[name] = upto - (upto - counts)[starts]
        for name in (FIRST_CLOCK, FIRST_MARK):
            if name in state_columns:
                columns[name] = flat(merged.rows.column(name)).take(pa.array(starts))
        return columns

    # Late

    def _late_lanes(
        self, rule: Rule, fresh: pa.Table | None, states: pa.Table | None, clocks: Clocks
    ) -> Mapping[str, pa.Table]:
        merged = self._panes(rule, fresh, states, clocks, Fate.LATE_ACCEPTED)
        if merged is None:
            return {}
        over = self.is_last(merged.rows, clocks.now)
        none = pa.nulls(merged.rows.num_rows, pa.int64())
        panes = self.as_panes(merged.rows, clocks, Timing.LATE, none, is_last=over & ~merged.fires)
        due = pa.array(merged.fires | over)
        return {PaneLane.LATE: panes.filter(due), PaneLane.WAITING: panes.filter(pc.invert(due))}

    def late_panes(self, added: pa.Table, earlier: pa.Table, clocks: Clocks) -> pa.Table:
        """The LATE panes of each window and key that late events touched, in order, each after the pane that it takes
        back."""
        if not per_firing(self.output.trigger.late):
            return super().late_panes(added, earlier, clocks)
        previous = self._newest(added, earlier)
        discards = self.output.accumulation is Accumulation.DISCARDING
        base = self.merger.emptied(previous) if discards else previous
        both = pa.concat_tables([base, added])
        place = places_of([both.select(["window_start", *self.merger.layout.keys])])
        order = np.argsort(place, kind="stable")
        place, is_base = place[order], (np.arange(both.num_rows) < base.num_rows)[order]
        inputs = pa.concat_tables(
            [
                self.merger.of_states(base, Fate.LATE_ACCEPTED),
                self.merger.of_states(added, Fate.LATE_ACCEPTED, fresh=True),
            ]
        ).take(pa.array(order))
        alone = merged_by(self.merger, inputs, np.arange(len(order)))
        shown = alone if discards else self.running(alone, place)
        first = firsts(place)
        nth = Panes(shown, place, is_base, first).nth
        sequence = np.where(is_base, numbers(alone, LAST_SEQUENCE), 0)[_begins(first)] + nth
        came, met = (flat(alone.column(name)) for name in (LAST_ARRIVAL, LAST_WATERMARK))
        is_last = np.asarray(flat(both.column("is_last")))[order]
        added_now = {name: flat(alone.column(name)) for name in self.merger.new_columns}
        panes = self.as_panes(shown, clocks, Timing.LATE, pa.array(sequence), came, met, is_last)
        panes = with_columns(panes, added_now).filter(pa.array(~is_base))
        return (
            self.with_retracts(panes, previous)
            if self.output.accumulation is Accumulation.RETRACTING
            else panes
        )

    # Merged

    def _panes(
        self, rule: Rule, fresh: pa.Table | None, states: pa.Table | None, clocks: Clocks, fate: Fate
    ) -> Panes | None:
        """The events of each pane; None where there are none."""
        before = [] if states is None else [self.merger.of_states(states, fate)]
        new = [] if fresh is None else [self.merger.as_inputs(fresh)]
        if not before and not new:
            return None
        inputs = pa.concat_tables([*before, *new], promote_options="default")
        if not inputs.num_rows:
            return None
        stored = 0 if states is None else states.num_rows
        names = [START, END, *self.merger.input_keys]
        place = places_of([inputs.select(names)])
        rows = _Rows(self.output, fate, states, fresh)
        order = np.lexsort((*rows.order, np.arange(inputs.num_rows) >= stored, place))
        place, inputs = place[order], inputs.take(pa.array(order))
        cut = rows.cut(rule, order, self._turns(place, inputs, clocks, fate))
        first = firsts(place)
        begins = first | firsts(cut.pane)
        merged = merged_by(self.merger, inputs, np.cumsum(begins) - 1)
        return Panes(merged, place[begins], cut.fires[begins], first[begins])

    def _turns(self, place: Integers, inputs: pa.Table, clocks: Clocks, fate: Fate) -> Turns:
        """What rules need to know about each place; its rows are filled in later."""
        first = firsts(place)
        starts, ends = (numbers(inputs, name)[first] for name in (START, END))
        # An early pane fires up to when the window closes, a late one as long as late events are taken.
        closes = ends + (self.output.settles_after if fate is Fate.LATE_ACCEPTED else 0)
        closed = clocks.closed(closes)
        until = np.asarray(clocks.closings(closes, closed)[0].fill_null(clocks.arrival))
        none = np.zeros(0, np.int64)
        return Turns(place, none, none, none, {}, starts, until, ends, clocks, self.output.window.endless)

    def running(self, rows: pa.Table, place: Integers) -> pa.Table:
        """Each row merged with those of its place before it. It works by halves, so that work is linear in the rows."""
        first = firsts(place)
        if first.all():
            return rows
        nth = Panes(rows, place, first, first).nth
        opens = nth % 2 == 0
        pair = np.cumsum(opens) - 1
        inputs = self.merger.as_inputs(rows)
        sums = self.running(merged_by(self.merger, inputs, pair), place[opens])
        later = np.flatnonzero(opens & ~first)
        parts = [rows.filter(pa.array(first)), sums.take(pa.array(pair[~opens]))]
        at = [np.flatnonzero(first), np.flatnonzero(~opens)]
        if len(later):
            both = pa.concat_tables(
                [self.merger.as_inputs(sums.take(pa.array(pair[later] - 1))), inputs.take(pa.array(later))]
            )
            parts.append(merged_by(self.merger, both, np.tile(np.arange(len(later)), 2)))
            at.append(later)
        return pa.concat_tables(parts).take(pa.array(np.argsort(np.concatenate(at))))


class _Rows:
    """What rules need to know about stored states and fresh rows: states first."""

    def __init__(self, output: Output, fate: Fate, states: pa.Table | None, fresh: pa.Table | None) -> None:
        self.output, self.early = output, fate is Fate.ON_TIME
        self.tables = [each for each in (states, fresh) if each is not None]
        self.stored = 0 if states is None else states.num_rows

    def numbers(self, name: str, nothing: int = 0) -> Integers:
        return np.concatenate([numbers(each, name, nothing) for each in self.tables])

    @property
    def order(self) -> list[Integers]:
        """The columns that order the rows of a place, the least important first."""
        origins = [
            flat(each.column(ORIGIN)).cast(pa.string())
            if ORIGIN in each.column_names
            else pa.nulls(each.num_rows, pa.string())
            for each in self.tables
        ]
        place = [self.numbers(POSITION), text_ranks(pa.concat_arrays(origins))]
        came = [self.numbers(LAST_ARRIVAL), self.numbers(BATCH), self.numbers(SINCE_CLOCK, BEGIN_OF_TIME)]
        return [*place, *came]

    def cut(self, rule: Rule, order: Integers, turns: Turns) -> Cuts:
        """The panes of rows in this order."""
        whens = self.output.trigger.whens
        counted = SINCE if self.early else EVENTS
        since_last_pane = replace(
            turns,
            count=self.numbers(counted)[order],
            clock=self.numbers(SINCE_CLOCK, BEGIN_OF_TIME)[order],
            mark=self.numbers(SINCE_MARK, BEGIN_OF_TIME)[order],
            holds={sql: self.numbers(since_when_column(sql))[order] > 0 for sql in whens},
        )
        if not isinstance(rule, Until):
            return cuts(rule, since_last_pane)
        whole = replace(
            turns,
            count=self.numbers(HELD)[order],
            clock=self.numbers(FIRST_CLOCK, BEGIN_OF_TIME)[order],
            mark=self.numbers(FIRST_MARK, BEGIN_OF_TIME)[order],
            holds={sql: self.numbers(when_column(sql))[order] > 0 for sql in whens},
        )
        return cuts(rule, since_last_pane, whole, self._over(rule, whole, order))

    def _over(self, rule: Until, whole: Turns, order: Integers) -> Flags:
        """Whether the rule of each place had ended before the batch, by the stored state."""
        stored = order < self.stored
        places, place = np.unique(whole.place[stored], return_inverse=True)
        past = Turns(
            place.astype(np.int64),
            whole.count[stored],
            whole.clock[stored],
            whole.mark[stored],
            {sql: holds[stored] for sql, holds in whole.holds.items()},
            whole.starts[places],
            np.full(len(places), whole.clocks.arrival_before, np.int64),
            whole.before[places],
            whole.clocks.at_begin,
            whole.endless,
        )
        over = np.zeros(len(whole.starts), bool)
        over[places] = past.pane_ends(rule.until)[past.bounds[:-1]] < NEVER
        return over


def _sequences(merged: Panes) -> Integers:
    """For each pane, the sequence of the last pane of its place before the batch; -1 where there was none."""
    sequence = np.asarray(pc.fill_null(flat(merged.rows.column(LAST_SEQUENCE)), -1))
    if not len(sequence):
        return sequence
    of_places = np.maximum.reduceat(sequence, np.flatnonzero(merged.first))
    base: Integers = of_places[np.cumsum(merged.first) - 1]
    return base


def _are_late(rows: pa.Table | None) -> Flags | None:
    return None if rows is None else np.asarray(flat(rows.column(FATE))) == _LATE


def _waits(states: pa.Table) -> Flags:
    """Whether stored states are of late events that wait."""
    return np.asarray(pc.fill_null(pc.equal(flat(states.column("timing")), Timing.LATE.value), False))


def _chosen(rows: pa.Table | None, flags: Flags | None, wanted: bool) -> pa.Table | None:
    """The rows whose flag is the wanted one; None where there are none."""
    if rows is None or flags is None:
        return None
    chosen = rows.filter(pa.array(flags == wanted))
    return chosen if chosen.num_rows else None


def _begins(first: Flags) -> Integers:
    """For each row, where its place begins."""
    at = np.arange(len(first))
    begins: Integers = np.maximum.accumulate(np.where(first, at, 0))
    return begins
