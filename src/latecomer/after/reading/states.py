"""Merges the states of an aggregate outside of a run: those of open windows, and of corrections. No Spark.

The parts of a state are those of `store/state_types.py`. `states_of` makes them from events, `values_of` the values of
several; both for many groups at once, by the same classes that merge panes. Nothing is rounded before the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.questions import PLAIN, Book, folded
from latecomer.config.names import PRIVATE
from latecomer.model import types
from latecomer.model.aggregates import SKETCHED, TALLIED, Aggregate
from latecomer.model.array_types import Integers
from latecomer.model.arrays import flat
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import PaneLayout, arrow_type
from latecomer.store.private_columns import state_column
from latecomer.store.sql import double_quoted, listed
from latecomer.store.state_types import state_parts
from latecomer.windowing import aggregates
from latecomer.windowing.aggregates import base, exact
from latecomer.windowing.judge import JudgedEvents
from latecomer.windowing.merge import merge_states

State = Mapping[str, Any]
Event = Mapping[str, Any]
"""Event time `t`, arrival time `a`, origin `o`, position `p` and value `v`."""
_NAME, _GROUP = "value", "group"
OPEN = "OPEN"
"""The timing of a window that has not fired yet."""
_COUNT, _STATES = f"{PRIVATE}state_count", f"{PRIVATE}states_of_"


def _judged(columns: Mapping[str, pa.Array], time: Integers, arrival: Integers) -> JudgedEvents:
    """Events with one column, as aggregates take them."""
    zero, never = np.zeros(len(time), np.int64), np.zeros(len(time), bool)
    fate = np.zeros(len(time), np.int8)
    return JudgedEvents(columns, time, arrival, zero, zero, zero, zero, fate, never, never, zero)


def states_of(aggregate: Aggregate, groups: Sequence[Sequence[Event]], kind: str) -> dict[str, pa.Array]:
    """The states of some groups of events, whose values are of this type: part → a column with a row for each group."""
    state = _state(aggregate, kind, None)
    events = [event for group in groups for event in group]
    columns = {
        aggregate.column or "": pa.array([event["v"] for event in events], arrow_type(kind)),
        ORIGIN: pa.array([event.get("o") for event in events], pa.string()),
        POSITION: pa.array([event.get("p") for event in events], pa.int64()),
    }
    times = (np.array([event.get(part) or 0 for event in events], np.int64) for part in ("t", "a"))
    made = _merged(state, state.init(_judged(columns, *times)), list(map(len, groups)))
    return {part: made[column] for part, column in _parts(state).items()}


def values_of(
    aggregate: Aggregate, groups: Sequence[Sequence[State]], kind: str, published: pa.DataType
) -> list[Any]:
    """The values of some groups of states, over a column of this type; None where a state of a group is not known."""
    state, needed = _state(aggregate, kind, published), _needed_part(aggregate)
    known = [all(needed is None or each[needed] is not None for each in group) for group in groups]
    kept = [group if is_known else [] for group, is_known in zip(groups, known, strict=True)]
    states = [each for group in kept for each in group]
    stored = pa.table(
        {
            column: pa.array([each[part] for each in states], arrow_type(state.columns[column]))
            for part, column in _parts(state).items()
        }
    )
    made = _merged(state, state.stored(stored, fresh=False), list(map(len, kept)))
    values = made[_NAME].to_pylist()
    return [value if is_known else None for value, is_known in zip(values, known, strict=True)]


def column_kind(layout: PaneLayout, aggregate: Aggregate) -> str:
    """The type of the column that an aggregate is over."""
    return layout.types.get(aggregate.column or "", "bigint")


def _state(aggregate: Aggregate, kind: str, published: pa.DataType | None) -> base.State:
    scale = published.scale if published is not None and pa.types.is_decimal(published) else types.MOST_DIGITS
    return aggregates.state_of(_NAME, aggregate, kind, f"decimal({types.MOST_DIGITS},{scale})")


def _parts(state: base.State) -> dict[str, str]:
    """The parts of a state, and their columns."""
    return {column.removeprefix(state_column(_NAME, "")): column for column in state.columns}


def _merged(state: base.State, inputs: base.Columns, counts: Sequence[int]) -> base.Columns:
    """The inputs merged, a row for each group; `counts` is how many rows each group has."""
    every = np.arange(len(counts))
    nothing = pa.table({_GROUP: every, **state.nothing(len(counts))})  # a group may have no row
    given = pa.table({_GROUP: np.repeat(every, counts), **inputs})
    both = pa.concat_tables([nothing, given.select(nothing.column_names)])
    place, merged = merge_states([state], both, [_GROUP])
    order = pc.sort_indices(flat(place.column(_GROUP)))
    return {name: column.take(order) for name, column in state.value(merged).items()}


def _needed_part(aggregate: Aggregate) -> str | None:
    """The part of a state that is never null where the state is known."""
    if aggregate.function in SKETCHED:
        return "sketch"
    if aggregate.function in TALLIED:
        return "tally"
    return {"first": None, "last": None, "collect": "events"}.get(aggregate.function, "count")


def quotient(total: Any, count: int, published: pa.DataType) -> Any:
    """An average from its sum; None where its type has too few digits for it, as on Spark."""
    if not pa.types.is_decimal(published):
        return float(total) / count
    with localcontext(prec=2 * types.MOST_DIGITS):
        scale = -int(Decimal(total).as_tuple().exponent)
        digits = exact.quotient(int(Decimal(total).scaleb(scale)), count, scale, published.scale)
        return None if digits is None else Decimal(digits).scaleb(-published.scale)


def open_windows(book: Book, notes: list[str], chosen: str = "true") -> pa.Table:
    """The windows still open, each state merged as far as it can be without Spark."""
    partials, panes = book.tables.partials, book.tables.panes
    if not partials.exists:
        return book.schema.empty_table()
    merged = [f"count(*) as {double_quoted(_COUNT)}"]
    for name, aggregate in book.output.aggregates.items():
        merged.append(f"{folded(book, partials, name, aggregate)} as {double_quoted(name)}")
        if parts := state_parts(aggregate, column_kind(book.layout, aggregate)):
            fields = ", ".join(f"'{part}', {double_quoted(state_column(name, part))}" for part in parts)
            merged.append(f"array_agg(named_struct({fields})) as {double_quoted(_STATES + name)}")
    closed, others = "", {}
    if panes.exists:
        same = [
            f"(p.{double_quoted(column)} is not distinct from t.{double_quoted(column)})"
            for column in book.place
        ]
        closed, others = f"where not exists (select 1 from p where {' and '.join(same)})", {"p": panes}
    place = listed(book.place)
    states = f"(select * from t where {chosen}) as t"
    rows = partials.query(
        f"select {place}, {', '.join(merged)} from {states} {closed} group by {place}", **others
    )
    columns = {name: rows[name] for name in book.place}
    counted = rows[_COUNT].to_pylist()
    for name, aggregate in book.output.aggregates.items():
        columns[name] = _finished(book, name, aggregate, rows, counted, notes)
    columns["sequence"] = pa.nulls(rows.num_rows, pa.int64())
    columns["timing"] = pa.array([OPEN] * rows.num_rows, pa.string())
    return pa.table(columns).cast(book.schema)


def _finished(
    book: Book, name: str, aggregate: Aggregate, rows: pa.Table, counted: Sequence[int], notes: list[str]
) -> pa.ChunkedArray:
    """An aggregate's value in each window: exact as stored where there is one state, else folded."""
    if aggregate.function in PLAIN or all(count == 1 for count in counted):
        return rows[name]
    values = rows[name].to_pylist()
    kind = book.schema.field(name).type
    several = [index for index, count in enumerate(counted) if count > 1]
    if not state_parts(aggregate, column_kind(book.layout, aggregate)):
        notes.append(
            f"{name}: {aggregate.function} is known for {len(several)} open windows only when they close "
            "(Spark alone counts distinct bytes)"
        )
        for index in several:
            values[index] = None
    else:
        states, column = rows[_STATES + name].to_pylist(), book.layout.types[aggregate.column or ""]
        merged = values_of(aggregate, [states[index] for index in several], column, kind)
        for index, value in zip(several, merged, strict=True):
            values[index] = value
    return pa.chunked_array([pa.array(values, kind)])
