"""What computing windows anew changes: the numbers that should stand, beside those that do. One row a window and key.

Its columns are START, END, the keys, CHANGE, BEFORE and AFTER (values and states), PRIOR and SEQUENCE. The
CORRECTION panes are made of them; batch, moment and watermark are filled in when these are published.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.rebuild.private_columns import AFTER, BEFORE, CHANGE, PRIOR, SEQUENCE
from latecomer.after.rebuild.rebuilt import RebuiltRange, counters, of_no_events, place_names, stated_kinds
from latecomer.model.array_types import Flags, Integers
from latecomer.model.arrays import flat
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.store.files import Location, new_parquet
from latecomer.store.private_columns import EVENTS, HELD
from latecomer.windowing.aggregates import trigger_columns
from latecomer.windowing.firing.panes import constant, last_of, numbers, places_of, timing_and_op
from latecomer.windowing.merge import Merger, replaced
from latecomer.windowing.private_columns import END, START
from latecomer.windowing.session_judge import session_of
from latecomer.windowing.sessions import Places, key_codes, numbered

NEW, CHANGED, WITHDRAWN = "new", "changed", "withdrawn"
_AT_ONCE = 1 << 16
"""So many changes are made into panes at once."""
NEAR = 1e-9
"""Floating point sums that differ by no more than this share are equal: they depend on the order of their terms."""


def changes(range_: RebuiltRange, truth: pa.Table, panes: pa.Table, merger: Merger) -> pa.Table:
    """What computing the range anew changes. `truth` is what should stand, `panes` are all that were published."""
    if not range_.session:
        start, end = (numbers(panes, name) for name in (START, END))
        panes = panes.filter(pa.array(range_.windows.closed(start, end)))
    discards = range_.logic.output.accumulation is Accumulation.DISCARDING
    published = _added_up(range_, panes, merger) if discards else _last(range_, panes)
    return _Beside.of(range_, truth, published).changes(merger)


@dataclass(frozen=True)
class _Published:
    """What stands for each window and key, by the panes that were published."""

    places: pa.Table
    """START, END and keys."""
    rows: pa.Table
    """The values and states that stand."""
    row: Integers
    """For each place, the number of its row in `rows`; -1 where nothing stands."""
    following: Integers
    """For each place, the sequence of its next pane."""
    panes: pa.Table
    """The panes that stand."""
    pane_of: Integers
    """For each of these panes, the number of its place, ascending."""


def _last(range_: RebuiltRange, panes: pa.Table) -> _Published:
    """The pane that was published last stands, unless it was taken back: a retract comes after the insert of its
    sequence."""
    names = place_names(range_.logic)
    turn = 2 * numbers(panes, "sequence") + _is_retract(panes)
    newest = last_of(places_of([panes.select(names)]), turn)
    rows = panes.take(pa.array(newest))
    stands = turn[newest] % 2 == 0
    row = np.where(stands, np.arange(len(newest)), -1)
    standing = rows.filter(pa.array(stands))
    for name in counters(range_.logic):  # a pane that is taken back counts nothing as new
        standing = replaced(standing, name, 0)
    return _Published(rows.select(names), rows, row, turn[newest] // 2 + 1, standing, np.flatnonzero(stands))


def _added_up(range_: RebuiltRange, panes: pa.Table, merger: Merger) -> _Published:
    """Discarding panes have what is new. Their sum stands."""
    names = place_names(range_.logic)
    codes, sequence = places_of([panes.select(names)]), numbers(panes, "sequence")
    retract = _is_retract(panes).astype(bool)
    turns = places_of([pa.table({"place": codes, "sequence": sequence})])
    kept = np.flatnonzero(~retract & ~np.isin(turns, turns[retract]))
    kept = kept[np.argsort(codes[kept], kind="stable")]
    newest = last_of(codes, sequence)
    places, standing = panes.select(names).take(pa.array(newest)), panes.take(pa.array(kept))
    if not len(kept):
        none = np.full(len(newest), -1, np.int64)
        return _Published(places, panes.slice(0, 0), none, sequence[newest] + 1, standing, kept)
    added = merger.merge([merger.of_states(standing, Fate.ON_TIME)])
    both = places_of([places, added.select(names)])
    row = np.full(len(newest), -1, np.int64)
    at = np.empty(int(both.max()) + 1, np.int64)
    at[both[: len(newest)]] = np.arange(len(newest))
    row[at[both[len(newest) :]]] = np.arange(added.num_rows)
    # Places are in the order of their numbers, and so are the panes.
    return _Published(places, added, row, sequence[newest] + 1, standing, codes[kept])


def _is_retract(panes: pa.Table) -> Integers:
    return np.asarray(flat(pc.equal(panes.column("op"), Op.RETRACT.value))).astype(np.int64)


@dataclass(frozen=True)
class _Beside:
    """What should stand beside what does: a row for each window and key."""

    range_: RebuiltRange
    truth: pa.Table
    published: _Published
    after: Integers
    """For each, the number of its row in `truth`; -1 where there is none."""
    before: Integers
    """For each, the number of its place in `published`; -1 where nothing was published."""

    @classmethod
    def of(cls, range_: RebuiltRange, truth: pa.Table, published: _Published) -> _Beside:
        names = place_names(range_.logic)
        codes = places_of([truth.select(names), published.places])
        after, before = (np.full(int(codes.max(initial=-1)) + 1, -1, np.int64) for _ in range(2))
        after[codes[: truth.num_rows]] = np.arange(truth.num_rows)
        before[codes[truth.num_rows :]] = np.arange(published.places.num_rows)
        return cls(range_, truth, published, after, before)

    @property
    def stands(self) -> Integers:
        """For each window and key, the number of its row in `published.rows`; -1 where nothing stands."""
        return np.append(self.published.row, -1)[self.before]

    def changes(self, merger: Merger) -> pa.Table:
        """The rows that differ."""
        is_, was = self.after >= 0, self.stands >= 0
        chosen = np.flatnonzero((is_ | was) & self._chosen(is_ | was))
        both = chosen[is_[chosen] & was[chosen]]
        differing = np.union1d(chosen[is_[chosen] != was[chosen]], both[self._differs(both)])
        rows = self._rows(differing)
        return self._kept_empty(rows, merger) if self.range_.logic.output.emit_empty else rows

    def _chosen(self, present: Flags) -> Flags:
        """The windows to compute anew. Sessions are chosen together with all that they touch."""
        if not self.range_.session:
            places = self._places(np.arange(len(self.after)))
            return self.range_.windows.closed(numbers(places, START), numbers(places, END))
        nth = np.flatnonzero(present)
        chosen = np.zeros(len(present), bool)
        chosen[nth] = _chosen_sessions(self.range_, self._places(nth))
        return chosen

    def _places(self, nth: Integers) -> pa.Table:
        """START, END and keys of some rows."""
        is_ = self.after[nth] >= 0
        both = pa.concat_tables(
            [self.truth.select(self.published.places.column_names), self.published.places],
            promote_options="none",
        )
        return both.take(pa.array(np.where(is_, self.after[nth], self.truth.num_rows + self.before[nth])))

    def _differs(self, nth: Integers) -> Flags:
        """Whether a value that stands, or its state, is not what it should be."""
        logic = self.range_.logic
        aggregates = logic.output.aggregates
        sketched = {name for name, each in aggregates.items() if each.function == "approx_percentile"}
        differs = np.zeros(len(nth), bool)
        # The time at which events came, and the progress of each discarding pane, are no part of the number.
        not_compared = {HELD, *trigger_columns(logic.output)}
        after, before = pa.array(self.after[nth]), pa.array(self.stands[nth])
        for name, kind in stated_kinds(logic).items():
            one, other = (
                flat(rows.column(name)).take(chosen)
                for rows, chosen in ((self.published.rows, before), (self.truth, after))
            )
            if name in sketched:
                # A percentile's sketch is random: the same events may give a slightly different value. So only its
                # presence is compared: a new aggregate is in no pane yet.
                differs |= np.asarray(one.is_null()) != np.asarray(other.is_null())
            elif kind != "binary" and name not in not_compared:
                differs |= ~_same(one, other, kind)
        return differs

    def _rows(self, nth: Integers) -> pa.Table:
        """Some rows as changes."""
        logic, is_, was = self.range_.logic, self.after[nth] >= 0, self.stands[nth] >= 0
        names = list(stated_kinds(logic))
        truth = self.truth.take(pa.array(self.after[nth], mask=~is_))
        stands = self.published.rows.take(pa.array(self.stands[nth], mask=~was))
        places, known = self._places(nth), self.before[nth] >= 0
        change = np.where(is_, np.where(was, CHANGED, NEW), WITHDRAWN).astype(object)
        following = np.append(self.published.following, 0)[self.before[nth]]
        return pa.table(
            {
                **{name: places.column(name) for name in places.column_names},
                BEFORE: _struct(stands, names, was),
                AFTER: _struct(truth, names, is_),
                PRIOR: self._prior(nth, was),
                SEQUENCE: pa.array(following, mask=~known),
                CHANGE: pa.array(change, pa.string()),
            }
        )

    def _prior(self, nth: Integers, was: Flags) -> pa.Array:
        """The panes that stand for each row, as a list; null where none does."""
        panes, of = self.published.panes, self.published.pane_of
        low, high = (np.searchsorted(of, self.before[nth], side=side) for side in ("left", "right"))
        counts = np.where(was, high - low, 0)
        ends = np.concatenate([[0], np.cumsum(counts)])
        chosen = np.repeat(low - ends[:-1], counts) + np.arange(ends[-1])
        names = self.range_.logic.merger.schema.names
        rows = panes.select(names).take(pa.array(chosen))
        each = _struct(rows, names, np.ones(rows.num_rows, bool))
        return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), each, mask=pa.array(~was))

    def _kept_empty(self, rows: pa.Table, merger: Merger) -> pa.Table:
        """The changes, with empty windows instead of withdrawn ones: a key that was published keeps its windows."""
        logic, names = self.range_.logic, place_names(self.range_.logic)
        kept = rows.filter(pc.is_valid(rows.column(AFTER)))
        events = pc.fill_null(pc.struct_field(rows.column(BEFORE), EVENTS), 0)
        emptied = rows.filter(pc.and_(pc.is_null(rows.column(AFTER)), pc.greater(events, 0)))
        if not emptied.num_rows:
            return kept
        nothing = of_no_events(self.range_, emptied.select(names), merger)
        codes = places_of([emptied.select(names), nothing.select(names)])
        at = np.empty(emptied.num_rows, np.int64)
        at[codes[emptied.num_rows :]] = np.arange(emptied.num_rows)
        nothing = nothing.take(pa.array(at[codes[: emptied.num_rows]]))
        kinds = logic.merger.schema
        stated = {name: nothing.column(name).cast(kinds.field(name).type) for name in stated_kinds(logic)}
        after = _struct(pa.table(stated), list(stated), np.ones(emptied.num_rows, bool))
        emptied = emptied.set_column(emptied.schema.get_field_index(AFTER), AFTER, after)
        changed = pa.repeat(pa.scalar(CHANGED, pa.string()), emptied.num_rows)
        emptied = emptied.set_column(emptied.schema.get_field_index(CHANGE), CHANGE, changed)
        return pa.concat_tables([kept, emptied])


def _chosen_sessions(range_: RebuiltRange, rows: pa.Table) -> Flags:
    """Whether each session, with all that it touches, has closed and reaches into the range."""
    window = session_of(range_.logic.output)
    places = Places.of_merged(rows, list(range_.logic.layout.keys))
    (codes,) = key_codes([places])
    sessions = numbered(codes, places.start, places.end, window)
    within = np.zeros(len(sessions.starts), bool)
    within[sessions.session[(places.start < range_.until) & (places.end > range_.since)]] = True
    gap = window.gap if range_.whole > BEGIN_OF_TIME else 0
    closed = (sessions.ends <= range_.watermark) & (sessions.starts >= range_.whole + gap)
    return np.asarray((within & closed)[sessions.session], bool)


def _same(one: pa.Array, other: pa.Array, kind: str) -> Flags:
    """Whether two columns are equal, row by row; null is equal to null, and NaN to NaN."""
    if pa.types.is_nested(one.type):
        pairs = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return np.array([a == b or repr(a) == repr(b) for a, b in pairs], bool)
    same = pc.equal(one, other)
    if kind in ("double", "float"):
        most = pc.max_element_wise(pc.abs(one), pc.abs(other))
        near = pc.less_equal(pc.abs(pc.subtract(one, other)), pc.multiply(most, NEAR))
        same = pc.or_(pc.or_(same, near), pc.and_(pc.is_nan(one), pc.is_nan(other)))
    same = pc.or_(pc.fill_null(same, False), pc.and_(one.is_null(), other.is_null()))
    return np.asarray(same)


def _struct(rows: pa.Table, names: Sequence[str], present: Flags) -> pa.Array:
    columns = [flat(rows.column(name)) for name in names]
    return pa.StructArray.from_arrays(columns, list(names), mask=pa.array(~present))


def write_panes(range_: RebuiltRange, changes: pa.Table, folder: Location) -> None:
    """Write a pane for each window and key that changes. Before it comes the retract of what it replaces, where the
    output retracts what it replaces, or where nothing takes its place."""
    logic = range_.logic
    with new_parquet(folder / "panes.parquet", logic.merger.schema) as writer:
        for first in range(0, changes.num_rows, _AT_ONCE):
            part = changes.slice(first, _AT_ONCE)
            for panes in (_retracts(range_, part), _inserts(range_, part)):
                if panes.num_rows:
                    writer.write_table(panes)


def field_of(rows: pa.Table, side: str, name: str) -> pa.ChunkedArray:
    """A value or state, before or after."""
    return pc.struct_field(rows[side], name)


def _inserts(range_: RebuiltRange, part: pa.Table) -> pa.Table:
    logic = range_.logic
    rows = part.filter(pc.is_valid(part[AFTER]))
    stated = {name: field_of(rows, AFTER, name) for name in stated_kinds(logic)}
    zero = {name: constant(0, rows.num_rows) for name in counters(logic)}
    firing = {"sequence": pc.fill_null(rows[SEQUENCE], 0), **_firing(rows.num_rows, Op.INSERT)}
    merged = pa.table({**{name: rows[name] for name in place_names(logic)}, **stated, **zero})
    return logic.merger.published(merged, firing)


def _retracts(range_: RebuiltRange, part: pa.Table) -> pa.Table:
    logic = range_.logic
    taken_back = pc.is_valid(part[PRIOR])
    # Where nothing was ever to be replaced, sinks may add up what they receive: so all is retracted.
    if logic.output.accumulation is Accumulation.ACCUMULATING and logic.output.replaces:
        taken_back = pc.and_(taken_back, pc.is_null(part[AFTER]))
    prior = pc.list_flatten(part.filter(taken_back)[PRIOR])
    schema, firing = logic.merger.schema, _firing(len(prior), Op.RETRACT)
    columns = {
        name: firing[name] if name in firing else pc.struct_field(prior, name) for name in schema.names
    }
    return pa.table(columns).cast(schema)


def _firing(rows: int, op: Op) -> dict[str, pa.Array]:
    unknown = {name: constant(None, rows) for name in ("batch", "fired_at", "watermark")}
    return {
        **timing_and_op(Timing.CORRECTION, op, rows),
        "is_last": pa.repeat(pa.scalar(False), rows),
        **unknown,
    }
