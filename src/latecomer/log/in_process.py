"""The log without Spark, for the common case: the envelope of `envelope.py`, and the heads of a batch (ADR 0056).

Rows of which any would be a dead letter are `Declined`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.merged import SOURCE
from latecomer.decode.arrow_text import at_wall_clock, moments
from latecomer.decode.columns import KEPT, SCHEMA_ID
from latecomer.fast import Declined, flat
from latecomer.log.envelope import beyond_the_ledger
from latecomer.model import types
from latecomer.model.durations import EARLIEST, LATEST
from latecomer.model.heads import HeadColumns
from latecomer.model.ids import BEGIN, BETWEEN, END, ESCAPES
from latecomer.model.sources import BETWEEN as BETWEEN_SOURCE
from latecomer.source.columns import LANDED, ORIGIN, PARTITION, POSITION
from latecomer.store.layout import Reading

_LEDGER_SCALE = 6
"""Digits after the point with which Spark adds up measures for the ledger; with more, each would be rounded."""


def found_heads(events: pa.Table) -> pa.Table:
    """What each tick brought from each partition, as Spark would find it: a row for each."""
    seen = events.select(["tick", "event_time", "arrival_time"])
    seen = seen.append_column("source_partition", pc.fill_null(events.column("source_partition"), ""))
    aggregates = {"events": "count", "latest": "max", "earliest": "min", "arrived": "max"}
    found = seen.group_by(["tick", "source_partition"], use_threads=False).aggregate(
        [("arrival_time" if name == "arrived" else "event_time", each) for name, each in aggregates.items()]
    )
    return found.rename_columns(["tick", "source_partition", *aggregates])


def head_columns(found: pa.Table, every: int) -> HeadColumns:
    """Heads in columns."""
    partitions = flat(found.column("source_partition")).dictionary_encode()
    whole = {
        name: np.asarray(flat(found.column(name)).cast(pa.int64())) for name in ("tick", "events", "latest")
    }
    nth = np.asarray(partitions.indices.cast(pa.int64()))
    return HeadColumns.of(every, partitions.dictionary.to_pylist(), nth=nth, **whole)


def sums_of(rows: pa.Table, columns: Mapping[str, str], measures: Mapping[str, str]) -> dict[str, Decimal]:
    """The exact sum of each measure; `columns` maps it to its column."""
    return {name: _sum(rows.column(columns[name]), kind) for name, kind in measures.items()}


def _sum(column: pa.ChunkedArray, kind: str) -> Decimal:
    """The exact sum of a measure."""
    if types.is_decimal(kind) and types.scale_of(kind) <= _LEDGER_SCALE:
        return Decimal(pc.sum(column.cast(pa.decimal128(38, types.scale_of(kind)))).as_py() or 0)
    if kind not in types.INTEGERS:
        raise Declined(f"a measure of type {kind}")
    numbers = column.cast(pa.int64())
    low, high = pc.bit_wise_and(numbers, (1 << 32) - 1), pc.shift_right(numbers, 32)
    return Decimal(((pc.sum(high).as_py() or 0) << 32) + (pc.sum(low).as_py() or 0))


# The envelope


def enveloped(rows: pa.Table, reading: Reading, batch: int, first_tick: int = 0) -> pa.Table:
    """The rows of a source → the columns of the event log, as `envelope.decoded` writes them. `first_tick` is the last
    one before the batch, where each event is a tick."""
    pipeline, kinds, log = reading.pipeline, reading.columns, reading.log
    event, order_by, every = pipeline.event, pipeline.order_by, pipeline.watermark.every
    require_common(reading)
    if reading.source:
        rows = rows.append_column(SOURCE, pa.repeat(pa.scalar(reading.source, pa.string()), rows.num_rows))
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
    tick = first_tick + _in_order(arrival, rows) if every == "event" else np.asarray(arrival) // every
    ids = {"event_id": _id(rows, event.id_columns, kinds)} if event.id_columns else {}
    named = {"producer": event.producer, "producer_seq": event.producer_seq}
    texts = {name: _text(rows, column, kinds) for name, column in named.items() if column is not None}
    payload = {
        stored: rows.column(column) if column in kinds else pa.nulls(count, log.schema.field(stored).type)
        for column, stored in log.payload.items()
    }
    made = {
        "event_time": time,
        "arrival_time": arrival,
        "source_partition": _partition(rows, reading),
        "origin": rows.column(ORIGIN),
        "position": rows.column(POSITION),
        **ids,
        **texts,
        "schema_id": rows.column(SCHEMA_ID)
        if SCHEMA_ID in rows.column_names
        else pa.array(np.ones(count, np.int32)),
        "batch": pa.array(np.full(count, batch, np.int64)),
        "tick": pa.array(tick),
        **({log.unknown_fields: rows.column(KEPT)} if KEPT in rows.column_names else {}),
        **payload,
    }
    schema = pa.schema([log.schema.field(name) for name in made])
    return pa.table(
        {name: column.cast(schema.field(name).type) for name, column in made.items()}, schema=schema
    )


def require_common(reading: Reading) -> None:
    """Decline a pipeline whose rows are not logged here, whatever they are."""
    if beyond_the_ledger(reading.columns, reading.pipeline.ledger):
        raise Declined("measures that may be beyond the ledger")


def _in_order(arrival: pa.Array, rows: pa.Table) -> npt.NDArray[np.int64]:
    """Which row each is, counted from 1 in the order of arrival."""
    _, nth = np.unique(np.asarray(rows.column(ORIGIN).cast(pa.binary())), return_inverse=True)
    order = np.lexsort((_whole(rows, POSITION), nth, _whole(rows, LANDED), np.asarray(arrival)))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(1, len(order) + 1)
    return places


def _whole(rows: pa.Table, name: str) -> npt.NDArray[np.int64]:
    return np.asarray(flat(rows.column(name)))


def _partition(rows: pa.Table, reading: Reading) -> pa.Array | pa.ChunkedArray:
    """The source partition; of several sources it begins with the source."""
    named = reading.pipeline.partition_column
    given = named is None and PARTITION in rows.column_names
    own = rows.column(PARTITION) if given else _text(rows, named, reading.columns)
    if not reading.source:
        return own
    joined = pc.binary_join_element_wise(reading.source, own, BETWEEN_SOURCE, null_handling="skip")
    return pc.if_else(pc.fill_null(pc.equal(own, ""), False), reading.source, joined)


def _id(rows: pa.Table, parts: Sequence[str], kinds: Mapping[str, str]) -> pa.Array | pa.ChunkedArray:
    """As `model.ids.event_id`: the text of a column, or those of several as one."""
    texts = [_text(rows, column, kinds) for column in parts]
    if len(texts) == 1:
        return texts[0]
    for character, escaped in ESCAPES.items():
        texts = [pc.replace_substring(text, character, escaped) for text in texts]
    inside = pc.binary_join_element_wise(*texts, BETWEEN)
    return pc.binary_join_element_wise(BEGIN, inside, END, "")


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


def micros(column: pa.Array, kind: str, unit: str | None, zone: str) -> pa.Array:
    """Written times in microseconds, as `envelope.micros`; `Declined` where one is written in any other way."""
    if column.null_count:
        raise Declined("a row without a time")
    if kind in types.INTEGERS:
        return _of_numbers(column.cast(pa.int64()), unit or "s")
    if kind == "string":
        return moments(column, zone=zone)
    if kind == "timestamp":
        return column.cast(pa.int64())
    if kind not in ("timestamp_ntz", "date"):
        raise Declined(f"times of type {kind}")
    local = column.cast(pa.timestamp("us")).cast(pa.int64())
    return local if zone == "UTC" else at_wall_clock(local, zone)


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
