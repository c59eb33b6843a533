"""JSON lines as typed columns without Spark: every line read as Spark's reader reads it, or the file `Declined`.

Both readers agree on plain JSON: an object a line, each value of its column's own type. What they may see differently
is left to Spark: other quotes, other line ends, numbers as text, names that come twice, half characters (ADR 0056).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from latecomer.fast import Declined
from latecomer.model.paths import ways_of

_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "tinyint": pa.int8(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
}
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_LONG_LINE, _LONGEST_LINE = 900, 50_000
"""Jackson takes a thousand levels, numbers of a thousand digits, and names of so many bytes."""
_LONG_NUMBER = re.compile(rb"[-+.0-9eE]{%d}" % _LONG_LINE)
_SPACE = 0x20
_NO_NUMBERS = (b"NaN", b"nan", b"Inf", b"INF", b"inf")
_NO_NUMBER = re.compile(rb"[^\"\w](?:%s)" % b"|".join(_NO_NUMBERS))
"""What some readers take for a number, and each another part of it."""
_BLOCK = 1 << 20
"""So much is parsed by one thread; no line is as long."""
_MARK = b"\xef\xbb\xbf"


def json_lines(text: bytes, columns: Mapping[str, str], others: bool = True) -> pa.Table:
    """The rows of a text, with these columns and no other; null where a row does not have one.

    Rows may have `others`, which are passed over; without it such a text is declined.
    """
    require_plain_columns(columns)
    kinds = {name: _TYPES[kind] for name, kind in columns.items()}
    lines = _plain_lines(text)
    try:
        rows = pj.read_json(
            pa.BufferReader(text),
            read_options=pj.ReadOptions(block_size=_BLOCK),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema(list(kinds.items())),
                unexpected_field_behavior="ignore" if others else "error",
            ),
        )
    except pa.ArrowInvalid:
        raise Declined("JSON that is not plain") from None
    if rows.num_rows != lines:
        raise Declined("lines that are not one object each")
    for name, kind in columns.items():
        if kind == "double" and not _all_finite(rows.column(name)):
            raise Declined("a number that is infinite, or none")
    return rows.select(list(columns))


def require_plain_columns(columns: Mapping[str, str]) -> None:
    """Decline columns that are not read here, whatever a text holds."""
    if other := next((kind for kind in columns.values() if kind not in _TYPES), None):
        raise Declined(f"JSON with a column of type {other}")
    if ways_of(columns):
        raise Declined("columns within objects")


def _plain_lines(text: bytes) -> int:
    """How many lines a text has, each from one bracket to another, and nothing that readers see differently.

    A line end between two objects cannot be within one: so where there are as many objects as lines, each is one.
    """
    body = text[:-1] if text.endswith(b"\n") else text
    if not body or text.startswith(_MARK):
        raise Declined("an empty file, or one with a byte order mark")
    lines = body.count(b"\n") + 1
    if not (body.startswith(b"{") and body.endswith(b"}") and body.count(b"}\n{") == lines - 1):
        raise Declined("lines that are not one object each")
    if np.count_nonzero(np.frombuffer(body, np.uint8) < _SPACE) >= lines:
        raise Declined("control characters")
    if b"\\" in text and _HALF_CHARACTER.search(text):
        raise Declined("half a character")
    if any(word in text for word in _NO_NUMBERS) and _NO_NUMBER.search(text):
        raise Declined("a number that is infinite, or none")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        raise Declined("bytes that are not UTF-8") from None
    _require_short(text, body)
    return lines


def _require_short(text: bytes, body: bytes) -> None:
    """Decline lines in which something may be longer, or deeper, than Jackson takes."""
    ends = np.flatnonzero(np.frombuffer(body, np.uint8) == 10)
    sizes = np.diff(np.concatenate([[-1], ends, [len(body)]])) - 1
    if sizes.max() <= _LONG_LINE:
        return
    if sizes.max() > _LONGEST_LINE or _LONG_NUMBER.search(text):
        raise Declined("long lines")
    begins = np.concatenate([[0], ends + 1])
    for nth in np.flatnonzero(sizes > _LONG_LINE):
        line = body[begins[nth] : begins[nth] + sizes[nth]]
        if line.count(b"{") + line.count(b"[") > _LONG_LINE:
            raise Declined("long lines")


def _all_finite(column: pa.ChunkedArray) -> bool:
    return bool(pc.all(pc.is_finite(column), min_count=0).as_py())
