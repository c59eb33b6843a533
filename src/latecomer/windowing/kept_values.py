"""States that keep values: tallies (each value, and how often) and events in their order. Native Spark SQL.

A tally is sorted by value, so that the same events give the same state however they were cut into batches.
It holds every value that differs, and grows with them; an ordered state holds as many events as are wanted.
"""

from __future__ import annotations

from latecomer.log.columns import ARRIVAL, TIME
from latecomer.model.aggregates import Aggregate
from latecomer.model.json_text import TIME_FORMAT
from latecomer.source.columns import ORIGIN, POSITION
from latecomer.store.columns import state_column
from latecomer.store.sql import quoted
from latecomer.store.state_types import event_type, held_type, tally_type
from latecomer.windowing.state_logic import StateLogic


def _let(variable: str, is_: str, within: str) -> str:
    """SQL in which a name stands for a value that is computed once."""
    return f"get(transform(array({is_}), {variable} -> {within}), 0)"


def _json(values: str) -> str:
    """A list as text; null where there is nothing in it."""
    written = f"to_json({values}, map('timestampFormat', \"{TIME_FORMAT}\", 'timeZone', 'UTC'))"
    return f"if(size({values}) = 0, null, {written})"


# Tallies


def tallied(name: str, aggregate: Aggregate, kind: str, value_type: str) -> StateLogic:
    """How often each value was there: what count(distinct), median and top_k follow from."""
    assert aggregate.column is not None  # noqa: S101
    tally, single = state_column(name, "tally"), state_column(name, "single")
    held, stored = held_type(kind), tally_type(kind)
    value = f"cast({quoted(aggregate.column)} as {held})"
    if held == "double":
        value += " + 0D"  # there is one zero
    every = f"concat(transform({quoted(single)}, v -> named_struct('v', v, 'n', 1L)), {quoted(tally)})"
    merged = f"cast({_counted(f'array_sort({every})')} as {stored})"
    return StateLogic(
        {tally: stored},
        {single: value, tally: f"cast(null as {stored})"},
        {single: f"cast(null as {held})", tally: quoted(tally)},
        {single: f"collect_list({quoted(single)})", tally: f"flatten(collect_list({quoted(tally)}))"},
        {tally: merged, name: f"cast({_of_tally(aggregate, merged, held)} as {value_type})"},
    )


def _counted(sorted_: str) -> str:
    """A sorted list of values and counts, each value once: where it begins, and what follows added up."""
    begins = "filter(sequence(0, size(s) - 1), i -> not (get(s, i).v <=> get(s, i - 1).v))"
    until = "coalesce(get(b, j + 1), size(s)) - at"
    count = f"aggregate(slice(s, at + 1, {until}), 0L, (a, e) -> a + e.n)"
    once = f"transform(b, (at, j) -> named_struct('v', get(s, at).v, 'n', {count}))"
    return _let("s", sorted_, f"if(size(s) = 0, s, {_let('b', begins, once)})")


def _of_tally(aggregate: Aggregate, tally: str, held: str) -> str:
    match aggregate.function:
        case "count_distinct":
            return f"size({tally})"
        case "top_k":
            ranked = f"array_sort(transform({tally}, e -> named_struct('m', -e.n, 'v', e.v)))"
            most = f"slice({ranked}, 1, {aggregate.argument})"
            return _let("w", f"transform({most}, e -> named_struct('value', e.v, 'count', -e.m))", _json("w"))
    middle = _let("n", "aggregate(t, 0L, (a, e) -> a + e.n)", _middle(held))
    return _let("t", tally, middle)


def _middle(held: str) -> str:
    """The mean of the two values in the middle of the tally `t` of `n` values, which may be the same one."""
    low, high = (
        f"aggregate(t, named_struct('seen', 0L, 'v', cast(null as {held})), (a, e) -> named_struct("
        f"'seen', a.seen + e.n, 'v', if(a.v is null and a.seen + e.n > {rank}, e.v, a.v))).v"
        for rank in ("(n - 1) div 2", "n div 2")
    )
    if held == "double":
        return f"({low} + {high}) / 2D"
    exact = "decimal(20,0)" if held == "bigint" else held
    return f"(cast({low} as {exact}) + cast({high} as {exact})) * 0.5BD"


# Events in their order


def ordered(name: str, aggregate: Aggregate, kind: str, value_type: str) -> StateLogic:
    """The first or last event that has a value, or the first so many."""
    assert aggregate.column is not None  # noqa: S101
    column, event = quoted(aggregate.column), state_column(name, "event")
    stored = event_type(kind)
    fields = {"t": TIME, "a": ARRIVAL, "o": ORIGIN, "p": POSITION, "v": column}
    given = ", ".join(f"'{field}', {value}" for field, value in fields.items())
    of_event = f"if({column} is null, null, cast(named_struct({given}) as {stored}))"
    if aggregate.function != "collect":
        fold = "min" if aggregate.function == "first" else "max"
        return StateLogic(
            {event: stored},
            {event: of_event},
            {event: quoted(event)},
            {event: f"{fold}({quoted(event)})"},
            {event: quoted(event), name: f"cast({quoted(event)}.v as {value_type})"},
        )
    events, several = state_column(name, "events"), f"array<{stored}>"
    every = f"concat({quoted(event)}, {quoted(events)})"
    kept = f"slice(array_sort({every}), 1, {aggregate.argument})"
    return StateLogic(
        {events: several},
        {event: of_event, events: f"cast(null as {several})"},
        {event: f"cast(null as {stored})", events: quoted(events)},
        {event: f"collect_list({quoted(event)})", events: f"flatten(collect_list({quoted(events)}))"},
        {events: kept, name: _let("w", f"transform({kept}, e -> e.v)", _json("w"))},
    )
