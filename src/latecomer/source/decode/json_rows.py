"""Lines of JSON as typed columns: Arrow reads plain lines, and `json_row.py` all others, one by one.

In the text that Arrow reads, each line that is not plain is replaced by `{}`. Most of these lines are found by their
characters. If Arrow still refuses the text, they are found by patterns, and at last by trying a few lines at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from latecomer.config.sources import UnknownFields
from latecomer.model import types
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.paths import as_objects, paths_of
from latecomer.model.unknown_fields import BETWEEN, cutting, known_fields
from latecomer.model.written_numbers import AS_USUAL, POINT, Numbers
from latecomer.source.decode.base import RecordDecoder
from latecomer.source.decode.json_row import JsonRow, ReadRecord
from latecomer.source.decode.text_lines import Lines
from latecomer.source.decode.typed_columns import NotPlain, marked, null_columns, of_texts, with_rows
from latecomer.store.layout import source_type

_OPENS, _CLOSES = b"{}"
_BLANK = b" \t\r\n"
_AS_TEXT = ("date", "timestamp", "timestamp_ntz", "binary")
"""Columns that are text in JSON."""
_BY_ARROW = frozenset({*types.INTEGERS, *types.FLOATS, "string", "boolean"})
"""Types that Arrow reads within lists too."""
_LONG_LINE, _LONGEST_LINE = 900, 50_000
"""Only lines longer than the first may have too many levels or digits; only those longer than the second, too long
names."""
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_NO_NUMBER = re.compile(rb"[^\"\w](?:NaN|Inf|Infinity) *[],}]")
_RAISED_FAR = re.compile(rb"[0.](?:[eE]|\\u00[46]5)[-+]?[0-9]{4}")
_ESCAPED_NAME = re.compile(rb'\\.(?:[^"\\]|\\.){0,64}+(?:"[ \t]*+:|[^"])')
"""A backslash in a text before a colon, or in a long text: it may be in a name."""
_BLOCK = 1 << 20
_FEW, _ATTEMPTS = 512, 8
"""Lines that are tried together when Arrow refuses the text, and attempts before all of them are read one by one."""
_IN_ROW = re.compile(r" in row (\d+)")
_TEXT_PATTERN = r'"(?:[^"\\]|\\.)*"'
_VALUE_PATTERN = rf"(?:{_TEXT_PATTERN}|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null)"
_FIELD_PATTERN = rf"[ \t]*{_TEXT_PATTERN}[ \t]*:[ \t]*{_VALUE_PATTERN}[ \t]*"
_FLAT_OBJECT = rf"^\{{(?:(?:{_FIELD_PATTERN},)*{_FIELD_PATTERN}|[ \t]*)\}}\n$"
_MOST_SUSPECT = 0.3


@dataclass(frozen=True)
class JsonLines:
    """Reads lines with these columns."""

    columns: Mapping[str, str]
    unknown: UnknownFields = "ignore"
    """What is done with unknown fields."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Fields that count as known, besides the columns."""
    blank_rows: bool = False
    """Whether a blank line is a corrupt record; if not, it has no row."""
    numbers: Numbers = AS_USUAL

    def read(self, lines: Lines) -> pa.Table:
        """The columns, CORRUPT, and KEPT if a row has unknown fields."""
        odd = self._odd(lines)
        plain, has_others = self._plain(lines, odd)
        rows = {nth: self._odd_row(lines, nth) for nth in np.flatnonzero(odd).tolist()}
        columns = with_rows(plain, self.columns, odd, [row.values for row in rows.values()])
        corrupt = {nth: lines.bytes_of(nth) for nth, row in rows.items() if not row.whole}
        kept = self._kept(lines, odd, rows, has_others)
        if self.unknown == "dead_letter":
            corrupt |= {nth: lines.bytes_of(nth) for nth in kept}
        table = marked(columns, len(lines), corrupt, kept)
        return table if self.blank_rows else self._without_blanks(table, lines, odd)

    def read_plain(self, lines: Lines) -> pa.Table:
        """The columns of lines; `NotPlain` unless all of them are plain and have no unknown fields that count."""
        odd = self._odd(lines)
        if not len(lines) or odd.any():
            raise NotPlain("a line that is not plain")
        columns, has_others = self._plain(lines, odd)
        if has_others or odd.any():
            raise NotPlain("a line that is not plain, or has other fields")
        return pa.table(columns)

    # Lines that are not plain

    def _odd(self, lines: Lines) -> Flags:
        """Lines that must be read one by one."""
        if not len(lines) or not self._by_arrow:
            return np.ones(len(lines), bool)
        letters, begins, ends, text = lines.letters, lines.begins, lines.ends, lines.body
        odd: Flags = (letters[begins] != _OPENS) | (letters[ends - 1] != _CLOSES)
        if len(lines.controls) > len(lines):
            odd[lines.holding(np.setdiff1d(lines.controls, ends, assume_unique=True))] = True
        odd[lines.not_utf8()] = True
        for pattern in self._odd_patterns(text):
            odd[lines.holding(np.array([each.start() for each in pattern.finditer(text)], np.int64))] = True
        for nth in np.flatnonzero(ends - begins > _LONG_LINE).tolist():
            line = lines.utf8_of(nth)
            odd[nth] |= len(line) > _LONGEST_LINE or line.count(b"{") + line.count(b"[") > _LONG_LINE
            odd[nth] |= re.search(rb"[-+.0-9eE]{%d}" % _LONG_LINE, line) is not None
        return odd

    def _odd_patterns(self, text: bytes) -> Iterator[re.Pattern[bytes]]:
        # To look for a single letter is much faster than for a word.
        if b"\\" in text:
            yield _HALF_CHARACTER
        if any(word[:1] in text and word in text for word in (b"NaN", b"Inf")):
            yield _NO_NUMBER
        leaves = (leaf for kind in self.columns.values() for leaf in types.leaf_types(kind))
        if any(map(types.is_decimal, leaves)) and any(
            each in text for each in (b"0e", b"0E", b".e", b".E", b"\\u00")
        ):
            yield _RAISED_FAR

    def _odd_row(self, lines: Lines, nth: int) -> ReadRecord:
        text, in_encoding = lines.text_of(nth)
        row = self._row.read(text)
        row.whole &= in_encoding
        return row

    @staticmethod
    def _without_blanks(table: pa.Table, lines: Lines, odd: Flags) -> pa.Table:
        blank = [nth for nth in np.flatnonzero(odd).tolist() if not lines.utf8_of(nth).strip(_BLANK)]
        if not blank:
            return table
        present = np.ones(len(lines), bool)
        present[blank] = False
        return table.filter(pa.array(present))

    @cached_property
    def _row(self) -> JsonRow:
        return JsonRow(self.columns, self.numbers)

    # Plain lines

    def _plain(self, lines: Lines, odd: Flags) -> tuple[dict[str, pa.Array], bool]:
        """The columns of plain lines, and whether any line may have unknown fields. Lines that turn out not to be plain
        are marked as odd."""
        if odd.all():
            return null_columns(self.columns, len(lines)), False
        others, screens = self.unknown == "ignore", {True: self._wrong_types, False: _FLAT_OBJECT}
        while True:
            try:
                rows = self._by_arrow_read(lines.with_replaced(odd, b"{}"), others, len(lines))
                break
            except _Refused as refused:
                if refused.for_others:
                    others = True
                elif screens:
                    for_type = refused.for_a_type if len(screens) > 1 else next(iter(screens))
                    self._screen(lines, odd, screens.pop(for_type), is_right=not for_type)
                else:
                    self._look_closer(lines, odd)
        columns = {}
        for name, kind in self.columns.items():
            columns[name], misfits = self._checked(self._column(rows, name), kind)
            odd[list(misfits)] = True
        if self.unknown == "ignore":
            return columns, False
        return columns, others or (b"\\" in lines.body and bool(_ESCAPED_NAME.search(lines.body)))

    def _by_arrow_read(self, text: bytes, others: bool, count: int) -> pa.Table:
        try:
            rows = pj.read_json(
                pa.BufferReader(text),
                read_options=pj.ReadOptions(
                    block_size=max(_BLOCK, 1 << len(text).bit_length() if count <= _FEW else 0)
                ),
                parse_options=pj.ParseOptions(
                    explicit_schema=self._schema, unexpected_field_behavior="ignore" if others else "error"
                ),
            )
        except pa.ArrowInvalid as error:
            raise _Refused(str(error)) from None
        if rows.num_rows != count:
            raise _Refused("lines that are not one object each")
        return rows

    @staticmethod
    def _screen(lines: Lines, odd: Flags, pattern: str, is_right: bool) -> None:
        """Mark lines that look wrong as odd, unless they are many: then the pattern does not fit."""
        offsets = np.append(0, lines.ends + 1).astype(np.int32)
        texts = pa.StringArray.from_buffers(len(lines), pa.py_buffer(offsets), pa.py_buffer(lines.body))
        suspect = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False) != is_right
        if pattern and suspect.mean() <= _MOST_SUSPECT:
            odd |= suspect

    def _look_closer(self, lines: Lines, odd: Flags) -> None:
        """Find the lines that Arrow refuses, a few lines at a time."""
        before = odd.copy()
        for begin in range(0, len(lines), _FEW):
            self._find_refused(lines, odd, begin, min(begin + _FEW, len(lines)), [_ATTEMPTS])
        if (before == odd).all():  # Arrow reads each few of them, but not all together
            odd[:] = True

    def _find_refused(self, lines: Lines, odd: Flags, begin: int, end: int, left: list[int]) -> None:
        while not odd[begin:end].all():
            try:
                text = lines.with_replaced(odd, b"{}", begin, end)
                self._by_arrow_read(text, True, end - begin)
                return
            except _Refused as refused:
                left[0] -= 1
                if left[0] < 0 or end - begin == 1:
                    odd[begin:end] = True
                elif refused.row is not None and refused.row < end - begin and not odd[begin + refused.row]:
                    odd[begin + refused.row] = True
                else:
                    middle = (begin + end) // 2
                    self._find_refused(lines, odd, begin, middle, left)
                    self._find_refused(lines, odd, middle, end, left)
                    return

    @cached_property
    def _by_arrow(self) -> bool:
        """Whether Arrow can read all types, and the signs of all decimals, which it also reads from texts."""
        return all(
            _is_by_arrow(kind) and (not types.is_decimal(kind) or self.numbers.of(name) == POINT)
            for name, kind in self.columns.items()
        )

    @cached_property
    def _schema(self) -> pa.Schema:
        kinds = {name: _read_as(kind) for name, kind in self.columns.items()}
        objects = {name: _struct(inner) for name, inner in as_objects(kinds).items()}
        return pa.schema([*kinds.items(), *objects.items()])

    def _column(self, rows: pa.Table, name: str) -> pa.Array:
        """A column: the field of its name, or the one at the end of its path."""
        column, path = flat(rows.column(name)), paths_of(self.columns).get(name)
        if path is None:
            return column
        inner = flat(rows.column(path[0]))
        for part in path[1:]:
            inner = pc.struct_field(inner, part)
        return pc.coalesce(column, inner)

    def _checked(self, column: pa.Array, kind: str) -> tuple[pa.Array, Sequence[int]]:
        """A column that Arrow has read, in its type, and the rows whose values do not fit."""
        if kind == "binary":
            return pa.nulls(len(column), pa.binary()), np.flatnonzero(pc.is_valid(column)).tolist()
        if kind in _AS_TEXT:
            empty = np.flatnonzero(pc.fill_null(pc.equal(column, ""), False))
            typed, refused = of_texts(column, kind)
            return typed, [*refused, *empty.tolist()]
        wrong: Sequence[int] = ()
        if kind in types.FLOATS:
            wrong = np.flatnonzero(pc.fill_null(pc.invert(pc.is_finite(column)), False)).tolist()
        elif types.is_decimal(kind):
            wrong = _too_long(column, kind)
        return column.cast(source_type(kind)) if types.nested_type(kind) else column, wrong

    @cached_property
    def _wrong_types(self) -> str:
        """A pattern for fields whose value is of another type than their column."""
        kinds: dict[str, list[str]] = {}
        for name, kind in self.columns.items():
            pattern = _wrong(kind)
            if pattern:
                for each in {name, paths_of(self.columns).get(name, (name,))[-1]}:
                    kinds.setdefault(pattern, []).append(re.escape(each))
        return "|".join(rf'"(?:{"|".join(names)})"[ \t]*:[ \t]*{wrong}' for wrong, names in kinds.items())

    # Unknown fields

    def _kept(
        self, lines: Lines, odd: Flags, rows: Mapping[int, ReadRecord], has_others: bool
    ) -> dict[int, str]:
        """The unknown fields of each line that has some."""
        if self.unknown == "ignore":
            return {}
        kept = {
            nth: text
            for nth, row in rows.items()
            if row.whole and (text := self.kept_of(lines.text_of(nth)[0], row.names)) is not None
        }
        if has_others:
            for nth, line in enumerate(lines.body.decode(errors="replace").split("\n")[:-1]):
                if not odd[nth] and (text := self.kept_of(line)) is not None:
                    kept[nth] = text
        return kept

    def kept_of(self, text: str, names: list[str] | None = None) -> str | None:
        """The unknown fields of a record, cut out of its text. A text that cannot be cut is kept whole if it has
        unknown fields."""
        match = self._cut.match(text)
        if match is not None:
            left = "".join(match.groups()).rstrip(BETWEEN)
            return f"{{{left}}}" if left else None
        if names is None:
            names = self._row.read(text).names
        return text if any(name not in self._names for name in names) else None

    @cached_property
    def _cut(self) -> re.Pattern[str]:
        return cutting(known_fields({**self.columns, **self.known}))

    @cached_property
    def _names(self) -> frozenset[str]:
        fields = known_fields({**self.columns, **self.known})
        return frozenset(fields.values) - frozenset(fields.objects)


@dataclass(frozen=True)
class JsonRecords(RecordDecoder):
    """A JSON object a record, in UTF-8."""

    unknown_fields: UnknownFields = "ignore"
    known: Mapping[str, str] = field(default_factory=dict)
    """Fields that count as known, besides the columns."""
    numbers: Numbers = AS_USUAL

    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        reader = JsonLines(columns, self.unknown_fields, self.known, blank_rows=True, numbers=self.numbers)
        return reader.read(Lines.of_records(records))


class _Refused(Exception):
    """Arrow does not read a text."""

    @property
    def for_others(self) -> bool:
        """Whether the reason is a field that is not in the schema."""
        return "unexpected field" in str(self)

    @property
    def for_a_type(self) -> bool:
        """Whether the reason is a value of another type than its column."""
        return "changed from" in str(self) or "convert" in str(self)

    @property
    def row(self) -> int | None:
        match = _IN_ROW.search(str(self))
        return int(match[1]) if match else None


def _is_by_arrow(kind: str) -> bool:
    match types.nested_type(kind):
        case None:
            return True
        case "array", {"element": element}:
            return all(leaf in _BY_ARROW for leaf in types.leaf_types(element)) and "map<" not in element
    return False


def _read_as(kind: str) -> pa.DataType:
    return pa.string() if kind in _AS_TEXT else source_type(kind)


def _struct(tree: Mapping[str, Any]) -> pa.DataType:
    return pa.struct(
        [(name, _struct(inner) if isinstance(inner, dict) else inner) for name, inner in tree.items()]
    )


def _too_long(column: pa.Array, kind: str) -> list[int]:
    """The rows with more digits than the type has: Arrow reads them all the same."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        digits = types.whole_digits(kind)
        return [nth for nth, value in enumerate(column.to_pylist()) if value and value.adjusted() >= digits]
    return []


_BEYOND = {
    "tinyint": "[0-9]{4}|[2-9][0-9]{2}|1[3-9][0-9]",
    "smallint": "[0-9]{6}|[4-9][0-9]{4}|3[3-9][0-9]{3}",
    "int": "[0-9]{11}|[3-9][0-9]{9}|2[2-9][0-9]{8}",
    "bigint": "[0-9]{20}|9[3-9][0-9]{17}",
}
"""Patterns for nearly all numbers that are too large for the type."""


def _wrong(kind: str) -> str:
    """A pattern for a value of another type."""
    if kind in _BEYOND:
        return rf"(?:[^-0-9n \t]|-?[0-9]*[.eE]|-?(?:{_BEYOND[kind]}))"
    if types.is_decimal(kind):
        more = types.scale_of(kind) + 1
        return rf'(?:[^-0-9n" \t]|"?-?[0-9]*(?:\.[0-9]{{{more}}}|\.?[0-9]*[eE])|"[^"]*[^-0-9."])'
    match kind:
        case "string" | "date" | "timestamp" | "timestamp_ntz" | "binary":
            return r'[^"n \t]'
        case "double" | "float":
            return r"[^-0-9n \t]"
        case "boolean":
            return r"[^tfn \t]"
    return ""
