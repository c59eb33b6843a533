"""Converts columns of written times to microseconds, null where a value is no time; and the order of arrival."""

from __future__ import annotations

from decimal import ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.array_types import Flags, Micros
from latecomer.model.durations import EARLIEST, LATEST
from latecomer.model.time_formats import MONTHS, TimeFormat, time_format
from latecomer.model.written_times import written_moment
from latecomer.model.zones import to_utc

_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_ZONE = "(Z|[+-](0[0-9]|1[0-7])(:?[0-5][0-9])?)"
_CLOCK = rf"([T ]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9](\.[0-9]{{1,6}})?{_ZONE}?)?)?"
_MONTH = r"[0-9]{4}-(0[1-9]|1[0-2])"
_USUAL = rf"^{_MONTH}-(0[1-9]|[12][0-9]|3[01]){_CLOCK}$"
"""The usual ways to write a moment, which Arrow reads correctly: with or without parts of a second, seconds, the time,
and with an offset after seconds."""
_SURE = rf"^{_MONTH}-(0[1-9]|1[0-9]|2[0-8]){_CLOCK}$"
"""The same, only for days that every month has."""
_ZONED = rf":[0-9]{{2}}(\.[0-9]+)?{_ZONE}$"
_SECONDS = len("2026-11-01 18:30:00")
_FIRST = int(np.datetime64("1900", "us").astype(np.int64))
"""From here on Arrow and Python agree on the clocks of zones."""
_LAST = int(np.datetime64("2037", "us").astype(np.int64))
"""Up to here changes of clocks are listed one by one. Arrow ignores the rules for later years."""
_WIDE = Context(prec=80)
_EXACT = float(1 << 53)
"""Below it, a double has whole numbers exactly."""
_LONG = 1 << 63


def micros(column: pa.Array, kind: str, unit: str | None, zone: str, pattern: str | None = None) -> pa.Array:
    """Written times in microseconds; null where one is missing, or cannot be read. A text that does not match the
    `pattern` is read as ISO-8601."""
    if kind in types.INTEGERS:
        return _of_integers(column.cast(pa.int64()), unit or "s")
    if kind == "string":
        return of_texts(column if pattern is None else _as_iso(column, time_format(pattern)), zone)
    if kind == "timestamp":
        return column.cast(pa.int64())
    if kind in ("timestamp_ntz", "date"):
        return of_wall_clock(column.cast(pa.timestamp("us")).cast(pa.int64()), zone)
    return _of_fractions(column, unit or "s")


def of_texts(texts: pa.Array, zone: str) -> pa.Array:
    """Times as texts. Each must begin with a date: a cast would read `2026` as a year and `12:30` as today's time."""
    moments = _of_whole_texts(texts, zone)
    if moments is not None:
        return moments
    try:
        return _of_texts(texts, zone, _USUAL)
    except pa.ArrowInvalid:  # one is a day that its month does not have; Arrow does not tell which
        return _of_texts(texts, zone, _SURE)


def _as_iso(texts: pa.Array, form: TimeFormat) -> pa.Array:
    """Texts of a form as ISO-8601; those of another form as they are."""
    found = pc.extract_regex(texts, form.regex)

    def part(name: str, otherwise: str) -> pa.Array:
        if name not in form.parts:
            return pa.scalar(otherwise)
        return _two_digits(pc.struct_field(found, name))

    year, month, hour = part("year", ""), part("month", ""), part("hour", "00")
    if "short_year" in form.parts:
        year = pc.binary_join_element_wise("20", part("short_year", ""), "")
    if "month_name" in form.parts:
        names = pc.utf8_lower(part("month_name", ""))
        month = _two_digits(pc.add(pc.index_in(names, pa.array(MONTHS)), 1))
    if "half" in form.parts:
        of_half, after_noon = part("half_hour", ""), pc.equal(pc.utf8_lower(part("half", "")), "pm")
        whole = pc.if_else(pc.equal(of_half, "12"), "00", of_half)
        later = _two_digits(pc.add(whole.cast(pa.int32()), 12))
        sure = pc.match_substring_regex(of_half, "^(0[1-9]|1[0-2])$")
        hour = pc.if_else(sure, pc.if_else(after_noon, later, whole), "99")
    fraction = pc.struct_field(found, "fraction") if "fraction" in form.parts else pa.scalar("0")
    offset = pc.struct_field(found, "offset") if "offset" in form.parts else pa.scalar("")
    date = pc.binary_join_element_wise(year, month, part("day", ""), "-")
    clock = pc.binary_join_element_wise(hour, part("minute", "00"), part("second", "00"), ":")
    iso = pc.binary_join_element_wise(date, "T", clock, ".", fraction, offset, "")
    return pc.if_else(found.is_valid(), iso, texts)


def _two_digits(numbers: pa.Array) -> pa.Array:
    return pc.utf8_lpad(numbers.cast(pa.string()), 2, "0")


def _of_whole_texts(texts: pa.Array, zone: str) -> pa.Array | None:
    """Texts that all have seconds, and end with Z either all or none; else None. Arrow may misread shorter texts."""
    shortest = pc.min(pc.binary_length(texts)).as_py() or 0
    zoned = flags(pc.ends_with(texts, "Z"))
    try:
        if shortest > _SECONDS and zoned[flags(texts.is_valid())].all():
            return texts.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        if shortest >= _SECONDS and not zoned.any():
            return of_wall_clock(texts.cast(pa.timestamp("us")).cast(pa.int64()), zone)
    except pa.ArrowInvalid:  # one is written in another way
        pass
    return None


def _of_texts(texts: pa.Array, zone: str, pattern: str) -> pa.Array:
    usual = flags(pc.match_substring_regex(texts, pattern))
    if usual.all():
        return _usual(texts, zone)
    found, read = np.zeros(len(texts), np.int64), usual.copy()
    found[usual] = np.asarray(_usual(texts.filter(pa.array(usual)), zone))
    odd = np.flatnonzero(~usual & flags(texts.is_valid()))
    for nth, text in zip(odd, texts.take(pa.array(odd)).to_pylist(), strict=True):
        moment = written_moment(text, zone) if len(text.encode()) >= 10 and text.find("-") == 4 else None
        if moment is not None:
            found[nth], read[nth] = moment, True
    return pa.array(found, mask=~read)


def _usual(texts: pa.Array, zone: str) -> pa.Array:
    zoned = flags(pc.match_substring_regex(texts, _ZONED))
    if zoned.all():
        return texts.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    bare = texts.filter(pa.array(~zoned)).cast(pa.timestamp("us")).cast(pa.int64())
    found = np.zeros(len(texts), np.int64)
    found[~zoned] = np.asarray(of_wall_clock(bare, zone))
    if zoned.any():
        found[zoned] = np.asarray(_usual(texts.filter(pa.array(zoned)), zone))
    return pa.array(found)


def of_wall_clock(local: pa.Array, zone: str) -> pa.Array:
    """The instants at which the clock of a zone shows these times; the earlier one, if it shows a time twice. All in
    microseconds."""
    if zone == "UTC" or not len(local):
        return local
    shown = np.asarray(local.fill_null(0))
    valid = flags(local.is_valid())
    listed = (shown >= _FIRST) & (shown < _LAST)
    if listed[valid].all():
        try:
            moments = pc.assume_timezone(
                local.cast(pa.timestamp("us")), zone, ambiguous="earliest", nonexistent="raise"
            )
            return moments.cast(pa.int64())
        except pa.ArrowInvalid:  # the clock skips one of them; Arrow does not tell which
            pass
    different, nth = np.unique(shown[valid], return_inverse=True)
    found = np.zeros(len(shown), np.int64)
    found[valid] = np.array([to_utc(int(each), zone) for each in different], np.int64)[nth]
    return pa.array(found, mask=~valid)


def _of_integers(numbers: pa.Array, unit: str) -> pa.Array:
    if unit == "ns":
        # numpy, and what is built with it, takes the least number as "no time".
        valid = flags(numbers.is_valid()) & flags(pc.not_equal(numbers, -_LONG))
        return pa.array(np.floor_divide(np.asarray(numbers.fill_null(0)), 1000), mask=~valid)
    most = (_LONG - 1) // _MICROS[unit]
    within = pc.and_(pc.less_equal(numbers, most), pc.greater_equal(numbers, -most))
    return pc.multiply(pc.if_else(within, numbers, pa.scalar(None, pa.int64())), _MICROS[unit])


def _of_fractions(column: pa.Array, unit: str) -> pa.Array:
    """Decimals and floating point numbers: rounded to the microsecond; nanoseconds are rounded down."""
    if not pa.types.is_floating(column.type) or unit == "ns":
        return _one_by_one(column, unit)
    with np.errstate(over="ignore"):
        product = np.asarray(column.cast(pa.float64()).fill_null(np.nan)) * _MICROS[unit]
    exact = np.abs(product) < _EXACT
    size = np.where(exact, np.abs(product), 0)
    rounded = np.copysign(np.floor(size) + (size - np.floor(size) >= 0.5), product)
    moments = pa.array(rounded.astype(np.int64), mask=~exact)
    odd = pa.array(~exact)
    return pc.replace_with_mask(moments, odd, _one_by_one(column.filter(odd), unit))


def _one_by_one(column: pa.Array, unit: str) -> pa.Array:
    found = [None if each is None else _rounded(each, unit) for each in column.to_pylist()]
    return pa.array(found, pa.int64())


def _rounded(number: Decimal | float, unit: str) -> int | None:
    if unit == "ns":
        times, rounding = Decimal("0.001"), ROUND_FLOOR
    else:
        times, rounding = Decimal(_MICROS[unit]), ROUND_HALF_UP
        if isinstance(number, float):  # multiplied as a double, as Spark does
            number, times = number * _MICROS[unit], Decimal(1)
    exact = Decimal(repr(number)) if isinstance(number, float) else number
    if not exact.is_finite():
        return None
    whole = int(_WIDE.multiply(exact, times).to_integral_value(rounding))
    return whole if -_LONG <= whole < _LONG else None


def possible(moments: pa.Array) -> pa.Array:
    """Microseconds within the calendar; null outside it."""
    within = pc.and_(pc.greater_equal(moments, EARLIEST), pc.less_equal(moments, LATEST))
    return pc.if_else(within, moments, pa.scalar(None, pa.int64()))


def flags(column: pa.Array) -> Flags:
    """Where a column is true."""
    return np.asarray(column.fill_null(False), bool)


# The order of arrival


def event_numbers(
    arrival: Micros, origin: pa.ChunkedArray, position: pa.ChunkedArray, landed: Micros | None = None
) -> Micros:
    """Which event each is in the order of `every: event`, counted from 1: by arrival, landing, origin and position. The
    log does not keep when a file landed: events that are counted from it go without that."""
    _, place = np.unique(np.asarray(origin.cast(pa.binary())), return_inverse=True)
    return counted_by(arrival, *([] if landed is None else [landed]), place, np.asarray(position))


def counted_by(*columns: Micros) -> Micros:
    """Where each row comes in the order of these columns, the first of them first, counted from 1.

    >>> counted_by(np.array([7, 5, 7]), np.array([2, 9, 1])).tolist()
    [3, 1, 2]
    """
    order = np.lexsort(columns[::-1])
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.arange(1, len(order) + 1)
    return numbers
