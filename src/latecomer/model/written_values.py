"""Writes values as JSON and CSV, in one way for verbs, sinks, explanations, plans and the testing kit.

The form of a value depends on its column's type alone, never on the value: a column has one JSON type in every row.
docs/values.md has the rule, ADR 0028 the reasons. Only certificates have their own form, because it is hashed.
"""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from decimal import Context, Decimal, Inexact
from functools import partial
from json.encoder import encode_basestring
from typing import Any

import pyarrow as pa

from latecomer.model.durations import to_micros
from latecomer.model.zoned import written

UTC = "UTC"
_MICROSECOND = timedelta(microseconds=1)
_NEVER_ROUNDED = Context(prec=200, traps=[Inexact])
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_QUOTED = re.compile(r'[",\r\n]')


# JSON


def json_rows(rows: pa.Table, zone: str = UTC) -> Iterator[dict[str, Any]]:
    """Each row as a JSON object."""
    names = rows.schema.names
    for values in zip(*(json_column(column, zone) for column in rows.columns), strict=True):
        yield dict(zip(names, values, strict=True))


def json_column(column: pa.ChunkedArray, zone: str = UTC) -> list[Any]:
    """A column's values as they are in JSON; moments in a time zone."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return json_column(column.cast(kind.value_type), zone)
    if pa.types.is_timestamp(kind):
        moments = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        # Many panes have the same windows: each distinct moment is formatted once.
        texts = {
            moment: _moment(moment, kind.tz, zone)
            for moment in moments.unique().to_pylist()
            if moment is not None
        }
        return [texts.get(moment) for moment in moments.to_pylist()]
    values: list[Any] = column.to_pylist()
    write = _writer(kind, zone)
    return values if write is None else [None if value is None else write(value) for value in values]


def json_texts(column: pa.ChunkedArray, zone: str = UTC) -> list[str]:
    """A column's values as JSON text, for code that writes many rows.

    >>> json_texts(pa.chunked_array([[1, None]])), json_texts(pa.chunked_array([["é", 'a "b"']]))
    (['1', 'null'], ['"é"', '"a \\\\"b\\\\""'])
    """
    write = _text_writer(column.type)
    return ["null" if value is None else write(value) for value in json_column(column, zone)]


def _text_writer(kind: pa.DataType) -> Callable[[Any], str]:
    """The function that makes JSON text for values of a type. The general encoder is ten times as slow."""
    if pa.types.is_timestamp(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return encode_basestring
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale <= 0):
        return str
    if pa.types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if pa.types.is_floating(kind):
        return lambda value: repr(value) if type(value) is float else _encode(value)
    return _encode


def json_value(value: Any, kind: pa.DataType | None = None, zone: str = UTC) -> Any:
    """A value of a column of this type as it is in JSON. Where no type is given, a decimal keeps its own digits after
    the point, which are those of the column that it was read from.

    >>> json_value(Decimal("600"), pa.decimal128(38, 0)), json_value(Decimal("600"), pa.decimal128(38, 2))
    (600, '600.00')
    >>> json_value(b"a"), json_value(float("nan")), json_value(True)
    ('YQ==', 'NaN', True)
    """
    if kind is None and isinstance(value, list):
        return [json_value(each, zone=zone) for each in value]
    if kind is None and isinstance(value, dict):
        return {name: json_value(each, zone=zone) for name, each in value.items()}
    write = None if value is None else _writer(kind or _type_of(value), zone)
    return value if write is None else write(value)


def bytes_of(text: str) -> bytes:
    """Bytes from the text that they have in JSON; ValueError where a text is not in base64.

    >>> bytes_of("YQ==")
    b'a'
    """
    return b64decode(text, validate=True)


def json_seconds(micros: int) -> float:
    """A duration as a number of seconds, always a float.

    >>> json_seconds(30_000_000), json_seconds(1)
    (30.0, 1e-06)
    """
    return micros / 1_000_000


def _writer(kind: pa.DataType, zone: str) -> Callable[[Any], Any] | None:
    """The function that makes a JSON value of a value of this type; None where it is one already."""
    if pa.types.is_decimal(kind):
        return int if kind.scale <= 0 else partial(_fraction, Decimal(1).scaleb(-kind.scale))
    if pa.types.is_floating(kind):
        return _floating
    if pa.types.is_timestamp(kind):
        return lambda value: _moment(to_micros(value), kind.tz, zone)
    if pa.types.is_duration(kind):
        return lambda value: json_seconds(value // _MICROSECOND)
    if pa.types.is_date(kind):
        return date.isoformat
    if _is_bytes(kind):
        return lambda value: b64encode(value).decode()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return lambda values: [json_value(value, kind.value_type, zone) for value in values]
    if pa.types.is_struct(kind):
        return lambda row: {each.name: json_value(row[each.name], each.type, zone) for each in kind}
    if pa.types.is_map(kind):
        return lambda pairs: {key: json_value(value, kind.item_type, zone) for key, value in pairs}
    return None


def _type_of(value: Any) -> pa.DataType:
    match value:
        case Decimal():
            exponent = value.as_tuple().exponent
            assert isinstance(exponent, int)  # noqa: S101
            return pa.decimal256(76, max(-exponent, 0))
        case float():
            return pa.float64()
        case datetime():
            return pa.timestamp("us", None if value.tzinfo is None else UTC)
        case date():
            return pa.date32()
        case timedelta():
            return pa.duration("us")
        case bytes():
            return pa.binary()
    return pa.string()


def _fraction(step: Decimal, value: Decimal | int) -> str:
    """A decimal with all the digits that its type has after the point."""
    # A value that was read has these digits already; the sum of an empty window does not.
    if not (isinstance(value, Decimal) and value.same_quantum(step)):
        value = Decimal(value).quantize(step, context=_NEVER_ROUNDED)
    return format(value, "f")


def _floating(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _moment(micros: int, column_zone: str | None, zone: str) -> str:
    """A moment. One from a column without a zone has no offset."""
    if column_zone is None:
        return (written(micros, UTC) or "").removesuffix("Z")
    return written(micros, zone) or ""


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or kind == pa.binary_view()
    )


# CSV


def csv_column(column: pa.ChunkedArray, zone: str = UTC) -> list[str | None]:
    """A column's values as cells of CSV: the JSON text without quotes."""
    return [csv_text(value) for value in json_column(column, zone)]


def csv_text(value: Any) -> str | None:
    """The cell of CSV for a JSON value.

    >>> csv_text("600.00"), csv_text(600), csv_text(True), csv_text(None)
    ('600.00', '600', 'true', None)
    """
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def csv_line(cells: Sequence[str | None]) -> str:
    """A line of CSV: null is an empty cell, and empty text is a pair of quotes.

    >>> csv_line(["a", None, "", 'b "c"'])
    'a,,"","b ""c\"""\\n'
    """
    return (",".join(map(_csv_cell, cells)) or '""') + "\n"


def _csv_cell(text: str | None) -> str:
    if text is None:
        return ""
    return '"' + text.replace('"', '""') + '"' if not text or _QUOTED.search(text) else text


# For people


def in_percent(share: float, digits: int) -> str:
    """A share in per cent, for people.

    >>> in_percent(0.6905, 1)
    '69.0 %'
    """
    return f"{share * 100:.{digits}f} %"


def short_text(value: Any, zone: str = UTC) -> str:
    """A value for a sentence, a picture or a table: exact, without trailing zeros of a decimal.

    >>> short_text(Decimal("600.00")), short_text(Decimal("0.250")), short_text("a")
    ('600', '0.25', 'a')
    """
    if not isinstance(value, Decimal):
        return csv_text(json_value(value, zone=zone)) or ""
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def padded_text(value: Decimal, least: int) -> str:
    """A decimal for a table: without the zeros at its end, but with at least so many digits after the point.

    >>> padded_text(Decimal("1234.500000"), 2), padded_text(Decimal("5.00"), 0)
    ('1234.50', '5')
    """
    whole, _, after = short_text(value).partition(".")
    after = after.ljust(least, "0")
    return f"{whole}.{after}" if after else whole
