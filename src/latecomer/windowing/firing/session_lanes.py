"""What becomes of each session at the end of a batch, lane by lane.

open     sessions still open, whole                      → partials
waiting  closed ones whose late events wait, whole       → partials
told     the panes that these will have to take back     → partials
fired    panes, and what they take back                  → panes
rest     one row for each other fate, for the ledger alone
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.model.arrays import flat
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.triggers import Count, Every, per_firing
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.store.columns import HELD, SINCE, UNSETTLED, WAITING_EVENTS
from latecomer.windowing.columns import END, FATE, LAST_ARRIVAL, LAST_WATERMARK, START
from latecomer.windowing.fates import CODES, FATES
from latecomer.windowing.firing.clocks import Clocks
from latecomer.windowing.firing.columns import Lane
from latecomer.windowing.firing.session_bucket import Sessions
from latecomer.windowing.judge import Flags, Micros
from latecomer.windowing.merge import Merger, replaced

_FATE_NAMES = np.array([FATES[code].value for code in sorted(FATES)], object)


def session_lanes(sessions: Sessions, clocks: Clocks, merger: Merger) -> dict[str, pa.Table]:
    """Merged sessions → panes, states and published panes, by lane."""
    return _Lanes(sessions, clocks, merger).tables()


@dataclass(frozen=True)
class _Lanes:
    sessions: Sessions
    clocks: Clocks
    merger: Merger

    @property
    def output(self) -> Output:
        return self.merger.output

    def tables(self) -> dict[str, pa.Table]:
        rows: dict[Lane, list[pa.Table]] = {}
        for lane, table in (*self._own_rows(), *self._rows_of_panes()):
            if table.num_rows:
                rows.setdefault(lane, []).append(table)
        return {lane: pa.concat_tables(tables) for lane, tables in rows.items()}

    # When

    def _numbers(self, name: str) -> Micros:
        """A column of numbers, 0 where there is none."""
        return np.asarray(pc.fill_null(flat(self.sessions.merged.column(name)), 0))

    @cached_property
    def _ours(self) -> Flags:
        """Whether a row is a session: the others are of events that entered none."""
        return np.equal(self._numbers(FATE), CODES[Fate.ON_TIME])

    @cached_property
    def _open(self) -> Flags:
        return self._ours & (self._numbers(END) > self.clocks.now)

    @cached_property
    def _fires(self) -> npt.NDArray[np.object_]:
        """The timing of the pane that a session fires now; no text where it does not."""
        unsettled, waiting, since = map(self._numbers, (UNSETTLED, WAITING_EVENTS, SINCE))
        news = unsettled > 0
        if self.output.closes_silently:
            news &= since > waiting
        closed = self._ours & ~self._open & (news | ((waiting > 0) & self._late_due()))
        again = np.where(self._numbers(HELD) > unsettled, Timing.LATE.value, Timing.ON_TIME.value)
        early = self._open & (since > 0) & self._early_due()
        timing = np.full(len(news), "", object)
        timing[closed], timing[early] = again[closed], Timing.EARLY.value
        return timing

    @cached_property
    def _firing(self) -> Flags:
        firing: Flags = self._fires.astype(bool)
        return firing

    @cached_property
    def _waits(self) -> Flags:
        """Whether a closed session has late events that no pane publishes yet."""
        return self._ours & ~self._open & ~self._firing & (self._numbers(WAITING_EVENTS) > 0)

    def _early_due(self) -> Flags:
        start, clocks = self._numbers(START), self.clocks
        if per_firing(self.output.trigger.early):
            return np.zeros(len(start), bool)
        match self.output.trigger.early:
            case Count(count=count):
                return self._numbers(SINCE) >= count
            case Every(clock="arrival"):
                return np.full(len(start), clocks.early_due)
            case Every(every=every):
                now, before = (np.maximum(0, (mark - start) // every) for mark in (clocks.now, clocks.before))
                return (clocks.now > start) & (now > before)
        return np.zeros(len(start), bool)

    def _late_due(self) -> Flags:
        if per_firing(self.output.trigger.late):
            return np.zeros(len(self._ours), bool)
        match self.output.trigger.late:
            case Count(count=count):
                return (self._numbers(WAITING_EVENTS) >= count) | self._over(self.clocks.now)
            case Every():
                return self._over(self.clocks.now) | self.clocks.late_due
        return np.ones(len(self._ours), bool)

    def _over(self, reached: Micros | int) -> Flags:
        """Whether nothing more can come for a session, where the watermark has reached so far."""
        return reached >= np.minimum(self._numbers(END) + self.output.settles_after, END_OF_TIME)

    # What

    @cached_property
    def _same(self) -> Flags:
        """Whether a session has a pane that stands for the very window it has now."""
        same = np.zeros(len(self._ours), bool)
        if self.sessions.of is not None:
            same[self.sessions.of[self._of_same_window]] = True
        return same

    @cached_property
    def _of_same_window(self) -> Flags:
        """Whether each pane is of the very window that its session has now."""
        panes, of = self._panes
        start, end = (
            np.asarray(flat(panes.column(name)).cast(pa.int64())) for name in ("window_start", "window_end")
        )
        same: Flags = (start == self._numbers(START)[of]) & (end == self._numbers(END)[of])
        return same

    @property
    def _panes(self) -> tuple[pa.Table, Micros]:
        assert self.sessions.panes is not None  # noqa: S101
        assert self.sessions.of is not None  # noqa: S101
        return self.sessions.panes, self.sessions.of

    def _own_rows(self) -> Iterator[tuple[Lane, pa.Table]]:
        """The rows that sessions are themselves."""
        firing, discards = self._firing, self.output.accumulation is Accumulation.DISCARDING
        yield Lane.FIRED, self._published(firing, Lane.FIRED)
        opened = self._published(self._open, Lane.OPEN)
        published = firing[self._open]
        opened = self._counted(opened, published)
        yield Lane.OPEN, self.merger.emptied(opened, published) if discards else opened
        yield Lane.WAITING, self._published(self._waits, Lane.WAITING)
        stays = firing & self._open
        yield (
            Lane.TO_RETRACT,
            self._counted(self._published(stays, Lane.TO_RETRACT), np.ones(int(stays.sum()), bool)),
        )
        yield Lane.REST, self._published(~self._ours, Lane.REST)

    def _rows_of_panes(self) -> Iterator[tuple[Lane, pa.Table]]:
        """The panes that stood before: taken back now, or kept until they are."""
        if self.sessions.panes is None:
            return
        panes, of = self._panes
        firing, stays, same = (each[of] for each in (self._firing, self._open | self._waits, self._same))
        retracting = self.output.accumulation is Accumulation.RETRACTING
        back = firing if retracting else firing & ~same
        yield Lane.FIRED, self._taken_back(panes, of, back, now=True)
        kept = ~firing & stays
        if self.output.accumulation is Accumulation.DISCARDING:
            kept |= firing & stays & same
        yield Lane.TO_RETRACT, self._taken_back(panes, of, kept, now=False)

    def _published(self, which: Flags, lane: Lane) -> pa.Table:
        """Some sessions in the shape of panes, as a lane has them."""
        fired = lane in (Lane.FIRED, Lane.TO_RETRACT)
        count = int(which.sum())
        timing = self._fires if fired else _FATE_NAMES[self._numbers(FATE)]
        op = Op.RETRACT if lane == Lane.TO_RETRACT else Op.INSERT  # it is kept as what it will be
        firing = {
            "sequence": pa.array(self._following[which]) if fired else pa.nulls(count, pa.int64()),
            "timing": pa.array(timing[which], pa.string()),
            "op": pa.array([op.value] * count, pa.string()),
            "is_last": pa.array(self._is_last[which] & (lane == Lane.FIRED)),
            **self._moments(np.flatnonzero(which)),
        }
        rows = self.merger.published(self.sessions.merged.filter(pa.array(which)), firing)
        published = self._firing[which]
        for name in (SINCE, WAITING_EVENTS):
            rows = replaced(rows, name, 0, published)
        return replaced(rows, UNSETTLED, 0) if fired or lane == Lane.WAITING else rows

    def _counted(self, rows: pa.Table, which: Flags) -> pa.Table:
        """Rows in which nothing is new any more where the pane that was fired beside them has counted it."""
        for name in self.merger.new_columns:
            rows = replaced(rows, name, 0, which)
        return rows

    def _taken_back(self, panes: pa.Table, of: Micros, which: Flags, now: bool) -> pa.Table:
        """Panes as rows that take them back, `now` or later: their own windows, values, states and sequences."""
        rows, sessions = panes.filter(pa.array(which)), of[which]
        count = rows.num_rows
        columns = {
            "op": pa.array([Op.RETRACT.value] * count, pa.string()),
            "is_last": pa.array(np.zeros(count, bool)),
            **self._moments(sessions),
        }
        if now:
            columns["timing"] = pa.array(self._fires[sessions], pa.string())
        for name, column in columns.items():
            place = rows.schema.get_field_index(name)
            field = rows.schema.field(place)
            rows = rows.set_column(place, field, column.cast(field.type))
        return self._counted(rows, np.ones(count, bool))

    @cached_property
    def _following(self) -> Micros:
        """The sequence of the next pane of each session."""
        following = np.zeros(len(self._ours), np.int64)
        if self.sessions.of is not None:
            panes, of = self._panes
            last = np.asarray(flat(panes.column("sequence")))
            np.maximum.at(following, of, last + 1)
        return np.where(self._same, following, 0)

    @cached_property
    def _is_last(self) -> Flags:
        """Whether the pane that a session fires is its last, as far as can be known."""
        closed_by = np.asarray(self._closing[1].fill_null(BEGIN_OF_TIME))
        on_time = (self._fires == Timing.ON_TIME.value) & self._over(closed_by)
        late = (self._fires == Timing.LATE.value) & self._over(self.clocks.now)
        last: Flags = on_time | late
        return last

    @cached_property
    def _closing(self) -> tuple[pa.Array, pa.Array]:
        """When each session closed, and by which watermark; null where it has not."""
        return self.clocks.closings(self._numbers(END), self._ours & ~self._open)

    def _moments(self, rows: Micros) -> dict[str, pa.Array]:
        """The batch, and when and by which watermark sessions fired: where one closed, else what its newest event
        met."""
        closes = pa.array((self._numbers(UNSETTLED) > 0) & ~self._open)
        at, mark = self._closing
        met = flat(self.sessions.merged.column(LAST_WATERMARK))
        known = pc.if_else(pc.equal(met, BEGIN_OF_TIME), pa.scalar(None, pa.int64()), met)
        wanted = pa.array(rows)
        return {
            "batch": pa.array(np.full(len(rows), self.clocks.batch, np.int64)),
            "fired_at": pc.if_else(closes, at, flat(self.sessions.merged.column(LAST_ARRIVAL))).take(wanted),
            "watermark": pc.if_else(closes, mark, known).take(wanted),
        }
