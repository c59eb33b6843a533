"""Makes columns in their types: of texts, reporting those that the column does not take; of single rows; of nulls.

Texts that are written in the usual way are converted all at once. Each type has a set of characters; for texts of these
Arrow returns the same value as `written.py`, which converts all others one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.array_types import Flags, Integers
from latecomer.model.durations import LATEST
from latecomer.model.written_numbers import POINT, Signs
from latecomer.source.decode.private_columns import BROKEN, CORRUPT, KEPT, POSITION
from latecomer.source.decode.written import Misfit, value_of
from latecomer.store.layout import source_type

_READ = types.INTEGERS | {"double", "string", "boolean", "date", "timestamp", "timestamp_ntz"}
"""The types of columns that are read here, besides decimals."""
_WRITTEN_WITH = {"bigint": b"-0123456789", "double": b"-+.eE0123456789", "decimal": b"-.0123456789"}
_LONGEST_NUMBER = 300
"""Characters of a number, at most."""
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = rf"{DATE}[T ][0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}(\.[0-9]{{1,6}})?"
_USUAL = rf"^{_TIME}Z?$"
"""A moment in the most usual form."""
_ZONE = "(Z|[+-](0[0-9]|1[0-7]):[0-5][0-9])"
_TIMED = rf"^{DATE}([T ][0-9]{{2}}:[0-9]{{2}}(:[0-9]{{2}}(\.[0-9]{{1,9}})?{_ZONE}?)?)?$"
"""A moment with or without seconds, with up to nine of their digits, and with an offset; or only a day. Spark wants
seconds before an offset."""
_ZONED = r"(Z|[+-][0-9]{2}:[0-9]{2})$"
_BEYOND_MICROS = r"(\.[0-9]{6})[0-9]{1,3}"
_FIRST = int(np.datetime64("1900", "us").astype(np.int64))
"""From this year on, all readers agree on calendars and zones."""
_FRACTION = r"-?[0-9]{1,15}(\.[0-9]{1,15})?"
_PLAIN = {
    "bigint": "-?[0-9]{1,18}",
    "int": "-?[0-9]{1,9}",
    "smallint": "-?[0-9]{1,4}",
    "tinyint": "-?[0-9]{1,2}",
    "double": _FRACTION,
    "float": _FRACTION,
    "boolean": "true|false",
    "date": DATE,
    "timestamp": f"{_TIME}Z?",
    "timestamp_ntz": _TIME,
}
"""Patterns for the usual form of each type."""


def of_texts(texts: pa.Array, kind: str, signs: Signs = POINT) -> tuple[pa.Array, Sequence[int]]:
    """A column of texts in its type, null where the text is null; and the indices of texts that it does not take."""
    if kind == "string":
        return texts, ()
    if signs != POINT and types.is_numeric(kind):
        plain = pc.fill_null(pc.match_substring_regex(texts, f"^{signs.pattern()}$"), False)
        column, unread = of_texts(_with_point(pc.if_else(plain, texts, None), signs), kind)
        mask = np.asarray(plain)
        mask[list(unread)] = False
        plain = pa.array(mask)
    else:
        try:
            return _typed(texts, kind), ()
        except NotPlain:
            plain, column = _plain(texts, kind)
    rest = pc.and_(pc.is_valid(texts), pc.invert(plain))
    values, refused = [], []
    for nth, text in zip(np.flatnonzero(rest).tolist(), texts.filter(rest).to_pylist(), strict=True):
        try:
            values.append(value_of(text, kind, signs))
        except Misfit:
            values.append(None)
            refused.append(nth)
    return pc.replace_with_mask(column, rest, array_of(values, kind)), refused


def _with_point(texts: pa.Array, signs: Signs) -> pa.Array:
    """Numbers with a decimal point and without thousands signs."""
    if signs.thousands_sign is not None:
        texts = pc.replace_substring(texts, signs.thousands_sign, "")
    return pc.replace_substring(texts, signs.decimal_sign, ".")


def _plain(texts: pa.Array, kind: str) -> tuple[pa.Array, pa.Array]:
    """Which texts are written in a usual form, and a column with their values."""
    if types.is_numeric(kind) and kind != "float":
        usual = np.ones(len(texts), bool)
        usual[_with_other_letters(texts, kind)] = False
        with suppress(NotPlain):
            return pa.array(usual), _typed(_others_out(texts, pa.array(usual), kind), kind)
    plain = pc.fill_null(pc.match_substring_regex(texts, f"^({_pattern(kind)})$"), False)
    with suppress(NotPlain):
        usual_texts = _others_out(texts, plain, kind)
        return plain, usual_texts.cast(pa.float32()) if kind == "float" else _typed(usual_texts, kind)
    return pa.repeat(False, len(texts)), pa.nulls(len(texts), source_type(kind))


def _others_out(texts: pa.Array, plain: pa.Array, kind: str) -> pa.Array:
    """The texts with others in the place of those that are not plain. For numbers it is "0", because every byte of the
    buffer is checked, even behind a null."""
    if types.is_numeric(kind):
        return pc.if_else(pc.or_(plain, pc.is_null(texts)), texts, "0")
    return pc.if_else(plain, texts, None)


def _pattern(kind: str) -> str:
    if types.is_decimal(kind):
        whole, scale = types.whole_digits(kind), types.scale_of(kind)
        return (
            rf"-?[0-9]{{1,{max(whole, 1)}}}" + (rf"(\.[0-9]{{1,{scale}}})?" if scale else "")
            if whole
            else "0"
        )
    return _PLAIN.get(kind, "[^\x00-\U0010ffff]")


# All at once, or not at all


class NotPlain(Exception):
    """Some values are not in their usual form: the rows are decoded one by one."""


def column_type(kind: str) -> pa.DataType:
    """The Arrow type of a column; `NotPlain` if texts are not converted to it here."""
    if kind not in _READ and not types.is_decimal(kind):
        raise NotPlain(f"a column of type {kind}")
    return source_type(kind)


def _typed(texts: pa.Array, kind: str) -> pa.Array:
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
                micros = _moments(texts, bare=kind == "timestamp_ntz")
                _require_recent(micros)
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
    if len(_with_other_letters(texts, kind)):
        raise NotPlain("a number that is written in another way")
    if (pc.max(pc.binary_length(texts)).as_py() or 0) > _LONGEST_NUMBER:
        raise NotPlain("a long number")
    numbers = texts.cast(wanted)
    if types.is_decimal(kind):
        numbers.validate(full=True)
    if kind == "double" and not pc.all(pc.is_finite(numbers), min_count=0).as_py():
        raise NotPlain("a number that is infinite, or none")
    return numbers


def _with_other_letters(texts: pa.Array, kind: str) -> Integers:
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
    _require_recent(days.cast(pa.timestamp("us")).cast(pa.int64()))
    return days


def _require_recent(micros: pa.Array | pa.ChunkedArray) -> None:
    """Decline times before 1900, which readers interpret differently, and those beyond the calendar."""
    bounds = pc.min_max(micros).as_py()
    if bounds["min"] is not None and not _FIRST <= bounds["min"] <= bounds["max"] <= LATEST:
        raise NotPlain("times before 1900, or beyond the calendar")


def _moments(texts: pa.Array, bare: bool) -> pa.Array:
    """Written times in microseconds; `bare` times must have no zone."""
    usual = pc.all(pc.match_substring_regex(texts, _USUAL), min_count=0).as_py()
    if not usual and not pc.all(pc.match_substring_regex(texts, _TIMED), min_count=0).as_py():
        raise NotPlain("times that are written in another way")
    if bare:
        zoned = pc.ends_with(texts, "Z") if usual else pc.match_substring_regex(texts, _ZONED)
        if pc.any(zoned, min_count=0).as_py():
            raise NotPlain("times with a zone")
    return _in_utc(texts, usual)


def _in_utc(texts: pa.Array, usual: bool) -> pa.Array:
    """Times in microseconds; those without a zone count as UTC. Those in the `usual` form have none, or Z."""
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


# Rows


def array_of(values: Sequence[Any], kind: str) -> pa.Array:
    """Values as a column; days and moments are given as numbers."""
    return pa.array(values, source_type(kind))


def null_columns(columns: Mapping[str, str], count: int) -> dict[str, pa.Array]:
    """These columns, null in so many rows."""
    return {name: pa.nulls(count, source_type(kind)) for name, kind in columns.items()}


def broken_row(
    columns: Mapping[str, str], reason: str, position: int = 0, first: bytes | None = None
) -> pa.Table:
    """The one row that stands for a file, or for a part of it, that cannot be read; `first` are its first bytes."""
    corrupt = {} if first is None else {CORRUPT: pa.array([first], pa.binary())}
    return pa.table(
        {
            **null_columns(columns, 1),
            **corrupt,
            BROKEN: pa.array([reason], pa.string()),
            POSITION: pa.array([position], pa.int64()),
        }
    )


def with_rows(
    columns: Mapping[str, pa.Array], kinds: Mapping[str, str], mask: Flags, rows: Sequence[Mapping[str, Any]]
) -> dict[str, pa.Array]:
    """The columns with these rows where the mask is true."""
    if not rows:
        return dict(columns)
    replaced, places = {}, pa.array(mask)
    take = np.arange(len(mask))
    take[mask] = np.arange(len(mask), len(mask) + len(rows))
    for name, kind in kinds.items():
        values = array_of([row.get(name) for row in rows], kind)
        if types.nested_type(kind) is None:
            replaced[name] = pc.replace_with_mask(columns[name], places, values)
        else:
            replaced[name] = pa.concat_arrays([columns[name], values]).take(pa.array(take))
    return replaced


def marked(
    columns: Mapping[str, pa.Array], count: int, corrupt: Mapping[int, bytes], kept: Mapping[int, str]
) -> pa.Table:
    """So many rows with CORRUPT, and with KEPT if one has unknown fields; both are given by row."""
    marks = {CORRUPT: sparse(count, corrupt, pa.binary())}
    if kept:
        marks[KEPT] = sparse(count, kept, pa.string())
    return pa.table({**columns, **marks})


def sparse(count: int, values: Mapping[int, Any], kind: pa.DataType) -> pa.Array:
    """A column with values in some rows and nulls elsewhere."""
    if not values:
        return pa.nulls(count, kind)
    rows, mask = sorted(values), np.zeros(count, bool)
    mask[rows] = True
    return pc.replace_with_mask(pa.nulls(count, kind), pa.array(mask), pa.array(map(values.get, rows), kind))
