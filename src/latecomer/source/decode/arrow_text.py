"""Converts columns of text to their types, all values at once, or raises `NotPlain`.

Only values that are written in the usual way are converted. Each type has a set of characters; for texts of these Arrow
returns the same value as `written.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.array_types import Integers
from latecomer.model.durations import LATEST
from latecomer.store.layout import source_type

_READ = types.INTEGERS | {"double", "string", "boolean", "date", "timestamp", "timestamp_ntz"}
"""The types of columns that are read here, besides decimals."""
_WRITTEN_WITH = {"bigint": b"-0123456789", "double": b"-+.eE0123456789", "decimal": b"-.0123456789"}
_LONGEST_NUMBER = 300
"""Characters of a number, at most."""
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_USUAL = rf"^{DATE}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?Z?$"
"""A moment in the most usual form."""
_ZONE = "(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])"
_TIMED = rf"^{DATE}([T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,9}})?{_ZONE}?)?)?$"
"""A moment with or without seconds, with up to nine of their digits, and with an offset; or only a day. Spark wants
seconds before an offset."""
_ZONED = r"(Z|[+-][0-9]{2}:[0-9]{2})$"
_BEYOND_MICROS = r"(\.[0-9]{6})[0-9]{1,3}"
_FIRST = int(np.datetime64("1900", "us").astype(np.int64))
"""From this year on, all readers agree on calendars and zones."""
_LAST_LISTED = int(np.datetime64("2037", "us").astype(np.int64))
"""Arrow knows the clock changes that are listed one by one, but not the rules for the years after them."""


class NotPlain(Exception):
    """Some values are not in their usual form: the rows are decoded one by one."""


def column_type(kind: str) -> pa.DataType:
    """The Arrow type of a column; `NotPlain` if texts are not converted to it here."""
    if kind not in _READ and not types.is_decimal(kind):
        raise NotPlain(f"a column of type {kind}")
    return source_type(kind)


def typed(texts: pa.Array, kind: str) -> pa.Array:
    """A column of texts in its type; null where the text is null."""
    wanted = column_type(kind)
    try:
        match kind:
            case "string":
                return texts
            case "boolean":
                return _booleans(texts)
            case "date":
                return _dates(texts)
            case "timestamp" | "timestamp_ntz":
                micros = moments(texts, bare=kind == "timestamp_ntz")
                require_recent(micros)
                return micros.cast(wanted)
        return _numbers(texts, kind, wanted)
    except pa.ArrowInvalid:
        raise NotPlain(f"a text that is no {kind}") from None


def _booleans(texts: pa.Array) -> pa.Array:
    yes = pc.equal(texts, "true")
    if not pc.all(pc.or_(yes, pc.equal(texts, "false")), min_count=0).as_py():
        raise NotPlain("a text that is no boolean")
    return yes


def _numbers(texts: pa.Array, kind: str, wanted: pa.DataType) -> pa.Array:
    if len(with_other_letters(texts, kind)):
        raise NotPlain("a number that is written in another way")
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _LONGEST_NUMBER:
        raise NotPlain("a long number")
    numbers = texts.cast(wanted)
    if types.is_decimal(kind):
        numbers.validate(full=True)
    if kind == "double" and not pc.all(pc.is_finite(numbers), min_count=0).as_py():
        raise NotPlain("a number that is infinite, or none")
    return numbers


def with_other_letters(texts: pa.Array, kind: str) -> Integers:
    """The indices of texts with characters that numbers of this type usually do not have: spaces, digits of other
    scripts, letters of hexadecimal numbers."""
    letters = "decimal" if types.is_decimal(kind) else "double" if kind in types.FLOATS else "bigint"
    allowed = np.zeros(256, bool)
    allowed[np.frombuffer(_WRITTEN_WITH[letters], np.uint8)] = True
    offsets, data = texts.buffers()[1:3]
    if data is None or not len(texts):
        return np.zeros(0, np.int64)
    places = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    other = np.flatnonzero(~allowed[np.frombuffer(data, np.uint8)[places[0] : places[-1]]])
    if not len(other):
        return other
    return np.unique(np.searchsorted(places, other + places[0], side="right") - 1)


def _dates(texts: pa.Array) -> pa.Array:
    if not pc.all(pc.match_substring_regex(texts, f"^{DATE}$"), min_count=0).as_py():
        raise NotPlain("a day that is written in another way")
    days = texts.cast(pa.date32())
    require_recent(days.cast(pa.timestamp("us")).cast(pa.int64()))
    return days


def require_recent(micros: pa.Array | pa.ChunkedArray) -> None:
    """Decline times before 1900, which readers interpret differently, and those beyond the calendar."""
    bounds = pc.min_max(micros).as_py()
    if bounds["min"] is not None and not _FIRST <= bounds["min"] <= bounds["max"] <= LATEST:
        raise NotPlain("times before 1900, or beyond the calendar")


def moments(texts: pa.Array, zone: str = "UTC", bare: bool = False) -> pa.Array:
    """Written times in microseconds; those without a zone are wall clock times of `zone`. `bare` times must have no
    zone."""
    usual = pc.all(pc.match_substring_regex(texts, _USUAL), min_count=0).as_py()
    if not usual and not pc.all(pc.match_substring_regex(texts, _TIMED), min_count=0).as_py():
        raise NotPlain("times that are written in another way")
    if zone == "UTC" and not bare:
        return _in_utc(texts, usual)
    zoned = pc.ends_with(texts, "Z") if usual else pc.match_substring_regex(texts, _ZONED)
    some = pc.any(zoned, min_count=0).as_py()
    if some and (bare or not pc.all(zoned, min_count=0).as_py()):
        raise NotPlain("times with a zone" if bare else "times with a zone among others without")
    micros = _in_utc(texts, usual)
    return micros if some or zone == "UTC" else at_wall_clock(micros, zone)


def at_wall_clock(local: pa.Array, zone: str) -> pa.Array:
    """The instants at which the clock of a zone shows these times, the earlier of two, in microseconds."""
    require_recent(local)
    if (pc.max(local).as_py() or 0) >= _LAST_LISTED:
        raise NotPlain("times on wall clocks from 2037 on")
    try:
        shown = local.cast(pa.timestamp("us"))
        return pc.assume_timezone(shown, zone, ambiguous="earliest", nonexistent="raise").cast(pa.int64())
    except pa.ArrowInvalid:
        raise NotPlain("times that the clock of a zone leaves out") from None


def _in_utc(texts: pa.Array, usual: bool) -> pa.Array:
    """Times in microseconds; those without a zone count as UTC."""
    try:
        if usual:
            return pc.utf8_rtrim(texts, "Z").cast(pa.timestamp("us")).cast(pa.int64())
        micros = pc.replace_substring_regex(texts, _BEYOND_MICROS, r"\1")
        of_days = pc.match_substring_regex(micros, f"^{DATE}$")
        timed = pc.if_else(of_days, pc.binary_join_element_wise(micros, "T00:00", ""), micros)
        has_zone = pc.match_substring_regex(timed, _ZONED)
        zoned = pc.if_else(has_zone, timed, pc.binary_join_element_wise(timed, "Z", ""))
        return zoned.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    except pa.ArrowInvalid:
        raise NotPlain("times that are none") from None
