"""The description of raw files, and the conversion of their columns to microseconds and numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.comparable_values import is_number
from latecomer.errors import PipelineError, Problem
from latecomer.model.array_types import Flags, Integers
from latecomer.model.zoned import read

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_FURTHEST = 253_402_300_799_000_000
"""The last second of the year 9999: numbers beyond it, or as far before 1970, are not times."""
_ZONED = r"(Z|[+-]\d\d(:?\d\d)?)$"


@dataclass(frozen=True)
class RawSource:
    """Which files are read, and what their columns mean."""

    path: str
    event_time: str
    arrival: str | None = None
    """None: the rows of a file arrived when the file was last changed."""
    partition: str | None = None
    by: tuple[str, ...] = ()
    producer: str | None = None
    measures: tuple[str, ...] = ()
    unit: str | None = None
    zone: str = "UTC"
    every: int | None = None
    """None: a second, or longer where a long history has too many of them."""
    idle_after: int | None = None
    max_future: int = 300_000_000
    window: int = 60_000_000


def refused(option: str, message: str, value: object, fix: str) -> PipelineError:
    return PipelineError([Problem(option, message, value, fix, "advise")])


def column_of(rows: pa.RecordBatch, name: str) -> pa.Array:
    """A column, or a field of an object where the name has a dot; nulls where the rows do not have it."""
    top, *fields = [name] if name in rows.schema.names else name.split(".")
    if top not in rows.schema.names:
        return pa.nulls(rows.num_rows, pa.string())
    values = rows.column(top)
    try:
        for field in fields:
            values = pc.struct_field(values, field)
    except (pa.ArrowException, KeyError):
        return pa.nulls(rows.num_rows, pa.string())
    kind = values.type
    return (
        values.cast(pa.string())
        if pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
        else values
    )


def as_numbers(values: pa.Array, column: str) -> pa.Array:
    """Numbers, also where they are written as text; null where there is none."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return as_numbers(values.dictionary_decode(), column)
    if pa.types.is_null(kind) or pa.types.is_boolean(kind) or is_number(kind):
        return values
    if not pa.types.is_string(kind):
        reason = f"is a column of type {kind}, which holds no numbers"
        raise refused("--measure", reason, column, "name a column with numbers")
    return _numbers_in(values)


def _numbers_in(texts: pa.Array) -> pa.Array:
    whole = pc.match_substring_regex(texts, r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*$")
    digits = pc.if_else(
        pc.fill_null(whole, False), pc.utf8_trim_whitespace(texts), pa.scalar(None, pa.string())
    )
    return digits.cast(pa.float64())


def require_groupable(values: pa.Array, option: str, column: str) -> None:
    """Refuse a column whose values cannot be told apart as texts can."""
    if pa.types.is_nested(values.type):
        reason = f"is a column of type {values.type}, which holds several values in each row"
        raise refused(option, reason, column, "name a column with one value in each row")


def micros_of(values: pa.Array, source: RawSource, option: str) -> tuple[Integers, Flags]:
    """Times as microseconds, and which of them can be read."""
    moments = _moments(values, source, option)
    readable = moments.is_valid().to_numpy(zero_copy_only=False)
    micros = pc.fill_null(moments.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return np.asarray(micros, np.int64), readable


def _no_times(source: RawSource, option: str, reason: str, fix: str) -> PipelineError:
    column = source.arrival if option == "--arrival" else source.event_time
    return refused(option, reason, column, fix)


def _moments(values: pa.Array, source: RawSource, option: str) -> pa.Array:
    kind = values.type
    if pa.types.is_null(kind):
        return pa.nulls(len(values), pa.timestamp("us", "UTC"))
    if pa.types.is_dictionary(kind):
        return _moments(values.dictionary_decode(), source, option)
    if pa.types.is_date(kind):
        return _in_zone(values.cast(pa.timestamp("us")), source)
    if pa.types.is_timestamp(kind):
        cut = values.cast(pa.timestamp("us", kind.tz), safe=False)
        return cut.cast(pa.timestamp("us", "UTC")) if kind.tz else _in_zone(cut, source)
    if is_number(kind):
        return _of_numbers(values, source, option)
    if pa.types.is_string(kind):
        return _of_texts(pc.utf8_trim_whitespace(values), source, option)
    reason = f"is a column of type {kind}, which holds no times"
    raise _no_times(source, option, reason, "name a column with times")


def _of_numbers(values: pa.Array, source: RawSource, option: str) -> pa.Array:
    if source.unit is None:
        fix = "say what the numbers count: --unit s, ms, us or ns"
        raise _no_times(source, option, "is a column of numbers, and their unit is not given", fix)
    if pa.types.is_integer(values.type):
        whole = values.cast(pa.int64())
        if source.unit == "ns":
            micros = _within(pc.divide(whole, 1_000), _FURTHEST)
        else:
            factor = UNITS[source.unit]
            micros = pc.multiply(_within(whole, _FURTHEST // factor), factor)
    else:
        share = 1e-3 if source.unit == "ns" else float(UNITS[source.unit])
        micros = _within(pc.multiply(values.cast(pa.float64()), share), float(_FURTHEST))
        micros = pc.floor(micros).cast(pa.int64())
    return micros.cast(pa.timestamp("us", "UTC"))


def _within(values: pa.Array, most: float) -> pa.Array:
    """Numbers that are no further from zero than `most`; the others become null."""
    near = pc.and_(pc.less_equal(values, most), pc.greater_equal(values, -most))
    return pc.if_else(near, values, pa.scalar(None, values.type))


_ISO = r"^\d{4}-\d\d-\d\d([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?$"


def _of_texts(texts: pa.Array, source: RawSource, option: str) -> pa.Array:
    if source.unit is not None:
        return _of_numbers(_numbers_in(texts), source, option)
    nothing = pa.scalar(None, pa.string())
    readable = pc.fill_null(pc.match_substring_regex(texts, _ISO), False)
    # Digits beyond microseconds are cut off, as a pipeline does.
    cut = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
    zoned = pc.fill_null(pc.match_substring_regex(cut, r"[T ]\d\d:.*" + _ZONED), False)
    with_zone = pc.if_else(pc.and_(readable, zoned), cut, nothing)
    without = pc.if_else(pc.and_(readable, pc.invert(zoned)), cut, nothing)
    try:
        first = with_zone.cast(pa.timestamp("us", "UTC"))
        second = _in_zone(without.cast(pa.timestamp("us")), source)
    except pa.ArrowInvalid:  # a day that no month has
        one_by_one = pc.if_else(readable, cut, nothing).to_pylist()
        return pa.array([_one(text, source) for text in one_by_one], pa.timestamp("us", "UTC"))
    return pc.coalesce(first, second)


def _one(text: str | None, source: RawSource) -> int | None:
    try:
        return None if text is None else read(text, source.zone)
    except (ValueError, OverflowError):
        return None


def _in_zone(values: pa.Array, source: RawSource) -> pa.Array:
    if source.zone == "UTC":
        return values.cast(pa.timestamp("us", "UTC"))
    zoned = pc.assume_timezone(values, source.zone, ambiguous="earliest", nonexistent="latest")
    return zoned.cast(pa.timestamp("us", "UTC"))
