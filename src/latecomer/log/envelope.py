"""Rows → events in their envelope, or dead letters with a reason. One pass, native Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from latecomer.config.merged import SOURCE
from latecomer.config.models import Pipeline
from latecomer.config.sources import Unit
from latecomer.decode.columns import CORRUPT, INVALID, KEPT, SCHEMA_ID
from latecomer.decode.detail import INVALID_RECORD, REST, TOMBSTONE, TOO_LONG, UNKNOWN_FIELDS
from latecomer.log.columns import (
    ARRIVAL,
    FIRST_TICK,
    NEWEST,
    RAW,
    REASON,
    THIS_BATCH,
    TIME,
    WATERMARK_BEFORE,
    Lane,
)
from latecomer.model import types
from latecomer.model.durations import EARLIEST, LATEST
from latecomer.model.ids import BEGIN, BETWEEN, END, ESCAPES
from latecomer.model.ledger import WHOLE_DIGITS
from latecomer.model.sources import BETWEEN as BETWEEN_SOURCE
from latecomer.source.columns import (
    BROKEN,
    FIRST_ARRIVAL,
    FULL_ORIGIN,
    GIVEN_TIME,
    LANDED,
    ORIGIN,
    PARTITION,
    POSITION,
)
from latecomer.store.columns import LANE
from latecomer.store.layout import Reading
from latecomer.store.sql import quoted, some_bytes

_MICROS: dict[Unit, int] = {"s": 1_000_000, "ms": 1_000, "us": 1}
_NO_ZONE = "^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T ][0-9:.]*)? *$"
"""A date, perhaps a time of day, and nothing after it. Spark would eat a backslash."""


def micros(column: str, kind: str, unit: Unit | None, zone: str) -> str:
    """A written time in microseconds; null where it cannot be read. Each text is parsed once."""
    name = quoted(column)
    if kind == "string":
        # A cast alone would take `2026` for a year and `12:30` for today. The session runs in UTC, so a
        # final Z says nothing new, and without it Spark need not look the zone up.
        bare = f"if(endswith({name}, 'Z'), {some_bytes(name, 1, f'octet_length({name}) - 1')}, {name})"
        dated = f"octet_length({name}) >= 10 and instr({name}, '-') = 5"
        parsed = f"case when {dated} then try_cast({bare} as timestamp) end"
        if zone != "UTC":
            parsed = f"if({name} rlike '{_NO_ZONE}', to_utc_timestamp({parsed}, '{zone}'), {parsed})"
        return f"unix_micros({parsed})"
    if kind == "timestamp":
        return f"unix_micros({name})"
    if kind in ("timestamp_ntz", "date"):
        return f"unix_micros(to_utc_timestamp(cast({name} as timestamp), '{zone}'))"
    return _from_number(name, kind, unit or "s")


def _from_number(name: str, kind: str, unit: Unit) -> str:
    if unit == "ns":
        if kind in types.INTEGERS:
            return f"(try_subtract({name}, pmod({name}, 1000)) div 1000)"
        return f"try_cast(floor(try_divide({name}, 1000)) as bigint)"
    if kind in types.INTEGERS:
        return f"try_multiply(cast({name} as bigint), {_MICROS[unit]}L)"
    return f"try_cast(round(try_multiply({name}, {_MICROS[unit]})) as bigint)"


def decoded(rows: DataFrame, reading: Reading, params: DataFrame, keep: Sequence[str] = ()) -> DataFrame:
    """Rows of the source → the columns of the event log, plus REASON, RAW and LANE.

    `params` is one row: THIS_BATCH, FIRST_TICK (for `every: event`), WATERMARK_BEFORE and NEWEST. Columns to
    `keep` stay beside these.
    """
    pipeline, columns, layout = reading.pipeline, reading.columns, reading.log
    if reading.source:
        rows = rows.withColumn(SOURCE, F.lit(reading.source))
    if LANDED not in rows.columns:
        params = params.withColumn(LANDED, F.timestamp_micros(NEWEST))
    event, order_by = pipeline.event, pipeline.order_by
    arrival = f"unix_micros({LANDED})"
    again = FIRST_ARRIVAL in rows.columns
    if order_by is not None and not again:
        arrival = micros(order_by, columns[order_by], pipeline.arrival_unit, event.zone)
    time = micros(event.time, columns[event.time], event.unit, event.zone)
    timed = rows.withColumns(
        {
            TIME: F.expr(f"coalesce({GIVEN_TIME}, {time})" if again else time),
            ARRIVAL: F.expr(arrival),
        }
    ).withColumn(REASON, F.expr(_reason(reading, rows.columns)))
    placed = timed.crossJoin(F.broadcast(params))
    return placed.select(
        F.expr(f"timestamp_micros({_possible(TIME)})").alias("event_time"),
        F.expr(f"coalesce(timestamp_micros({_possible(ARRIVAL)}), {LANDED})").alias("arrival_time"),
        _partition(rows, reading).alias("source_partition"),
        F.expr(f"if({REASON} is null, {ORIGIN}, {FULL_ORIGIN})").alias("origin"),
        F.col(POSITION).alias("position"),
        *([_id(event.id_columns, columns).alias("event_id")] if event.id_columns else []),
        *(
            _text(column, columns).alias(name)
            for name, column in (
                ("producer", event.producer),
                ("producer_seq", event.producer_seq),
            )
            if column is not None
        ),
        (F.col(SCHEMA_ID) if SCHEMA_ID in rows.columns else F.lit(1)).alias("schema_id"),
        F.col(THIS_BATCH).alias("batch"),
        _tick(pipeline).alias("tick"),
        *([F.col(FIRST_ARRIVAL).alias(layout.first_arrival)] if again else []),
        *([F.col(KEPT).alias(layout.unknown_fields)] if KEPT in rows.columns else []),
        *(
            payload_value(column, columns.get(column), layout.types[column]).alias(stored)
            for column, stored in layout.payload.items()
        ),
        F.col(REASON),
        F.expr(_raw(reading, KEPT in rows.columns)).alias(RAW),
        F.expr(
            f"case when {REASON} is not null then '{Lane.DEAD_LETTERS}' "
            f"when {TIME} < {WATERMARK_BEFORE} then '{Lane.BEHIND}' else '{Lane.EVENTS}' end"
        ).alias(LANE),
        F.col(LANDED),
        *keep,
    )


def _possible(column: str) -> str:
    """Microseconds within the calendar, null beyond it."""
    return f"if({column} between {EARLIEST} and {LATEST}, {column}, null)"


def _partition(rows: DataFrame, reading: Reading) -> Column:
    """The source partition: what a column says, or the source itself; of several sources, as `model.sources` has it."""
    named = reading.pipeline.partition_column
    given = named is None and PARTITION in rows.columns
    own = F.col(PARTITION) if given else _text(named, reading.columns)
    if not reading.source:
        return own
    return F.concat_ws(BETWEEN_SOURCE, F.lit(reading.source), F.nullif(own, F.lit("")))


def _text(column: str | None, columns: Mapping[str, str]) -> Column:
    if column is None:
        return F.lit(None).cast("string")
    if (
        columns[column] == "binary"
    ):  # bytes need not be UTF-8: a character for each, so that none are confused
        return F.decode(F.col(quoted(column)), "ISO-8859-1")
    return F.col(quoted(column)).cast("string")


def _id(parts: Sequence[str], columns: Mapping[str, str]) -> Column:
    """As `model.ids.event_id`: the text of a column, or those of several as one. Bytes stay as they are."""
    texts = [_text(column, columns) for column in parts]
    if len(texts) == 1:
        return texts[0]
    for character, escaped in ESCAPES.items():
        texts = [F.replace(text, F.lit(character), F.lit(escaped)) for text in texts]
    between = [each for text in texts for each in (F.lit(BETWEEN), text)][1:]
    return F.concat(F.lit(BEGIN), *between, F.lit(END))


def payload_value(column: str, kind: str | None, stored: str) -> Column:
    """A column as it is stored; null where the source does not have it."""
    if kind is None:
        return F.lit(None).cast(stored)
    return F.col(quoted(column)).cast("timestamp" if kind == "timestamp_ntz" else kind)


def _tick(pipeline: Pipeline) -> Column:
    every = pipeline.watermark.every
    if every == "event":
        in_order = Window.orderBy(ARRIVAL, LANDED, ORIGIN, POSITION)
        return F.row_number().over(in_order).cast("bigint") + F.col(FIRST_TICK)
    arrival = f"coalesce({_possible(ARRIVAL)}, unix_micros({LANDED}))"
    return F.expr(f"({arrival} - pmod({arrival}, {every}L)) div {every}L")


def _reason(reading: Reading, there: Sequence[str]) -> str:
    pipeline = reading.pipeline
    order_by, max_future = pipeline.order_by, pipeline.watermark.max_future
    cases = [
        f"when {BROKEN} = '{TOMBSTONE}' then '{TOMBSTONE}'",
        f"when {BROKEN} = '{REST}' then '{REST}'",
        f"when {BROKEN} is not null then if({CORRUPT} is null, 'unreadable_file', '{TOO_LONG}')",
        *([f"when {INVALID} then '{INVALID_RECORD}'"] if INVALID in there else []),
        *(
            [f"when {CORRUPT} is not null and {KEPT} is not null then '{UNKNOWN_FIELDS}'"]
            if KEPT in there
            else []
        ),
        f"when {CORRUPT} is not null then 'unreadable'",
        _unreadable(TIME, pipeline.event.time, "event_time"),
    ]
    if order_by is not None:
        cases.append(_unreadable(ARRIVAL, order_by, "arrival_time"))
    if max_future is not None:
        cases.append(f"when {TIME} - {ARRIVAL} > {max_future}L then 'too_far_ahead'")
    cases += [
        f"when abs({quoted(measure)}) >= {10**WHOLE_DIGITS}BD then 'beyond_the_ledger'"
        for measure in beyond_the_ledger(reading.columns, pipeline.ledger)
    ]
    return f"case {' '.join(cases)} end"


def beyond_the_ledger(columns: Mapping[str, str], measures: Sequence[str]) -> list[str]:
    """The measures whose type holds amounts that the ledger could not add up."""
    kinds = {name: columns[name] for name in measures if name in columns}
    return [name for name, kind in kinds.items() if types.whole_digits(kind) > WHOLE_DIGITS]


def _unreadable(micros_column: str, column: str, what: str) -> str:
    return (
        f"when {_possible(micros_column)} is null "
        f"then if({quoted(column)} is null, 'no_{what}', 'unreadable_{what}')"
    )


def _raw(reading: Reading, keeps: bool) -> str:
    """The bytes of the row: as it stood in the file where it could not be parsed, else as JSON, under the source's
    own names, with what is kept of unknown fields."""
    read = [column for column in reading.columns if not (reading.source and column == SOURCE)]
    named = {reading.pipeline.source_name(column): column for column in read}
    fields = ", ".join(f"{quoted(column)} as {quoted(name)}" for name, column in named.items())
    whole = f"to_json(struct({fields}), map('ignoreNullFields', 'false'))"
    if keeps:
        more = f"concat(substring({whole}, 1, length({whole}) - 1), ',', substring(ltrim({KEPT}), 2))"
        whole = f"if({KEPT} is null, {whole}, {more})"
    raw = f"coalesce({CORRUPT}, nullif({BROKEN}, '{TOMBSTONE}'), {whole})"
    return f"case when {REASON} is not null then cast({raw} as binary) end"
