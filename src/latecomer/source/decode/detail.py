"""Why a row is a dead letter, in words: which column, which value, what was expected. Pure Python.

It explains rows that are dead letters already, and never decides whether they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from latecomer.config.encodings import UTF8, other_encoding
from latecomer.config.models import Pipeline
from latecomer.config.registered import Registered, SchemaFormat
from latecomer.config.sizes import format_size
from latecomer.config.user_classes import Decoder
from latecomer.errors import shortened
from latecomer.model import types
from latecomer.model.counting import counted
from latecomer.model.dead_letters import DELIVER_AGAIN
from latecomer.model.durations import format_duration
from latecomer.model.ledger import WHOLE_DIGITS
from latecomer.model.paths import paths_of, value_at
from latecomer.model.unknown_fields import known_fields, unknown_names
from latecomer.model.words import with_article
from latecomer.model.written_numbers import LONGEST as LONGEST_NUMBER
from latecomer.model.written_numbers import POINT, Signs, fits, written_number
from latecomer.model.written_times import written_wall_clock
from latecomer.schemas.json_input import TOO_DEEP
from latecomer.source.decode.choose import framed_decoder
from latecomer.source.decode.csv_rows import csv_fields
from latecomer.source.decode.framing import HEAD_SIZE, FramedDecoder, number_of
from latecomer.source.decode.written import NUMERIC, TEXT, WORD, Misfit, value_for, value_of

Fits = Callable[[Any, str, Signs], bool]
LONGEST = 60
MOST = 3
_DATE = re.compile(r"([+-]?\d{4,})-\d\d-\d\d(?!\d)")
_OTHER_FORM = re.compile(r"\d{1,2}[./ -](\d{1,2}|[A-Za-z]{3})[./ -]\d{2,4}\b")
_A_TIME = "write ISO-8601 with a date, such as 2026-04-25T14:00:00Z, or a number and its unit"


@dataclass(frozen=True)
class Explainer:
    """Explains dead letters of a pipeline's source."""

    pipeline: Pipeline
    columns: Mapping[str, str]
    """By their names in the source."""
    as_json: bool = False
    """Whether records are JSON, whatever the format of the pipeline."""
    no_time: str | None = None
    """What is wrong with an event time that is not read, if a fix says how it is written."""

    @cached_property
    def _framed(self) -> FramedDecoder | None:
        """The decoder with the schemas of records, if records name schemas."""
        has_schemas = isinstance(self.pipeline.format, Registered) and self.pipeline.source.has_records
        return framed_decoder(self.pipeline).with_schemas() if has_schemas and not self.as_json else None

    def detail(self, reason: str, raw: str, header: Sequence[str] = ()) -> str | None:
        """What is wrong with a row, as far as its text shows it; `header` is that of its CSV file."""
        order_by = self.pipeline.order_by
        event = self.pipeline.source_name(self.pipeline.event.time)
        order_by = order_by and self.pipeline.source_name(order_by)
        match reason:
            case "unreadable" | "invalid":
                return self._misread(raw, header)
            case "tombstone":
                return "the record has a key and no value: in a compacted topic, the key was deleted"
            case "unknown_fields":
                return self._unknown(raw, header)
            case "unreadable_file":
                return f"none of the file was read: {raw}; {DELIVER_AGAIN}"
            case "no_event_time":
                return f"column {event} is missing or empty"
            case "no_arrival_time":
                return f"column {order_by} is missing or empty"
            case "unreadable_event_time":
                return self._no_time(event, _fields(raw).get(event), self.no_time)
            case "unreadable_arrival_time" if order_by is not None:
                return self._no_time(order_by, _fields(raw).get(order_by))
            case "too_far_ahead":
                allowed = format_duration(self.pipeline.watermark.max_future or 0)
                written, zone = _fields(raw).get(event), self.pipeline.event.zone
                no_offset = isinstance(written, str) and written_wall_clock(written) is not None
                or_zone = f", or event.zone is not {zone}" if no_offset else ""
                said = f"is more than {allowed} ahead of its arrival (watermark.max_future){or_zone}"
                return f"{_shown(event, written)} {said}"
            case "beyond_the_ledger":
                return self._beyond_the_ledger(_fields(raw))
        return None

    def _no_time(self, column: str, value: object, not_read: str | None = None) -> str:
        """Why a value is no moment: it lies beyond the calendar, or is not written as a time."""
        form, shown = self.pipeline.event.time_format, _shown(column, value)
        if not_read is not None:
            otherwise = f"{shown} {not_read}"
        elif form is not None:
            otherwise = f"{shown} is not a time of the form {form} (event.time_format), and not ISO-8601"
        elif isinstance(value, str) and _OTHER_FORM.match(value.strip()):
            otherwise = f"{shown} is not a time in ISO-8601; say how it is written: event.time_format: dd.MM.yyyy HH:mm"
        else:
            otherwise = f"{shown} is not a time; {_A_TIME}"
        return _beyond_the_calendar(column, value) or otherwise

    def _beyond_the_ledger(self, row: Mapping[str, Any]) -> str:
        beyond = [
            _shown(name, row.get(name))
            for name in map(self.pipeline.source_name, self.pipeline.ledger)
            if not _fits_decimal(str(row.get(name) or 0), f"decimal({WHOLE_DIGITS},0)")
        ]
        return f"{'; '.join(beyond)} has more than the {WHOLE_DIGITS} digits before the point that the ledger adds up"

    def _unknown(self, raw: str, header: Sequence[str]) -> str:
        fields, names = known_fields(self.columns), [name for name in header if name not in self.columns]
        if self._framed is not None:
            names = self._framed.unknown_names(raw.encode("utf-8", "surrogateescape"), fields)
        elif not names:
            names = unknown_names(raw, fields)
        more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
        listed = f"{shortened(', '.join(names[:MOST]), LONGEST)}{more}" if names else "a field"
        described = isinstance(self.pipeline.format, SchemaFormat)
        where = "the schema that is read with" if described else "source.schema"
        return (
            f"no column is declared for {listed}; declare it in {where}, or set source.unknown_fields: keep"
        )

    def _framed_mistake(self, raw: bytes) -> str | None:
        """What is wrong with a record that names its schema: for its schema or, for JSON, for its columns."""
        assert self._framed is not None  # noqa: S101
        wrong = self._framed.mistake(raw)
        if wrong is None:
            wrong = self._misread_json(raw[HEAD_SIZE:].decode(errors="replace"))
        return wrong

    def undecodable(self, raw: bytes, encoding: str) -> str | None:
        """Which byte of a row does not belong to its encoding."""
        if self._framed is not None:
            return self._framed_mistake(raw)
        described = isinstance(self.pipeline.format, SchemaFormat)
        if isinstance(self.pipeline.format, Decoder) and not described:
            return f"decoder {self.pipeline.format.shown} does not read it"
        where = "it"
        try:
            raw.decode(encoding)
        except UnicodeDecodeError as error:
            where = f"byte 0x{raw[error.start]:02X} at {error.start}"
        if self.pipeline.format == "parquet" or described:
            return f"{where} is not {UTF8}; write text as {UTF8}, or the column as binary"
        return f"{where} is not {encoding}; {other_encoding(encoding)}"

    def rest(self, raw: bytes) -> str:
        """Why a file of messages was not read from these bytes on."""
        written = self.pipeline.format
        assert self._framed is not None and isinstance(written, Registered)  # noqa: S101, PT018
        if written.messages == "sized":
            wrong = "the length that a message should have before it goes beyond the end of the file, or is too large"
        else:
            wrong = (
                self._framed.head_mistake(raw)
                or f"no message of schema {number_of(raw)} ends in what follows"
            )
        return f"{wrong}; nothing is read of the file from here on: correct it, and deliver the rest under another name"

    def too_long(self, size: int, start: int) -> str:
        """The size of a line that is too long."""
        limit = format_size(self.pipeline.files.max_line)
        return (
            f"the line has {size} bytes from byte {start} on, and source.files.max_line is {limit}; its first "
            "bytes are kept"
        )

    def _misread(self, raw: str, header: Sequence[str]) -> str | None:
        if self._framed is not None:
            return self._framed_mistake(raw.encode())
        if isinstance(self.pipeline.format, SchemaFormat) and not self.as_json:
            return self._misfits(_fields(raw), _fits_exactly)
        if isinstance(self.pipeline.format, Decoder) and not self.as_json:
            return f"decoder {self.pipeline.format.shown} does not read it"
        if self.pipeline.format == "csv" and not self.as_json:
            return self._misread_csv(raw, header)
        return self._misread_json(raw)

    def _misread_json(self, raw: str) -> str | None:
        try:
            record = _parsed(raw)
        except ValueError as error:
            if raw.count("\0") * 3 > len(raw):
                return "it looks like UTF-16; set source.files.encoding: utf-16"
            what = str(error).partition(": line")[0].removesuffix(" at")
            return f"not JSON: {what} at character {getattr(error, 'pos', 0) + 1}"
        except RecursionError:
            return TOO_DEEP
        if not isinstance(record, dict):
            return f"{shortened(raw, LONGEST)} is not a JSON object"
        return self._misfits(self._by_column(record), _fits_json)

    def _by_column(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a record, including those within its objects."""
        row = dict(record)
        for column, path in paths_of(self.columns).items():
            if row.get(column) is None:
                row[column] = value_at(record, path)
        return row

    def _misread_csv(self, raw: str, header: Sequence[str]) -> str | None:
        fields = csv_fields(raw, self.pipeline.files.delimiter)
        if len(fields) != len(header):
            count = counted(len(fields), "field")
            return f"{count}, and the file has {len(header)} columns: {shortened(', '.join(header), LONGEST)}"
        return self._misfits(dict(zip(header, fields, strict=True)), _fits_text)

    def _misfits(self, row: Mapping[str, Any], fits: Fits) -> str | None:
        numbers = self.pipeline.source.numbers
        wrong = [
            each
            for column, kind in self.columns.items()
            if (each := _misfit(column, row.get(column), kind, numbers.of(column), fits)) is not None
        ]
        more = f"; and {len(wrong) - MOST} more" if len(wrong) > MOST else ""
        return "; ".join(wrong[:MOST]) + more or None


def _misfit(place: str, value: Any, kind: str, signs: Signs, fits: Fits) -> str | None:
    """The first value at a place that does not fit, in words; for a list or a map, which of its values."""
    if value is None:
        return None
    match types.nested_type(kind), value:
        case None, _:
            return None if fits(value, kind, signs) else _not_a(place, value, kind, signs, fits is _fits_json)
        case ("array", {"element": inner}), list():
            parts = [(f"{place}[{nth}]", each, inner) for nth, each in enumerate(value)]
        case ("map", {"value": inner}), dict():
            parts = [(f"{place}[{shortened(name, LONGEST)!r}]", each, inner) for name, each in value.items()]
        case ("struct", fields), dict():
            parts = [(f"{place}.{name}", value.get(name), inner) for name, inner in fields.items()]
        case _:
            return f"{_shown(place, value)} is not {with_article(kind)}"
    return next((wrong for each in parts if (wrong := _misfit(*each, signs, fits)) is not None), None)


def _not_a(place: str, value: Any, kind: str, signs: Signs, in_json: bool) -> str:
    """What is wrong with a plain value; for numbers with other signs, which setting reads them."""
    wrong = f"{_shown(place, value)} is not {with_article(kind)}"
    if not types.is_numeric(kind) or not isinstance(value, str) or isinstance(value, _Number):
        return wrong
    if in_json and not types.is_decimal(kind):
        as_text = f"{_shown(place, value)} is text, and not {with_article(kind)}"
        fix = "write it without quotes, or declare a decimal"
        return wrong if POINT.plain(value) is None else f"{as_text}; {fix}"
    for other in _OTHER_SIGNS:
        if signs.plain(value) is None and other.plain(value) is not None:
            thousands = (
                f", thousands_sign: {json.dumps(other.thousands_sign)}" if other.thousands_sign else ""
            )
            return (
                f"{wrong}; if that is how numbers are written, set source.numbers: "
                f"{{decimal_sign: {json.dumps(other.decimal_sign)}{thousands}}}"
            )
    return wrong


_OTHER_SIGNS = [
    POINT,
    Signs(decimal_sign=","),
    Signs(thousands_sign=","),
    Signs(decimal_sign=",", thousands_sign="."),
    Signs(decimal_sign=",", thousands_sign=" "),
]


class _Number(str):
    """A number as it is written: a fraction, or one with too many digits to be converted."""


def _parsed(raw: str) -> Any:
    def whole(text: str) -> int | _Number:
        return int(text) if len(text) <= LONGEST_NUMBER else _Number(text)

    return json.loads(raw, parse_float=_Number, parse_int=whole)


def _fields(raw: str) -> Mapping[str, Any]:
    """The fields of a row that could be parsed: its raw text is JSON."""
    try:
        fields = _parsed(raw)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def _beyond_the_calendar(column: str, value: object) -> str | None:
    """That a time lies beyond the calendar; None if that is not what is wrong."""
    date = _DATE.match(value) if isinstance(value, str) else None
    if date is not None and not 2 <= int(date[1]) < 9997:
        return (
            f"{_shown(column, value)} lies beyond the calendar, which is from 0002-01-01 to 9997-12-31 here"
        )
    return None


def _shown(column: str, value: object) -> str:
    shown = str(value) if isinstance(value, _Number) else json.dumps(value, ensure_ascii=False)
    return f"column {column}: {shortened(shown, LONGEST)}"


def _fits_json(value: Any, kind: str, signs: Signs) -> bool:
    """Whether a column of this type takes a JSON value."""
    wanted = value_for(kind, signs)
    if isinstance(value, dict | list):
        return wanted.as_written
    token = TEXT
    if isinstance(value, bool) or value != value:  # NaN
        token = WORD
    elif isinstance(value, _Number | int | float):
        token = NUMERIC
    try:
        wanted.convert(token, json.dumps(value) if token == WORD else str(value))
    except Misfit:
        return False
    return True


def _fits_text(text: str, kind: str, signs: Signs) -> bool:
    """Whether a column of this type takes a field of a CSV file; an empty one is null."""
    if not text or kind == "string":
        return True
    try:
        value_of(text, kind, signs)
    except Misfit:
        return False
    return True


def _fits_decimal(text: str, kind: str) -> bool:
    number = written_number(text)
    return number is not None and fits(number, types.whole_digits(kind))


def _fits_exactly(value: Any, kind: str, _: Signs) -> bool:
    """Whether a column takes a value of Avro or Parquet without losing a digit."""
    if not types.is_decimal(kind):
        return kind != "binary" or isinstance(value, str)
    number = written_number(str(value))
    if number is None or not fits(number, types.whole_digits(kind)):
        return False
    return number == round(number, types.scale_of(kind))
