"""States merged group by group: what Arrow can fold in one pass over all inputs, and the rest state by state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from latecomer.model.arrays import flat
from latecomer.windowing.aggregates.base import Columns, Groups, State, column_of

_ROW = "row"


@dataclass(frozen=True)
class Merged:
    """What the inputs of each group came to."""

    place: pa.Table
    """The columns by which rows were grouped."""
    inputs: Mapping[str, pa.Array]
    """The merged inputs."""
    groups: Groups | None
    """Which rows each is of, where that was asked."""


def merge_states(
    states: Sequence[State],
    inputs: pa.Table,
    by: Sequence[str],
    more: Mapping[str, str] | None = None,
    numbered: bool = False,
) -> Merged:
    """Merge rows that are the same in the columns `by`; `more` are columns that Arrow folds besides. Which rows are in
    which group is known where a state needs it, or where it is asked for (`numbered`)."""
    folds = {name: fold for state in states for name, fold in state.folds.items()} | dict(more or {})
    asked = list(folds.items())
    grouping = [state for state in states if state.needs_groups]
    if grouping or numbered:
        inputs = inputs.append_column(_ROW, pa.array(np.arange(inputs.num_rows)))
        asked.append((_ROW, "list"))
    found = inputs.group_by(list(by), use_threads=False).aggregate(asked)
    merged: Columns = {name: flat(found.column(f"{name}_{fold}")) for name, fold in folds.items()}
    groups = _groups(flat(found.column(f"{_ROW}_list"))) if grouping or numbered else None
    for state in grouping:
        assert groups is not None  # noqa: S101
        merged |= state.merge({name: column_of(inputs, name) for name in state.kinds}, groups)
    return Merged(found.select(list(by)), merged, groups)


def _groups(lists: pa.Array) -> Groups:
    offsets = np.asarray(lists.offsets).astype(np.int64)
    return Groups(np.asarray(lists.flatten()), offsets - offsets[0])
