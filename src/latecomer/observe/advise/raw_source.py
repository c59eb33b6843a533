"""What raw files are, and their columns with times: as people name them, and as microseconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.errors import PipelineError, Problem
from latecomer.model.lateness.histogram import Flags, Whole

UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_ZONED = r"(Z|[+-]\d\d(:?\d\d)?)$"


@dataclass(frozen=True)
class RawSource:
    """Which files, and which of their columns are what."""

    path: str
    event_time: str
    arrival: str | None = None
    """None: a file's rows arrived when it was last changed."""
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
    """A column, or a field of an object where the name has a dot; nulls where it is not there."""
    if name in rows.schema.names:
        return rows.column(name)
    top, *fields = name.split(".")
    if top in rows.schema.names:
        found = rows.column(top)
        try:
            for field in fields:
                found = pc.struct_field(found, field)
            return found
        except (pa.ArrowException, KeyError):
            pass
    return pa.nulls(rows.num_rows, pa.string())


def as_numbers(values: pa.Array) -> pa.Array:
    """Numbers, also where they are written as text; null where there is none."""
    if not pa.types.is_string(values.type):
        return values
    whole = pc.match_substring_regex(values, r"^\s*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?\s*$")
    digits = pc.if_else(
        pc.fill_null(whole, False), pc.utf8_trim_whitespace(values), pa.scalar(None, pa.string())
    )
    return digits.cast(pa.float64())


def micros_of(values: pa.Array, source: RawSource, option: str) -> tuple[Whole, Flags]:
    """Times as microseconds, and which of them can be read."""
    found = _moments(values, source, option)
    there = found.is_valid().to_numpy(zero_copy_only=False)
    return np.asarray(pc.fill_null(found.cast(pa.int64()), 0).to_numpy(zero_copy_only=False), np.int64), there


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
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _of_numbers(values, source, option)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _of_texts(pc.utf8_trim_whitespace(values.cast(pa.string())), source, option)
    raise refused(
        option,
        f"is a column of type {kind}, which holds no times",
        source.event_time,
        "name a column with times",
    )


def _of_numbers(values: pa.Array, source: RawSource, option: str) -> pa.Array:
    if source.unit is None:
        fix = "say what the numbers count: --unit s, ms, us or ns"
        raise refused(option, "the column has numbers, and their unit is not said", option, fix)
    if pa.types.is_integer(values.type):
        whole = values.cast(pa.int64())
        micros = pc.divide(whole, 1_000) if source.unit == "ns" else pc.multiply(whole, UNITS[source.unit])
    else:
        factor = 1e-3 if source.unit == "ns" else float(UNITS[source.unit])
        micros = pc.multiply(values.cast(pa.float64()), factor)
        near = pc.is_finite(micros)
        micros = pc.floor(pc.if_else(near, micros, pa.scalar(None, pa.float64()))).cast(
            pa.int64(), safe=False
        )
    return micros.cast(pa.timestamp("us", "UTC"))


_ISO = r"^\d{4}-\d\d-\d\d([T ]([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?$"


def _of_texts(texts: pa.Array, source: RawSource, option: str) -> pa.Array:
    if source.unit is not None:
        return _of_numbers(as_numbers(texts), source, option)
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
        return pa.array([_one(text, source) for text in texts.to_pylist()], pa.timestamp("us", "UTC"))
    return pc.coalesce(first, second)


def _one(text: str | None, source: RawSource) -> int | None:
    from latecomer.model.zoned import read

    try:
        return None if text is None else read(text, source.zone)
    except (ValueError, OverflowError):
        return None


def _in_zone(values: pa.Array, source: RawSource) -> pa.Array:
    if source.zone == "UTC":
        return values.cast(pa.timestamp("us", "UTC"))
    found = pc.assume_timezone(values, source.zone, ambiguous="earliest", nonexistent="latest")
    return found.cast(pa.timestamp("us", "UTC"))
