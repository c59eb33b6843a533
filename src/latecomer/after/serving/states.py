"""The states of corrections: made of late events, and merged with those of the base. Without Spark.

Averages, variances and aggregates that keep values cannot be added. A correction has their state in the same private
columns as a pane, so both are merged like two panes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from latecomer.after.reading.states import State, column_kind, states_of, values_of
from latecomer.after.serving.private_columns import GATHERED
from latecomer.model.aggregates import Aggregate
from latecomer.model.durations import to_micros
from latecomer.store.layout import PaneLayout, arrow_type
from latecomer.store.private_columns import state_column
from latecomer.store.sql import double_quoted
from latecomer.store.state_types import state_parts


def state_columns(layout: PaneLayout, name: str) -> dict[str, str]:
    """The private columns of an aggregate's state and their types; none where it adds up."""
    aggregate = layout.output.aggregates[name]
    parts = state_parts(aggregate, column_kind(layout, aggregate))
    return {state_column(name, part): kind for part, kind in parts.items()}


def averaged(layout: PaneLayout) -> dict[str, Aggregate]:
    """The states of averages, which are a sum and a count: column → aggregate."""
    return {
        state_column(name, part): Aggregate(function=part, column=each.column)
        for name, each in layout.output.aggregates.items()
        if each.function == "avg"
        for part in ("sum", "count")
    }


def gathered_columns(layout: PaneLayout) -> list[str]:
    """The source columns whose single values corrections need."""
    named = [
        each.column
        for name, each in layout.output.aggregates.items()
        if each.column is not None and each.function != "avg" and state_columns(layout, name)
    ]
    return list(dict.fromkeys(named))


def with_states(layout: PaneLayout, rows: pa.Table) -> pa.Table:
    """The rows with the states of their gathered events."""
    for name, aggregate in layout.output.aggregates.items():
        columns = state_columns(layout, name)
        if not columns or aggregate.column is None or aggregate.function == "avg":
            continue
        groups = [[_event(each) for each in group] for group in rows[GATHERED + aggregate.column].to_pylist()]
        states = states_of(aggregate, groups, column_kind(layout, aggregate))
        for column, stored in columns.items():
            part = column.removeprefix(state_column(name, ""))
            rows = rows.append_column(column, states[part].cast(arrow_type(stored)))
    return rows


def _event(gathered: Mapping[str, Any]) -> dict[str, Any]:
    times = {part: None if gathered[part] is None else to_micros(gathered[part]) for part in ("t", "a")}
    return {**gathered, **times}


def gathered_states(layout: PaneLayout, name: str) -> str:
    """All states of an aggregate in a group, for DataFusion."""
    prefix = state_column(name, "")
    fields = ", ".join(
        f"'{column.removeprefix(prefix)}', {double_quoted(column)}" for column in state_columns(layout, name)
    )
    return f"array_agg(named_struct({fields}))"


def merged(layout: PaneLayout, name: str, groups: Sequence[Sequence[State]]) -> list[Any]:
    """The values of groups of an aggregate's states."""
    aggregate, published = layout.output.aggregates[name], layout.published.field(name).type
    return values_of(aggregate, groups, column_kind(layout, aggregate), published)
