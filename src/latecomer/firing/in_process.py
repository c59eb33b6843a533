"""A batch of an output without Spark: lanes, late panes and side output, as `lanes.py`, `late.py` and `side_output.py`
have them in SQL, for the common case (ADR 0056)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.models import Output
from latecomer.fast import MOST_ROWS, Declined, flat
from latecomer.firing.batch import Batch, by_arrival
from latecomer.firing.columns import Lane
from latecomer.firing.lanes import Lanes
from latecomer.model.panes import Accumulation, Op, Timing
from latecomer.model.triggers import Count, Every
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate, Verdict
from latecomer.store.columns import EVENTS, LANE, SINCE
from latecomer.store.files import Location, dataset, write_table
from latecomer.store.layout import TIMESTAMP, EventLayout
from latecomer.timeline.keeper import Step
from latecomer.windowing.columns import END, FATE, LAST_ARRIVAL, LAST_SEQUENCE, LAST_WATERMARK, START
from latecomer.windowing.judge import CODES, FATES
from latecomer.windowing.judge_in_process import Judged, Micros, Watermarks, judged
from latecomer.windowing.merge import Merger
from latecomer.windowing.merge_in_process import ArrowMerger, replaced
from latecomer.windowing.tally_in_process import stored_columns

_FILE = "part.parquet"
_LANES = (Lane.OPEN, Lane.FIRED, Lane.LATE, Lane.WAITING, Lane.REST)
_FATE_NAMES = np.array([FATES[code].value for code in sorted(FATES)], object)


@dataclass(frozen=True)
class ArrowOutput:
    """Computes an output's files in this process. What it cannot do is `Declined`, here or when it is asked."""

    merger: Merger
    layout: EventLayout
    arrow: ArrowMerger

    @classmethod
    def of(cls, merger: Merger, layout: EventLayout) -> ArrowOutput:
        return cls(merger, layout, ArrowMerger(merger))

    @property
    def output(self) -> Output:
        return self.merger.output

    def lanes(
        self,
        batch: Batch,
        states: Sequence[Location],
        closed: Mapping[int, Step],
        folder: Location,
    ) -> Lanes:
        """Merge events and open states, and write every lane; `closed` says when window ends closed, and by which
        watermark."""
        merged = self._merged_log(batch) if batch.history else self._merged(batch, states)
        lane = self._lane_of(merged, batch, closed)
        early = (lane == Lane.OPEN) & self._early_due(merged, batch)
        panes = self.arrow.published(merged, self._firing(merged, lane, early, batch, closed))
        lanes = {name: panes.filter(pa.array(lane == name)) for name in _LANES}
        if early.any():
            due = merged.filter(pa.array(early))
            published = self.arrow.published(due, self._early_firing(due, batch))
            lanes[Lane.FIRED] = pa.concat_tables([lanes[Lane.FIRED], published])
            lanes[Lane.OPEN] = self._after_publishing(panes, early).filter(pa.array(lane == Lane.OPEN))
        for name, rows in lanes.items():
            if rows.num_rows:
                write_table(rows, folder / f"{LANE}={name}" / _FILE)
        return Lanes(folder, self.merger)

    def _merged(self, batch: Batch, states: Sequence[Location]) -> pa.Table:
        """The events of a batch and the open states that they meet, merged."""
        inputs = []
        if batch.logged is not None:
            events = judged(batch.logged.table, self.layout, self.output, timeline(batch), self.arrow.columns)
            inputs.append(self.arrow.of_events(events))
        if states:
            inputs.append(self.arrow.of_states(self._read(states)))
        return self.arrow.merge(inputs)

    def _merged_log(self, batch: Batch) -> pa.Table:
        """All events of the log, merged a part at a time."""
        if batch.logged is None:
            raise Declined("a log without events")
        needed = stored_columns(self.layout, [self.output], self.arrow.columns)
        merged = self.arrow.merge_parts(
            judged(part, self.layout, self.output, timeline(batch), self.arrow.columns)
            for part in batch.logged.parts(needed)
        )
        if merged is None:
            raise Declined("a log without events")
        return merged

    def _early_due(self, merged: pa.Table, batch: Batch) -> npt.NDArray[np.bool_]:
        """Whether windows fire early, if they are open."""
        none, stretch = np.zeros(merged.num_rows, bool), batch.stretch
        rule = self.output.trigger.early
        if rule is None:
            return none
        since = _numbers(merged, SINCE)
        match rule:
            case Count(count=count):
                return since >= count
            case Every(clock="arrival", every=every):
                return (since > 0) & stretch.passed(every)
        now, before, every = stretch.fires_at, stretch.watermark_before, rule.every
        if self.output.window.endless:
            return (since > 0) & (now > BEGIN_OF_TIME and now // every > stretch.began_at // every)
        start = _numbers(merged, START)
        reached, earlier = (np.maximum(0, (mark - start) // every) for mark in (now, before))
        return (since > 0) & (now > start) & (reached > earlier)

    def _early_firing(self, merged: pa.Table, batch: Batch) -> dict[str, pa.Array]:
        """The firing columns of EARLY panes."""
        count, known = merged.num_rows, batch.stretch.fires_at
        mark = None if known == BEGIN_OF_TIME else known
        return {
            "sequence": _following(merged),
            "timing": pa.array([Timing.EARLY.value] * count, pa.string()),
            "op": pa.array([Op.INSERT.value] * count, pa.string()),
            "is_last": pa.array(np.zeros(count, bool)),
            "batch": _constant(batch.number, count),
            "fired_at": _constant(batch.stretch.clock, count),
            "watermark": pa.nulls(count, pa.int64()) if mark is None else _constant(mark, count),
        }

    def _after_publishing(self, panes: pa.Table, early: npt.NDArray[np.bool_]) -> pa.Table:
        """What an early pane changes in the state that stays open: the pane has been counted, and published."""
        for name in (*self.merger.new_columns, SINCE):
            panes = replaced(panes, name, 0, early)
        if self.output.accumulation is Accumulation.DISCARDING:
            panes = self.arrow.emptied(panes, early)
        return panes

    def _read(self, files: Sequence[Location], starts: Sequence[int] | None = None) -> pa.Table:
        """Stored panes or states; those alone of windows that start so."""
        wanted = None
        if starts is not None:
            wanted = pc.field("window_start").isin(pa.array(starts, pa.int64()).cast(TIMESTAMP))
        rows = dataset(files, self.merger.schema)
        if rows.count_rows() > MOST_ROWS:
            raise Declined(f"more than {MOST_ROWS:,} rows")
        return rows.to_table(filter=wanted)

    def _lane_of(self, merged: pa.Table, batch: Batch, closed: Mapping[int, Step]) -> npt.NDArray[np.object_]:
        fate = np.asarray(merged.column(FATE))
        ends = _numbers(merged, END)
        fired = np.isin(ends, np.array(list(closed), np.int64))
        late = np.where(self._late_due(merged, batch), Lane.LATE, Lane.WAITING)
        published = np.full(merged.num_rows, Lane.FIRED)
        if self.output.closes_silently:
            published = np.where(_numbers(merged, SINCE) > 0, Lane.FIRED, Lane.REST)
        on_time = np.where(fired, published, Lane.OPEN)
        return np.where(
            fate == CODES[Fate.ON_TIME],
            on_time,
            np.where(fate == CODES[Fate.LATE_ACCEPTED], late, Lane.REST),
        ).astype(object)

    def _late_due(self, merged: pa.Table, batch: Batch) -> npt.NDArray[np.bool_]:
        """Whether what late events add fires now."""
        over = self._is_last(merged, np.full(merged.num_rows, batch.stretch.fires_at, np.int64))
        match self.output.trigger.late:
            case Count(count=count):
                return (_numbers(merged, EVENTS) >= count) | over
            case Every() as rule:
                due = by_arrival(rule) and batch.stretch.passed(rule.every)
                return over | due
        return np.ones(merged.num_rows, bool)

    def _is_last(self, merged: pa.Table, reached: Micros) -> npt.NDArray[np.bool_]:
        """Whether nothing more can come for a window, where the watermark has reached so far."""
        ends = _numbers(merged, END)
        return reached >= np.minimum(ends + self.output.settles_after, END_OF_TIME)

    def _firing(
        self,
        merged: pa.Table,
        lane: npt.NDArray[np.object_],
        early: npt.NDArray[np.bool_],
        batch: Batch,
        closed: Mapping[int, Step],
    ) -> dict[str, pa.Array]:
        fired, late = lane == Lane.FIRED, (lane == Lane.LATE) | (lane == Lane.WAITING)
        at, mark = _closings(_numbers(merged, END), closed, fired)
        is_fired, is_late = pa.array(fired), pa.array(late)
        last = flat(merged.column(LAST_SEQUENCE))
        none = pa.scalar(None, pa.int64())
        reached = np.asarray(mark.fill_null(0))
        timing = _FATE_NAMES[np.asarray(merged.column(FATE))]
        timing[fired], timing[late] = Timing.ON_TIME.value, Timing.LATE.value
        return {
            "sequence": pc.if_else(
                pa.array(fired | early),
                _following(merged),
                pc.if_else(pa.array(lane == Lane.OPEN), last, none),
            ),
            "timing": pa.array(timing, pa.string()),
            "op": pa.array([Op.INSERT.value] * merged.num_rows, pa.string()),
            "is_last": pa.array(fired & self._is_last(merged, reached)),
            "batch": _constant(batch.number, merged.num_rows),
            "fired_at": pc.if_else(
                is_fired, at, pc.if_else(is_late, flat(merged.column(LAST_ARRIVAL)), none)
            ),
            "watermark": pc.if_else(
                is_fired, mark, pc.if_else(is_late, flat(merged.column(LAST_WATERMARK)), none)
            ),
        }

    # After the lanes

    def late_panes(
        self,
        added: Sequence[Location],
        earlier: Sequence[Location],
        starts: Sequence[int],
        batch: Batch,
        folder: Location,
    ) -> None:
        """One LATE pane for each window and key that late events touched."""
        delta = self._read(added)
        held = self._standing(delta, earlier, starts)
        inputs = [self.arrow.of_states(delta, Fate.LATE_ACCEPTED, fresh=True)]
        if held.num_rows:
            discards = self.output.accumulation is Accumulation.DISCARDING
            known = self.arrow.emptied(held) if discards else held  # then it says which sequence was the last
            inputs.append(self.arrow.of_states(known, Fate.LATE_ACCEPTED))
        merged = self.arrow.merge(inputs)
        count = merged.num_rows
        reached = np.full(count, batch.stretch.fires_at, np.int64)
        panes = self.arrow.published(
            merged,
            {
                "sequence": _following(merged),
                "timing": pa.array([Timing.LATE.value] * count, pa.string()),
                "op": pa.array([Op.INSERT.value] * count, pa.string()),
                "is_last": pa.array(self._is_last(merged, reached)),
                "batch": _constant(batch.number, count),
                "fired_at": flat(merged.column(LAST_ARRIVAL)),
                "watermark": flat(merged.column(LAST_WATERMARK)),
            },
        )
        if earlier and self.output.accumulation is Accumulation.RETRACTING:
            panes = self._with_retracts(panes, held)
        write_table(panes, folder / _FILE)

    def retracts(self, fired: Sequence[Location], earlier: Sequence[Location], folder: Location) -> None:
        """Take back what panes that just fired replace: the early panes of their windows."""
        if not fired:
            return
        panes = self._read(fired)
        panes = panes.filter(pc.greater(panes.column("sequence"), 0))
        starts = pc.unique(panes.column("window_start")).cast(pa.int64()).to_pylist()
        held = self._standing(panes, earlier, starts)
        if held.num_rows:
            new = panes.take(pa.array(self._of_held(panes, held)))
            write_table(self._taken_back(held, new), folder / _FILE)

    def _standing(self, delta: pa.Table, earlier: Sequence[Location], starts: Sequence[int]) -> pa.Table:
        """The pane that was published last for each window and key in `delta`."""
        if not earlier:
            return delta.slice(0, 0)
        panes = self._read(earlier, starts)
        panes = panes.filter(pc.equal(panes.column("op"), Op.INSERT.value))
        codes = self._places(pa.concat_tables([delta, panes]))
        wanted, there = codes[: delta.num_rows], codes[delta.num_rows :]
        sequence = np.asarray(flat(panes.column("sequence")))
        order = np.lexsort((sequence, there))
        newest = order[np.append(there[order][1:] != there[order][:-1], True)] if len(order) else order
        return panes.take(pa.array(np.sort(newest[np.isin(there[newest], wanted)])))

    def _places(self, rows: pa.Table) -> Micros:
        """A number for each window and key: the same where both are, nulls included."""
        codes = np.zeros(rows.num_rows, np.int64)
        for name in ("window_start", *self.merger.layout.keys):
            encoded = flat(rows.column(name)).dictionary_encode(null_encoding="encode")
            both = codes * (len(encoded.dictionary) + 1) + np.asarray(encoded.indices).astype(np.int64)
            codes = np.unique(both, return_inverse=True)[1].astype(np.int64)
        return codes

    def _with_retracts(self, panes: pa.Table, held: pa.Table) -> pa.Table:
        """Each pane that replaces another, preceded by the withdrawal of that other."""
        of_held = self._of_held(panes, held)
        retracts = self._taken_back(held, panes.take(pa.array(of_held)))
        order = np.concatenate([2 * np.arange(panes.num_rows) + 1, 2 * of_held])
        return pa.concat_tables([panes, retracts]).take(pa.array(np.argsort(order)))

    def _of_held(self, panes: pa.Table, held: pa.Table) -> Micros:
        """Which pane takes the place of each that is held."""
        codes = self._places(pa.concat_tables([panes, held]))
        place = {int(code): nth for nth, code in enumerate(codes[: panes.num_rows])}
        return np.array([place[int(code)] for code in codes[panes.num_rows :]], np.int64)

    def _taken_back(self, held: pa.Table, new: pa.Table) -> pa.Table:
        """The withdrawals of panes, each at the time and for the reason of the `new` one in its place."""
        why = {name: new.column(name) for name in ("timing", "batch", "fired_at", "watermark")}
        replaced = {
            **why,
            "op": pa.array([Op.RETRACT.value] * held.num_rows, pa.string()),
            "is_last": pa.array([False] * held.num_rows, pa.bool_()),
        }
        return pa.table(
            {name: replaced.get(name, held.column(name)) for name in held.column_names}, schema=held.schema
        )

    def side_output(self, batch: Batch, folder: Location) -> None:
        """The events with the fate side output, each with the window it missed and the watermark it met."""
        if batch.logged is None:
            raise Declined("a batch without events")
        logged = batch.logged
        parts = logged.parts(self.layout.schema.names) if batch.history else [logged.table]
        for nth, events in enumerate(parts):
            rows = self._set_aside(events, timeline(batch))
            if rows.num_rows or not nth:
                write_table(rows, folder / f"part-{nth}.parquet")

    def _set_aside(self, events: pa.Table, ticks: Watermarks) -> pa.Table:
        return self.missed(events, judged(events, self.layout, self.output, ticks, self.output.counted))

    def missed(self, events: pa.Table, found: Judged) -> pa.Table:
        """The side output of events that have been judged."""
        output = self.output
        aside = found.fate == CODES[Fate.SIDE_OUTPUT]
        rows = events.take(pa.array(found.nth[aside]))
        end, mark = found.end[aside], found.watermark[aside]
        late = mark - output.allowed_lateness < end
        missed = {
            "window_start": pa.array(found.start[aside]),
            "window_end": pa.array(end),
            "watermark": pa.array(mark),
            "verdict": pa.array(np.where(late, Verdict.LATE.value, Verdict.TOO_LATE.value).astype(object)),
        }
        kept = {name: flat(rows.column(stored)) for stored, name in self.layout.late_names.items()}
        names, schema = self.merger.layout.late_columns, self.merger.layout.late_schema
        derived = {names[name]: found.columns[name].filter(pa.array(aside)) for name in output.counted}
        made = {
            name: column.cast(schema.field(name).type)
            for name, column in {**missed, **kept, **derived}.items()
        }
        return pa.table(made, schema=schema)


def timeline(batch: Batch) -> Watermarks:
    """The watermark of each tick of a batch; of the whole log, of each batch and tick."""
    return batch.stretch.by_batch if batch.history else batch.stretch.by_tick


def _closings(
    ends: Micros, closed: Mapping[int, Step], fired: npt.NDArray[np.bool_]
) -> tuple[pa.Array, pa.Array]:
    """When the windows that fired closed, and by which watermark; null for all others."""
    known = np.array(sorted(closed), np.int64)
    steps = [closed[int(end)] for end in known]
    place = np.where(fired, np.searchsorted(known, ends), 0)
    moments = ([step.at for step in steps] or [0], [step.watermark for step in steps] or [0])
    at, mark = (pa.array(np.array(each, np.int64)[place], mask=~fired) for each in moments)
    return at, mark


def _numbers(rows: pa.Table, name: str) -> Micros:
    """A column of numbers, 0 where there is none."""
    return np.asarray(pc.fill_null(flat(rows.column(name)), 0))


def _following(merged: pa.Table) -> pa.Array:
    """The sequence after the last one."""
    return pc.fill_null(pc.add(flat(merged.column(LAST_SEQUENCE)), 1), 0)


def _constant(value: int, count: int) -> pa.Array:
    return pa.array(np.full(count, value, np.int64))
