"""States without Spark: what `states.py` says in SQL, with Arrow and numpy, for the common case (ADR 0056).

Each state says what an event and what an earlier state brings, how that is folded, and what comes of it: as in
`states.py`, so that both can be read side by side. Whatever is not here is `Declined`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import Declined, flat
from latecomer.model import types
from latecomer.model.aggregates import Aggregate
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
from latecomer.store.layout import PaneLayout, arrow_type
from latecomer.windowing.exact_arrow import (
    TOO_LONG,
    decimals,
    finite,
    halves,
    put_together,
    quarters,
    scaled,
    squares,
    unscaled,
    whole,
)
from latecomer.windowing.judge_in_process import Flags, Judged
from latecomer.windowing.states import SHORT

Columns: TypeAlias = dict[str, pa.Array]

_MOST_PLACES = types.MOST_DIGITS + 1
"""So many digits after the point has a quotient before Spark rounds it to its type."""


@dataclass(frozen=True)
class ArrowState:
    """A state, as `StateLogic` has it in SQL: what events and states bring, how it is folded, what comes of it."""

    of_event: Callable[[Judged], Columns]
    of_state: Callable[[pa.Table, bool], Columns]
    """From stored states; those that are fresh count as what this batch added."""
    fold: Mapping[str, str]
    finish: Callable[[Mapping[str, pa.Array]], Columns]


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    return pa.nulls(count, kind)


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, np.int64))


def _count(flags: Flags) -> pa.Array:
    return pa.array(flags.astype(np.int64))


def stored(states: pa.Table, name: str) -> pa.Array:
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
            return split(nulls(states.num_rows, pa.int64()))
        return split(unscaled(stored(states, name)))

    def finish(folded: Mapping[str, pa.Array]) -> Columns:
        total = whole(folded[low], folded[high])
        return {name: scaled(total if none else pc.fill_null(total, 0), kind)}

    return ArrowState(
        lambda events: split(unscaled(term(events))), of_state, {low: "sum", high: "sum"}, finish
    )


def _counted(name: str, when: Callable[[Judged], Flags], new: bool = False) -> ArrowState:
    """A count in 64 bits, as they are."""

    def of_state(states: pa.Table, fresh: bool) -> Columns:
        return {name: nulls(states.num_rows, pa.int64()) if new and not fresh else stored(states, name)}

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
        lambda states, _: {name: checked(stored(states, name))},
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
        numbers, counted = stored(states, total), stored(states, count)
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


def _decimal_average(name: str, column: str, kind: str, value: str) -> ArrowState:
    """The average of a decimal: its sum and count as for other numbers, and the quotient as Spark rounds it."""
    plain, total, count = _average(name, column, kind), state_column(name, "sum"), state_column(name, "count")
    scale = types.scale_of(kind)

    def finish(folded: Mapping[str, pa.Array]) -> Columns:
        sums, counts = (
            whole(folded[f"{total}.low"], folded[f"{total}.high"]).to_pylist(),
            folded[count].to_pylist(),
        )
        ratios = [
            Decimal(quotient(number, counted, scale, types.scale_of(value))).scaleb(-types.scale_of(value))
            if counted
            else None
            for number, counted in zip(sums, counts, strict=True)
        ]
        return {**plain.finish(folded), name: pa.array(ratios, arrow_type(value))}

    return replace(plain, finish=finish)


def quotient(number: int, count: int, scale: int, wanted: int) -> int:
    """A decimal without its point, divided by a count and rounded to the `wanted` digits after the point: three times,
    half up, as Spark does.

    >>> quotient(1, 3, 2, 6), quotient(-5, 2, 0, 0)
    (3333, -3)
    """
    size, places = abs(number), _quotient_places(scale)
    exact = _rounded(size * 10 ** (_MOST_PLACES - scale), count)
    rough = _rounded(exact, 10 ** (_MOST_PLACES - places))
    found = _rounded(rough * 10 ** max(wanted - places, 0), 10 ** max(places - wanted, 0))
    return found if number >= 0 else -found


def _rounded(number: int, by: int) -> int:
    return (2 * number + by) // (2 * by)


def _quotient_places(scale: int) -> int:
    """How many digits after the point Spark gives `decimal(30,scale) / decimal(10,0)`."""
    places, before = max(6, scale + 11), max(SHORT, scale) - scale
    return places if before + places <= types.MOST_DIGITS else max(types.MOST_DIGITS - before, min(places, 6))


def _moment(name: str, column: str, kind: str, function: str) -> ArrowState:
    """A variance or a deviation of whole numbers or decimals, from exact sums."""
    parts = ("count", "sum", "squares", "rough_sum", "rough_squares")
    count, total, square, rough_sum, rough_squares = (state_column(name, part) for part in parts)
    sums, powers = ([f"{each}.{place}" for place in range(4)] for each in (total, square))
    scale, less = types.scale_of(kind), 1 if function in ("variance", "stddev") else 0

    def of_event(events: Judged) -> Columns:
        numbers = unscaled(events.columns[column])
        some = pc.fill_null(numbers, 0)
        low, high = halves(some)
        zero = pc.multiply(low, 0)
        rough = pc.divide(_doubles(numbers), 10.0**scale)
        return {
            count: pc.cast(numbers.is_valid(), pa.int64()),
            **dict(zip(sums, (low, high, zero, zero), strict=True)),
            **dict(zip(powers, squares(some), strict=True)),
            rough_sum: rough,
            rough_squares: pc.multiply(rough, rough),
        }

    def of_state(states: pa.Table, _: bool) -> Columns:
        return {
            count: stored(states, count),
            **dict(zip(sums, quarters(stored(states, total)), strict=True)),
            **dict(zip(powers, quarters(stored(states, square)), strict=True)),
            rough_sum: finite(stored(states, rough_sum)),
            rough_squares: finite(stored(states, rough_squares)),
        }

    def finish(folded: Mapping[str, pa.Array]) -> Columns:
        exact = [put_together([folded[part] for part in each]) for each in (sums, powers)]
        rough = {each: folded[each] for each in (rough_sum, rough_squares)}
        rows = zip(
            folded[count].to_pylist(), *exact, *(each.to_pylist() for each in rough.values()), strict=True
        )
        spreads = [
            _spread(row, scale) / (float(row[0]) * float(row[0] - less)) if row[0] > less else None
            for row in rows
        ]
        if function.startswith("stddev"):
            spreads = [None if each is None else math.sqrt(each) for each in spreads]
        held = dict(zip((total, square), map(decimals, exact), strict=True))
        return {count: folded[count], **held, **rough, name: pa.array(spreads, pa.float64())}

    folds = dict.fromkeys([count, *sums, *powers, rough_sum, rough_squares], "sum")
    return ArrowState(of_event, of_state, folds, finish)


def _spread(sums: tuple[int, int, int, float, float], scale: int) -> float:
    """n·Σx² − (Σx)², in whole numbers, and beyond 38 digits from the doubles beside them, as in `states.py`."""
    count, total, squared, rough_sum, rough_squares = sums
    left, right = count * squared, total * total
    if max(left, right) < TOO_LONG:
        return max(float(left - right) / 10.0 ** (2 * scale), 0.0)
    return max(count * rough_squares - rough_sum * rough_sum, 0.0)


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
        case "avg" if types.is_decimal(kind):
            return _decimal_average(name, str(column), kind, layout.values[name])
        case "variance" | "var_pop" | "stddev" | "stddev_pop" if types.is_exact(kind):
            return _moment(name, str(column), kind, function)
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
