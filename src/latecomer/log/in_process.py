"""The log without Spark, for the common case: what `heads` of a batch are (ADR 0056)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import Declined
from latecomer.model import types
from latecomer.model.verdicts import END_OF_TIME
from latecomer.store.layout import EventLayout


@dataclass(frozen=True)
class FoundHeads:
    """What each tick brought from each partition, a row for each; the earliest event time; the sum of each measure."""

    rows: Sequence[dict[str, Any]]
    earliest: int
    sums: dict[str, Decimal]


def found_heads(events: pa.Table, layout: EventLayout, measures: Mapping[str, str]) -> FoundHeads:
    """The heads of a batch, as Spark would find them."""
    seen = events.select(["tick", "source_partition", "event_time", "arrival_time"])
    found = seen.group_by(["tick", "source_partition"], use_threads=False).aggregate(
        [("event_time", "count"), ("event_time", "max"), ("event_time", "min"), ("arrival_time", "max")]
    )
    named = {"event_time_count": "events", "event_time_max": "latest", "arrival_time_max": "arrived"}
    earliest = pc.min(found.column("event_time_min").cast(pa.int64())).as_py()
    sums = {name: _sum(events.column(layout.view[name]), kind) for name, kind in measures.items()}
    rows = found.rename_columns([named.get(name, name) for name in found.column_names]).to_pylist()
    return FoundHeads(rows, END_OF_TIME if earliest is None else earliest, sums)


def _sum(column: pa.ChunkedArray, kind: str) -> Decimal:
    """The exact sum of a measure."""
    if kind not in types.INTEGERS:
        raise Declined(f"a measure of type {kind}")
    numbers = column.cast(pa.int64())
    low, high = pc.bit_wise_and(numbers, (1 << 32) - 1), pc.shift_right(numbers, 32)
    return Decimal(((pc.sum(high).as_py() or 0) << 32) + (pc.sum(low).as_py() or 0))
