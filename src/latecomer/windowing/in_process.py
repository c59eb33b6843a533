"""Judging and merging without Spark: the same columns as `judge.py`, `assign.py`, `states.py` and `merge.py` make, with
Arrow and numpy, for the common case (ADR 0056).

Each state says what an event and what an earlier state brings, how that is folded, and what comes of it: as in
`states.py`, so that both can be read side by side. Whatever is not here is `Declined`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.models import Output
from latecomer.fast import MOST_ROWS, Declined
from latecomer.model import types
from latecomer.model.aggregates import Aggregate
from latecomer.model.panes import Timing
from latecomer.model.simple_predicates import NeedsSpark, predicate
from latecomer.model.verdicts import END_OF_TIME, Fate, Verdict, fate_of
from latecomer.model.windows import FIRST_MOMENT, FixedWindow, Global, Sliding, Tumbling
from latecomer.store.columns import (
    EVENTS,
    HELD,
    NEW_ASSIGNMENTS,
    NEW_BEHIND,
    NEW_PARTLY,
    SINCE,
    measure_column,
    new_column,
    state_column,
)
from latecomer.store.layout import EventLayout, PaneLayout, arrow_type
from latecomer.windowing.columns import END, FATE, KEY, LAST_ARRIVAL, LAST_SEQUENCE, LAST_WATERMARK, START
from latecomer.windowing.derived_in_process import Seen, as_seen, expressions_of
from latecomer.windowing.exact_arrow import finite, flat, halves, scaled, unscaled, whole
from latecomer.windowing.judge import CODES
from latecomer.windowing.merge import Merger

Micros: TypeAlias = npt.NDArray[np.int64]
Flags: TypeAlias = npt.NDArray[np.bool_]
Columns: TypeAlias = dict[str, pa.Array]

_LASTS = (LAST_ARRIVAL, LAST_WATERMARK, LAST_SEQUENCE)
_MOST_LOOKED_UP = 20_000
"""So many different times are looked up one by one in windows that follow a calendar."""
_FILTERED = CODES[Fate.FILTERED]
_ENTERS = CODES[Fate.LATE_ACCEPTED]
"""Events of this fate and those below enter a window."""


# Judged


@dataclass(frozen=True)
class Judged:
    """Events with their windows, the watermark at their arrival, and their fate: a row for each window."""

    columns: Mapping[str, pa.Array]
    """The source's columns."""
    time: Micros
    arrival: Micros
    watermark: Micros
    start: Micros
    end: Micros
    fate: npt.NDArray[np.int8]
    leading: Flags
    partly: Flags
    nth: Micros
    """Which event of the table each row is."""

    def __len__(self) -> int:
        return len(self.time)


def judged(
    events: pa.Table, layout: EventLayout, output: Output, ticks: Mapping[int, int], wanted: Iterable[str]
) -> Judged:
    """The events of a batch, judged by the watermark of each tick. `wanted` are the columns that are needed."""
    if events.num_rows > MOST_ROWS:
        raise Declined(f"more than {MOST_ROWS:,} rows")
    seen = as_seen(events, layout, output)
    time, arrival, tick = (_micros(events, name) for name in ("event_time", "arrival_time", "tick"))
    watermark = _of_ticks(tick, ticks)
    kept = _kept(seen, output)
    nth, start, end, first_end = _windows(time, output.window)
    time, arrival, watermark, kept = time[nth], arrival[nth], watermark[nth], kept[nth]
    fate = _fates(output, kept, end, watermark)
    leading, partly = np.ones(len(nth), bool), np.zeros(len(nth), bool)
    if output.window.overlaps:
        leading = np.append(nth[1:] != nth[:-1], True) if len(nth) else leading
        partly = leading & (fate != _FILTERED) & (fate != _fates(output, kept, first_end, watermark))
        whole_rows = (fate != _FILTERED) | leading
        nth, time, arrival, watermark, start, end, fate, leading, partly = (
            each[whole_rows] for each in (nth, time, arrival, watermark, start, end, fate, leading, partly)
        )
    columns = {name: seen.column(name).take(pa.array(nth)) for name in dict.fromkeys(wanted)}
    return Judged(columns, time, arrival, watermark, start, end, fate, leading, partly, nth)


def _micros(events: pa.Table, name: str) -> Micros:
    column = flat(events.column(name))
    if column.null_count:
        raise Declined(f"events without {name}")
    return np.asarray(column.cast(pa.int64()))


def _of_ticks(tick: Micros, ticks: Mapping[int, int]) -> Micros:
    """The watermark of each tick: the join with the timeline."""
    known = np.array(sorted(ticks), np.int64)
    marks = np.array([ticks[each] for each in sorted(ticks)], np.int64)
    place = np.searchsorted(known, tick)
    if len(tick) and (not len(known) or np.any(known[np.minimum(place, len(known) - 1)] != tick)):
        raise Declined("an event of a tick that is not on the timeline")
    return marks[place] if len(tick) else tick


def _kept(seen: Seen, output: Output) -> Flags:
    """Whether an output's `where` keeps each event."""
    count = seen.events.num_rows
    if output.where is None:
        return np.ones(count, bool)
    try:
        holds = predicate(output.where, seen.types)
    except NeedsSpark:
        raise Declined("a condition that only Spark evaluates") from None
    named = seen.named_in(output.where)
    rows = zip(*named.values(), strict=True) if named else iter([()] * count)
    try:
        return np.array([holds(dict(zip(named, row, strict=True))) is True for row in rows], bool)
    except (KeyError, TypeError, ArithmeticError):
        raise Declined("a condition that only Spark evaluates") from None


def _windows(time: Micros, window: Any) -> tuple[Micros, Micros, Micros, Micros]:
    """For each event and window: which event, where the window starts and ends, where the event's first one ends."""
    each = np.arange(len(time), dtype=np.int64)
    match window:
        case Sliding():
            newest = time - (time - window.offset) % window.every
            oldest = newest - (newest - time + window.size - 1) // window.every * window.every
            count = (newest - oldest) // window.every + 1
            if count.sum() > MOST_ROWS:
                raise Declined(f"more than {MOST_ROWS:,} rows, one for each window of an event")
            nth = np.repeat(each, count)
            into = np.arange(len(nth), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
            start = oldest[nth] + into * window.every
            return nth, start, start + window.size, oldest[nth] + window.size
        case Global():
            end = np.full(len(time), END_OF_TIME, np.int64)
            return each, np.full(len(time), FIRST_MOMENT, np.int64), end, end
        case Tumbling(zone="UTC"):
            start = time - (time - window.offset) % window.size
            return each, start, start + window.size, start + window.size
    return each, *_looked_up(time, window)


def _looked_up(time: Micros, window: FixedWindow) -> tuple[Micros, Micros, Micros]:
    """The windows of calendars and zones, as the model has them."""
    times, inverse = np.unique(time, return_inverse=True)
    if len(times) > _MOST_LOOKED_UP:
        raise Declined(f"more than {_MOST_LOOKED_UP:,} different times in windows of a calendar or a zone")
    found = [window.assign_all(int(moment)) for moment in times]
    start = np.array([each[0].start for each in found], np.int64)[inverse]
    end = np.array([each[0].end for each in found], np.int64)[inverse]
    return start, end, end


def _fates(output: Output, kept: Flags, end: Micros, watermark: Micros) -> npt.NDArray[np.int8]:
    on_time, late, too_late = (CODES[fate_of(verdict, output.late, output.too_late)] for verdict in Verdict)
    lateness = output.allowed_lateness
    judged = np.where(end > watermark, on_time, np.where(watermark - lateness < end, late, too_late))
    return np.where(kept, judged, _FILTERED).astype(np.int8)


# States


@dataclass(frozen=True)
class ArrowState:
    """A state, as `StateLogic` has it in SQL: what events and states bring, how it is folded, what comes of it."""

    of_event: Callable[[Judged], Columns]
    of_state: Callable[[pa.Table, bool], Columns]
    """From stored states; those that are fresh count as what this batch added."""
    fold: Mapping[str, str]
    finish: Callable[[Mapping[str, pa.Array]], Columns]


def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, np.int64))


def _count(flags: Flags) -> pa.Array:
    return pa.array(flags.astype(np.int64))


def _stored(states: pa.Table, name: str) -> pa.Array:
    return flat(states.column(name))


def _exact_sum(
    name: str,
    kind: pa.DataType,
    term: Callable[[Judged], pa.Array],
    new: bool = False,
    none: bool = True,
) -> ArrowState:
    """An exact sum. Of a `new` one only this batch says anything; unless it may be `none`, nothing is 0."""
    low, high = f"{name}.low", f"{name}.high"

    def split(numbers: pa.Array) -> Columns:
        return dict(zip((low, high), halves(numbers), strict=True))

    def of_state(states: pa.Table, fresh: bool) -> Columns:
        if new and not fresh:
            return split(_nulls(states.num_rows, pa.int64()))
        return split(unscaled(_stored(states, name)))

    def finish(folded: Mapping[str, pa.Array]) -> Columns:
        total = whole(folded[low], folded[high])
        return {name: scaled(total if none else pc.fill_null(total, 0), kind)}

    return ArrowState(
        lambda events: split(unscaled(term(events))), of_state, {low: "sum", high: "sum"}, finish
    )


def _counted(name: str, when: Callable[[Judged], Flags], new: bool = False) -> ArrowState:
    """A count in 64 bits, as they are."""

    def of_state(states: pa.Table, fresh: bool) -> Columns:
        return {name: _nulls(states.num_rows, pa.int64()) if new and not fresh else _stored(states, name)}

    def finish(folded: Mapping[str, pa.Array]) -> Columns:
        return {name: pc.fill_null(folded[name], 0) if new else folded[name]}

    return ArrowState(lambda events: {name: _count(when(events))}, of_state, {name: "sum"}, finish)


def _all(events: Judged) -> Flags:
    return np.ones(len(events), bool)


def _plain(name: str, fold: str, term: Callable[[Judged], pa.Array]) -> ArrowState:
    """A value that is its own state."""

    def checked(column: pa.Array) -> pa.Array:
        return finite(column) if pa.types.is_floating(column.type) else column

    return ArrowState(
        lambda events: {name: checked(term(events))},
        lambda states, _: {name: checked(_stored(states, name))},
        {name: fold},
        lambda folded: {name: folded[name]},
    )


def _average(name: str, column: str, kind: str) -> ArrowState:
    total, count = state_column(name, "sum"), state_column(name, "count")
    exact = types.is_exact(kind)
    held = arrow_type(f"decimal(38,{types.scale_of(kind)})") if exact else pa.float64()

    def summed(numbers: pa.Array) -> Columns:
        if exact:
            return dict(zip((f"{total}.low", f"{total}.high"), halves(unscaled(numbers)), strict=True))
        return {total: finite(numbers.cast(pa.float64()))}

    def of_event(events: Judged) -> Columns:
        numbers = events.columns[column]
        return {**summed(numbers), count: pc.cast(numbers.is_valid(), pa.int64())}

    def of_state(states: pa.Table, _: bool) -> Columns:
        numbers, counted = _stored(states, total), _stored(states, count)
        if pc.any(pc.and_(numbers.is_null(), pc.greater(counted, 0))).as_py():
            raise Declined("a sum that was lost")
        return {**summed(numbers), count: counted}

    def finish(folded: Mapping[str, pa.Array]) -> Columns:
        counted = folded[count]
        some = pc.greater(counted, 0)
        number = whole(folded[f"{total}.low"], folded[f"{total}.high"]) if exact else folded[total]
        kept = pc.if_else(some, number, pa.scalar(None, number.type))
        ratio = pc.divide(_doubles(kept), _doubles(pc.if_else(some, counted, 1)))
        return {total: scaled(kept, held) if exact else kept, count: counted, name: ratio}

    folds = [f"{total}.low", f"{total}.high"] if exact else [total]
    return ArrowState(of_event, of_state, {**dict.fromkeys(folds, "sum"), count: "sum"}, finish)


def _doubles(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.float64(), safe=False)


_MINIMA = frozenset({"string", "date", "timestamp", "double", *types.INTEGERS})


def _of_aggregate(name: str, aggregate: Aggregate, layout: PaneLayout) -> ArrowState:
    column, function = aggregate.column, aggregate.function
    kind = layout.types.get(column or "", "bigint")
    value = arrow_type(layout.values[name])
    match function:
        case "count" if column is None:
            return _counted(name, _all)
        case "count":
            return _counted(name, lambda events: np.asarray(events.columns[str(column)].is_valid()))
        case "sum" if types.is_exact(kind) and layout.events.wide_sums:
            scale = types.scale_of(kind)
            if scale + types.whole_digits(kind) > 18 and types.is_decimal(kind):
                raise Declined(f"sums of {kind}")
            return _exact_sum(name, value, lambda events: events.columns[str(column)])
        case "sum" if kind == "double":
            return _plain(name, "sum", lambda events: events.columns[str(column)])
        case "min" | "max" if kind in _MINIMA or types.is_decimal(kind):
            return _plain(name, function, lambda events: events.columns[str(column)])
        case "avg" if kind in types.INTEGERS or kind == "double":
            return _average(name, str(column), kind)
    raise Declined(f"{aggregate} of {kind}" if column else str(aggregate))


def states_of(layout: PaneLayout, measures: Mapping[str, str]) -> list[ArrowState]:
    """The states of an output, in the order of `states.states_of`."""
    output = layout.output
    if output.window.merges:
        raise Declined("sessions")
    logics = [_counted(EVENTS, _all), _counted(new_column(EVENTS), lambda events: events.leading, new=True)]
    for measure, kind in measures.items():
        logics += _measured(measure, kind, layout)
    logics.append(
        _counted(NEW_BEHIND, lambda events: events.leading & (events.time < events.watermark), new=True)
    )
    if output.window.overlaps:
        logics += [
            _counted(NEW_ASSIGNMENTS, _all, new=True),
            _counted(NEW_PARTLY, lambda events: events.partly, new=True),
        ]
    if output.trigger.early is not None:
        logics += [_counted(HELD, _all), _counted(SINCE, _all)]
    return [*logics, *(_of_aggregate(name, each, layout) for name, each in output.aggregates.items())]


def _measured(measure: str, kind: str, layout: PaneLayout) -> list[ArrowState]:
    column, scale = measure_column(measure), types.scale_of(kind)
    if not types.is_exact(kind) or not layout.events.wide_sums:
        raise Declined(f"a measure of type {kind}")
    if types.is_decimal(kind) and scale + types.whole_digits(kind) > 18:
        raise Declined(f"a measure of type {kind}")
    held = arrow_type(f"decimal(38,{scale})")

    def amount(events: Judged) -> pa.Array:
        return pc.fill_null(unscaled(events.columns[measure]), 0)

    def once(events: Judged) -> pa.Array:
        return pc.if_else(pa.array(events.leading), amount(events), 0)

    return [
        _exact_sum(column, held, amount),
        _exact_sum(new_column(column), held, once, new=True, none=False),
    ]


# Merged


@dataclass(frozen=True)
class ArrowMerger:
    """The one aggregation of events and earlier states, as `Merger` has it in SQL."""

    merger: Merger
    states: Sequence[ArrowState] = field(init=False)

    def __post_init__(self) -> None:
        if any(kind in types.FLOATS for kind in self.merger.layout.keys.values()):
            raise Declined("a key of floating point numbers")
        expressions_of(self.merger.output, self.merger.layout.events.types)
        object.__setattr__(self, "states", states_of(self.merger.layout, self.merger.measures))

    @cached_property
    def columns(self) -> list[str]:
        """The columns of events that are needed."""
        layout = self.merger.layout
        used = (each.column for each in layout.output.aggregates.values() if each.column is not None)
        return list(dict.fromkeys([*layout.keys, *self.merger.measures, *used]))

    def of_events(self, events: Judged) -> pa.Table:
        """Events as inputs. Those that enter no window lose their group."""
        enters = pa.array(events.fate <= _ENTERS)
        keys = {
            KEY + key: pc.if_else(enters, events.columns[key], pa.scalar(None, events.columns[key].type))
            for key in self.merger.layout.keys
        }
        made: Columns = {}
        for state in self.states:
            made |= state.of_event(events)
        return pa.table(
            {
                START: pa.array(events.start, mask=events.fate > _ENTERS),
                END: pa.array(events.end, mask=events.fate > _ENTERS),
                **keys,
                FATE: pa.array(events.fate),
                LAST_ARRIVAL: pa.array(events.arrival),
                LAST_WATERMARK: pa.array(events.watermark),
                LAST_SEQUENCE: _nulls(len(events), pa.int64()),
                **made,
            }
        )

    def of_states(self, panes: pa.Table, fate: Fate | None = None, fresh: bool = False) -> pa.Table:
        """Stored states as inputs. Without a `fate` their timing says which."""
        if panes.num_rows > MOST_ROWS:
            raise Declined(f"more than {MOST_ROWS:,} rows")
        if fate is None:
            late = pc.fill_null(pc.equal(_stored(panes, "timing"), Timing.LATE.value), False)
            codes = pc.if_else(late, CODES[Fate.LATE_ACCEPTED], CODES[Fate.ON_TIME]).cast(pa.int8())
        else:
            codes = pa.array(np.full(panes.num_rows, CODES[fate], np.int8))
        made: Columns = {}
        for state in self.states:
            made |= state.of_state(panes, fresh)
        keys = {KEY + key: _stored(panes, key) for key in self.merger.layout.keys}
        moments = {
            START: "window_start",
            END: "window_end",
            LAST_ARRIVAL: "fired_at",
            LAST_WATERMARK: "watermark",
        }
        times = {name: _stored(panes, stored).cast(pa.int64()) for name, stored in moments.items()}
        return pa.table(
            {
                START: times[START],
                END: times[END],
                **keys,
                FATE: codes,
                LAST_ARRIVAL: times[LAST_ARRIVAL],
                LAST_WATERMARK: times[LAST_WATERMARK],
                LAST_SEQUENCE: _stored(panes, "sequence"),
                **made,
            }
        )

    def emptied(self, rows: pa.Table, where: Flags | None = None) -> pa.Table:
        """Values and states as they stand when a discarding pane has said them, in all rows or `where` that is so."""
        output = self.merger.output
        counts = {name for name, each in output.aggregates.items() if each.function == "count"}
        sums = {EVENTS, *map(measure_column, self.merger.measures)}
        for name in self.merger.emptied:
            rows = replaced(rows, name, 0 if name in counts | sums else None, where)
        return rows

    def merge(self, inputs: Sequence[pa.Table]) -> pa.Table:
        """One row per window, key and fate: START, END, keys, FATE, the last ones, values and states."""
        together = pa.concat_tables(inputs)
        keys = [KEY + key for key in self.merger.layout.keys]
        group = [START, END, *keys, FATE]
        folds = {**dict.fromkeys(_LASTS, "max")}
        for state in self.states:
            folds |= state.fold
        found = together.group_by(group, use_threads=False).aggregate(list(folds.items()))
        folded = {name: flat(found.column(f"{name}_{fold}")) for name, fold in folds.items()}
        made: Columns = {}
        for state in self.states:
            made |= state.finish(folded)
        return pa.table(
            {
                START: found.column(START),
                END: found.column(END),
                **{key: found.column(KEY + key) for key in self.merger.layout.keys},
                FATE: found.column(FATE),
                **{name: folded[name] for name in _LASTS},
                **made,
            }
        )

    def published(self, merged: pa.Table, firing: Mapping[str, pa.Array]) -> pa.Table:
        """Merged rows in the shape of panes, with these firing columns."""
        moments = {"window_start": START, "window_end": END}
        made = {}
        for each in self.merger.schema:
            if each.name in firing:
                column = firing[each.name]
            elif each.name in moments:
                column = flat(merged.column(moments[each.name]))
            else:
                column = flat(merged.column(each.name))
            made[each.name] = column.cast(each.type)
        return pa.table(made, schema=self.merger.schema)


def replaced(rows: pa.Table, name: str, value: int | None, where: Flags | None = None) -> pa.Table:
    """Rows with this value in a column, in all of them or `where` that is so."""
    place, column = rows.schema.get_field_index(name), flat(rows.column(name))
    made = pa.nulls(len(column), column.type)
    if value is not None:
        made = pa.array(np.full(len(column), value, np.int64)).cast(column.type)
    kept = made if where is None else pc.if_else(pa.array(where), made, column)
    return rows.set_column(place, rows.schema.field(place), kept)
