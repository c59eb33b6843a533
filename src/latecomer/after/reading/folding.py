"""Merges the states of an aggregate outside of a run. Nothing is rounded before the end.

The parts of a state are those of `store/state_types.py`. `states_of` makes them from events, `values_of` the values of
several; both for many groups at once, by the same classes that merge panes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.aggregates import SKETCHED, TALLIED, Aggregate
from latecomer.model.array_types import Integers
from latecomer.model.arrays import flat
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import arrow_type
from latecomer.store.private_columns import state_column
from latecomer.windowing import aggregates
from latecomer.windowing.aggregates import base, exact
from latecomer.windowing.judge import Judged
from latecomer.windowing.merge import merge_states

State = Mapping[str, Any]
Event = Mapping[str, Any]
"""Event time `t`, arrival time `a`, origin `o`, position `p` and value `v`."""
_NAME, _GROUP = "value", "group"


def _judged(columns: Mapping[str, pa.Array], time: Integers, arrival: Integers) -> Judged:
    """Events with one column, as aggregates take them."""
    zero, never = np.zeros(len(time), np.int64), np.zeros(len(time), bool)
    fate = np.zeros(len(time), np.int8)
    return Judged(columns, time, arrival, zero, zero, zero, zero, fate, never, never, zero)


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
