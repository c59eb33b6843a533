"""Plain JSON lines as typed columns, all at once, or `NotPlain`.

Plain is an object a line, each value of its column's own type. Other quotes, numbers as text, names that come twice and
half characters are left to `json_row.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pj

from latecomer.config.sources import UnknownFields
from latecomer.decode.arrow_text import column_type, require_finite, typed
from latecomer.decode.columns import KEPT
from latecomer.decode.plain import NotPlain
from latecomer.model.paths import ways_of
from latecomer.model.types import is_decimal
from latecomer.model.unknown_fields import BETWEEN, cutting, known_fields

_AS_TEXT = ("date", "timestamp", "timestamp_ntz")
"""Columns that are text in JSON."""
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_LONG_LINE, _LONGEST_LINE = 900, 50_000
"""Jackson takes a thousand levels, numbers of a thousand digits, and names of so many bytes."""
_LONG_NUMBER = re.compile(rb"[-+.0-9eE]{%d}" % _LONG_LINE)
_ZERO_RAISED = (b"0e", b"0E", b".e", b".E", b"\\u00")
_RAISED_FAR = re.compile(rb"[0.](?:[eE]|\\u00[46]5)[-+]?[0-9]{4}")
"""A zero with an exponent that a decimal column does not take; of all other numbers Arrow itself says so."""
_SPACE, _LINE_END, _OPENS, _CLOSES = 0x20, *b"\n{}"
_NO_NUMBERS = (b"NaN", b"Inf")
_NO_NUMBER = re.compile(rb"[^\"\w](?:NaN|Inf|Infinity) *[],}]")
"""What Arrow takes for a number. In other letters, such as `nan` and `INF`, it refuses them by itself."""
_ESCAPED_NAME = re.compile(rb'\\.(?:[^"\\]|\\.){0,64}+(?:"[ \t]*+:|[^"])')
"""A backslash in a text that a colon follows, or that goes on for long: it may be a name, and it is not looked at again
and again."""
_BLOCK = 1 << 20
"""So much is parsed by one thread; no line is as long."""
_MARK = b"\xef\xbb\xbf"
_Places = npt.NDArray[np.int64]


def json_lines(text: bytes, columns: Mapping[str, str], unknown: UnknownFields = "ignore") -> pa.Table:
    """The rows of a text, with these columns; null where a row does not have one.

    Fields that are no columns are passed over; or kept in KEPT, which is there where a row has any; or the text is
    `NotPlain`.
    """
    require_plain_columns(columns)
    kinds = _kinds(columns)
    lines = _plain_lines(text)
    if any(map(is_decimal, columns.values())) and _is_raised_far(text):
        raise NotPlain("a number with a long exponent")
    try:
        rows = _read(text, kinds, others=unknown == "ignore")
        has_others = unknown != "ignore" and b"\\" in text and bool(_ESCAPED_NAME.search(text))
    except NotPlain:
        rows, has_others = _read(text, kinds, others=True), True
    if rows.num_rows != lines:
        raise NotPlain("lines that are not one object each")
    kept = {KEPT: kept_fields(text, columns)} if has_others else {}
    found = pa.table({**{name: _checked(rows.column(name), kind) for name, kind in columns.items()}, **kept})
    if unknown == "dead_letter" and has_others and found.column(KEPT).null_count < found.num_rows:
        raise NotPlain("fields that are no columns")
    return found


def _kinds(columns: Mapping[str, str]) -> dict[str, pa.DataType]:
    """What columns are in JSON."""
    return {name: pa.string() if kind in _AS_TEXT else column_type(kind) for name, kind in columns.items()}


def _options(kinds: Mapping[str, pa.DataType], others: bool) -> dict[str, Any]:
    return {
        "read_options": pj.ReadOptions(block_size=_BLOCK),
        "parse_options": pj.ParseOptions(
            explicit_schema=pa.schema(list(kinds.items())),
            unexpected_field_behavior="ignore" if others else "error",
        ),
    }


def _read(text: bytes, kinds: Mapping[str, pa.DataType], others: bool) -> pa.Table:
    """What Arrow reads, and no other fields; `NotPlain` where there are some, unless `others` may be passed over."""
    try:
        return pj.read_json(pa.BufferReader(text), **_options(kinds, others))
    except pa.ArrowInvalid:
        raise NotPlain("JSON that is not plain") from None


def kept_fields(text: bytes, columns: Mapping[str, str]) -> pa.Array:
    """What is kept of each line of plain JSON, as `decode.unknown.kept` has it; `NotPlain` where one is kept whole."""
    cut = re.compile(cutting(known_fields(columns))[0])
    found = [cut.match(line) for line in text.decode().removesuffix("\n").split("\n")]
    if None in found:
        raise NotPlain("a record that is kept whole")
    left = ("".join(each.groups()).rstrip(BETWEEN) for each in found if each is not None)
    return pa.array([f"{{{each}}}" if each else None for each in left], pa.string())


def _is_raised_far(text: bytes) -> bool:
    return any(each in text for each in _ZERO_RAISED) and _RAISED_FAR.search(text) is not None


def _checked(column: pa.ChunkedArray, kind: str) -> pa.ChunkedArray:
    """A column as Arrow has read it, in its type; `NotPlain` where that is not what Spark reads."""
    if kind == "double":
        require_finite(column)
    if kind in _AS_TEXT:
        return pa.chunked_array([typed(each, kind) for each in column.chunks])
    if is_decimal(kind):
        try:
            column.validate(full=True)  # Arrow reads numbers with more digits than the type has
        except pa.ArrowInvalid:
            raise NotPlain(f"a number beyond {kind}") from None
    return column


def require_plain_columns(columns: Mapping[str, str]) -> None:
    """Decline columns that are not read here, whatever a text holds."""
    for kind in columns.values():
        column_type(kind)
    if ways_of(columns):
        raise NotPlain("columns within objects")


def _plain_lines(text: bytes) -> int:
    """How many lines a text has, each from one bracket to another, and nothing that readers see differently.

    A line end between two objects cannot be within one: so where there are as many objects as lines, each is one.
    """
    body = np.frombuffer(text, np.uint8)[: len(text) - text.endswith(b"\n")]
    if not len(body) or text.startswith(_MARK):
        raise NotPlain("an empty file, or one with a byte order mark")
    ends = np.flatnonzero(body < _SPACE)
    if (body[ends] != _LINE_END).any():
        raise NotPlain("control characters")
    if body[0] != _OPENS or body[-1] != _CLOSES:
        raise NotPlain("lines that are not one object each")
    if (body[ends - 1] != _CLOSES).any() or (body[ends + 1] != _OPENS).any():
        raise NotPlain("lines that are not one object each")
    if b"\\" in text and _HALF_CHARACTER.search(text):
        raise NotPlain("half a character")
    # A single letter is found much faster than a word.
    if any(word[:1] in text and word in text for word in _NO_NUMBERS) and _NO_NUMBER.search(text):
        raise NotPlain("a number that is infinite, or none")
    try:
        if not text.isascii():
            text.decode("utf-8")
    except UnicodeDecodeError:
        raise NotPlain("bytes that are not UTF-8") from None
    begins, sizes = np.append(0, ends + 1), np.diff(ends, prepend=-1, append=len(body)) - 1
    _require_short(text, begins, sizes)
    return len(sizes)


def _require_short(text: bytes, begins: _Places, sizes: _Places) -> None:
    """Decline lines in which something may be longer, or deeper, than Jackson takes."""
    if sizes.max() <= _LONG_LINE:
        return
    if sizes.max() > _LONGEST_LINE or _LONG_NUMBER.search(text):
        raise NotPlain("long lines")
    for nth in np.flatnonzero(sizes > _LONG_LINE):
        line = text[begins[nth] : begins[nth] + sizes[nth]]
        if line.count(b"{") + line.count(b"[") > _LONG_LINE:
            raise NotPlain("long lines")
