"""The events of one key, from the log: it reads only files whose statistics touch the interval.

Everything is read with Arrow, without Spark. An event comes with the watermark of its tick, from the
timeline. One whose batch is not on the timeline yet has not been judged, and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.explain.fates import Event
from latecomer.config.outputs import Output
from latecomer.errors import LatecomerError
from latecomer.model.durations import to_micros
from latecomer.model.expressions import Failed, expression
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT, Window
from latecomer.store.delta.data_files import DataFile
from latecomer.store.delta.table import Table
from latecomer.store.layout import TIMESTAMP
from latecomer.store.store import Store

ENVELOPE = (
    "event_time",
    "arrival_time",
    "batch",
    "tick",
    "source_partition",
    "origin",
    "position",
    "event_id",
)
_MADE = "made"
Row = Mapping[str, Any]
Made = tuple[Mapping[str, Any], frozenset[str]]
"""The derived columns of an event, and those that cannot be computed for it."""
Compute = Callable[[Store, Output, Sequence[str], Window], Mapping[tuple[int, str, int], Made]]
"""Has Spark compute the derived columns of an output, for the events of an interval in some files of the log: by batch,
origin and position of an event."""


class Evidence:
    """Reads the events of one key from the log, the duplicates and the timeline."""

    def __init__(
        self,
        store: Store,
        output: Output,
        key: Mapping[str, Any],
        columns: Sequence[str],
        compute: Compute | None = None,
    ) -> None:
        self.store = store
        self.output = output
        self.key = key
        self.columns = columns
        """The source columns to read besides the envelope."""
        self.compute = compute
        """Computes derived columns that only Spark can compute."""
        self.derived = {
            name: expression(each.sql, store.layout.types) for name, each in output.columns.items()
        }
        self.files = 0
        self.read: set[str] = set()
        """How many files the log has, and the paths of those that were read."""
        self._events: dict[Window, list[Event]] = {}

    def events(self, interval: Window) -> list[Event]:
        """The logged events with an event time in this interval; an interval is read once."""
        if interval not in self._events:
            table = self.store.events
            files = table.files()
            wanted = _touching(files, interval)
            self.files = len(files)
            self.read |= {file.path for file in wanted}
            self._events[interval] = marked_repeats(self.judgeable(self._rows(table, wanted, interval)))
        return self._events[interval]

    def duplicates(self, interval: Window) -> list[Event]:
        """The rows that were found to be duplicates; they met no watermark."""
        table = self.store.duplicates
        rows = self._rows(table, _touching(table.files(), interval), interval)
        return [self.event(row, BEGIN_OF_TIME) for row in rows]

    def _rows(self, table: Table, files: Sequence[DataFile], interval: Window) -> list[dict[str, Any]]:
        if not files:
            return []
        schema, view = self.store.layout.schema, self.store.layout.view
        first = self.store.layout.first_arrival
        stored = list(dict.fromkeys([*ENVELOPE, first, *(view[column] for column in self.columns)]))
        low, high = (pa.scalar(min(max(at, FIRST_MOMENT), END_OF_TIME), TIMESTAMP) for at in interval)
        chosen = (pc.field("event_time") >= low) & (pc.field("event_time") < high)
        for column, value in self.key.items():
            if column not in self.derived:
                chosen &= _is(view[column], value, schema.field(view[column]).type)
        rows = table.dataset(files, schema).to_table(stored, chosen)
        listed: list[dict[str, Any]] = rows.to_pylist(maps_as_pydicts="lossy")
        if not self.derived:
            return listed
        known = self._by_spark(listed, table.paths(files), interval)
        for row in listed:
            row[_MADE] = self._computed(row) if known is None else known[_place(row)]
        key = {column: value for column, value in self.key.items() if column in self.derived}
        return [row for row in listed if all(row[_MADE][0][column] == value for column, value in key.items())]

    def _by_spark(
        self, rows: Sequence[Row], paths: Sequence[str], interval: Window
    ) -> Mapping[tuple[int, str, int], Made] | None:
        """The derived columns of rows of the log, which come from these files and this interval of event time; None
        where Spark is not needed."""
        if all(each.value is not None for each in self.derived.values()):
            return None
        if self.compute is None:
            raise LatecomerError(
                f"only Spark can compute {', '.join(self.derived)}; ask with latecomer explain, or latecomer.explain"
            )
        return self.compute(self.store, self.output, paths, interval) if rows else {}

    def _computed(self, row: Row) -> Made:
        """The derived columns of a row. Those that only Spark can compute are null."""
        columns = {column: row[stored] for column, stored in self.store.layout.view.items() if stored in row}
        values: dict[str, Any] = dict.fromkeys(self.derived)
        failed = set()
        for name, each in self.derived.items():
            if each.value is None:
                continue
            try:
                values[name] = each.computed(columns)
            except Failed:
                failed.add(name)
        return values, frozenset(failed)

    def judgeable(self, rows: Sequence[Mapping[str, Any]]) -> list[Event]:
        """The events of rows of the log that are on the timeline, each with the watermark that it met."""
        ticks = self._watermarks({row["batch"] for row in rows})
        return [
            self.event(row, ticks[row["batch"], row["tick"]])
            for row in rows
            if (row["batch"], row["tick"]) in ticks
        ]

    def _watermarks(self, batches: set[int]) -> dict[tuple[int, int], int]:
        """Batch and tick → the watermark in force, for these batches."""
        if not batches:
            return {}
        rows = self.store.watermarks.query_rows(
            f"select batch, tick, watermark from t where batch between {min(batches)} and {max(batches)}"
        )
        return {
            (row["batch"], row["tick"]): BEGIN_OF_TIME
            if row["watermark"] is None
            else to_micros(row["watermark"])
            for row in rows
            if row["batch"] in batches
        }

    def event(self, row: Mapping[str, Any], watermark: int) -> Event:
        """A row of the log as an event that met a watermark."""
        view, first = self.store.layout.view, row[self.store.layout.first_arrival]
        values, failed = row[_MADE] if _MADE in row else self._computed(row)
        return Event(
            to_micros(row["event_time"]),
            to_micros(row["arrival_time"]),
            row["batch"],
            row["tick"],
            watermark,
            row["source_partition"],
            row["origin"],
            row["position"],
            row["event_id"],
            {column: row[view[column]] for column in self.columns} | dict(values),
            first_arrival=None if first is None else to_micros(first),
            failed=failed,
        )


def marked_repeats(events: Sequence[Event]) -> list[Event]:
    """The events, with repeated deliveries marked: one with the same id and time came in a batch before."""
    first: dict[tuple[str | None, int], int] = {}
    for event in events:
        place = event.event_id, event.event_time
        first[place] = min(first.get(place, event.batch), event.batch)
    return [
        replace(event, repeated=True)
        if event.event_id is not None and event.batch > first[event.event_id, event.event_time]
        else event
        for event in events
    ]


def _place(row: Row) -> tuple[int, str, int]:
    return row["batch"], row["origin"], row["position"]


def _touching(files: Sequence[DataFile], interval: Window) -> list[DataFile]:
    """The files that may have an event of this interval."""
    return [file for file in files if file.may_hold("event_time", *interval)]


def _is(column: str, value: Any, kind: pa.DataType) -> pc.Expression:
    """Whether a column has a value; null is equal to null, and NaN to NaN."""
    if value is None:
        return pc.field(column).is_null()
    if isinstance(value, float) and value != value:
        return pc.is_nan(pc.field(column))
    return pc.field(column) == pa.scalar(value, kind)
