"""Aggregates as mergeable states: one class an operation.

A state is a few columns beside the value that they give. Events and earlier states become rows of the same inputs,
which are merged together: in any order and in any number of steps, the result is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import attrgetter

from latecomer.config.outputs import Output
from latecomer.model import types
from latecomer.model.aggregates import MOMENTS, Aggregate
from latecomer.model.triggers import Every, Until
from latecomer.model.verdicts import Fate
from latecomer.store.layout import PaneLayout
from latecomer.store.private_columns import (
    EARLY_IS_OVER,
    EVENTS,
    FIRST_CLOCK,
    FIRST_MARK,
    HELD,
    NEW_ASSIGNMENTS,
    NEW_BEHIND,
    NEW_PARTLY,
    SINCE,
    SINCE_CLOCK,
    SINCE_MARK,
    UNSETTLED,
    WAITING_EVENTS,
    late_column,
    measure_column,
    new_column,
    since_when_column,
    when_column,
)
from latecomer.windowing.aggregates.base import State
from latecomer.windowing.aggregates.kept import Collect, CountDistinct, EndEvent, Median, TopK
from latecomer.windowing.aggregates.moments import (
    Average,
    DecimalAverage,
    ExactMoment,
    FloatAverage,
    FloatMoment,
)
from latecomer.windowing.aggregates.sketched import ApproxCountDistinct, ApproxPercentile
from latecomer.windowing.aggregates.sums import (
    Amount,
    Column,
    Count,
    Earliest,
    ExactSum,
    Extreme,
    FloatExtreme,
    FloatSum,
    LongSum,
    NarrowSum,
    OfThisBatch,
    behind,
    every_row,
    flagged,
    having,
    no_row,
    with_fate,
)
from latecomer.windowing.fate_counts import CODES

SAFE_DIGITS = 28
"""The sum of ten billion decimals of so many digits has at most 38 digits: such a sum is its own state."""
_ONCE = attrgetter("leading")
"""Each event once, however many windows it is in."""
_ON_TIME, _LATE = (partial(with_fate, CODES[fate]) for fate in (Fate.ON_TIME, Fate.LATE_ACCEPTED))


def states_of(layout: PaneLayout, measures: Mapping[str, str]) -> list[State]:
    """The states of an output: what the ledger and the triggers count, then its aggregates."""
    window = layout.output.window
    found: list[State] = [Count(EVENTS, every_row), OfThisBatch(Count(new_column(EVENTS), _ONCE))]
    for measure, kind in measures.items():
        name = measure_column(measure)
        found.append(_amounts(name, Amount(measure), kind, layout))
        found.append(OfThisBatch(_amounts(new_column(name), Amount(measure, _ONCE), kind, layout)))
    found.append(OfThisBatch(Count(NEW_BEHIND, behind)))
    if window.overlaps:
        found.append(OfThisBatch(Count(NEW_ASSIGNMENTS, every_row)))
        found.append(OfThisBatch(Count(NEW_PARTLY, attrgetter("partly"))))
    if window.merges or layout.output.trigger.early is not None:
        found += [Count(HELD, every_row), Count(SINCE, every_row)]
    found += _of_trigger(layout.output)
    if window.merges:
        found += [Count(UNSETTLED, _ON_TIME), Count(WAITING_EVENTS, _LATE)]
        found.append(OfThisBatch(Count(late_column(EVENTS), _LATE)))
        for measure, kind in measures.items():
            name = late_column(measure_column(measure))
            found.append(OfThisBatch(_amounts(name, Amount(measure, _LATE), kind, layout)))
    for name, aggregate in layout.output.aggregates.items():
        kind = layout.types.get(aggregate.column or "", "bigint")
        found.append(state_of(name, aggregate, kind, layout.values[name]))
    return found


def _of_trigger(output: Output) -> list[State]:
    """States for a trigger that fires within batches: about the events since the last pane; for an Until, also about
    all events of the window."""
    if not output.fires_within:
        return []
    whens = {sql: partial(flagged, when_column(sql)) for sql in output.trigger.whens}
    found: list[State] = [Earliest(SINCE_CLOCK, attrgetter("clock"))]
    found += [Count(since_when_column(sql), holds) for sql, holds in whens.items()]
    leaves = output.trigger.early.leaves if output.trigger.early else ()
    by_mark = any(isinstance(leaf, Every) and leaf.clock == "event" for leaf in leaves)
    ends = isinstance(output.trigger.early, Until)
    found += [Earliest(SINCE_MARK, attrgetter("watermark"))] if by_mark else []
    if ends:
        found += [Count(when_column(sql), holds) for sql, holds in whens.items()]
        found.append(Earliest(FIRST_CLOCK, attrgetter("clock")))
        found += [Earliest(FIRST_MARK, attrgetter("watermark"))] if by_mark else []
        found += [Count(EARLY_IS_OVER, no_row)] if output.window.merges else []
    return found


def trigger_columns(output: Output) -> set[str]:
    """The private columns that say when events came, for a trigger that fires within batches."""
    return {column for state in _of_trigger(output) for column in state.columns}


def assignments_column(layout: PaneLayout) -> str:
    """Where a pane keeps how many (event, window) pairs its own batch added."""
    return NEW_ASSIGNMENTS if layout.output.window.overlaps else new_column(EVENTS)


def _amounts(name: str, amount: Amount, kind: str, layout: PaneLayout) -> State:
    """The sum of a measure of the ledger."""
    if kind not in types.INTEGERS:
        return ExactSum(name, amount, f"decimal(38,{types.scale_of(kind)})", zero=True)
    sums = ExactSum if layout.events.wide_sums else NarrowSum
    return sums(name, amount, layout.whole_sum_type, zero=True)


def state_of(name: str, aggregate: Aggregate, kind: str, value: str) -> State:
    """The state of an aggregate over a column of the type `kind`, whose value is of the type `value`."""
    column, function = aggregate.column, aggregate.function
    if column is None:
        return Count(name, every_row)
    match function:
        case "count":
            return Count(name, partial(having, column))
        case "sum":
            return _sum(name, column, kind, value)
        case "min" | "max":
            return (FloatExtreme if kind in types.FLOATS else Extreme)(name, column, kind, function)
        case "avg" if types.is_decimal(kind):
            return DecimalAverage(name, column, kind, value)
        case "avg":
            return Average(name, column, kind) if kind in types.INTEGERS else FloatAverage(name, column)
        case "count_distinct":
            return CountDistinct(name, column, kind)
        case "median":
            return Median(name, column, kind)
        case "top_k":
            return TopK(name, column, kind, int(aggregate.argument or 0))
        case "first" | "last":
            return EndEvent(name, column, kind, function)
        case "collect":
            return Collect(name, column, kind, int(aggregate.argument or 0))
        case "approx_count_distinct":
            return ApproxCountDistinct(name, column, kind)
        case "approx_percentile":
            return ApproxPercentile(name, column, kind, float(aggregate.argument or 0))
    if function in MOMENTS:
        return (
            ExactMoment(name, column, kind, function)
            if types.is_exact(kind)
            else FloatMoment(name, column, function)
        )
    raise ValueError(f"{function} has no state")


def _sum(name: str, column: str, kind: str, value: str) -> State:
    if not types.is_exact(kind):
        return FloatSum(name, column)
    if types.is_decimal(kind) and types.whole_digits(kind) + types.scale_of(kind) > SAFE_DIGITS:
        return LongSum(name, Column(column), value)
    return (NarrowSum if value == "bigint" else ExactSum)(name, Column(column), value)
