"""The log without Spark, for the common case: the envelope of `envelope.py`, and the heads of a batch (ADR 0056).

A batch in which any row would be a dead letter, or may be a duplicate, is `Declined`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import Declined
from latecomer.log.envelope import beyond_the_ledger
from latecomer.model import types
from latecomer.model.durations import EARLIEST, LATEST
from latecomer.model.verdicts import END_OF_TIME
from latecomer.source.base import LANDED, ORIGIN, POSITION, Loaded
from latecomer.store.layout import EventLayout, Reading


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


def flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _sum(column: pa.ChunkedArray, kind: str) -> Decimal:
    """The exact sum of a measure."""
    if kind not in types.INTEGERS:
        raise Declined(f"a measure of type {kind}")
    numbers = column.cast(pa.int64())
    low, high = pc.bit_wise_and(numbers, (1 << 32) - 1), pc.shift_right(numbers, 32)
    return Decimal(((pc.sum(high).as_py() or 0) << 32) + (pc.sum(low).as_py() or 0))


# The envelope


def enveloped(loaded: Loaded, reading: Reading, batch: int) -> pa.Table:
    """The rows of a source → the columns of the event log, as `envelope.decoded` writes them."""
    pipeline, kinds, log, rows = reading.pipeline, reading.columns, reading.log, loaded.rows
    event, order_by, every = pipeline.event, pipeline.order_by, pipeline.watermark.every
    require_common(reading)
    assert every != "event"  # noqa: S101
    time = micros(flat(rows.column(event.time)), kinds[event.time], event.unit, event.zone)
    arrival = flat(rows.column(LANDED))
    if order_by is not None:
        arrival = micros(flat(rows.column(order_by)), kinds[order_by], pipeline.arrival_unit, event.zone)
    _require_possible(time)
    _require_possible(arrival)
    max_future = pipeline.watermark.max_future
    if max_future is not None and (pc.max(pc.subtract(time, arrival)).as_py() or 0) > max_future:
        raise Declined("an event that is too far ahead")
    count = rows.num_rows
    tick = np.floor_divide(np.asarray(arrival), every)
    named = {"producer": event.producer, "producer_seq": event.producer_seq}
    said = {name: _text(rows, column, kinds) for name, column in named.items() if column is not None}
    payload = {stored: rows.column(column) for column, stored in log.payload.items()}
    made = {
        "event_time": time,
        "arrival_time": arrival,
        "source_partition": _text(rows, pipeline.partition_column, kinds),
        "origin": rows.column(ORIGIN),
        "position": rows.column(POSITION),
        **said,
        "schema_id": pa.array(np.ones(count, np.int32)),
        "batch": pa.array(np.full(count, batch, np.int64)),
        "tick": pa.array(tick),
        **payload,
    }
    schema = pa.schema([log.schema.field(name) for name in made])
    return pa.table(
        {name: column.cast(schema.field(name).type) for name, column in made.items()}, schema=schema
    )


def require_common(reading: Reading) -> None:
    """Decline a pipeline whose rows are not logged here, whatever they are."""
    if reading.source:
        raise Declined("several sources")
    if reading.pipeline.event.id_columns:
        raise Declined("events with an id")
    if reading.pipeline.watermark.every == "event":
        raise Declined("ticks of one event")
    if beyond_the_ledger(reading.columns, reading.pipeline.ledger):
        raise Declined("measures that may be beyond the ledger")
    if missing := [column for column in reading.log.payload if column not in reading.columns]:
        raise Declined(f"a source without {missing[0]}")


def _text(rows: pa.Table, column: str | None, kinds: Mapping[str, str]) -> pa.Array | pa.ChunkedArray:
    """A column as text, as Spark casts it."""
    if column is None:
        return pa.nulls(rows.num_rows, pa.string())
    if kinds[column] != "string" and kinds[column] not in types.INTEGERS:
        raise Declined(f"a text made of {kinds[column]}")
    return rows.column(column).cast(pa.string())


def _require_possible(moments: pa.Array) -> None:
    """Decline rows without a moment, or with one beyond the calendar: they are dead letters."""
    if moments.null_count:
        raise Declined("a row whose time cannot be read")
    bounds = pc.min_max(moments).as_py()
    if len(moments) and not EARLIEST <= bounds["min"] <= bounds["max"] <= LATEST:
        raise Declined("a time beyond the calendar")


_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_WRITTEN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?Z?$"
"""A moment as nearly everybody writes it."""


def micros(column: pa.Array, kind: str, unit: str | None, zone: str) -> pa.Array:
    """Written times in microseconds, as `envelope.micros`; `Declined` where one is written in any other way."""
    if column.null_count:
        raise Declined("a row without a time")
    if kind in types.INTEGERS:
        return _of_numbers(column.cast(pa.int64()), unit or "s")
    if kind != "string":
        raise Declined(f"times of type {kind}")
    if not pc.all(pc.match_substring_regex(column, _WRITTEN)).as_py():
        raise Declined("times that are written in another way")
    zoned = pc.ends_with(column, "Z")
    if zone != "UTC" and not pc.all(zoned).as_py():
        raise Declined("times without a zone")
    bare = pc.utf8_rtrim(column, "Z")
    try:
        return bare.cast(pa.timestamp("us")).cast(pa.int64())
    except pa.ArrowInvalid:
        raise Declined("times that are none") from None


def _of_numbers(numbers: pa.Array, unit: str) -> pa.Array:
    if unit == "ns":
        return pa.array(np.floor_divide(np.asarray(numbers), 1000))
    try:
        return pc.multiply_checked(numbers, _MICROS[unit])
    except pa.ArrowInvalid:
        raise Declined("a time beyond the calendar") from None


def behind(events: pa.Table, watermark: int) -> pa.Array:
    """Which events are behind the watermark so far: they are kept in files of their own."""
    return pc.less(flat(events.column("event_time")).cast(pa.int64()), watermark)
