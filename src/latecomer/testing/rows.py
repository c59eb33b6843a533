"""Rows of a source before they are read, and what a pipeline makes of each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cached_property
from struct import pack, unpack
from typing import Any

from latecomer.config.all_columns import SOURCE
from latecomer.config.models import Pipeline
from latecomer.errors import did_you_mean
from latecomer.model import types
from latecomer.model.durations import EARLIEST, LATEST, UNITS, iso, to_micros, to_moment
from latecomer.model.ids import event_id
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.sources import partition_of
from latecomer.model.written_numbers import written_number
from latecomer.model.written_values import json_value
from latecomer.model.zones import day_of, midnight, to_local, to_utc
from latecomer.testing.times import Times


class Plain(str):
    """A value without quotes in a transcript: its column says what it means."""


@dataclass(frozen=True)
class Row:
    """When it happened, when it arrived, and its other columns.

    The event time is in microseconds, None where the row has none, or text that is no time.
    """

    event_time: int | str | None
    arrival_time: int
    fields: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceShape:
    """A source's columns under a pipeline: what the oracle reads of a row, and how a file has it."""

    pipeline: Pipeline
    """The pipeline's view for this source."""
    columns: Mapping[str, str]
    times: Times = field(default_factory=Times)
    name: str = ""
    """The source's name, where there are several."""

    @cached_property
    def arrival_column(self) -> str:
        """The column of the arrival time; a column of the kit's own if the pipeline goes by the files' age."""
        return self.pipeline.order_by or "arrival_time_of_the_test"

    @property
    def given(self) -> list[str]:
        """The columns that a row gives by name."""
        return [name for name in self.columns if name not in (self.pipeline.event.time, self.arrival_column)]

    @cached_property
    def time_marker(self) -> str | None:
        """The column of the watermark's marks, where they are times."""
        marker = self.pipeline.watermark.needs.marker
        return marker if marker in self.given and self.columns[marker] != "boolean" else None

    def problem(self, row: Row) -> str | None:
        """What is wrong with the row, and the fix."""
        for name, value in row.fields.items():
            if self.name and name == SOURCE:
                return f"{name}: every row has the source of its batch by itself; leave it out"
            if name not in self.given:
                return f"{name}: the source has no such column; {did_you_mean(name, self.given)}"
            try:
                self._value(name, value)
            except UNFIT:
                if name == self.time_marker:
                    return (
                        f"{name}: {value!s} is not a time, but a mark of the watermark is one; write 14:00:10"
                    )
                return f"{name}: {value!s} is not of type {self.columns[name]}; write it as the column has it"
        problems = (self._time_problem(*each) for each in self._moments(row))
        return next((text for text in problems if text), None)

    def _time_problem(self, name: str, micros: int) -> str | None:
        try:
            if self.held(name, micros) == micros:
                return None
        except OverflowError:
            return f"{name}: {micros} is outside the calendar; write a time of the years 1 to 9999"
        except ValueError as error:
            return f"{name}: {error}"
        kind, unit = self.columns[name], self._unit(name)
        of_unit = f" of {unit}" if unit and kind not in ("date", "timestamp_ntz") else ""
        return (
            f"{name}: {self.times.write(micros)} does not fit {kind}{of_unit}; write a time that it can hold"
        )

    def reason(self, row: Row) -> str | None:
        """The reason of its dead letter, if the row does not become an event."""
        if row.event_time is None:
            return "no_event_time"
        if isinstance(row.event_time, str) and self.columns.get(self.pipeline.event.time) != "string":
            return "unreadable"  # not the time alone: the row does not fit its columns
        if not _possible(row.event_time):
            return "unreadable_event_time"
        if not _possible(row.arrival_time):
            return "unreadable_arrival_time"
        ahead = self.pipeline.watermark.max_future
        if ahead is not None and int(row.event_time) - row.arrival_time > ahead:
            return "too_far_ahead"
        return None

    def held(self, column: str, micros: int) -> int:
        """The moment as a column of times can hold it, rounded down."""
        zone = self.pipeline.event.zone
        rounded = held(micros, self.columns.get(column, "string"), self._unit(column), zone)
        to_moment(rounded)
        return rounded

    def arrival(self, row: Row) -> Arrival:
        """The row as the oracle reads it."""
        payload = {name: self._value(name, row.fields.get(name)) for name in self.given}
        if self.time_marker and not _possible(payload[self.time_marker]):
            payload[self.time_marker] = None
        happened = row.event_time if isinstance(row.event_time, int) else None
        payload[self.pipeline.event.time] = None if happened is None else to_moment(happened)
        payload[self.arrival_column] = to_moment(row.arrival_time)
        if self.name:
            payload[SOURCE] = self.name
        column = self.pipeline.partition_column
        partition = None if column is None else _as_text(payload[column])
        identity = event_id([_as_text(payload[column]) for column in self.pipeline.event.id_columns])
        dead = self.reason(row) is not None
        named = partition_of(self.name, partition)
        return Arrival(happened or 0, row.arrival_time, named, payload, identity, dead)

    def written(self, row: Row) -> dict[str, Any]:
        """The row as a line of JSON holds it."""
        line: dict[str, Any] = {self.pipeline.event.time: row.event_time}
        for name in self.given:
            line[name] = as_json(self._value(name, row.fields.get(name)), self.columns[name])
        for name, micros in self._moments(row):
            kind = self.columns.get(name, "string")
            line[name] = moment_as_json(micros, kind, self._unit(name), self.pipeline.event.zone)
        return line

    def _moments(self, row: Row) -> list[tuple[str, int]]:
        """The columns with times of the row, and these times."""
        moments = [(self.arrival_column, row.arrival_time)]
        if isinstance(row.event_time, int):
            moments.append((self.pipeline.event.time, row.event_time))
        if self.time_marker and row.fields.get(self.time_marker) is not None:
            moments.append((self.time_marker, self._value(self.time_marker, row.fields[self.time_marker])))
        return moments

    def _unit(self, column: str) -> str | None:
        arrival = column == self.arrival_column
        return self.pipeline.arrival_unit if arrival else self.pipeline.event.unit

    def placed(self) -> dict[str, Any]:
        """The source over files in a folder of their own."""
        files = self.pipeline.source.files
        return {
            "files": {
                "path": f"arrivals/{self.name}",
                "order_by": self.arrival_column,
                "unit": files and files.unit,
                "partition": files and files.partition,
            },
            "schema": {self.arrival_column: "string", **self.columns},
        }

    def _value(self, name: str, value: Any) -> Any:
        """A value as its column holds it. A mark that is a time is microseconds."""
        if name == self.time_marker and value is not None:
            return moment(value, self.times)
        return typed(value, self.columns[name], self.times)


def _possible(time: int | str | None) -> bool:
    """Whether it is a time that an event may have."""
    return isinstance(time, int) and EARLIEST <= time <= LATEST


def inferred(rows: Iterable[Row]) -> dict[str, str]:
    """The type of each column that the rows name, by their values."""
    values: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.fields.items():
            values.setdefault(name, []).extend([] if value is None else [value])
    return {name: _kind(listed) for name, listed in values.items()}


def _kind(values: Sequence[Any]) -> str:
    def all_are(kind: str) -> bool:
        return all(_is(value, kind) for value in values)

    return next((kind for kind in ("boolean", "bigint", "double") if values and all_are(kind)), "string")


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, str) and not isinstance(value, Plain):
        return False
    try:
        typed(value, kind, Times())
    except UNFIT:
        return False
    return isinstance(value, bool) == (kind == "boolean") or isinstance(value, Plain)


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value).lower() if isinstance(value, bool) else str(value)


# Values

_EXACT = Context(prec=80)
UNFIT = (ValueError, TypeError, ArithmeticError)
"""The errors of a value that its column cannot hold."""


def typed(value: Any, kind: str, times: Times) -> Any:
    """A value as a column of this type holds it."""
    if value is None:
        return None
    if (nested := types.nested_type(kind)) is not None:
        return _typed_within(value, *nested, times)
    if kind in types.INTEGERS:
        number = int(value)
        is_whole = not isinstance(value, bool) and (isinstance(value, str) or number == value)
        if not is_whole or not types.holds(kind, number):
            raise ValueError
        return number
    if kind in types.FLOATS:
        return float(value) if kind == "double" else unpack("<f", pack("<f", float(value)))[0]
    if types.is_decimal(kind):
        step = Decimal(1).scaleb(-types.scale_of(kind))
        written = written_number(str(value))
        if written is None:
            raise ValueError
        exact = written.quantize(step, ROUND_HALF_UP, _EXACT)
        if abs(exact) >= 10 ** types.whole_digits(kind):
            raise ValueError
        return exact
    if kind == "boolean":
        if str(value).lower() not in ("true", "false"):
            raise ValueError
        return str(value).lower() == "true"
    if kind == "date":
        day = value.date() if isinstance(value, datetime) else value
        return day if isinstance(day, date) else date.fromisoformat(str(day))
    if kind in ("timestamp", "timestamp_ntz"):
        return to_moment(moment(value, times))
    if kind == "binary":
        return value if isinstance(value, bytes) else str(value).encode()
    return str(value)


def _typed_within(value: Any, outer: str, kinds: Mapping[str, str], times: Times) -> Any:
    """A list, a map or an object, with the values in it as their types hold them."""
    if outer == "array":
        if not isinstance(value, list | tuple):
            raise ValueError
        return [typed(each, kinds["element"], times) for each in value]
    if not isinstance(value, Mapping):
        raise ValueError
    if outer == "map":
        return {str(name): typed(each, kinds["value"], times) for name, each in value.items()}
    return {name: typed(value.get(name), kind, times) for name, kind in kinds.items()}


def moment(value: Any, times: Times) -> int:
    """A time in microseconds, from a datetime, a number or text."""
    if isinstance(value, datetime):
        return to_micros(value)
    return value if isinstance(value, int) else times.read(str(value))


def as_json(value: Any, kind: str) -> Any:
    """A value of a column of this type in a line of JSON."""
    if isinstance(value, datetime) and kind == "timestamp_ntz":
        return json_value(value.replace(tzinfo=None))
    return json_value(value)


# Columns that hold moments, in their unit or by the wall clock of a zone


def held(micros: int, kind: str, unit: str | None, zone: str) -> int:
    """A moment as a column of this type can hold it, rounded down."""
    if kind == "date":
        return midnight(day_of(micros, zone), zone)
    if kind == "timestamp_ntz":
        return to_utc(to_local(micros, zone), zone)
    if not types.is_numeric(kind):
        return micros
    if kind == "float":
        raise ValueError("a float has too few digits for a time; declare the column as double")
    unit = unit or "s"
    if kind == "double":
        step = UNITS["s"] if unit == "ns" else 1
    else:
        step = max(1, UNITS.get(unit, 1) // 10 ** types.scale_of(kind))
    rounded = micros // step * step
    try:
        typed(_counted(rounded, unit), kind, Times())
    except UNFIT:
        raise ValueError(f"a time in {unit} is too large for {kind}; declare a larger type") from None
    return rounded


def moment_as_json(micros: int, kind: str, unit: str | None, zone: str) -> Any:
    """A moment of a column of this type in a line of JSON."""
    if kind == "date":
        return str(day_of(micros, zone))
    if kind == "timestamp_ntz":
        return as_json(to_moment(to_local(micros, zone)), kind)
    if not types.is_numeric(kind):
        return iso(micros)
    return as_json(typed(_counted(micros, unit or "s"), kind, Times()), kind)


def _counted(micros: int, unit: str) -> Decimal:
    if unit == "ns":
        return Decimal(micros * 1_000)
    return _EXACT.divide(Decimal(micros), Decimal(UNITS[unit]))
