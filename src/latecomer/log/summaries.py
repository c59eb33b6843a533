"""Summaries of the ticks of a split, and sums of its events: small tables for the driver. A kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.moments import micros, possible
from latecomer.model import types
from latecomer.model.arrays import flat
from latecomer.model.durations import to_micros
from latecomer.model.ledger import exact_amounts
from latecomer.model.partition_marks import SummaryColumns
from latecomer.model.simple_predicates import needs_spark, predicate
from latecomer.model.strategies import PLAIN, REACH, Needs, TickSummary
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.store.layout import Reading

_BAR, _MARKED = "bar", "marked"
_FOLDS = {"events": "sum", "latest": "max", "earliest": "min", "arrived": "max", _MARKED: "max"}


@dataclass(frozen=True)
class TickSummaries:
    """Summaries of the ticks of a batch by partition, and the sums of its events for the ledger."""

    summaries: Sequence[TickSummary]
    earliest: int
    latest: int
    measures: dict[str, Decimal]
    first: Mapping[int, int] = field(default_factory=dict)
    """The earliest event time of each tick."""

    @classmethod
    def joined(cls, parts: Sequence[TickSummaries], measures: dict[str, Decimal]) -> TickSummaries:
        """The summaries of several sources together; `measures` are the sums of all."""
        first: dict[int, int] = {}
        for tick, earliest in (item for each in parts for item in each.first.items()):
            first[tick] = min(earliest, first.get(tick, earliest))
        return cls(
            [summary for each in parts for summary in each.summaries],
            min(each.earliest for each in parts),
            max(each.latest for each in parts),
            measures,
            first,
        )


def tick_table(events: pa.Table, reading: Reading | None = None, needs: Needs = PLAIN) -> pa.Table:
    """A row for each tick and partition; if the strategy needs a histogram, a row for each of its bars."""
    columns = {
        "tick": events.column("tick"),
        "source_partition": pc.fill_null(events.column("source_partition"), ""),
        "time": events.column("event_time"),
        "arrived": events.column("arrival_time"),
    }
    by = ["tick", "source_partition"]
    folds = [("time", "count"), ("time", "max"), ("time", "min"), ("arrived", "max")]
    names = [*by, "events", "latest", "earliest", "arrived"]
    if reading is not None and (bars := _bars(events, reading, needs)) is not None:
        columns[_BAR] = bars
        by, names = [*by, _BAR], [*by, _BAR, *names[2:]]
    if reading is not None and needs.marks:
        columns[_MARKED] = marked_moments(events, reading, needs)
        folds, names = [*folds, (_MARKED, "max")], [*names, _MARKED]
    found = pa.table(columns).group_by(by, use_threads=False).aggregate(folds)
    return found.rename_columns(names)


def _bars(events: pa.Table, reading: Reading, needs: Needs) -> pa.Array | None:
    """The histogram bar of each event; a tick of one event needs no histogram."""
    every = reading.pipeline.watermark.every
    if needs.resolution is None or every == "event":
        return None
    step = needs.resolution
    time, at = (np.asarray(flat(events.column(name)).cast(pa.int64())) for name in ("event_time", "tick"))
    return pa.array(np.maximum(time // step, at * every // step - REACH) * step)


def joined_ticks(parts: Iterable[pa.Table | None]) -> pa.Table | None:
    """The ticks of several splits as one table; None where there are none."""
    tables = [each for each in parts if each is not None and each.num_rows]
    if len(tables) < 2:
        return tables[0] if tables else None
    every = pa.concat_tables(tables)
    by = [name for name in every.column_names if name not in _FOLDS]
    folded = [name for name in every.column_names if name in _FOLDS]
    found = every.group_by(by, use_threads=False).aggregate([(name, _FOLDS[name]) for name in folded])
    return found.rename_columns([*by, *folded])


def summarised(
    found: pa.Table | None, needs: Needs, every: int | Literal["event"], sums: dict[str, Decimal]
) -> TickSummaries:
    """The ticks of a batch as strategies take them: in columns, if the strategy needs no more than plain summaries."""
    if found is None:
        return TickSummaries([], END_OF_TIME, BEGIN_OF_TIME, sums)
    earliest, latest = (found.column(name).cast(pa.int64()) for name in ("earliest", "latest"))
    summaries: Sequence[TickSummary]
    if needs == PLAIN and every != "event":
        summaries = _in_columns(found, every)
    else:
        summaries = _one_by_one(found.to_pylist(), needs, every)
    first = found.group_by("tick", use_threads=False).aggregate([("earliest", "min")])
    bounds = first.column("earliest_min").cast(pa.int64()).to_pylist()
    by_tick = dict(zip(first.column("tick").to_pylist(), bounds, strict=True))
    return TickSummaries(summaries, pc.min(earliest).as_py(), pc.max(latest).as_py(), sums, by_tick)


def _in_columns(found: pa.Table, every: int) -> SummaryColumns:
    partitions = flat(found.column("source_partition")).dictionary_encode()
    whole = {
        name: np.asarray(flat(found.column(name)).cast(pa.int64())) for name in ("tick", "events", "latest")
    }
    nth = np.asarray(partitions.indices.cast(pa.int64()))
    return SummaryColumns.of(every, partitions.dictionary.to_pylist(), nth=nth, **whole)


def _one_by_one(
    found: Sequence[dict[str, Any]], needs: Needs, every: int | Literal["event"]
) -> list[TickSummary]:
    summaries = [_summary(row, needs, every) for row in found]
    if needs == PLAIN:
        return summaries
    by_place = attrgetter("tick", "at", "partition")
    return [
        TickSummary.joined(tick, at, list(group))
        for (tick, at, _), group in groupby(sorted(summaries, key=by_place), by_place)
    ]


def _summary(row: dict[str, Any], needs: Needs, every: int | Literal["event"]) -> TickSummary:
    at = to_micros(row["arrived"]) if every == "event" else row["tick"] * every
    latest, marked = to_micros(row["latest"]), row[_MARKED] if needs.marks else None
    bar = latest if every == "event" else row.get(_BAR)
    times = {} if needs.resolution is None or bar is None else {bar: row["events"]}
    return TickSummary(row["tick"], at, row["source_partition"], row["events"], latest, marked, times)


# Measures of the ledger


def sums_of(rows: pa.Table, columns: Mapping[str, str], measures: Mapping[str, str]) -> dict[str, Decimal]:
    """The exact sum of each measure; `columns` maps it to its column."""
    amounts = amounts_of(rows, columns, measures)
    return {name: Decimal(pc.sum(column).as_py() or 0) for name, column in amounts.items()}


def amounts_of(
    rows: pa.Table, columns: Mapping[str, str], measures: Mapping[str, str]
) -> dict[str, pa.ChunkedArray]:
    """Each measure of each row, in a type that has room for the sum."""
    kinds = {name: pa.decimal128(types.MOST_DIGITS, types.scale_of(kind)) for name, kind in measures.items()}
    return {name: rows.column(columns[name]).cast(kind) for name, kind in kinds.items()}


@exact_amounts()
def added(sums: Iterable[Mapping[str, Decimal]], measures: Iterable[str]) -> dict[str, Decimal]:
    """The sums of several splits together."""
    total = dict.fromkeys(measures, Decimal(0))
    for each in sums:
        for name, amount in each.items():
            total[name] += amount
    return total


# Marks of a punctuated watermark


def marked_moments(events: pa.Table, reading: Reading, needs: Needs) -> pa.Array:
    """The moment that each event of the log marks, in microseconds; null if it is no mark. All are null if only Spark
    can evaluate the condition."""
    time = flat(events.column("event_time")).cast(pa.int64())
    none = pa.scalar(None, pa.int64())
    if needs.marker is not None:
        return _of_marker(events, reading, needs.marker, time)
    if needs_spark(needs.where, reading.log.types):
        return pa.nulls(events.num_rows, pa.int64())
    view, where = reading.log.view, str(needs.where)
    holds = predicate(where, reading.log.types)
    named = {name: flat(events.column(view[name])).to_pylist() for name in view if name in where}
    rows = zip(*named.values(), strict=True) if named else iter([()] * events.num_rows)
    marks = np.array([holds(dict(zip(named, row, strict=True))) is True for row in rows], bool)
    return pc.if_else(pa.array(marks), time, none)


def _of_marker(events: pa.Table, reading: Reading, marker: str, time: pa.Array) -> pa.Array:
    kind, event, stored = reading.columns[marker], reading.pipeline.event, reading.log.view[marker]
    column, none = flat(events.column(stored)), pa.scalar(None, pa.int64())
    if kind == "boolean":
        return pc.if_else(column.fill_null(False), time, none)
    in_envelope = stored in ("event_time", "arrival_time")
    # A wall-clock time is stored as if it were UTC.
    if kind == "timestamp_ntz" and not in_envelope:
        column = column.cast(pa.int64()).cast(pa.timestamp("us"))
    read = micros(column, "timestamp" if in_envelope else kind, event.unit, event.zone, event.time_format)
    marked, ahead = possible(read), reading.pipeline.watermark.max_future
    if ahead is None:
        return marked
    arrival = flat(events.column("arrival_time")).cast(pa.int64())
    return pc.if_else(pc.less_equal(pc.subtract(marked, arrival), ahead), marked, none)
