"""Judged events made by hand, and states that are merged without a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.windowing.aggregates.base import Columns, State
from latecomer.windowing.merge import merge_states


class Given:
    """Events in one window, each with the same watermark."""

    def __init__(self, columns: Mapping[str, pa.Array], start: Sequence[int] | None = None) -> None:
        count = len(next(iter(columns.values())))
        self.columns = columns
        self.time = self.arrival = np.arange(count, dtype=np.int64)
        self.watermark = np.full(count, -1, np.int64)
        self.start = np.zeros(count, np.int64) if start is None else np.array(start, np.int64)
        self.end = self.start + 60
        self.fate = np.zeros(count, np.int8)
        self.leading, self.partly = np.ones(count, bool), np.zeros(count, bool)

    def __len__(self) -> int:
        return len(self.time)


def merged_groups(
    state: State, inputs: Sequence[Columns], groups: Sequence[Sequence[int]], count: int
) -> Columns:
    """What a state's inputs come to, a row for each of so many groups."""
    tables = [pa.table({"group": np.arange(count), **state.nothing(count)})]
    tables += [
        pa.table({"group": pa.array(group, pa.int64()), **given})
        for given, group in zip(inputs, groups, strict=True)
    ]
    place, merged = merge_states([state], pa.concat_tables(tables), ["group"])
    order = pc.sort_indices(place, [("group", "ascending")])
    return {name: column.take(order) for name, column in state.value(merged).items()}
