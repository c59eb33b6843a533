"""Merges states group by group: Arrow folds what it can in one pass over all inputs, each state merges the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from latecomer.model.arrays import flat
from latecomer.windowing.aggregates.base import Columns, Groups, State, column_of
from latecomer.windowing.aggregates.exact import SHORT, with_room

_ROW = "row"


@dataclass(frozen=True)
class Merged:
    """The merged inputs of each group."""

    place: pa.Table
    """The columns by which rows were grouped."""
    inputs: Mapping[str, pa.Array]


def merge_states(
    states: Sequence[State], inputs: pa.Table, by: Sequence[str], more: Mapping[str, str] | None = None
) -> Merged:
    """Merge rows that are equal in the columns `by`; `more` are other columns for Arrow to fold."""
    folds = {name: fold for state in states for name, fold in state.folds.items()} | dict(more or {})
    aggregations = list(folds.items())
    for place, field in enumerate(inputs.schema):
        if field.type == SHORT and folds.get(field.name) == "sum":
            inputs = inputs.set_column(place, field.name, with_room(inputs.column(place)))
    grouping = [state for state in states if state.needs_groups]
    if grouping:
        inputs = inputs.append_column(_ROW, pa.array(np.arange(inputs.num_rows)))
        aggregations.append((_ROW, "list"))
    found = inputs.group_by(list(by), use_threads=False).aggregate(aggregations)
    merged: Columns = {name: flat(found.column(f"{name}_{fold}")) for name, fold in folds.items()}
    if grouping:
        groups = _groups(flat(found.column(f"{_ROW}_list")))
        for state in grouping:
            merged |= state.merge({name: column_of(inputs, name) for name in state.kinds}, groups)
    return Merged(found.select(list(by)), merged)


def _groups(lists: pa.Array) -> Groups:
    offsets = np.asarray(lists.offsets).astype(np.int64)
    return Groups(np.asarray(lists.flatten()), offsets - offsets[0])
