"""The events of one key, out of the log: only the files whose statistics touch the time asked for.

Everything is read with Arrow, without Spark. An event comes with the watermark of its tick, from the
timeline. One whose batch is not on the timeline yet has not been judged, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.explain.derived import DerivedValues
from latecomer.after.explain.fates import Event
from latecomer.model.durations import to_micros
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT, Window
from latecomer.store.data_files import DataFile
from latecomer.store.layout import TIMESTAMP
from latecomer.store.store import Store
from latecomer.store.table import Table

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


_DERIVED, _FAILED = "derived", "failed"


class Evidence:
    """Reads what the log, the duplicates and the timeline hold of one key."""

    def __init__(
        self, store: Store, key: Mapping[str, Any], columns: Sequence[str], derived: DerivedValues
    ) -> None:
        self.store = store
        self.key = key
        self.columns = columns
        """The source columns that are wanted beside the envelope."""
        self.derived = derived
        self.files = 0
        self.read: set[str] = set()
        """How many files the log has, and those that were looked into."""
        self._found: dict[Window, list[Event]] = {}

    def events(self, stretch: Window) -> list[Event]:
        """The logged events with an event time in this stretch; a stretch is read once."""
        if stretch not in self._found:
            self._found[stretch] = self._logged(stretch)
        return self._found[stretch]

    def _logged(self, stretch: Window) -> list[Event]:
        table = self.store.events
        files = table.files()
        wanted = _touching(files, stretch)
        self.files = len(files)
        self.read |= {file.path for file in wanted}
        return marked_repeats(self._judgeable(self._rows(table, wanted, stretch)))

    def duplicates(self, stretch: Window) -> list[Event]:
        """The rows that were found to be duplicates; they met no watermark."""
        table = self.store.duplicates
        rows = self._rows(table, _touching(table.files(), stretch), stretch)
        return [self._event(row, BEGIN_OF_TIME) for row in rows]

    def _rows(self, table: Table, files: Sequence[DataFile], stretch: Window) -> list[dict[str, Any]]:
        if not files:
            return []
        schema, view = self.store.layout.schema, self.store.layout.view
        first = self.store.layout.first_arrival
        stored = list(dict.fromkeys([*ENVELOPE, first, *(view[column] for column in self.columns)]))
        low, high = (_moment(at) for at in stretch)
        chosen = (pc.field("event_time") >= low) & (pc.field("event_time") < high)
        names = self.derived.names
        for column, value in self.key.items():
            if column not in names:
                chosen &= _is(view[column], value, schema.field(view[column]).type)
        found = table.dataset(files, schema).to_table(stored, chosen)
        listed: list[dict[str, Any]] = found.to_pylist(maps_as_pydicts="lossy")
        if not names:
            return listed
        made = self.derived.of(listed, table.paths(files), stretch)
        key = {column: value for column, value in self.key.items() if column in names}
        return [
            {**row, _DERIVED: values, _FAILED: failed}
            for row, (values, failed) in zip(listed, made, strict=True)
            if all(values[column] == value for column, value in key.items())
        ]

    def _judgeable(self, rows: Sequence[Mapping[str, Any]]) -> list[Event]:
        ticks = self._watermarks({row["batch"] for row in rows})
        return [
            self._event(row, ticks[row["batch"], row["tick"]])
            for row in rows
            if (row["batch"], row["tick"]) in ticks
        ]

    def _watermarks(self, batches: set[int]) -> dict[tuple[int, int], int]:
        """Batch and tick → the watermark in force, for these batches."""
        if not batches or not self.store.watermarks.exists:
            return {}
        rows = self.store.watermarks.query(
            f"select batch, tick, watermark from t where batch between {min(batches)} and {max(batches)}"
        )
        return {
            (row["batch"], row["tick"]): BEGIN_OF_TIME
            if row["watermark"] is None
            else to_micros(row["watermark"])
            for row in rows.to_pylist()
            if row["batch"] in batches
        }

    def _event(self, row: Mapping[str, Any], watermark: int) -> Event:
        view, first = self.store.layout.view, row[self.store.layout.first_arrival]
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
            {column: row[view[column]] for column in self.columns} | row.get(_DERIVED, {}),
            first_arrival=None if first is None else to_micros(first),
            failed=row.get(_FAILED, frozenset()),
        )


def marked_repeats(events: Sequence[Event]) -> list[Event]:
    """The events, and which of them were delivered again: one with the same id and time came in a batch before."""
    first: dict[tuple[str | None, int], int] = {}
    for event in events:
        place = event.event_id, event.event_time
        first[place] = min(first.get(place, event.batch), event.batch)
    return [
        replace(event, again=True)
        if event.event_id is not None and event.batch > first[event.event_id, event.event_time]
        else event
        for event in events
    ]


def _touching(files: Sequence[DataFile], stretch: Window) -> list[DataFile]:
    """The files that can hold an event of this stretch; one without statistics can."""
    return [
        file
        for file in files
        if file.minimum.get("event_time") is None
        or (
            to_micros(file.minimum["event_time"]) < stretch.end
            and stretch.start <= to_micros(file.maximum["event_time"])
        )
    ]


def _moment(micros: int) -> pa.Scalar:
    return pa.scalar(min(max(micros, FIRST_MOMENT), END_OF_TIME), pa.int64()).cast(TIMESTAMP)


def _is(column: str, value: Any, kind: pa.DataType) -> pc.Expression:
    """Whether a column has a value; null has itself, and what is no number too."""
    if value is None:
        return pc.field(column).is_null()
    if isinstance(value, float) and value != value:
        return pc.is_nan(pc.field(column))
    return pc.field(column) == pa.scalar(value, kind)
