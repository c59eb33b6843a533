"""Partial states, open states and windows that close → panes, lane by lane; late panes and retracts from the panes that
stand. Pure functions of Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.model.array_types import Flags, Integers, Micros, Objects
from latecomer.model.arrays import flat
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.store.private_columns import EVENTS, SINCE
from latecomer.windowing.fate_counts import CODES, FATE_NAMES
from latecomer.windowing.firing.clocks import Clocks, early_due, late_due, settled_at
from latecomer.windowing.merge import Merger, replaced, with_columns
from latecomer.windowing.private_columns import (
    END,
    FATE,
    LAST_ARRIVAL,
    LAST_SEQUENCE,
    LAST_WATERMARK,
    START,
    PaneLane,
)
from latecomer.windowing.sessions import row_codes

CLOSING = "closing"
"""One more lane: the last panes of windows."""
_LANES = (PaneLane.OPEN, PaneLane.FIRED, PaneLane.LATE, PaneLane.WAITING, PaneLane.REST)


@dataclass(frozen=True)
class Firing:
    """Makes the panes of an output."""

    merger: Merger

    @property
    def output(self) -> Output:
        return self.merger.output

    # Lanes

    def lanes(
        self, partials: Sequence[pa.Table], states: pa.Table | None, clocks: Clocks
    ) -> dict[str, pa.Table]:
        """Partial states merged with open states: the panes of each lane."""
        inputs: list[Any] = [self.merger.as_inputs(each) for each in partials]
        inputs += [] if states is None else [self.merger.of_states(states)]
        if not inputs:
            return {}
        merged = self.merger.merge(inputs)
        due = np.zeros(merged.num_rows, bool)
        if self.output.trigger.early is not None:
            due = early_due(self.output, clocks, numbers(merged, SINCE), numbers(merged, START))
        return self.laned(merged, due, clocks)

    def laned(self, merged: pa.Table, due: Flags, clocks: Clocks) -> dict[str, pa.Table]:
        """Merged rows as panes, lane by lane. Open windows that are `due` fire."""
        lane = self._lane_of(merged, clocks)
        early = (lane == PaneLane.OPEN) & due
        panes = self.merger.published(merged, self._firing(merged, lane, early, clocks))
        lanes: dict[str, pa.Table] = {name: panes.filter(pa.array(lane == name)) for name in _LANES}
        if early.any():
            fired = merged.filter(pa.array(early))
            arrival, mark = (constant(each, fired.num_rows) for each in (clocks.arrival, clocks.known))
            published = self.as_panes(fired, clocks, Timing.EARLY, next_sequence(fired), arrival, mark)
            lanes[PaneLane.FIRED] = pa.concat_tables([lanes[PaneLane.FIRED], published])
            lanes[PaneLane.OPEN] = self._after_publishing(panes, early).filter(
                pa.array(lane == PaneLane.OPEN)
            )
        return lanes

    def _lane_of(self, merged: pa.Table, clocks: Clocks) -> Objects:
        fate = np.asarray(merged.column(FATE))
        due = late_due(self.output, clocks, numbers(merged, EVENTS), numbers(merged, END))
        late = np.where(due, PaneLane.LATE, PaneLane.WAITING)
        published = np.full(merged.num_rows, PaneLane.FIRED)
        if self.output.closes_silently:
            published = np.where(numbers(merged, SINCE) > 0, PaneLane.FIRED, PaneLane.REST)
        on_time = np.where(clocks.closed(numbers(merged, END)), published, PaneLane.OPEN)
        return np.where(
            fate == CODES[Fate.ON_TIME],
            on_time,
            np.where(fate == CODES[Fate.LATE_ACCEPTED], late, PaneLane.REST),
        ).astype(object)

    def _after_publishing(self, panes: pa.Table, early: Flags) -> pa.Table:
        """Panes with what an early pane changes in the states that stay open: they are counted and published."""
        panes = replaced(self.merger.uncounted(panes, early), SINCE, 0, early)
        if self.output.accumulation is Accumulation.DISCARDING:
            panes = self.merger.emptied(panes, early)
        return panes

    def is_last(self, merged: pa.Table, watermark: Micros | int) -> Flags:
        """Whether nothing more can come for a window once the watermark is here."""
        return watermark >= settled_at(self.output, numbers(merged, END))

    def _firing(self, merged: pa.Table, lane: Objects, early: Flags, clocks: Clocks) -> dict[str, pa.Array]:
        fired, late = lane == PaneLane.FIRED, (lane == PaneLane.LATE) | (lane == PaneLane.WAITING)
        at, mark = clocks.closings(numbers(merged, END), fired)
        is_fired, is_late = pa.array(fired), pa.array(late)
        last, none = flat(merged.column(LAST_SEQUENCE)), pa.scalar(None, pa.int64())
        timing = FATE_NAMES[np.asarray(merged.column(FATE))]
        timing[fired], timing[late] = Timing.ON_TIME.value, Timing.LATE.value
        came, met = (
            pc.if_else(is_late, flat(merged.column(name)), none) for name in (LAST_ARRIVAL, LAST_WATERMARK)
        )
        return {
            "sequence": pc.if_else(
                pa.array(fired | early),
                next_sequence(merged),
                pc.if_else(pa.array(lane == PaneLane.OPEN), last, none),
            ),
            "timing": pa.array(timing, pa.string()),
            "op": pa.array([Op.INSERT.value] * merged.num_rows, pa.string()),
            "is_last": pa.array(fired & self.is_last(merged, np.asarray(mark.fill_null(0)))),
            "batch": constant(clocks.batch, merged.num_rows),
            "fired_at": pc.if_else(is_fired, at, came),
            "watermark": pc.if_else(is_fired, mark, met),
        }

    def as_panes(
        self,
        merged: pa.Table,
        clocks: Clocks,
        timing: Timing,
        sequence: pa.Array,
        fired_at: pa.Array | None = None,
        watermark: pa.Array | None = None,
        is_last: Flags | None = None,
    ) -> pa.Table:
        """Merged rows as panes of one timing. If no moment and watermark are given, they fired when their newest events
        came, at the watermark that these met."""
        count = merged.num_rows
        firing = {
            "sequence": sequence,
            **timing_and_op(timing, Op.INSERT, count),
            "is_last": pa.array(np.zeros(count, bool) if is_last is None else is_last),
            "batch": constant(clocks.batch, count),
            "fired_at": flat(merged.column(LAST_ARRIVAL)) if fired_at is None else fired_at,
            "watermark": flat(merged.column(LAST_WATERMARK)) if watermark is None else watermark,
        }
        return self.merger.published(merged, firing)

    # From the panes that stand

    def late_panes(self, added: pa.Table, earlier: pa.Table, clocks: Clocks) -> pa.Table:
        """One LATE pane for each window and key that late events touched; `earlier` are panes of these windows.

        It holds all that is known, or with `discarding` only what was added. With `retracting`, the pane that it
        replaces is taken back first.
        """
        held = self._newest(added, earlier)
        inputs = [self.merger.of_states(added, Fate.LATE_ACCEPTED, fresh=True)]
        if held.num_rows:
            discards = self.output.accumulation is Accumulation.DISCARDING
            known = self.merger.emptied(held) if discards else held  # emptied, it still has the last sequence
            inputs.append(self.merger.of_states(known, Fate.LATE_ACCEPTED))
        merged = self.merger.merge(inputs)
        panes = self.as_panes(
            merged, clocks, Timing.LATE, next_sequence(merged), is_last=self.is_last(merged, clocks.now)
        )
        if held.num_rows and self.output.accumulation is Accumulation.RETRACTING:
            return self.with_retracts(panes, held)
        return panes

    def retracts(self, fired: pa.Table, earlier: pa.Table) -> pa.Table:
        """Withdrawals of the panes that those which just fired replace."""
        before, replacing = self._replaced(fired, earlier)
        return taken_back(before, fired.take(pa.array(replacing)))

    def _newest(self, wanted: pa.Table, panes: pa.Table) -> pa.Table:
        """The pane that was published last, for each wanted window and key."""
        panes = panes.filter(pc.equal(panes.column("op"), Op.INSERT.value))
        names = ["window_start", *self.merger.layout.keys]
        codes = places_of([wanted.select(names), panes.select(names)])
        wanted_codes, pane_codes = codes[: wanted.num_rows], codes[wanted.num_rows :]
        newest = last_of(pane_codes, np.asarray(flat(panes.column("sequence"))))
        return panes.take(pa.array(np.sort(newest[np.isin(pane_codes[newest], wanted_codes)])))

    def with_retracts(self, panes: pa.Table, earlier: pa.Table) -> pa.Table:
        """Panes in order; the withdrawal of a pane comes right before the pane that replaces it."""
        before, replacing = self._replaced(panes, earlier)
        retracts = taken_back(before, panes.take(pa.array(replacing)))
        order = np.concatenate([2 * np.arange(panes.num_rows) + 1, 2 * replacing])
        return pa.concat_tables([panes, retracts]).take(pa.array(np.argsort(order)))

    def _replaced(self, panes: pa.Table, earlier: pa.Table) -> tuple[pa.Table, Integers]:
        """The earlier pane of each pane that replaces one, and the row of the replacing pane."""
        names = ["window_start", *self.merger.layout.keys]
        held = self._newest(panes, earlier)
        both = pa.concat_tables([held, panes])
        place = places_of([both.select(names)])
        order = np.lexsort((numbers(both, "sequence"), place))
        replacing = np.flatnonzero(place[order][1:] == place[order][:-1]) + 1
        return both.take(pa.array(order[replacing - 1])), order[replacing] - held.num_rows


# Closing panes: the last one of each window and key for which nothing more can come, with the numbers that stand. Where
# the pane that stands is marked as the last already, none is published.


def closing_panes(firing: Firing, panes: pa.Table, published: pa.Table | None, clocks: Clocks) -> pa.Table:
    """One CLOSING pane for each window and key that this batch makes final, from all `panes` up to now.

    `published` are the panes of sessions that have more to publish: those will be taken back, and are not closed.
    """
    ends = np.asarray(flat(panes.column("window_end")).cast(pa.int64()))
    final = settled_at(firing.output, ends)
    known = panes.filter(pa.array((final > clocks.before) & (final <= clocks.now)))
    place = ["window_start", "window_end", *firing.merger.layout.keys]
    others = known.slice(0, 0) if published is None else published
    codes = places_of([known.select(place), others.select(place)])
    own_codes, other_codes = codes[: known.num_rows], codes[known.num_rows :]
    is_retract = np.asarray(pc.equal(known.column("op"), Op.RETRACT.value)).astype(np.int64)
    newest = last_of(own_codes, 2 * np.asarray(flat(known.column("sequence"))) + is_retract)
    is_last = np.asarray(flat(known.column("is_last")))
    stands = newest[(is_retract[newest] == 0) & ~is_last[newest] & ~np.isin(own_codes[newest], other_codes)]
    held = known.take(pa.array(np.sort(stands)))
    closing = _closing(firing, held, clocks)
    if firing.output.accumulation is not Accumulation.RETRACTING:
        return closing
    order = np.concatenate([2 * np.arange(held.num_rows), 2 * np.arange(held.num_rows) + 1])
    return pa.concat_tables([taken_back(held, closing), closing]).take(pa.array(np.argsort(order)))


def _closing(firing: Firing, held: pa.Table, clocks: Clocks) -> pa.Table:
    """The panes that stand, published for the last time; with `discarding`, without values."""
    count, discards = held.num_rows, firing.output.accumulation is Accumulation.DISCARDING
    rows = firing.merger.uncounted(firing.merger.emptied(held) if discards else held)
    changed = {
        "sequence": pc.add(flat(held.column("sequence")), 1),
        **timing_and_op(Timing.CLOSING, Op.INSERT, count),
        "is_last": np.ones(count, bool),
        "batch": constant(clocks.batch, count),
        "fired_at": constant(None if clocks.arrival == BEGIN_OF_TIME else clocks.arrival, count),
        "watermark": constant(clocks.now, count),
    }
    return with_columns(rows, changed)


# Rows


def places_of(parts: Sequence[pa.Table]) -> Integers:
    """A number for each window and key: rows that are equal in all columns, nulls included, have the same."""
    columns = zip(*(map(flat, part.columns) for part in parts), strict=True)
    codes = row_codes(columns, sum(part.num_rows for part in parts))
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)


def last_of(places: Integers, turn: Integers) -> Integers:
    """The row of each place that comes last by `turn`."""
    order = np.lexsort((turn, places))
    return order[np.append(places[order][1:] != places[order][:-1], True)] if len(order) else order


def taken_back(held: pa.Table, new: pa.Table | Mapping[str, pa.Array]) -> pa.Table:
    """The withdrawals of panes, each at the time and for the reason of the `new` one in its place."""
    reasons = {name: new[name] for name in ("timing", "batch", "fired_at", "watermark")}
    op = pa.repeat(pa.scalar(Op.RETRACT.value), held.num_rows)
    return with_columns(held, {**reasons, "op": op, "is_last": np.zeros(held.num_rows, bool)})


def numbers(rows: pa.Table, name: str, nothing: int = 0) -> Integers:
    """A column of numbers, with `nothing` where there is none."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, nothing, np.int64)
    return np.asarray(pc.fill_null(flat(rows.column(name)), nothing))


def next_sequence(merged: pa.Table) -> pa.Array:
    """The sequence after the last one."""
    return pc.fill_null(pc.add(flat(merged.column(LAST_SEQUENCE)), 1), 0)


def constant(value: int | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), count)


def timing_and_op(timing: Timing, op: Op, count: int) -> dict[str, pa.Array]:
    return {
        name: pa.repeat(pa.scalar(word.value, pa.string()), count)
        for name, word in (("timing", timing), ("op", op))
    }
