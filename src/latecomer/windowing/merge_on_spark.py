"""The surface of the Arrow merger on the SQL one, for aggregates that the former does not know yet.

Temporary: it goes, with `merge.py`'s SQL, once every aggregate is known to the Arrow merger.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Protocol, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from latecomer.log.columns import ARRIVAL, TIME
from latecomer.model.verdicts import Fate
from latecomer.source.columns import ORIGIN, POSITION
from latecomer.windowing.columns import END, FATE, LEADING, PARTLY, START, WATERMARK
from latecomer.windowing.judge_in_process import Flags, Judged
from latecomer.windowing.merge import Merger
from latecomer.windowing.merge_in_process import ArrowMerger


class AnyMerger(Protocol):
    """The one aggregation of events and earlier states. Inputs are what it has made itself."""

    @property
    def columns(self) -> list[str]:
        """The columns of events that are needed."""

    def of_events(self, events: Judged) -> Any:
        """Events as inputs."""

    def of_states(self, panes: pa.Table, fate: Fate | None = None, fresh: bool = False) -> Any:
        """Stored states as inputs."""

    def of_nothing(self, places: pa.Table) -> Any:
        """Windows and keys as inputs of no event at all: START, END and the keys."""

    def again(self, merged: pa.Table) -> Any:
        """Merged rows as inputs once more."""

    def merge(self, inputs: Sequence[Any]) -> pa.Table:
        """One row per window, key and fate."""

    def merge_parts(self, parts: Iterable[Judged]) -> pa.Table | None:
        """Events that come in parts, merged as if they came at once; None where there are none."""

    def emptied(self, rows: pa.Table, where: Flags | None = None) -> pa.Table:
        """Values and states as they stand when a discarding pane has said them."""

    def published(self, merged: pa.Table, firing: Mapping[str, pa.Array]) -> pa.Table:
        """Merged rows in the shape of panes."""


@dataclass(frozen=True)
class SparkMerger:
    """Merges Arrow tables with Spark SQL. Its inputs are frames."""

    spark: SparkSession
    merger: Merger

    @cached_property
    def columns(self) -> list[str]:
        """The columns of events that are needed."""
        layout = self.merger.layout
        used = (each.column for each in layout.output.aggregates.values() if each.column is not None)
        return list(dict.fromkeys([*layout.keys, *self.merger.measures, *used, ORIGIN, POSITION]))

    def of_events(self, events: Judged) -> DataFrame:
        """Events as inputs."""
        flags = {START: events.start, END: events.end, FATE: events.fate}
        flags |= {LEADING: events.leading, PARTLY: events.partly}
        times = {TIME: events.time, ARRIVAL: events.arrival, WATERMARK: events.watermark}
        rows = {name: pa.array(column) for name, column in {**flags, **times}.items()}
        return self.merger.of_events(self._frame(pa.table({**events.columns, **rows})))

    def of_states(self, panes: pa.Table, fate: Fate | None = None, fresh: bool = False) -> DataFrame:
        """Stored states as inputs. Without a `fate` their timing says which."""
        return self.merger.of_states(self._frame(panes), fate, fresh)

    def of_nothing(self, places: pa.Table) -> DataFrame:
        """Windows and keys as inputs of no event at all."""
        return self.merger.of_nothing(self._frame(places))

    def again(self, merged: pa.Table) -> DataFrame:
        """Merged rows as inputs once more."""
        return self.merger.again(self._frame(merged))

    def merge(self, inputs: Sequence[DataFrame]) -> pa.Table:
        """One row per window, key and fate."""
        merged = self.merger.merge(reduce(DataFrame.unionByName, inputs)).toArrow()
        kinds = {field.name: field.type for field in self.merger.schema}
        return merged.cast(
            pa.schema([(each.name, kinds.get(each.name, each.type)) for each in merged.schema])
        )

    def merge_parts(self, parts: Iterable[Judged]) -> pa.Table | None:
        """Events that come in parts, merged as if they came at once; None where there are none."""
        held = [self.merge([self.of_events(part)]) for part in parts if len(part)]
        return self.merge([self.again(each) for each in held]) if held else None

    def emptied(self, rows: pa.Table, where: Flags | None = None) -> pa.Table:
        """Values and states as they stand when a discarding pane has said them."""
        return ArrowMerger.emptied(cast(ArrowMerger, self), rows, where)

    def published(self, merged: pa.Table, firing: Mapping[str, pa.Array]) -> pa.Table:
        """Merged rows in the shape of panes, with these firing columns."""
        return ArrowMerger.published(cast(ArrowMerger, self), merged, firing)

    def _frame(self, rows: pa.Table) -> DataFrame:
        return self.spark.createDataFrame(rows)
