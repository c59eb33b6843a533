"""Approximations: their states are sketches of Apache DataSketches, as Spark writes them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.arrays import flat
from latecomer.store.private_columns import state_column
from latecomer.windowing.aggregates.base import Columns, Events, Gathered, Groups, part, valid

_GROUP, _VALUE = "group", "v"


class Sketched(Gathered):
    """Merges the values and sketches of a group into one sketch, which gives the estimate."""

    def __init__(self, name: str, column: str, kind: str, held: pa.DataType) -> None:
        self.column, self.kind = column, kind
        super().__init__(name, part(name, "single"), held, state_column(name, "sketch"), "binary")

    def merge(self, inputs: Mapping[str, pa.Array], groups: Groups) -> Columns:
        sketches: list[list[bytes]] = [[] for _ in range(groups.count)]
        stored = inputs[self.several]
        rows = valid(stored).nonzero()[0]
        for group, sketch in zip(groups.of_row[rows].tolist(), stored.drop_null().to_pylist(), strict=True):
            sketches[group].append(sketch)
        merged, values = [], [None] * groups.count
        for group, single in enumerate(self._values(inputs[self.single], groups)):
            sketch, values[group] = self.merged(single, sketches[group])
            merged.append(sketch)
        return {self.several: pa.array(merged, pa.binary()), self.name: pa.array(values, self.published)}

    @property
    @abstractmethod
    def published(self) -> pa.DataType:
        """The type of the estimate."""

    def _values(self, single: pa.Array, groups: Groups) -> list[pa.Array]:
        """The values of each group."""
        alone = valid(single)
        every = pa.table({_GROUP: groups.of_row[alone], _VALUE: single.filter(pa.array(alone))})
        every = self.needed(every)
        every = every.take(pc.sort_indices(every, [(_GROUP, "ascending")]))
        group, value = (flat(every.column(name)) for name in (_GROUP, _VALUE))
        counts = np.bincount(np.asarray(group), minlength=groups.count)
        ends = np.cumsum(counts)
        return [
            value.slice(end - count, count) for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
        ]

    def needed(self, every: pa.Table) -> pa.Table:
        return every

    @abstractmethod
    def merged(self, values: pa.Array, sketches: list[bytes]) -> tuple[bytes, Any]:
        """The sketch of values and sketches, and its estimate."""

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        return {name: merged[name] for name in (self.several, self.name)}


class ApproxCountDistinct(Sketched):
    """Approximately how many different values there were."""

    published = pa.int64()

    def __init__(self, name: str, column: str, kind: str) -> None:
        held = pa.int64() if kind in types.INTEGERS else pa.binary() if kind == "binary" else pa.string()
        super().__init__(name, column, kind, held)

    def of_events(self, events: Events) -> pa.Array:
        from latecomer.store.sketches import counted  # its library is loaded only where it is needed

        column = events.columns[self.column]
        if column.type == self.held or self.kind in types.INTEGERS:
            return column.cast(self.held)
        if self.kind in types.FLOATS:  # 0.0 and -0.0 have different texts
            bits = pa.int32() if self.kind == "float" else pa.int64()
            encoded = column.view(bits).dictionary_encode()
            distinct = encoded.dictionary.view(column.type)
        else:
            encoded = column.dictionary_encode()
            distinct = encoded.dictionary
        texts = pa.array([counted(value, self.kind) for value in distinct.to_pylist()], pa.string())
        return texts.take(encoded.indices)

    def needed(self, every: pa.Table) -> pa.Table:
        return every.group_by([_GROUP, _VALUE], use_threads=False).aggregate([])

    def merged(self, values: pa.Array, sketches: list[bytes]) -> tuple[bytes, Any]:
        from latecomer.store.sketches import merged_counter

        return merged_counter(values.to_pylist(), sketches)


class ApproxPercentile(Sketched):
    """Approximately the value that a share of all values does not exceed."""

    def __init__(self, name: str, column: str, kind: str, share: float) -> None:
        held = pa.int64() if kind in types.INTEGERS else pa.float64()
        super().__init__(name, column, kind, held)
        self.share = share

    @property
    def published(self) -> pa.DataType:
        return self.held

    def of_events(self, events: Events) -> pa.Array:
        return events.columns[self.column].cast(self.held, safe=False)

    def merged(self, values: pa.Array, sketches: list[bytes]) -> tuple[bytes, Any]:
        from latecomer.store.sketches import merged_percentile

        return merged_percentile(values.to_pylist(), sketches, self.kind, self.share)
