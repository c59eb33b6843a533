"""The rows that each session gives at the end of a batch, lane by lane.

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
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.model.array_types import Flags, Integers, Micros, Objects
from latecomer.model.arrays import flat
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.store.private_columns import HELD, SINCE, UNSETTLED, WAITING_EVENTS
from latecomer.windowing.fate_counts import CODES, FATE_NAMES
from latecomer.windowing.firing.clocks import Clocks, early_due, late_due, settled_at
from latecomer.windowing.firing.panes import constant, numbers, taken_back
from latecomer.windowing.firing.session_bucket import Sessions
from latecomer.windowing.merge import Merger, replaced
from latecomer.windowing.private_columns import END, FATE, LAST_ARRIVAL, LAST_WATERMARK, START, PaneLane
from latecomer.windowing.sessions import Places


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
        rows: dict[PaneLane, list[pa.Table]] = {}
        for lane, table in (*self._own_rows(), *self._rows_of_panes()):
            if table.num_rows:
                rows.setdefault(lane, []).append(table)
        return {lane: pa.concat_tables(tables) for lane, tables in rows.items()}

    # When

    def _numbers(self, name: str) -> Integers:
        """A column of numbers, 0 where there is none."""
        return numbers(self.sessions.merged, name)

    @cached_property
    def _ours(self) -> Flags:
        """Whether a row is a session. The others are of events that entered no session."""
        return np.equal(self._numbers(FATE), CODES[Fate.ON_TIME])

    @cached_property
    def _open(self) -> Flags:
        return self._ours & (self._numbers(END) > self.clocks.now)

    @cached_property
    def _fires(self) -> Objects:
        """The timing of the pane that a session fires now; an empty text where it fires none."""
        unsettled, waiting, since = map(self._numbers, (UNSETTLED, WAITING_EVENTS, SINCE))
        news = unsettled > 0
        if self.output.closes_silently:
            news &= since > waiting
        is_late_due = late_due(self.output, self.clocks, waiting, self._numbers(END))
        closed = self._ours & ~self._open & (news | ((waiting > 0) & is_late_due))
        timing_of_closed = np.where(self._numbers(HELD) > unsettled, Timing.LATE.value, Timing.ON_TIME.value)
        early = self._open & early_due(self.output, self.clocks, since, self._numbers(START))
        timing = np.full(len(news), "", object)
        timing[closed], timing[early] = timing_of_closed[closed], Timing.EARLY.value
        return timing

    @cached_property
    def _firing(self) -> Flags:
        firing: Flags = self._fires.astype(bool)
        return firing

    @cached_property
    def _waits(self) -> Flags:
        """Whether a closed session has late events that no pane publishes yet."""
        return self._ours & ~self._open & ~self._firing & (self._numbers(WAITING_EVENTS) > 0)

    def _over(self, watermark: Micros | int) -> Flags:
        """Whether nothing more can come for a session once the watermark is here."""
        return watermark >= settled_at(self.output, self._numbers(END))

    # What

    @cached_property
    def _same(self) -> Flags:
        """Whether a session has a pane that stands for the window that it has now."""
        same = np.zeros(len(self._ours), bool)
        same[self.sessions.of[self._of_same_window]] = True
        return same

    @cached_property
    def _of_same_window(self) -> Flags:
        """Whether each pane is of the window that its session has now."""
        windows, of = Places.of_panes(self.sessions.panes, ()), self.sessions.of
        same: Flags = (windows.start == self._numbers(START)[of]) & (windows.end == self._numbers(END)[of])
        return same

    def _own_rows(self) -> Iterator[tuple[PaneLane, pa.Table]]:
        """The rows of the sessions themselves."""
        firing, discards = self._firing, self.output.accumulation is Accumulation.DISCARDING
        yield PaneLane.FIRED, self._published(firing, PaneLane.FIRED)
        opened = self._published(self._open, PaneLane.OPEN)
        published = firing[self._open]
        opened = self.merger.uncounted(opened, published)
        yield PaneLane.OPEN, self.merger.emptied(opened, published) if discards else opened
        yield PaneLane.WAITING, self._published(self._waits, PaneLane.WAITING)
        kept = self._published(firing & self._open, PaneLane.TO_RETRACT)
        yield PaneLane.TO_RETRACT, self.merger.uncounted(kept)
        yield PaneLane.REST, self._published(~self._ours, PaneLane.REST)

    def _rows_of_panes(self) -> Iterator[tuple[PaneLane, pa.Table]]:
        """The panes that stood before: taken back now, or kept until they are taken back."""
        panes, of = self.sessions.panes, self.sessions.of
        firing, stays, same = (each[of] for each in (self._firing, self._open | self._waits, self._same))
        retracting = self.output.accumulation is Accumulation.RETRACTING
        back = firing if retracting else firing & ~same
        yield PaneLane.FIRED, self._taken_back(panes, of, back, now=True)
        kept = ~firing & stays
        if self.output.accumulation is Accumulation.DISCARDING:
            kept |= firing & stays & same
        yield PaneLane.TO_RETRACT, self._taken_back(panes, of, kept, now=False)

    def _published(self, which: Flags, lane: PaneLane) -> pa.Table:
        """Some sessions in the shape of panes, as a lane has them."""
        fired = lane in (PaneLane.FIRED, PaneLane.TO_RETRACT)
        count = int(which.sum())
        timing = self._fires if fired else FATE_NAMES[self._numbers(FATE)]
        op = Op.RETRACT if lane == PaneLane.TO_RETRACT else Op.INSERT  # kept as it will be published
        firing = {
            "sequence": pa.array(self._following[which]) if fired else pa.nulls(count, pa.int64()),
            "timing": pa.array(timing[which], pa.string()),
            "op": pa.array([op.value] * count, pa.string()),
            "is_last": pa.array(self._is_last[which] & (lane == PaneLane.FIRED)),
            **self._moments(np.flatnonzero(which)),
        }
        rows = self.merger.published(self.sessions.merged.filter(pa.array(which)), firing)
        published = self._firing[which]
        for name in (SINCE, WAITING_EVENTS):
            rows = replaced(rows, name, 0, published)
        return replaced(rows, UNSETTLED, 0) if fired or lane == PaneLane.WAITING else rows

    def _taken_back(self, panes: pa.Table, of: Integers, which: Flags, now: bool) -> pa.Table:
        """Panes as rows that take them back, `now` or later, with their own windows, values, states and sequences."""
        rows, sessions = panes.filter(pa.array(which)), of[which]
        timing = pa.array(self._fires[sessions], pa.string()) if now else rows["timing"]
        return self.merger.uncounted(taken_back(rows, {"timing": timing, **self._moments(sessions)}))

    @cached_property
    def _following(self) -> Integers:
        """The sequence of the next pane of each session."""
        following = np.zeros(len(self._ours), np.int64)
        last = np.asarray(flat(self.sessions.panes.column("sequence")))
        np.maximum.at(following, self.sessions.of, last + 1)
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

    def _moments(self, rows: Integers) -> dict[str, pa.Array]:
        """The batch, and the moment and watermark at which sessions fired: those of its closing, else those that its
        newest event met."""
        closes = pa.array((self._numbers(UNSETTLED) > 0) & ~self._open)
        at, mark = self._closing
        met = flat(self.sessions.merged.column(LAST_WATERMARK))
        known = pc.if_else(pc.equal(met, BEGIN_OF_TIME), pa.scalar(None, pa.int64()), met)
        wanted = pa.array(rows)
        return {
            "batch": constant(self.clocks.batch, len(rows)),
            "fired_at": pc.if_else(closes, at, flat(self.sessions.merged.column(LAST_ARRIVAL))).take(wanted),
            "watermark": pc.if_else(closes, mark, known).take(wanted),
        }
