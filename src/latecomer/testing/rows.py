"""Rows of a source, before anything has read them; and what the pipeline at hand makes of each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from functools import cached_property
from struct import pack, unpack
from typing import Any

from latecomer.config import columns as types
from latecomer.config.models import Pipeline
from latecomer.model.arrivals import Arrival
from latecomer.model.durations import iso, to_micros, to_moment
from latecomer.testing.times import Times

_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


class Plain(str):
    """A value as it stands in a transcript, without quotes: its column says what it means."""


@dataclass(frozen=True)
class Row:
    """When it happened, when it arrived, and its other columns.

    The event time is in microseconds, None where the row has none, or text that is no time.
    """

    event_time: int | str | None
    arrival_time: int
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Shape:
    """The source's columns under a pipeline: what a row is to the oracle, and how a file holds it."""

    pipeline: Pipeline
    columns: Mapping[str, str]
    times: Times = field(default_factory=Times)

    @cached_property
    def arrival_column(self) -> str:
        """The column of the arrival time; one of our own where the pipeline goes by the files' age."""
        return self.pipeline.source.files.order_by or "arrival_time_of_the_test"

    @property
    def given(self) -> list[str]:
        """The columns that a row gives by name."""
        return [name for name in self.columns if name not in (self.pipeline.event.time, self.arrival_column)]

    def problem(self, row: Row) -> str | None:
        """What is wrong with the row's columns, and the mend."""
        for name, value in row.fields.items():
            if name not in self.given:
                near = difflib.get_close_matches(name, self.given, n=1)
                return f"{name}: the source has no such column; " + (
                    f"did you mean {near[0]}?" if near else f"there are {', '.join(self.given) or 'none'}"
                )
            try:
                self._value(name, value)
            except (ValueError, InvalidOperation):
                return f"{name}: {value!s} is no {self.columns[name]}; write it as the column holds it"
        return None

    def reason(self, row: Row) -> str | None:
        """Why the row never becomes an event, if it does not: the reason of its dead letter."""
        if row.event_time is None:
            return "no_event_time"
        if isinstance(row.event_time, str):
            return "unreadable_event_time"
        ahead = self.pipeline.watermark.max_future
        if ahead is not None and row.event_time - row.arrival_time > ahead:
            return "too_far_ahead"
        return None

    def arrival(self, row: Row) -> Arrival:
        """The row as the oracle reads it."""
        payload = {name: self._value(name, row.fields.get(name)) for name in self.given}
        happened = row.event_time if isinstance(row.event_time, int) else None
        payload[self.pipeline.event.time] = None if happened is None else to_moment(happened)
        payload[self.arrival_column] = to_moment(row.arrival_time)
        event_id, partition = (
            None if column is None or payload[column] is None else _as_text(payload[column])
            for column in (self.pipeline.event.id, self.pipeline.partition_column)
        )
        dead = self.reason(row) is not None
        return Arrival(happened or 0, row.arrival_time, partition or "", payload, event_id, dead)

    def written(self, row: Row) -> dict[str, Any]:
        """The row as a line of JSON holds it."""
        event, marker = self.pipeline.event, self.pipeline.watermark.needs.marker
        line: dict[str, Any] = {}
        for name in self.given:
            value = self._value(name, row.fields.get(name))
            timed = name == marker and isinstance(value, int) and not isinstance(value, bool)
            line[name] = self._time(name, value, event.unit) if timed else _as_json(value)
        line[event.time] = (
            self._time(event.time, row.event_time, event.unit)
            if isinstance(row.event_time, int)
            else row.event_time
        )
        line[self.arrival_column] = self._time(
            self.arrival_column, row.arrival_time, self.pipeline.arrival_unit
        )
        return line

    def placed(self, folder: str) -> Pipeline:
        """The pipeline over files and a store in a folder of their own, without its sinks."""
        files = self.pipeline.source.files
        source = {
            "files": {
                "path": "arrivals",
                "order_by": self.arrival_column,
                "unit": files.unit,
                "partition": files.partition,
            },
            "schema": {self.arrival_column: "string", **self.columns},
        }
        changed = {
            "base": folder,
            "store": "store",
            "source": source,
            "outputs": {
                name: output.model_copy(update={"sinks": ()})
                for name, output in self.pipeline.outputs.items()
            },
        }
        return Pipeline.model_validate({**dict(self.pipeline), **changed})

    def _value(self, name: str, value: Any) -> Any:
        """A value as its column holds it. A mark that is a time is microseconds."""
        kind = self.columns[name]
        if name == self.pipeline.watermark.needs.marker and kind != "boolean" and value is not None:
            return value if isinstance(value, int) else self.times.read(str(value))
        return typed(value, kind, self.times)

    def _time(self, column: str, micros: int, unit: str | None) -> Any:
        kind = self.columns.get(column, "string")
        if not types.is_numeric(kind):
            return iso(micros)
        if unit == "ns":
            return micros * 1_000
        whole, rest = divmod(micros, _MICROS[unit or "s"])
        return whole if not rest else micros / _MICROS[unit or "s"]


def typed(value: Any, kind: str, times: Times) -> Any:
    """A value as a column of this type holds it."""
    if value is None:
        return None
    if kind in _BITS:
        number = int(value)
        if isinstance(value, bool) or not -(1 << _BITS[kind] - 1) <= number < 1 << _BITS[kind] - 1:
            raise ValueError
        return number
    if kind in types.FLOATS:
        return float(value) if kind == "double" else unpack("f", pack("f", float(value)))[0]
    if types.is_decimal(kind):
        return Decimal(str(value)).quantize(Decimal(1).scaleb(-types.scale_of(kind)), ROUND_HALF_UP)
    if kind == "boolean":
        if str(value).lower() not in ("true", "false"):
            raise ValueError
        return str(value).lower() == "true"
    if kind == "date":
        return value if isinstance(value, date) else date.fromisoformat(value)
    if kind in ("timestamp", "timestamp_ntz"):
        return value if isinstance(value, datetime) else to_moment(times.read(value))
    return str(value)


def inferred(rows: Iterable[Row]) -> dict[str, str]:
    """The type of each column that the rows name, as far as their values tell."""
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.fields.items():
            values.setdefault(name, []).extend([] if value is None else [value])
    return {name: _kind(found) for name, found in values.items()}


def _kind(values: Sequence[Any]) -> str:
    def all_are(kind: str) -> bool:
        return all(_is(value, kind) for value in values)

    return next((kind for kind in ("boolean", "bigint", "double") if values and all_are(kind)), "string")


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, str) and not isinstance(value, Plain):
        return False
    try:
        typed(value, kind, Times())
    except ValueError:
        return False
    return isinstance(value, bool) == (kind == "boolean") or isinstance(value, Plain)


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_json(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso(to_micros(value))
    return str(value) if isinstance(value, Decimal | date) else value
