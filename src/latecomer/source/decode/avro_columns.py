"""Columns from the records of one writer: of plain ones all at once (`avro_batch.py`), of odd ones one by one
(`avro_data.py`); and whether the columns take the values of these.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal, localcontext
from functools import cached_property, lru_cache
from math import isfinite
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from latecomer.model.array_types import Flags, Integers
from latecomer.model.types import FLOATS, INTEGERS, MOST_DIGITS, is_decimal, scale_of, whole_digits
from latecomer.schemas.avro import Reading, ReadValue, Schema, reading, schema_of
from latecomer.source.decode.avro_batch import AvroPlan, Cursor, RowByRow
from latecomer.source.decode.avro_data import RecordReader
from latecomer.source.decode.json_text import (
    JsonText,
    Shape,
    has_valid_texts,
    kept_text,
    misread_text,
    plain_text,
    shape_of,
)
from latecomer.source.decode.private_columns import KEPT
from latecomer.source.decode.typed_columns import null_columns, with_rows
from latecomer.source.decode.written import Misfit, in_range, rounded

FEW = 8
"""So few records are read one by one: to read them all at once takes longer."""
_Get = Callable[[Mapping[str, Any]], Any]

_EXACT = Context(prec=2 * MOST_DIGITS)


@dataclass(frozen=True)
class AvroColumns:
    """How records of one writer's schema become columns."""

    writer: Schema
    reading: Reading
    columns: Mapping[str, str]

    @cached_property
    def reader(self) -> RecordReader:
        return RecordReader(self.writer, schema_of(self.reading.schema, strict=False))

    def row(self, record: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """The columns and KEPT of a record that was read, and whether the columns take all its values. If they do not,
        the row has the values that fit: the ledger sums them up."""
        values = self.values(record)
        if self._fits(record):
            return {**values, KEPT: self._kept(record)}, True
        return {name: value if has_valid_texts(value) else None for name, value in values.items()}, False

    def as_written(self, record: Mapping[str, Any]) -> bytes:
        """A record that its columns do not take, as JSON for people, with all digits and its unknown fields."""
        unknown = {name: record.get(name) for name in self.unknown}
        shapes = {**self._written_shapes, **self.unknown}
        return misread_text(shapes, {**self.values(record, as_written=True), **unknown})

    def values(self, record: Mapping[str, Any], as_written: bool = False) -> dict[str, Any]:
        """The columns of a record that was read; `as_written`, for people, with all of its digits."""
        return {name: get(record) for name, get in (self._written if as_written else self._gets).items()}

    def _fits(self, record: Mapping[str, Any]) -> bool:
        """Whether the columns take all values, and all texts are UTF-8."""
        return all(test(record) for test in self._tests) and all(
            has_valid_texts(record.get(name)) for name in self.unknown
        )

    def _kept(self, record: Mapping[str, Any]) -> str | None:
        """The unknown fields, as JSON text."""
        if not self.unknown:
            return None
        text = self._write_kept(record)
        return None if text == "{}" else text

    @cached_property
    def unknown(self) -> dict[str, Shape]:
        return {name: self.reader.shapes[name] for name in self.reading.unknown}

    @cached_property
    def _write_kept(self) -> Callable[[Any], str]:
        return JsonText().of(("struct", self.unknown))

    @cached_property
    def _gets(self) -> dict[str, _Get]:
        return {name: self._get(name, kind, as_written=False) for name, kind in self.columns.items()}

    @cached_property
    def _written(self) -> dict[str, _Get]:
        return {name: self._get(name, kind, as_written=True) for name, kind in self.columns.items()}

    @cached_property
    def _written_shapes(self) -> dict[str, Shape]:
        """The shapes of the columns as they were written."""
        return {
            name: self._written_shape(self.reading.values.get(name), kind)
            for name, kind in self.columns.items()
        }

    def _written_shape(self, value: ReadValue | None, kind: str) -> Shape:
        if value is not None and value.delivered_as == "plain":
            return self._shape(value)
        if value is not None and value.delivered_as == "list" and kind != "string":
            return _with_decimals_of(shape_of(kind), shape_of(value.kind))
        return shape_of(kind)

    @cached_property
    def _tests(self) -> list[Callable[[Mapping[str, Any]], bool]]:
        return [
            test
            for name, kind in self.columns.items()
            if name in self.reading.values
            for test in self._value_tests(self.reading.values[name], kind)
        ]

    def _value_tests(self, value: ReadValue, kind: str) -> list[Callable[[Mapping[str, Any]], bool]]:
        at = _getter(value.path)
        match value.delivered_as:
            case "union":
                return [test for each in value.members for test in self._value_tests(each, each.kind)]
            case "list" if kind != "string":
                read, wanted = shape_of(value.kind), shape_of(kind)
                return [lambda row: _list_fits(at(row), read, wanted)]
            case "list" | "json":
                return [lambda row: has_valid_texts(at(row))]
            case "plain" if kind == "string" or (value.kind != kind and _is_decimal_pair(value.kind, kind)):
                return [lambda row: _fits(at(row), value.kind, kind)]
        return []

    def _shape(self, value: ReadValue) -> Shape:
        shape: Shape = ("struct", self.reader.shapes)
        for step in value.path:
            assert not isinstance(shape, str)  # noqa: S101
            shape = shape[1][step]
        return shape

    def _get(self, name: str, kind: str, as_written: bool) -> _Get:
        """What reads a column from a record: null where the record does not have it."""
        if name not in self.reading.values:
            return lambda _: None
        value = self.reading.values[name]
        at, change = _getter(value.path), self._change(value, kind, as_written)
        if value.delivered_as == "union":
            return self._text_of_union(value)
        if change is None:
            return at

        def get(row: Mapping[str, Any]) -> Any:
            each = at(row)
            return None if each is None else change(each)

        return get

    def _change(self, value: ReadValue, kind: str, as_written: bool) -> Callable[[Any], Any] | None:
        match value.delivered_as:
            case "json":
                return JsonText().of(self._shape(value))
            case "list" if kind == "string":  # as in stores of earlier versions
                return JsonText().of(self._shape(value))
            case "list":
                read, wanted = shape_of(value.kind), shape_of(kind)
                return None if read == wanted else lambda each: _list(each, read, wanted, as_written)
            case "uuid":
                return lambda each: str(UUID(bytes=each))
            case "nanos" | "local_nanos":
                return lambda each: each // 1000
            case "millis_of_day":
                return lambda each: each * 1000
        if as_written or value.kind == kind:
            return None
        return lambda each: _cast(each, value.kind, kind)

    def _text_of_union(self, value: ReadValue) -> _Get:
        """What reads a value of a union as text."""
        members = [(_getter(each.path), self._member_text(each)) for each in value.members]

        def text(row: Mapping[str, Any]) -> str | None:
            for at, write in members:
                if (each := at(row)) is not None:
                    return write(each)
            return None

        return text

    def _member_text(self, value: ReadValue) -> Callable[[Any], str]:
        if value.delivered_as == "list":
            return JsonText().of(self._shape(value))
        change = self._change(value, value.kind, as_written=False) or (lambda each: each)
        if value.kind == "binary":
            return lambda each: b64encode(change(each)).decode()
        return lambda each: each if isinstance(each := change(each), str) else plain_text(each, value.kind)


def _getter(path: Sequence[str]) -> _Get:
    if len(path) == 1:
        (name,) = path
        return lambda row: row.get(name)

    def get(row: Any) -> Any:
        for step in path:
            if row is None:
                return None
            row = row.get(step)
        return row

    return get


def _is_decimal_pair(read: str, kind: str) -> bool:
    return is_decimal(read) or is_decimal(kind)


def _fits(value: Any, read: str, kind: str) -> bool:
    """Whether a column takes a plain value without loss."""
    if value is None:
        return True
    if kind == "string":
        return has_valid_texts(value)
    if read == kind or not _is_decimal_pair(read, kind):
        return True
    if "binary" in (read, kind):  # it is a decimal with too many digits for the type
        return False
    cast = _cast(value, read, kind)
    return cast is not None and bool(cast == value)


def _list_fits(value: Any, read: Shape, wanted: Shape) -> bool:
    if value is None:
        return True
    if isinstance(read, str) or isinstance(wanted, str):
        return isinstance(read, str) and isinstance(wanted, str) and _fits(value, read, wanted)
    match read[0]:
        case "array":
            inner, other = read[1]["element"], wanted[1]["element"]
            return all(_list_fits(each, inner, other) for each in value)
        case "map":
            inner, other = read[1]["value"], wanted[1]["value"]
            return all(
                has_valid_texts(name) and _list_fits(each, inner, other) for name, each in value.items()
            )
    pairs = zip(read[1].items(), wanted[1].values(), strict=True)
    return all(_list_fits(value.get(name), inner, other) for (name, inner), other in pairs)


def _list(value: Any, read: Shape, wanted: Shape, as_written: bool) -> Any:
    """A list or a map with its values in the column's types: its objects have the column's names, in their order."""
    if value is None:
        return None
    if isinstance(read, str) or isinstance(wanted, str):
        if (read, wanted) == ("bigint", "timestamp"):  # nanoseconds
            return value // 1000
        kept = as_written and isinstance(wanted, str) and is_decimal(wanted)
        return value if kept or read == wanted else _cast(value, str(read), str(wanted))
    match read[0]:
        case "array":
            inner, other = read[1]["element"], wanted[1]["element"]
            return [_list(each, inner, other, as_written) for each in value]
        case "map":
            inner, other = read[1]["value"], wanted[1]["value"]
            return {name: _list(each, inner, other, as_written) for name, each in value.items()}
    pairs = zip(read[1].items(), wanted[1].items(), strict=True)
    return {other: _list(value.get(name), inner, kind, as_written) for (name, inner), (other, kind) in pairs}


def _with_decimals_of(wanted: Shape, read: Shape) -> Shape:
    """A shape whose decimals have the digits that they were written with."""
    if isinstance(wanted, str) or isinstance(read, str):
        return read if isinstance(wanted, str) and is_decimal(wanted) else wanted
    parts = zip(wanted[1].items(), read[1].values(), strict=True)
    return wanted[0], {name: _with_decimals_of(kind, other) for (name, kind), other in parts}


def _cast(value: Any, read: str, kind: str) -> Any:
    """A plain value as another type; None if that type does not hold it."""
    if value is None or read == kind:
        return value
    if "binary" in (read, kind):
        return None
    if kind == "string":
        return plain_text(value, read)
    number = is_decimal(read) or read in INTEGERS or read in FLOATS
    if kind in FLOATS and number:
        return float(value)
    if not number or not isfinite(value):
        return None
    with localcontext(_EXACT), suppress(Misfit):
        if is_decimal(kind):
            exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
            return rounded(exact, whole_digits(kind), scale_of(kind))
        if kind in INTEGERS:
            return in_range(int(Decimal(value).to_integral_value(ROUND_DOWN)), kind)
    return None


@dataclass(frozen=True)
class WriterReading:
    """How the records of one writer are read: one by one, or all at once if there is a plan."""

    columns: AvroColumns
    plan: AvroPlan | None

    def at_once(
        self, data: bytes, starts: Integers, ends: Integers, whole: bool = False
    ) -> tuple[dict[str, pa.Array], Flags]:
        """The columns and KEPT of records that lie side by side in a buffer, and which of the records are odd. If they
        have to be `whole`, records with bytes behind their end are odd too."""
        odd = np.zeros(len(starts), np.bool_)
        if self.plan is not None and len(starts) > FEW:
            cursor = Cursor(data, starts, ends, np.arange(len(starts)), odd)
            try:
                decoded = self.plan.columns(cursor)
            except RowByRow:
                pass
            else:
                if whole:
                    odd |= cursor.at != ends
                plain = {name: decoded[name] for name in self.columns.columns}
                return {**plain, KEPT: self._kept(decoded, len(odd))}, odd
        odd[:] = True
        return null_columns(self._kinds, len(odd)), odd

    def with_odd(
        self, plain: Mapping[str, pa.Array], odd: Flags, rows: Sequence[Mapping[str, Any]]
    ) -> pa.Table:
        """The same columns, with rows that were read one by one in the place of the odd ones."""
        return pa.table(with_rows(plain, self._kinds, odd, rows))

    @property
    def _kinds(self) -> dict[str, str]:
        return {**self.columns.columns, KEPT: "string"}

    def _kept(self, decoded: Mapping[str, pa.Array], count: int) -> pa.Array:
        names = self.columns.unknown
        if not names:
            return pa.nulls(count, pa.string())
        columns = [decoded[name].to_pylist() for name in names]
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        return pa.array(kept_text(names, rows), pa.string())


@lru_cache(maxsize=256)
def writer_reading(
    reader: Schema, writer: Schema, keeps: bool, columns: tuple[tuple[str, str], ...]
) -> WriterReading:
    """How records of a writer's schema become these columns, with their other fields if it `keeps` them."""
    resolved, kinds = reading(reader, writer, keeps), dict(columns)
    try:
        plan = AvroPlan(writer, resolved, kinds)
    except RowByRow:
        plan = None
    return WriterReading(AvroColumns(writer, resolved, kinds), plan)
