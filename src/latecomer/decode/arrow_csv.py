"""CSV as typed columns without Spark: every line read as Spark's reader reads it, or the file `Declined`.

Both readers agree on plain CSV: as many fields in each line as in the header, and quotes only around whole fields. A
field without anything is null. Rows too long or too short, quotes within fields, quotes around nothing and blank lines
are left to Spark (ADR 0056).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from latecomer.config.columns import csv_row
from latecomer.config.sources import UnknownFields
from latecomer.decode.arrow_kept import kept_columns
from latecomer.decode.arrow_text import column_type, typed
from latecomer.decode.columns import KEPT
from latecomer.fast import Declined

_QUOTE, _LINE_END, _SPACE, _TAB = 0x22, 0x0A, 0x20, 0x09
_DELIMITERS = ",;|:\t"
_BLOCK = 8 << 20
_LONGEST_LINE = 1 << 20
_MARK = b"\xef\xbb\xbf"
_REPLACEMENT = b"\xef\xbf\xbd"


def require_plain_csv(columns: Mapping[str, str], delimiter: str) -> None:
    """Decline columns, or a delimiter, that are not read here, whatever a text holds."""
    for kind in columns.values():
        column_type(kind)
    if delimiter not in _DELIMITERS:
        raise Declined(f"CSV with the delimiter {delimiter!r}")


def csv_lines(
    text: bytes,
    columns: Mapping[str, str],
    delimiter: str,
    header: Sequence[str] | None = None,
    unknown: UnknownFields = "ignore",
) -> pa.Table:
    """The rows of a text, with these columns; null where a text does not have one.

    Without a `header` the first line is one. Columns that are not among them are passed over; or kept in KEPT, if there
    are any; or the text is declined.
    """
    require_plain_csv(columns, delimiter)
    text = _plain(text, ord(delimiter))
    names = _header(text, delimiter) if header is None else tuple(header)
    _require_names(names, columns, unknown != "dead_letter")
    lines = text.count(b"\n") - (header is None)
    if lines < 1:
        raise Declined("a file without rows")
    # Under names of their own: columns that are passed over may be called alike.
    wanted = {str(place): name for place, name in enumerate(names) if name in columns or unknown == "keep"}
    try:
        rows = pc_csv.read_csv(
            pa.BufferReader(text),
            read_options=pc_csv.ReadOptions(
                column_names=[str(place) for place in range(len(names))],
                skip_rows=int(header is None),
                block_size=_BLOCK,
            ),
            parse_options=pc_csv.ParseOptions(
                delimiter=delimiter, double_quote=False, escape_char=False, ignore_empty_lines=False
            ),
            convert_options=pc_csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(wanted, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                include_columns=list(wanted),
            ),
        )
    except pa.ArrowInvalid:
        raise Declined("CSV that is not plain") from None
    if rows.num_rows != lines:
        raise Declined("lines that are not one row each")
    found = {
        name: pa.chunked_array([typed(each, columns[name]) for each in rows.column(place).chunks])
        for place, name in wanted.items()
        if name in columns
    }
    extra = {name: rows.column(place) for place, name in wanted.items() if name not in columns}
    return pa.table(
        {
            **{
                name: found[name] if name in found else pa.nulls(lines, column_type(kind))
                for name, kind in columns.items()
            },
            **({KEPT: kept_columns(extra)} if extra else {}),
        }
    )


def _plain(text: bytes, delimiter: int) -> bytes:
    """A text in which readers see the same lines and the same fields, with a line end at the end of each."""
    if not text or text.startswith(_MARK):
        raise Declined("an empty file, or one with a byte order mark")
    if b"\r" in text:
        if text.count(b"\r") != text.count(b"\r\n"):
            raise Declined("a carriage return within a line")
        text = text.replace(b"\r\n", b"\n")
    text = text if text.endswith(b"\n") else text + b"\n"
    if not text.isascii():
        _require_characters(text)
    letters = np.frombuffer(text, np.uint8)
    control = letters < _SPACE
    control[letters == _LINE_END] = False
    if delimiter == _TAB:
        control[letters == _TAB] = False
    if control.any():
        raise Declined("control characters")
    ends = np.flatnonzero(letters == _LINE_END)
    begins = np.concatenate([[0], ends[:-1] + 1])
    written = np.add.reduceat(letters > _SPACE, begins, dtype=np.int64)
    if (
        written.min() == 0 or (ends - begins).max() > _LONGEST_LINE
    ):  # Spark takes a line of tabs for a blank one
        raise Declined("blank lines, or long ones")
    _require_plain_quotes(letters, delimiter)
    return text


def _require_characters(text: bytes) -> None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        raise Declined("bytes that are not UTF-8") from None
    if _REPLACEMENT in text:
        raise Declined("a character that stands for what could not be read")


def _require_plain_quotes(letters: np.ndarray[tuple[int], np.dtype[np.uint8]], delimiter: int) -> None:
    """Decline quotes that are not around a whole field of one line, or around nothing."""
    quotes = np.flatnonzero(letters == _QUOTE)
    if not len(quotes):
        return
    if len(quotes) % 2:
        raise Declined("quotes that are not around a whole field")
    begin, end = quotes[::2], quotes[1::2]
    before = np.where(begin == 0, _LINE_END, letters[begin - 1])
    after = letters[end + 1]
    lines = np.cumsum(letters == _LINE_END)
    whole = ((before == delimiter) | (before == _LINE_END)) & ((after == delimiter) | (after == _LINE_END))
    if not whole.all() or np.any(end - begin == 1) or np.any(lines[begin] != lines[end]):
        raise Declined("quotes that are not around a whole field")


def _header(text: bytes, delimiter: str) -> tuple[str, ...]:
    try:
        return tuple(csv_row(text[: text.index(b"\n")].decode(), delimiter))
    except csv.Error:
        raise Declined("a header that cannot be followed") from None


def _require_names(names: Sequence[str], columns: Mapping[str, str], others: bool) -> None:
    known = [name for name in names if name in columns]
    if len(names) < 2 or not known or len(known) > len(set(known)):
        raise Declined("a header that cannot be followed, or of one column")
    if not others and len(known) < len(names):
        raise Declined("columns that are not declared")
