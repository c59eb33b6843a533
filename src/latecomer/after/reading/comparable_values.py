"""Columns of other sources, brought to types in which they can be compared by value.

A database, a CSV file and a table write the same number in different types. Exact numbers are compared as
decimals, so that no digit is lost; where one side is floating point, both are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa

from latecomer.errors import PipelineError, Problem, shortened
from latecomer.model.types import MOST_DIGITS
from latecomer.model.written_numbers import fits, written_number
from latecomer.model.zoned import read
from latecomer.model.zones import to_utc
from latecomer.store.layout import TIMESTAMP

_NO_NUMBERS = frozenset({"nan", "inf", "infinity", "-inf", "-infinity", "+inf", "+infinity"})
_LONGEST = 60


def refused(field: str, message: str, value: object = None, fix: str | None = None) -> PipelineError:
    """The error for a wrong argument or source of a reconciliation."""
    return PipelineError([Problem(field, message, value, fix, "reconcile")])


def moments(column: pa.ChunkedArray, name: str, zone: str = "UTC") -> pa.ChunkedArray:
    """A column of moments in UTC; dates, and moments without an offset, are read by the wall clock of a zone."""
    column = plain(column)
    if pa.types.is_timestamp(column.type) and (column.type.tz is not None or zone == "UTC"):
        return column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(TIMESTAMP)
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        shown = column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())
        known = {at: to_utc(at, zone) for at in shown.unique().to_pylist() if at is not None}
        return _as_moments(shown, known)
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), TIMESTAMP)])
    if not pa.types.is_string(column.type):
        raise refused(
            f"column {name}", f"holds {column.type}, not moments", fix="give timestamps, or ISO-8601 text"
        )
    return _as_moments(
        column, {text: _moment(text, name, zone) for text in column.unique().to_pylist() if text is not None}
    )


def _as_moments(column: pa.ChunkedArray, micros_of: Mapping[Any, int]) -> pa.ChunkedArray:
    micros = [None if each is None else micros_of[each] for each in column.to_pylist()]
    return pa.chunked_array([pa.array(micros, pa.int64()).cast(TIMESTAMP)])


def _moment(text: str, name: str, zone: str) -> int:
    try:
        return read(text, zone)
    except (ValueError, OverflowError):
        fix = (
            "write ISO-8601 such as 2026-04-25T14:00:00Z; without an offset it is a time of the output's zone"
        )
        raise refused(f"column {name}", "holds what is not a moment", text, fix) from None


def like(column: pa.ChunkedArray, kind: pa.DataType, name: str, zone: str = "UTC") -> pa.ChunkedArray:
    """A column in another type, every value the same; moments are read as `moments` does."""
    column = plain(column)
    if pa.types.is_timestamp(kind):
        return moments(column, name, zone)
    try:
        return (numbers(column, name) if is_number(kind) else column).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        fix = f"give it as {kind}, or map another column to it"
        raise refused(f"column {name}", f"cannot be read as {kind}", _example(column), fix) from None


def numbers(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """A column of decimals, or of doubles where it is floating point."""
    column = plain(column)
    kind = column.type
    if pa.types.is_decimal(kind):
        return column
    if pa.types.is_integer(kind):
        return column.cast(pa.decimal128(20, 0))
    if pa.types.is_floating(kind):
        return column.cast(pa.float64())
    if pa.types.is_string(kind):
        return pa.chunked_array(
            [exact([None if text is None else _number(text, name) for text in column.to_pylist()], name)]
        )
    if column.null_count == len(column):
        return pa.chunked_array([pa.nulls(len(column), pa.decimal128(20, 0))])
    raise refused(
        f"column {name}", f"holds {kind}, not numbers", _example(column), "map another column to it"
    )


def _number(text: str, name: str) -> Decimal:
    stripped = text.strip()
    if stripped.lower() in _NO_NUMBERS:
        return Decimal(stripped)
    number = written_number(stripped)
    if number is None:
        raise refused(
            f"column {name}", "holds what is not a number", shortened(text, _LONGEST), "correct the source"
        )
    return number


def exact(values: Sequence[Decimal | int | None], name: str) -> pa.Array:
    """Decimals with as many digits after the point as the longest needs; doubles if one of them is not finite.

    >>> exact([Decimal("1.50"), 2, None], "paise").type
    Decimal128Type(decimal128(38, 1))
    """
    decimals = [None if value is None else Decimal(value) for value in values]
    if not all(value.is_finite() for value in decimals if value is not None):
        return pa.array([None if value is None else float(value) for value in decimals], pa.float64())
    longest = next((value for value in decimals if value is not None and not fits(value, MOST_DIGITS)), None)
    if longest is not None:
        fix = "correct the source"
        raise refused(
            f"column {name}", f"has more digits than {MOST_DIGITS}", shortened(f"{longest:e}", _LONGEST), fix
        )
    with localcontext(prec=1000):
        decimals = [None if value is None else value.normalize() for value in decimals]
        scale = max((-int(value.as_tuple().exponent) for value in decimals if value), default=0)
    try:
        return pa.array(decimals, pa.decimal128(MOST_DIGITS, max(scale, 0)))
    except pa.ArrowInvalid:
        longest = max((value for value in decimals if value), key=lambda value: len(str(value)))
        fix = "round it in the source"
        raise refused(
            f"column {name}", f"has more digits than {MOST_DIGITS}", shortened(f"{longest:f}", _LONGEST), fix
        ) from None


def together(columns: Iterable[pa.ChunkedArray], name: str) -> list[pa.ChunkedArray]:
    """Columns of numbers, all in the type that holds each of them."""
    listed = [numbers(column, name) for column in columns]
    if any(pa.types.is_floating(column.type) for column in listed):
        return [column.cast(pa.float64()) for column in listed]
    scale = max(column.type.scale for column in listed)
    try:
        return [column.cast(pa.decimal128(MOST_DIGITS, scale)) for column in listed]
    except pa.ArrowInvalid:
        trimmed = [pa.chunked_array([exact(column.to_pylist(), name)]) for column in listed]
        scale = max(column.type.scale for column in trimmed)
        try:
            return [column.cast(pa.decimal128(MOST_DIGITS, scale)) for column in trimmed]
        except pa.ArrowInvalid:
            fix = "round it in the source"
            raise refused(f"column {name}", f"needs more than {MOST_DIGITS} digits", fix=fix) from None


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same values in a type that can be computed with: no views, no dictionaries, no long text."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return plain(column.cast(kind.value_type))
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return column.cast(pa.string())
    if pa.types.is_large_binary(kind) or kind == pa.binary_view():
        return column.cast(pa.binary())
    return column


def is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _example(column: pa.ChunkedArray) -> Any:
    """A value to show in an error."""
    return next((value for value in column.to_pylist() if value is not None), None)
