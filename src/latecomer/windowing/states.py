"""Aggregates as mergeable states, in native Spark SQL.

A state is a few columns beside the value they yield. Events and earlier states go through one
aggregation together: each row, whether an event or a state, brings its *inputs*; a *merge* folds the
inputs of a group; *finish* turns the folded inputs into the new state and the value. So a pane is the
merge of whatever was known, in any order and in any number of steps.

Sums, counts, minima and maxima are their own state; whole numbers are added up so that no sum overflows
(exact_sums.py). Averages keep sum and count. Variances of exact numbers keep count, sum and sum of squares as whole
numbers, so that no digit is lost; of floating point numbers, count, mean and squared distance. Approximations keep a
sketch; what needs the values themselves keeps those (kept_values.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from latecomer.log.columns import TIME
from latecomer.model import types
from latecomer.model.aggregates import ORDERED, TALLIED, Aggregate
from latecomer.model.verdicts import Fate
from latecomer.model.windows import Session, Sliding
from latecomer.store.columns import (
    EVENTS,
    HELD,
    NEW_ASSIGNMENTS,
    NEW_BEHIND,
    NEW_PARTLY,
    SINCE,
    UNSETTLED,
    WAITING_EVENTS,
    late_column,
    measure_column,
    new_column,
    state_column,
)
from latecomer.store.layout import PaneLayout
from latecomer.store.sql import quoted
from latecomer.windowing.columns import FATE, LEADING, PARTLY, WATERMARK
from latecomer.windowing.exact_sums import LOW, half, is_long, long_sum, whole_sum, with_point_moved
from latecomer.windowing.fates import CODES
from latecomer.windowing.kept_values import ordered, tallied
from latecomer.windowing.state_logic import StateLogic

WHOLE = "decimal(38,0)"
SHORT = 30
"""Digits of a sum that is divided with all the digits that an average has."""
_MOST_MULTIPLIED = 37
"""Of no higher power of ten is there a decimal."""


def states_of(layout: PaneLayout, measures: Mapping[str, str]) -> list[StateLogic]:
    """The states of an output: what the ledger and the triggers count, then its aggregates."""
    sliding, session = (isinstance(layout.output.window, kind) for kind in (Sliding, Session))
    leads = LEADING if sliding else "true"
    logics = [_summed(EVENTS, "1L", "bigint", leads)]
    logics += [
        _measured(measure_column(measure), f"coalesce({quoted(measure)}, 0)", kind, leads, layout)
        for measure, kind in measures.items()
    ]
    logics.append(_counted(NEW_BEHIND, f"{leads} and {TIME} < {WATERMARK}"))
    if sliding:
        logics += [_counted(NEW_ASSIGNMENTS, "true"), _counted(NEW_PARTLY, PARTLY)]
    if session or layout.output.trigger.early is not None:
        logics += [_kept_count(HELD), _kept_count(SINCE)]
    if session:
        logics += [_kept_count(UNSETTLED, _ON_TIME), _kept_count(WAITING_EVENTS, _LATE)]
        logics.append(_late_share(EVENTS, "1L", "bigint"))
        logics += [
            _late_measure(measure_column(measure), f"coalesce({quoted(measure)}, 0)", kind, layout)
            for measure, kind in measures.items()
        ]
    logics += [_state(name, aggregate, layout) for name, aggregate in layout.output.aggregates.items()]
    return logics


_ON_TIME, _LATE = (f"{FATE} = {CODES[fate]}" for fate in (Fate.ON_TIME, Fate.LATE_ACCEPTED))


def assignments_column(layout: PaneLayout) -> str:
    """Where a pane keeps how many (event, window) pairs its own batch added."""
    return NEW_ASSIGNMENTS if layout.output.window.overlaps else new_column(EVENTS)


def _counted(column: str, when: str) -> StateLogic:
    """How many events of this batch were so; states say nothing of it."""
    merged = f"coalesce(sum({quoted(column)}), 0L)"
    return StateLogic(
        {column: "bigint"},
        {column: f"if({when}, 1L, 0L)"},
        {column: "cast(null as bigint)"},
        {column: merged},
        {column: quoted(column)},
        fresh={column: quoted(column)},
    )


def _kept_count(column: str, when: str = "true") -> StateLogic:
    """How many events were so, earlier ones included."""
    return StateLogic(
        {column: "bigint"},
        {column: f"if({when}, 1L, 0L)"},
        {column: quoted(column)},
        {column: f"sum({quoted(column)})"},
        {column: quoted(column)},
    )


def _summed(column: str, event: str, kind: str, leads: str) -> StateLogic:
    """A private sum, with the share that came from events of this batch beside it, each event once."""
    new = new_column(column)
    return StateLogic(
        {column: kind, new: kind},
        {column: f"cast({event} as {kind})", new: f"cast({_once(event, leads)} as {kind})"},
        {column: quoted(column), new: f"cast(null as {kind})"},
        {name: f"cast(sum({quoted(name)}) as {kind})" for name in (column, new)},
        {column: quoted(column), new: f"coalesce({quoted(new)}, cast(0 as {kind}))"},
        fresh={new: quoted(new)},
    )


def _once(event: str, leads: str) -> str:
    return event if leads == "true" else f"if({leads}, {event}, 0)"


def _measured(column: str, event: str, kind: str, leads: str, layout: PaneLayout) -> StateLogic:
    """The same of a measure of the ledger."""
    if kind not in types.INTEGERS:
        return _summed(column, event, f"decimal(38,{types.scale_of(kind)})", leads)
    held = whole_sum(column, event, layout.whole_sum_type)
    return _together(held, _of_this_batch(new_column(column), _once(event, leads), layout.whole_sum_type))


def _late_measure(column: str, event: str, kind: str, layout: PaneLayout) -> StateLogic:
    if kind not in types.INTEGERS:
        return _late_share(column, event, f"decimal(38,{types.scale_of(kind)})")
    return _of_this_batch(late_column(column), f"if({_LATE}, {event}, 0)", layout.whole_sum_type)


def _late_share(column: str, event: str, kind: str) -> StateLogic:
    """How much of a private sum this batch's late events brought; states say nothing of it."""
    late = late_column(column)
    return StateLogic(
        {late: kind},
        {late: f"cast(if({_LATE}, {event}, 0) as {kind})"},
        {late: f"cast(null as {kind})"},
        {late: f"cast(sum({quoted(late)}) as {kind})"},
        {late: f"coalesce({quoted(late)}, cast(0 as {kind}))"},
        fresh={late: quoted(late)},
    )


def _of_this_batch(column: str, event: str, kind: str) -> StateLogic:
    """A sum of whole numbers to which only what is new adds."""
    logic = whole_sum(column, event, kind)
    nothing = dict.fromkeys(logic.from_state, "cast(null as bigint)")
    value = f"if({quoted(half(column, LOW))} is null, cast(0 as {kind}), {logic.finish[column]})"
    return replace(logic, from_state=nothing, finish={**logic.finish, column: value}, fresh=logic.from_state)


def _together(first: StateLogic, second: StateLogic) -> StateLogic:
    return StateLogic(
        {**first.columns, **second.columns},
        {**first.from_event, **second.from_event},
        {**first.from_state, **second.from_state},
        {**first.merge, **second.merge},
        {**first.finish, **second.finish},
        {**first.fresh, **second.fresh},
    )


def _state(name: str, aggregate: Aggregate, layout: PaneLayout) -> StateLogic:
    kind = layout.types.get(aggregate.column or "", "bigint")
    value_type = layout.values[name]
    column = "1" if aggregate.column is None else quoted(aggregate.column)
    match aggregate.function:
        case "sum" if kind in types.INTEGERS:
            return whole_sum(name, column, value_type)
        case "sum" if is_long(kind):
            return long_sum(name, column, value_type)
        case "sum":
            return _plain(
                name, f"cast({column} as {value_type})", f"cast(sum({quoted(name)}) as {value_type})"
            )
        case "count":
            return _plain(name, f"if({column} is null, 0L, 1L)", f"sum({quoted(name)})")
        case "min" | "max":
            return _plain(name, column, f"{aggregate.function}({quoted(name)})")
        case "avg":
            return _average(name, column, kind, value_type)
        case "approx_count_distinct":
            return _distinct(name, column, kind)
        case "approx_percentile":
            return _percentile(name, column, kind, aggregate.argument or 0.0)
        case function if function in TALLIED:
            return tallied(name, aggregate, kind, value_type)
        case function if function in ORDERED:
            return ordered(name, aggregate, kind, value_type)
    if types.is_exact(kind):
        return _exact_moment(name, column, types.scale_of(kind), aggregate.function)
    return _float_moment(name, column, aggregate.function)


def _plain(name: str, event: str, merge: str) -> StateLogic:
    return StateLogic({}, {name: event}, {name: quoted(name)}, {name: merge})


def _average(name: str, column: str, kind: str, value_type: str) -> StateLogic:
    total, count = state_column(name, "sum"), state_column(name, "count")
    held = f"decimal(38,{types.scale_of(kind)})" if types.is_exact(kind) else "double"
    t, n = quoted(total), quoted(count)
    nothing = f"cast(0 as {held})"
    # Beyond 38 digits the sum is null, and stays so.
    merged = _unless_lost(t, held) if types.is_exact(kind) else f"sum({t})"
    ratio = f"try_divide(cast({t} as double), {n})"
    if types.is_decimal(kind):
        # Spark gives a quotient the fewer digits the longer its terms may be.
        shorter = f"decimal({max(SHORT, types.scale_of(kind))},{types.scale_of(kind)})"
        short = f"try_divide(try_cast({t} as {shorter}), try_cast({n} as decimal(10,0)))"
        whole = f"try_divide({t}, {n})"
        ratio = f"coalesce(try_cast({short} as {value_type}), try_cast({whole} as {value_type}))"
    return StateLogic(
        {total: held, count: "bigint"},
        {
            total: f"if({column} is null, {nothing}, cast({column} as {held}))",
            count: f"if({column} is null, 0L, 1L)",
        },
        {total: f"if({n} = 0, {nothing}, {t})", count: n},
        {total: merged, count: f"sum({n})"},
        {
            total: f"if({n} = 0, null, {t})",
            count: n,
            name: f"if({n} = 0, null, cast({ratio} as {value_type}))",
        },
    )


def _exact_moment(name: str, column: str, scale: int, function: str) -> StateLogic:
    parts = ("count", "sum", "squares", "rough_sum", "rough_squares")
    count, total, squares, rough_sum, rough_squares = (state_column(name, part) for part in parts)
    n, s, q, rs, rq = (quoted(part) for part in (count, total, squares, rough_sum, rough_squares))
    whole = f"try_cast(try_multiply({column}, cast({10**scale} as decimal(38,0))) as {WHOLE})"
    if not scale or scale > _MOST_MULTIPLIED:
        whole = with_point_moved(column, scale, WHOLE)
    square = f"try_cast(try_multiply({whole}, {whole}) as {WHOLE})"
    less = "1" if function in ("variance", "stddev") else "0"
    # n·Σx² − (Σx)² in whole numbers; where 38 digits are not enough, from the doubles beside them.
    exact = f"try_subtract(try_multiply(cast({n} as decimal(19,0)), {q}), try_multiply({s}, {s}))"
    doubled = f"cast({n} as double) * {rq} - {rs} * {rs}"
    spread = f"coalesce(cast({exact} as double) / {10.0 ** (2 * scale)!r}D, {doubled})"
    positive = f"if({spread} < 0D, 0D, {spread})"
    variance = f"try_divide({positive}, cast({n} as double) * cast({n} - {less} as double))"
    value = f"sqrt({variance})" if function.startswith("stddev") else variance
    return StateLogic(
        {count: "bigint", total: WHOLE, squares: WHOLE, rough_sum: "double", rough_squares: "double"},
        {
            count: f"if({column} is null, 0L, 1L)",
            total: f"if({column} is null, cast(0 as {WHOLE}), {whole})",
            squares: f"if({column} is null, cast(0 as {WHOLE}), {square})",
            rough_sum: f"cast({column} as double)",
            rough_squares: f"cast({column} as double) * cast({column} as double)",
        },
        {count: n, total: s, squares: q, rough_sum: rs, rough_squares: rq},
        {
            count: f"sum({n})",
            total: _unless_lost(s),
            squares: _unless_lost(q),
            rough_sum: f"sum({rs})",
            rough_squares: f"sum({rq})",
        },
        {
            **{part: quoted(part) for part in (count, total, squares, rough_sum, rough_squares)},
            name: f"cast({value} as double)",
        },
    )


def _unless_lost(column: str, kind: str = WHOLE) -> str:
    """A sum that is null, and stays null, once a term or the sum itself had too many digits."""
    return f"if(count(1) = count({column}), try_cast(try_sum({column}) as {kind}), null)"


def _float_moment(name: str, column: str, function: str) -> StateLogic:
    count, mean, spread = (state_column(name, part) for part in ("count", "mean", "spread"))
    single, states = state_column(name, "single"), state_column(name, "states")
    n, m, d = (quoted(part) for part in (count, mean, spread))
    less = "1" if function in ("variance", "stddev") else "0"
    kind = "struct<n: bigint, m: double, d: double>"
    merged = state_column(name, "merged")
    of_events = (
        f"named_struct('n', count({quoted(single)}), 'm', avg({quoted(single)}), "
        f"'d', var_pop({quoted(single)}) * count({quoted(single)}))"
    )
    # Chan's rule for two states, folded over the list of them.
    fold = (
        f"aggregate({quoted(states)}, {quoted(merged)}, (a, b) -> "
        "case when a.n = 0 then b when b.n = 0 then a else "
        "named_struct('n', a.n + b.n, 'm', a.m + (b.m - a.m) * b.n / (a.n + b.n), "
        "'d', a.d + b.d + (b.m - a.m) * (b.m - a.m) * a.n * b.n / (a.n + b.n)) end)"
    )
    variance = f"try_divide(({fold}).d, cast(({fold}).n - {less} as double))"
    value = f"sqrt({variance})" if function.startswith("stddev") else variance
    return StateLogic(
        {count: "bigint", mean: "double", spread: "double"},
        {single: f"cast({column} as double)", states: f"cast(null as {kind})"},
        {
            single: "cast(null as double)",
            states: f"cast(named_struct('n', {n}, 'm', {m}, 'd', {d}) as {kind})",
        },
        {merged: f"cast({of_events} as {kind})", states: f"collect_list({quoted(states)})"},
        {
            count: f"({fold}).n",
            mean: f"({fold}).m",
            spread: f"({fold}).d",
            name: f"if(({fold}).n > {less}, cast({value} as double), null)",
        },
    )


def _distinct(name: str, column: str, kind: str) -> StateLogic:
    sketch, single, states = (state_column(name, part) for part in ("sketch", "single", "states"))
    value = f"cast({column} as bigint)" if kind in types.INTEGERS else f"cast({column} as string)"
    if kind == "binary":
        value = column
    held = "bigint" if kind in types.INTEGERS else "binary" if kind == "binary" else "string"
    # Always through a union: a sketch that was never merged estimates a little differently.
    union = f"hll_union({quoted(single)}, {quoted(states)})"
    return StateLogic(
        {sketch: "binary"},
        {single: value, states: "cast(null as binary)"},
        {single: f"cast(null as {held})", states: quoted(sketch)},
        {single: f"hll_sketch_agg({quoted(single)}, 12)", states: f"hll_union_agg({quoted(states)}, true)"},
        {sketch: union, name: f"hll_sketch_estimate({union})"},
    )


def _percentile(name: str, column: str, kind: str, share: float) -> StateLogic:
    sketch, single, states = (state_column(name, part) for part in ("sketch", "single", "states"))
    whole = kind in types.INTEGERS
    held, family = ("bigint", "bigint") if whole else ("double", "double")
    merged = f"aggregate({quoted(states)}, {quoted(single)}, (a, b) -> kll_sketch_merge_{family}(a, b))"
    return StateLogic(
        {sketch: "binary"},
        {single: f"cast({column} as {held})", states: "cast(null as binary)"},
        {single: f"cast(null as {held})", states: quoted(sketch)},
        {
            single: f"kll_sketch_agg_{family}({quoted(single)})",
            states: f"collect_list({quoted(states)})",
        },
        {
            sketch: merged,
            name: f"if(kll_sketch_get_n_{family}({merged}) = 0, null, "
            f"kll_sketch_get_quantile_{family}({merged}, {share!r}D))",
        },
    )
