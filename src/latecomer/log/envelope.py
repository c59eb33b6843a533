"""Rows of a source → events in their envelope, or dead letters with a reason. A kernel: Arrow in, Arrow out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.all_columns import SOURCE
from latecomer.log.moments import event_numbers, flags, micros, possible
from latecomer.log.private_columns import RAW, REASON
from latecomer.model import types
from latecomer.model.array_types import Flags, Objects
from latecomer.model.arrays import flat
from latecomer.model.dead_letters import (
    INVALID_RECORD,
    REST,
    TOMBSTONE,
    TOO_LONG,
    UNKNOWN_FIELDS,
    UNREADABLE,
    UNREADABLE_FILE,
)
from latecomer.model.durations import EARLIEST, LATEST
from latecomer.model.ids import BEGIN, BETWEEN, END, ESCAPES
from latecomer.model.ledger import WHOLE_DIGITS
from latecomer.model.sources import BETWEEN as BETWEEN_SOURCE
from latecomer.source.decode.json_text import (
    JsonText,
    Writer,
    raw_text,
    shape_of,
    stored_rows,
    struct_of,
    texts_of,
)
from latecomer.source.decode.private_columns import CORRUPT, INVALID, KEPT, SCHEMA_ID
from latecomer.source.private_columns import (
    BROKEN,
    FIRST_ARRIVAL,
    FULL_ORIGIN,
    GIVEN_TIME,
    LANDED,
    ORIGIN,
    PARTITION,
    POSITION,
)
from latecomer.store.layout import TIMESTAMP, Reading

Column: TypeAlias = pa.Array


@dataclass(frozen=True)
class Given:
    """What every row of a batch is given."""

    batch: int
    watermark: int
    """The watermark before the batch."""
    first_tick: int = 0
    """The last tick before the batch, where each event is one."""
    newest: int = 0
    """When the newest of the batch landed, for rows that do not say when they did."""
    after: int | None = None
    until: int | None = None
    """Only events that came after `after` and not later than `until`. With `until` there are no dead letters."""

    def kept(self, enveloped_rows: Enveloped) -> Enveloped:
        """What this batch takes of the rows that were read."""
        if self.after is None and self.until is None:
            return enveloped_rows
        events, letters = enveloped_rows.events, enveloped_rows.letters
        came = np.asarray(events.column("arrival_time").cast(pa.int64()))
        kept = np.ones(len(came), bool)
        if self.after is not None:
            kept &= came > self.after
        if self.until is not None:
            kept &= came <= self.until
        return Enveloped(
            events.filter(pa.array(kept)), letters if self.until is None else letters.slice(0, 0)
        )


@dataclass(frozen=True)
class Enveloped:
    """The rows of a source, sorted out."""

    events: pa.Table
    """As the log has them."""
    letters: pa.Table
    """Dead letters: REASON, RAW and what the table of dead letters has of their place."""


def enveloped(rows: pa.Table, reading: Reading, given: Given, keep: Sequence[str] = ()) -> Enveloped:
    """Rows with the source's columns and those of `source/private_columns.py` → events and dead letters. Dead letters
    also have the columns to `keep`."""
    pipeline, kinds = reading.pipeline, reading.columns
    event, order_by = pipeline.event, pipeline.order_by
    if reading.source:
        named = pa.repeat(pa.scalar(reading.source, pa.string()), rows.num_rows)
        rows = rows.append_column(SOURCE, named)
    repaired = FIRST_ARRIVAL in rows.column_names
    time = micros(flat(rows.column(event.time)), kinds[event.time], event.unit, event.zone, event.time_format)
    if repaired:
        time = pc.coalesce(flat(rows.column(GIVEN_TIME)), time)
    arrival = landed = _landed(rows, given)
    if order_by is not None and not repaired:
        written = flat(rows.column(order_by))
        arrival = micros(written, kinds[order_by], pipeline.arrival_unit, event.zone, event.time_format)
    reason = _reasons(rows, reading, time, arrival)
    if reason is None:
        events, letters = rows, rows.slice(0, 0)
        event_time, event_arrival = time, arrival
        letter_time, letter_arrival = time.slice(0, 0), arrival.slice(0, 0)
    else:
        dead = np.array([each is not None for each in reason], bool)
        alive, gone = pa.array(~dead), pa.array(dead)
        events, letters = rows.filter(alive), rows.filter(gone)
        event_time, event_arrival = time.filter(alive), arrival.filter(alive)
        letter_time = possible(time.filter(gone))
        letter_arrival = pc.coalesce(possible(arrival.filter(gone)), landed.filter(gone))
        reason = reason[dead]
    logged = _logged(events, reading, given, event_time, event_arrival)
    return Enveloped(logged, _letters(letters, reading, given, letter_time, letter_arrival, reason, keep))


def _landed(rows: pa.Table, given: Given) -> pa.Array:
    """When each row landed."""
    if LANDED in rows.column_names:
        return flat(rows.column(LANDED))
    return pa.array(np.full(rows.num_rows, given.newest, np.int64))


# Events


def _logged(rows: pa.Table, reading: Reading, given: Given, time: Column, arrival: Column) -> pa.Table:
    pipeline, kinds, log = reading.pipeline, reading.columns, reading.log
    event, every, count = pipeline.event, pipeline.watermark.every, rows.num_rows
    came = np.asarray(arrival, np.int64)
    if every == "event":
        landed = np.asarray(_landed(rows, given))
        tick = given.first_tick + event_numbers(came, rows.column(ORIGIN), rows.column(POSITION), landed)
    else:
        tick = came // every
    ids = {"event_id": _id(rows, event.id_columns, kinds)} if event.id_columns else {}
    named = {"producer": event.producer, "producer_seq": event.producer_seq}
    kept = {log.first_arrival: FIRST_ARRIVAL, log.unknown_fields: KEPT}
    made = {
        "event_time": time,
        "arrival_time": arrival,
        "source_partition": _partition(rows, reading),
        "origin": rows.column(ORIGIN),
        "position": rows.column(POSITION),
        **ids,
        **{name: _text(rows, column, kinds) for name, column in named.items() if column is not None},
        "schema_id": rows.column(SCHEMA_ID)
        if SCHEMA_ID in rows.column_names
        else pa.array(np.ones(count, np.int32)),
        "batch": pa.array(np.full(count, given.batch, np.int64)),
        "tick": pa.array(np.asarray(tick, np.int64)),
        **{stored: rows.column(name) for stored, name in kept.items() if name in rows.column_names},
        **{
            stored: rows.column(column) if column in kinds else pa.nulls(count, log.schema.field(stored).type)
            for column, stored in log.payload.items()
        },
    }
    schema = pa.schema([log.schema.field(name) for name in made])
    return pa.table({name: column.cast(schema.field(name).type) for name, column in made.items()}, schema)


def _partition(rows: pa.Table, reading: Reading) -> Column:
    """The source partition: from a column, or from the source itself. With several sources it begins with the source's
    name."""
    named = reading.pipeline.partition_column
    given = named is None and PARTITION in rows.column_names
    own = flat(rows.column(PARTITION)) if given else _text(rows, named, reading.columns)
    if not reading.source:
        return own
    joined = pc.binary_join_element_wise(reading.source, own, BETWEEN_SOURCE, null_handling="skip")
    return pc.if_else(pc.fill_null(pc.equal(own, ""), False), reading.source, joined)


def _id(rows: pa.Table, parts: Sequence[str], kinds: Mapping[str, str]) -> Column:
    """As `model.ids.event_id`: the text of a column, or those of several as one."""
    texts = [_text(rows, column, kinds) for column in parts]
    if len(texts) == 1:
        return texts[0]
    for character, escaped in ESCAPES.items():
        texts = [pc.replace_substring(text, character, escaped) for text in texts]
    inside = pc.binary_join_element_wise(*texts, BETWEEN)
    return pc.binary_join_element_wise(BEGIN, inside, END, "")


def _text(rows: pa.Table, column: str | None, kinds: Mapping[str, str]) -> Column:
    """A column as text, as Spark casts it."""
    if column is None:
        return pa.nulls(rows.num_rows, pa.string())
    kind, values = kinds[column], flat(rows.column(column))
    if kind == "string" or kind in types.INTEGERS:
        return values.cast(pa.string())
    return pa.array(texts_of(values, kind), pa.string())


# Dead letters


def _reasons(rows: pa.Table, reading: Reading, time: Column, arrival: Column) -> Objects | None:
    """Why each row is a dead letter: None for an event. None instead of all where no row is a dead letter."""
    wrong = [(name, which) for name, which in _wrong(rows, reading, time, arrival) if which.any()]
    if not wrong:
        return None
    reasons = np.full(rows.num_rows, None, object)
    for name, which in reversed(wrong):
        reasons[which] = name
    return reasons


def _wrong(rows: pa.Table, reading: Reading, time: Column, arrival: Column) -> Iterator[tuple[str, Flags]]:
    """What can be wrong with a row, and which rows have it. Of several reasons, the first counts."""
    pipeline, names = reading.pipeline, set(rows.column_names)
    corrupt = _valid(rows, CORRUPT)
    if BROKEN in names and rows.column(BROKEN).null_count < rows.num_rows:
        broken, why = _valid(rows, BROKEN), flat(rows.column(BROKEN))
        for name in (TOMBSTONE, REST):
            yield name, flags(pc.equal(why, name))
        yield TOO_LONG, broken & corrupt
        yield UNREADABLE_FILE, broken
    if INVALID in names:
        yield INVALID_RECORD, flags(flat(rows.column(INVALID)))
    if corrupt.any():
        yield UNKNOWN_FIELDS, corrupt & _valid(rows, KEPT)
        yield UNREADABLE, corrupt
    yield from _no_moment(rows, time, pipeline.event.time, "event_time")
    if pipeline.order_by is not None:
        yield from _no_moment(rows, arrival, pipeline.order_by, "arrival_time")
    if pipeline.watermark.max_future is not None:
        ahead = pc.subtract(possible(time), possible(arrival))
        yield "too_far_ahead", flags(pc.greater(ahead, pipeline.watermark.max_future))
    for measure in beyond_the_ledger(reading.columns, pipeline.ledger):
        most = 10**WHOLE_DIGITS
        sizes = [each is not None and each.copy_abs() >= most for each in rows.column(measure).to_pylist()]
        yield "beyond_the_ledger", np.array(sizes, bool)


def _no_moment(rows: pa.Table, moments: Column, column: str, what: str) -> Iterator[tuple[str, Flags]]:
    bounds = pc.min_max(moments).as_py()
    inside = len(moments) == 0 or (
        bounds["min"] is not None and EARLIEST <= bounds["min"] <= bounds["max"] <= LATEST
    )
    if not moments.null_count and inside:
        return
    missing = np.asarray(possible(moments).is_null())
    written = _valid(rows, column)
    yield f"no_{what}", missing & ~written
    yield f"unreadable_{what}", missing & written


def beyond_the_ledger(columns: Mapping[str, str], measures: Sequence[str]) -> list[str]:
    """The measures whose type holds amounts that the ledger could not add up."""
    kinds = {name: columns[name] for name in measures if name in columns}
    return [name for name, kind in kinds.items() if types.whole_digits(kind) > WHOLE_DIGITS]


def _valid(rows: pa.Table, name: str) -> Flags:
    if name not in rows.column_names:
        return np.zeros(rows.num_rows, bool)
    return np.asarray(flat(rows.column(name)).is_valid())


def _letters(
    rows: pa.Table,
    reading: Reading,
    given: Given,
    time: Column,
    arrival: Column,
    reason: Objects | None,
    keep: Sequence[str],
) -> pa.Table:
    count = rows.num_rows
    return pa.table(
        {
            "batch": pa.array(np.full(count, given.batch, np.int64)),
            REASON: pa.array([] if reason is None else reason, pa.string()),
            "origin": rows.column(FULL_ORIGIN if FULL_ORIGIN in rows.column_names else ORIGIN),
            "position": rows.column(POSITION),
            "event_time": time.cast(TIMESTAMP),
            "arrival_time": arrival.cast(TIMESTAMP),
            "source_partition": _partition(rows, reading),
            RAW: pa.array(_raw(rows, reading) if count else [], pa.binary()),
            **{name: rows.column(name) for name in keep},
        }
    )


def _raw(rows: pa.Table, reading: Reading) -> list[bytes]:
    """The bytes of each row: as in the file where it could not be parsed, else as JSON under the source's own names, to
    which the kept unknown fields are added."""
    read = [column for column in reading.columns if not (reading.source and column == SOURCE)]
    # Two columns may be read from one field of the source.
    named = {reading.pipeline.source_name(column): column for column in read}
    kinds = {name: reading.columns[column] for name, column in named.items()}
    notes = {
        name: rows.column(name).to_pylist() for name in (CORRUPT, BROKEN, KEPT) if name in rows.column_names
    }
    about = [dict(zip(notes, row, strict=True)) for row in zip(*notes.values(), strict=True)]
    about = about or [{}] * rows.num_rows
    values = stored_rows(rows.select(list(named.values())).rename_columns(list(named)))
    write = JsonText(digits=3, nulls=True).of(
        struct_of({name: shape_of(kind) for name, kind in kinds.items()})
    )
    return [_row_bytes(write, *row) for row in zip(values, about, strict=True)]


def _row_bytes(write: Writer, values: Mapping[str, Any], about: Mapping[str, Any]) -> bytes:
    if (corrupt := about.get(CORRUPT)) is not None:
        return bytes(corrupt)
    if (broken := about.get(BROKEN)) is not None and broken != TOMBSTONE:
        return str(broken).encode()
    whole = write(values)
    if (kept := about.get(KEPT)) is not None:
        whole = f"{whole[:-1]},{kept.lstrip()[1:]}"
    return raw_text(whole)
