"""Lines of JSON as typed columns: plain ones by Arrow, all others one by one (`json_row.py`), in their order.

In the text that Arrow reads, `{}` stands in the place of each line that is not plain. Which those are is seen by
looking at the letters; where Arrow refuses a text all the same, its lines are looked at with patterns, and at last a
few at a time.
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
from latecomer.model.arrays import flat
from latecomer.model.paths import ways_of
from latecomer.model.unknown_fields import BETWEEN, cutting, known_fields
from latecomer.model.written_numbers import AS_USUAL, POINT, Numbers
from latecomer.source.decode.columns import CORRUPT, KEPT
from latecomer.source.decode.json_row import JsonRow, Row
from latecomer.source.decode.plain import NotPlain
from latecomer.source.decode.text_lines import Lines, Mask
from latecomer.source.decode.typed_columns import of_texts, sparse, with_rows
from latecomer.store.layout import source_type

_OPENS, _CLOSES = b"{}"
_BLANK = b" \t\r\n"
_AS_TEXT = ("date", "timestamp", "timestamp_ntz", "binary")
"""Columns that are text in JSON."""
_BY_ARROW = frozenset({*types.INTEGERS, *types.FLOATS, "string", "boolean"})
"""What Arrow reads within lists, too."""
_LONG_LINE, _LONGEST_LINE = 900, 50_000
"""Lines of which only a longer one may have too many levels or digits in it, or too long names."""
_HALF_CHARACTER = re.compile(rb"\\u[dD][89a-fA-F]")
_NO_NUMBER = re.compile(rb"[^\"\w](?:NaN|Inf|Infinity) *[],}]")
_RAISED_FAR = re.compile(rb"[0.](?:[eE]|\\u00[46]5)[-+]?[0-9]{4}")
_ESCAPED_NAME = re.compile(rb'\\.(?:[^"\\]|\\.){0,64}+(?:"[ \t]*+:|[^"])')
"""A backslash in a text that a colon follows, or that goes on for long: it may be a name."""
_BLOCK = 1 << 20
_FEW, _ATTEMPTS = 512, 8
"""So many lines are looked at together where Arrow refuses them, and so often before all are read one by one."""
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
    """What is done with fields that are no columns."""
    known: Mapping[str, str] = field(default_factory=dict)
    """Fields that are known besides the columns."""
    blank_rows: bool = False
    """Whether a blank line is a record that cannot be read; else it is none."""
    numbers: Numbers = AS_USUAL

    def read(self, lines: Lines) -> pa.Table:
        """The columns, CORRUPT, and KEPT where a row has unknown fields."""
        odd = self._odd(lines)
        found, has_others = self._plain(lines, odd)
        rows, wrong = self._odd_rows(lines, odd)
        columns = with_rows(found, self.columns, odd, rows)
        kept = self._kept(lines, odd, rows, has_others)
        if self.unknown == "dead_letter":
            wrong |= {nth: lines.bytes_of(nth) for nth in kept}
        table = pa.table(columns) if columns else pa.table({}).select([])
        places = sorted(wrong)
        table = table.append_column(
            CORRUPT, sparse(len(lines), places, [wrong[nth] for nth in places], pa.binary())
        )
        if kept:
            table = table.append_column(
                KEPT, sparse(len(lines), list(kept), list(kept.values()), pa.string())
            )
        return table if self.blank_rows else self._without_blanks(table, lines, odd)

    def read_plain(self, lines: Lines) -> pa.Table:
        """The columns of lines all of which are plain, and have no unknown fields unless these are ignored; else
        `NotPlain`."""
        odd = self._odd(lines)
        if not len(lines) or odd.any():
            raise NotPlain("a line that is not plain")
        found, has_others = self._plain(lines, odd)
        if has_others or odd.any():
            raise NotPlain("a line that is not plain, or has other fields")
        return pa.table(found)

    # Lines that are not plain

    def _odd(self, lines: Lines) -> Mask:
        """Lines that only a look at each can tell."""
        odd = np.zeros(len(lines), bool)
        if not self._by_arrow:
            odd[:] = True
        if not len(lines) or not self._by_arrow:
            return odd
        letters, begins, ends, text = lines.letters, lines.begins, lines.ends, lines.body
        odd |= (letters[begins] != _OPENS) | (letters[ends - 1] != _CLOSES)
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
        # A single letter is found much faster than a word.
        if b"\\" in text:
            yield _HALF_CHARACTER
        if any(word[:1] in text and word in text for word in (b"NaN", b"Inf")):
            yield _NO_NUMBER
        leaves = (leaf for kind in self.columns.values() for leaf in types.leaf_types(kind))
        if any(map(types.is_decimal, leaves)) and any(
            each in text for each in (b"0e", b"0E", b".e", b".E", b"\\u00")
        ):
            yield _RAISED_FAR

    def _odd_rows(self, lines: Lines, odd: Mask) -> tuple[list[_Odd], dict[int, bytes]]:
        rows: list[_Odd] = []
        wrong: dict[int, bytes] = {}
        for nth in np.flatnonzero(odd).tolist():
            text, whole = lines.text_of(nth)
            row = self._row.read(text)
            if not (row.whole and whole):
                wrong[nth] = lines.bytes_of(nth)
            rows.append(_Odd(row.values, text, row, row.whole and whole))
        return rows, wrong

    @staticmethod
    def _without_blanks(table: pa.Table, lines: Lines, odd: Mask) -> pa.Table:
        blank = [nth for nth in np.flatnonzero(odd).tolist() if not lines.utf8_of(nth).strip(_BLANK)]
        if not blank:
            return table
        present = np.ones(len(lines), bool)
        present[blank] = False
        return table.filter(pa.array(present))

    @cached_property
    def _row(self) -> JsonRow:
        return JsonRow(self.columns, self.numbers)

    # Lines that are

    def _plain(self, lines: Lines, odd: Mask) -> tuple[dict[str, pa.Array], bool]:
        """The columns of plain lines, and whether any may have unknown fields. Lines that turn out not to be plain are
        odd from then on."""
        if odd.all():
            return {
                name: pa.nulls(len(lines), source_type(kind)) for name, kind in self.columns.items()
            }, False
        others, screens = self.unknown == "ignore", {True: self._wrong_types, False: _FLAT_OBJECT}
        while True:
            try:
                rows = self._by_arrow_read(_replaced(lines, odd), others, len(lines))
                break
            except _Refused as refused:
                if refused.for_others:
                    others = True
                elif screens:
                    for_type = refused.for_a_type if len(screens) > 1 else next(iter(screens))
                    self._screen(lines, odd, screens.pop(for_type), is_right=not for_type)
                else:
                    self._look_closer(lines, odd)
        found = {}
        for name, kind in self.columns.items():
            found[name], wrong = self._checked(self._column(rows, name), kind)
            odd[list(wrong)] = True
        escaped = self.unknown != "ignore" and b"\\" in lines.body and bool(_ESCAPED_NAME.search(lines.body))
        return found, self.unknown != "ignore" and (others or escaped)

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
    def _screen(lines: Lines, odd: Mask, pattern: str, is_right: bool) -> None:
        """Take lines that do not look right for odd, unless they are many: then it is the pattern that does not fit."""
        offsets = np.append(0, lines.ends + 1).astype(np.int32)
        texts = pa.StringArray.from_buffers(len(lines), pa.py_buffer(offsets), pa.py_buffer(lines.body))
        suspect = pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False) != is_right
        if pattern and suspect.mean() <= _MOST_SUSPECT:
            odd |= suspect

    def _look_closer(self, lines: Lines, odd: Mask) -> None:
        """A few lines at a time: find those that Arrow refuses."""
        before = odd.copy()
        for begin in range(0, len(lines), _FEW):
            self._find_refused(lines, odd, begin, min(begin + _FEW, len(lines)), [_ATTEMPTS])
        if (before == odd).all():  # each few of them were read, and all together are not
            odd[:] = True

    def _find_refused(self, lines: Lines, odd: Mask, begin: int, end: int, left: list[int]) -> None:
        while not odd[begin:end].all():
            try:
                self._by_arrow_read(_replaced(lines, odd, begin, end), True, end - begin)
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
        """Whether Arrow knows all types, and the signs of all numbers: it reads decimals from texts, too."""
        return all(
            _is_by_arrow(kind) and (not types.is_decimal(kind) or self.numbers.of(name) == POINT)
            for name, kind in self.columns.items()
        )

    @cached_property
    def _schema(self) -> pa.Schema:
        tree: dict[str, Any] = {}
        for name, way in ways_of(self.columns).items():
            inner = tree
            for part in way[:-1]:
                inner = inner.setdefault(part, {})
            inner[way[-1]] = _read_as(self.columns[name])
        flat_ones = {name: _read_as(kind) for name, kind in self.columns.items()}
        return pa.schema([*flat_ones.items(), *((name, _struct(inner)) for name, inner in tree.items())])

    def _column(self, rows: pa.Table, name: str) -> pa.Array:
        """A column: the field of its name, or the one at the end of its way."""
        found, way = flat(rows.column(name)), ways_of(self.columns).get(name)
        if way is None:
            return found
        inner = flat(rows.column(way[0]))
        for part in way[1:]:
            inner = pc.struct_field(inner, part)
        return pc.coalesce(found, inner)

    def _checked(self, column: pa.Array, kind: str) -> tuple[pa.Array, Sequence[int]]:
        """A column as Arrow has read it, in its type, and the rows in which it is not what it should be."""
        if kind == "binary":
            return pa.nulls(len(column), pa.binary()), np.flatnonzero(pc.is_valid(column)).tolist()
        if kind in _AS_TEXT:
            empty = np.flatnonzero(pc.fill_null(pc.equal(column, ""), False))
            found, refused = of_texts(column, kind)
            return found, [*refused, *empty.tolist()]
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
                for each in {name, ways_of(self.columns).get(name, (name,))[-1]}:
                    kinds.setdefault(pattern, []).append(re.escape(each))
        return "|".join(rf'"(?:{"|".join(names)})"[ \t]*:[ \t]*{wrong}' for wrong, names in kinds.items())

    # Unknown fields

    def _kept(self, lines: Lines, odd: Mask, rows: list[_Odd], has_others: bool) -> dict[int, str]:
        """What is kept of each line that has any."""
        if self.unknown == "ignore":
            return {}
        places = np.flatnonzero(odd).tolist()
        kept = {
            nth: found
            for nth, each in zip(places, rows, strict=True)
            if each.whole and (found := self.kept_of(each.text, each.row.names)) is not None
        }
        if has_others:
            for nth, line in enumerate(lines.body.decode(errors="replace").split("\n")[:-1]):
                if not odd[nth] and (found := self.kept_of(line)) is not None:
                    kept[nth] = found
            return dict(sorted(kept.items()))
        return kept

    def kept_of(self, text: str, names: list[str] | None = None) -> str | None:
        """What is kept of a record. One that cannot be cut is kept whole if it has a field that is no column."""
        found = self._cut.match(text)
        if found is not None:
            left = "".join(found.groups()).rstrip(BETWEEN)
            return f"{{{left}}}" if left else None
        if names is None:
            names = self._row.read(text).names
        return text if any(name not in self._names for name in names) else None

    @cached_property
    def _cut(self) -> re.Pattern[str]:
        return cutting(known_fields({**self.columns, **self.known}))

    @cached_property
    def _names(self) -> frozenset[str]:
        known = known_fields({**self.columns, **self.known})
        return frozenset(known.values) - frozenset(known.objects)


class _Odd(dict[str, Any]):
    """The values of an odd row, and what else is known of it."""

    def __init__(self, values: Mapping[str, Any], text: str, row: Row, whole: bool) -> None:
        super().__init__(values)
        self.text, self.row, self.whole = text, row, whole


class _Refused(Exception):
    """A text that Arrow does not read."""

    @property
    def for_others(self) -> bool:
        """Whether it is for a field that is not in the schema."""
        return "unexpected field" in str(self)

    @property
    def for_a_type(self) -> bool:
        """Whether it is for a value of another type than its column."""
        return "changed from" in str(self) or "convert" in str(self)

    @property
    def row(self) -> int | None:
        found = _IN_ROW.search(str(self))
        return int(found[1]) if found else None


def _replaced(lines: Lines, odd: Mask, begin: int = 0, end: int | None = None) -> bytes:
    """The text of lines, with an empty object in the place of each odd one."""
    end = len(lines) if end is None else end
    places = np.flatnonzero(odd[begin:end]) + begin
    if not len(places):
        return (
            lines.body
            if end - begin == len(lines)
            else lines.body[lines.begins[begin] : lines.ends[end - 1] + 1]
        )
    parts, at = [], int(lines.begins[begin])
    for start, stop in zip(lines.begins[places].tolist(), lines.ends[places].tolist(), strict=True):
        parts += [lines.body[at:start], b"{}"]
        at = stop
    return b"".join([*parts, lines.body[at : lines.ends[end - 1] + 1]])


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
    """Arrow reads numbers with more digits than the type has."""
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
"""Numbers that no column of the type takes: nearly all of them."""


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
