"""Rows → events in their envelope, or dead letters with a reason. One pass, native Spark SQL."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from latecomer.config import columns as types
from latecomer.config.checks import PRIVATE
from latecomer.config.models import Unit
from latecomer.model.verdicts import END_OF_TIME
from latecomer.source.files import BROKEN, CORRUPT, LANDED, ORIGIN, POSITION
from latecomer.store.layout import EventLayout
from latecomer.store.sql import quoted

LANE = f"{PRIVATE}lane"
REASON = "reason"
RAW = "raw"

EVENTS, BEHIND, DUPLICATES, DEAD_LETTERS = "events", "behind", "duplicates", "dead_letters"
"""The lanes of a batch. Events behind the watermark are kept in files of their own, so that they do
not widen the time range of every file."""

FIRST_MOMENT = -62_135_596_800_000_000  # 0001-01-01T00:00:00Z
_MICROS: dict[Unit, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
_HAS_ZONE = r"(Z|[+-]\d\d(:?\d\d)?|\[.+\]| ?[A-Z][A-Za-z]+/[A-Za-z_]+)$"


def moment(column: str, kind: str, unit: Unit | None, zone: str) -> Column:
    """A written time as a timestamp; null where it cannot be read."""
    name = quoted(column)
    if kind == "string":
        parsed = f"case when {name} like '____-__-__%' then try_cast({name} as timestamp) end"
        if zone != "UTC":
            local = f"to_utc_timestamp({parsed}, '{zone}')"
            parsed = f"if({name} rlike '{_HAS_ZONE}', {parsed}, {local})"
    elif kind == "timestamp":
        parsed = name
    elif kind in ("timestamp_ntz", "date"):
        parsed = f"to_utc_timestamp(cast({name} as timestamp), '{zone}')"
    else:
        return F.expr(_from_number(name, kind, unit or "s"))
    micros = f"unix_micros({parsed})"
    return F.expr(f"case when {micros} between {FIRST_MOMENT} and {END_OF_TIME - 1} then {parsed} end")


def _from_number(name: str, kind: str, unit: Unit) -> str:
    if unit == "ns":
        micros = f"try_cast(floor({name} / 1000) as bigint)"
        if kind in types.INTEGERS:
            micros = f"(({name} - pmod({name}, 1000)) div 1000)"
    elif kind in types.INTEGERS:
        micros = f"try_multiply(cast({name} as bigint), {_MICROS[unit]}L)"
    else:
        micros = f"try_cast(round({name} * {_MICROS[unit]}) as bigint)"
    return (
        f"case when {micros} between {FIRST_MOMENT} and {END_OF_TIME - 1} then timestamp_micros({micros}) end"
    )


def decoded(rows: DataFrame, layout: EventLayout, params: DataFrame) -> DataFrame:
    """Rows of the source → the columns of the event log, plus REASON, RAW and LANE.

    `params` is one row: batch, first_tick (for `every: event`) and behind (the watermark so far).
    """
    pipeline, columns = layout.pipeline, layout.columns
    event, order_by = pipeline.event, pipeline.source.files.order_by
    event_time = moment(event.time, columns[event.time], event.unit, event.zone)
    arrival = F.col(LANDED)
    if order_by is not None:
        arrival = moment(order_by, columns[order_by], pipeline.arrival_unit, event.zone)
    timed = rows.withColumn(f"{PRIVATE}event_time", event_time).withColumn(f"{PRIVATE}arrival_time", arrival)
    timed = timed.withColumn(REASON, F.expr(_reason(layout)))
    placed = timed.crossJoin(F.broadcast(params))
    return placed.select(
        F.col(f"{PRIVATE}event_time").alias("event_time"),
        F.coalesce(f"{PRIVATE}arrival_time", LANDED).alias("arrival_time"),
        _text(pipeline.partition_column).alias("source_partition"),
        F.col(ORIGIN).alias("origin"),
        F.col(POSITION).alias("position"),
        _text(event.id).alias("event_id"),
        _text(event.producer).alias("producer"),
        _text(event.producer_seq).alias("producer_seq"),
        F.lit(1).alias("schema_id"),
        F.col(f"{PRIVATE}batch").alias("batch"),
        _tick(layout).alias("tick"),
        *(_payload(column, columns[column]).alias(stored) for column, stored in layout.payload.items()),
        F.col(REASON),
        F.expr(_raw(layout)).alias(RAW),
        F.expr(
            f"case when {REASON} is not null then '{DEAD_LETTERS}' "
            f"when unix_micros({PRIVATE}event_time) < {PRIVATE}behind then '{BEHIND}' else '{EVENTS}' end"
        ).alias(LANE),
        F.col(LANDED),
    )


def marked_duplicates(events: DataFrame, known_ids: DataFrame | None) -> DataFrame:
    """Move to the duplicates' lane every event whose id came earlier, in this batch or in the log."""
    lives = F.col("event_id").isNotNull() & (F.col(LANE) != DEAD_LETTERS)
    first = Window.partitionBy("event_id", lives).orderBy("arrival_time", LANDED, "origin", "position")
    marked = events.withColumn(f"{PRIVATE}nth", F.row_number().over(first))
    seen_before = F.lit(False)
    if known_ids is not None:
        known = known_ids.select("event_id").distinct().withColumn(f"{PRIVATE}known", F.lit(True))
        marked = marked.join(known, "event_id", "left")
        seen_before = F.col(f"{PRIVATE}known").isNotNull()
    again = lives & ((F.col(f"{PRIVATE}nth") > 1) | seen_before)
    lane = F.when(again, F.lit(DUPLICATES)).otherwise(F.col(LANE))
    return marked.withColumn(LANE, lane).select(events.columns)


def _text(column: str | None) -> Column:
    if column is None:
        return F.lit(None).cast("string")
    return F.col(quoted(column)).cast("string")


def _payload(column: str, kind: str) -> Column:
    return F.col(quoted(column)).cast("timestamp" if kind == "timestamp_ntz" else kind)


def _tick(layout: EventLayout) -> Column:
    every = layout.pipeline.watermark.every
    if every == "event":
        in_order = Window.orderBy(f"{PRIVATE}arrival_time", LANDED, ORIGIN, POSITION)
        return F.row_number().over(in_order).cast("bigint") + F.col(f"{PRIVATE}first_tick")
    arrival = f"unix_micros(coalesce({PRIVATE}arrival_time, {LANDED}))"
    return F.expr(f"({arrival} - pmod({arrival}, {every}L)) div {every}L")


def _reason(layout: EventLayout) -> str:
    pipeline = layout.pipeline
    order_by, max_future = pipeline.source.files.order_by, pipeline.watermark.max_future
    time, event_time, arrival = quoted(pipeline.event.time), f"{PRIVATE}event_time", f"{PRIVATE}arrival_time"
    cases = [
        f"when {BROKEN} is not null then 'unreadable_file'",
        f"when {CORRUPT} is not null then 'unreadable'",
        f"when {time} is null then 'no_event_time'",
        f"when {event_time} is null then 'unreadable_event_time'",
    ]
    if order_by is not None:
        cases.append(f"when {quoted(order_by)} is null then 'no_arrival_time'")
        cases.append(f"when {arrival} is null then 'unreadable_arrival_time'")
    if max_future is not None:
        ahead = f"unix_micros({event_time}) - unix_micros({arrival})"
        cases.append(f"when {ahead} > {max_future}L then 'too_far_ahead'")
    return f"case {' '.join(cases)} end"


def _raw(layout: EventLayout) -> str:
    """The row as text: as it stood in the file where it could not be parsed, else as JSON."""
    fields = ", ".join(quoted(column) for column in layout.columns)
    whole = f"to_json(struct({fields}), map('ignoreNullFields', 'false'))"
    return f"case when {REASON} is not null then coalesce({BROKEN}, {CORRUPT}, {whole}) end"
