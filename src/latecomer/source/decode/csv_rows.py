"""Lines of CSV as typed columns: Arrow reads plain lines; all others are read here, one by one.

A line is not plain if it has quotes that are not around whole fields, too many or too few fields, or a value that its
column does not take. In the text that Arrow reads, such a line is replaced by one of empty fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from latecomer.config.damaged_files import DamagedFile
from latecomer.config.sources import UnknownFields
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.written_numbers import AS_USUAL, Numbers, Signs
from latecomer.source.decode.json_text import kept_text
from latecomer.source.decode.private_columns import EXTRA
from latecomer.source.decode.text_lines import BYTE_ORDER_MARK, FEED, SPACE, Lines
from latecomer.source.decode.typed_columns import marked, null_columns, of_texts, with_rows
from latecomer.source.decode.written import Misfit, value_of

MOST_FIELDS = 20_480
"""Fields of a line, at most: a file with more is no CSV, or has another delimiter."""
_QUOTE = 0x22
_BLOCK = 1 << 20


@dataclass(frozen=True)
class CsvLines:
    """Reads lines whose fields are in the order of the header."""

    header: Sequence[str]
    columns: Mapping[str, str]
    delimiter: str
    unknown: UnknownFields = "ignore"
    numbers: Numbers = AS_USUAL

    def read(self, lines: Lines) -> pa.Table:
        """The columns, CORRUPT, and KEPT if a row has unknown fields. Blank lines have no row."""
        odd, blank = self._odd(lines)
        texts = self._texts(lines, odd)
        columns = null_columns(self.columns, len(lines))
        for name, kind in self.columns.items():
            if name in texts:
                columns[name], misfits = of_texts(texts[name], kind, self.numbers.of(name))
                odd[list(misfits)] = True
        odd &= ~blank
        rows: dict[int, dict[str, Any]] = {}
        corrupt: dict[int, bytes] = {}
        for nth in np.flatnonzero(odd).tolist():
            text, whole = lines.text_of(nth)
            rows[nth], fits = self._row(text)
            if not (whole and fits):
                corrupt[nth] = lines.bytes_of(nth)
        columns = with_rows(columns, self.columns, odd, list(rows.values()))
        kept = self._kept(texts, {nth: row for nth, row in rows.items() if nth not in corrupt}, odd)
        if self.unknown == "dead_letter":
            corrupt |= {nth: lines.bytes_of(nth) for nth in kept}
        table = marked(columns, len(lines), corrupt, kept)
        return table.filter(pa.array(~blank)) if blank.any() else table

    @cached_property
    def _layout(self) -> list[tuple[str, str]]:
        """The columns of a line, in their order. One that is not declared is text, under a name that no column has."""
        return [
            (name, self.columns[name]) if name in self.columns else (f"{EXTRA}{nth}", "string")
            for nth, name in enumerate(self.header)
        ]

    @cached_property
    def _extra(self) -> dict[str, str]:
        """The columns that are not declared, by name; of several with the same name, the last."""
        if self.unknown == "ignore":
            return {}
        return {
            name: column
            for name, (column, _) in zip(self.header, self._layout, strict=True)
            if name not in self.columns
        }

    # Lines that are not plain

    def _odd(self, lines: Lines) -> tuple[Flags, Flags]:
        """Lines that must be read one by one, and lines that are blank."""
        count = len(lines)
        odd, blank = np.ones(count, bool), np.zeros(count, bool)
        letters, begins, ends = lines.letters, lines.begins, lines.ends
        if (letters[begins] <= SPACE).any():
            blank |= np.add.reduceat(letters > SPACE, begins, dtype=np.int64) == 0
        if not count or len(self.delimiter.encode()) > 1 or self.delimiter == '"':
            return odd, blank
        odd &= blank
        delimiter = ord(self.delimiter)
        control = np.flatnonzero(letters < SPACE)
        if len(control) > count:
            odd[lines.holding(control[(letters[control] != FEED) & (letters[control] != delimiter)])] = True
        odd[lines.not_utf8()] = True
        odd[0] |= lines.body.startswith(BYTE_ORDER_MARK)  # Arrow would drop it
        odd |= ends - begins > _BLOCK // 2
        odd |= self._fields_of(lines, odd, delimiter) != len(self.header)
        return odd, blank

    def _fields_of(self, lines: Lines, odd: Flags, delimiter: int) -> Any:
        """How many fields each line has. Lines with quotes that are not around whole fields are marked as odd."""
        letters = lines.letters
        is_delimiter = letters == delimiter
        fields = np.add.reduceat(is_delimiter, lines.begins, dtype=np.int64) + 1
        quotes = np.flatnonzero(letters == _QUOTE)
        if not len(quotes):
            return fields
        line = np.searchsorted(lines.ends, quotes)
        odd |= np.bincount(line, minlength=len(lines)) % 2 == 1
        quotes, line = quotes[~odd[line]], line[~odd[line]]
        begin, end, line = quotes[::2], quotes[1::2], line[::2]
        before = np.where(begin == 0, FEED, letters[begin - 1])
        after = letters[end + 1]
        whole = ((before == delimiter) | (before == FEED)) & ((after == delimiter) | (after == FEED))
        odd[line[~whole]] = True
        places = np.flatnonzero(is_delimiter)
        within = np.searchsorted(places, end) - np.searchsorted(places, begin)
        return fields - np.bincount(line, within, len(lines)).astype(np.int64)

    @cached_property
    def _signs(self) -> dict[str, Signs]:
        return {name: self.numbers.of(name) for name, _ in self._layout}

    def _row(self, line: str) -> tuple[dict[str, Any], bool]:
        """The values of a line, and whether all of it could be read. An empty field is null."""
        fields = csv_fields(line, self.delimiter)
        if len(fields) > MOST_FIELDS:
            raise DamagedFile(f"a line has more than {MOST_FIELDS} fields")
        values: dict[str, Any] = {}
        whole = len(fields) == len(self._layout)
        for text, (name, kind) in zip(fields, self._layout, strict=False):
            if not text:
                continue
            try:
                values[name] = text if kind == "string" else value_of(text, kind, self._signs[name])
            except Misfit:
                whole = False
        return values, whole

    # Plain lines

    def _texts(self, lines: Lines, odd: Flags) -> dict[str, pa.Array]:
        """The texts of plain lines, by column, with those of undeclared columns that are kept."""
        wanted = {
            str(place): name
            for place, (name, _) in enumerate(self._layout)
            if name in self.columns or name in self._extra.values()
        }
        if odd.all():
            return {name: pa.nulls(len(lines), pa.string()) for name in wanted.values()}
        empty = self.delimiter.encode() * (len(self.header) - 1)
        rows = pc_csv.read_csv(
            pa.BufferReader(lines.with_replaced(odd, empty)),
            read_options=pc_csv.ReadOptions(
                column_names=[str(place) for place in range(len(self.header))], block_size=_BLOCK
            ),
            parse_options=pc_csv.ParseOptions(
                delimiter=self.delimiter, double_quote=False, escape_char=False, ignore_empty_lines=False
            ),
            convert_options=pc_csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(wanted, pa.string()),
                null_values=[""],
                strings_can_be_null=True,
                include_columns=list(wanted),
            ),
        )
        if rows.num_rows != len(lines):
            raise AssertionError(f"{rows.num_rows} rows in {len(lines)} lines")
        return {name: flat(rows.column(place)) for place, name in wanted.items()}

    # Columns that are not declared

    def _kept(
        self, texts: Mapping[str, pa.Array], rows: Mapping[int, Mapping[str, Any]], odd: Flags
    ) -> dict[int, str]:
        """The fields of plain lines, and of these `rows` among the odd ones, as JSON."""
        if not self._extra:
            return {}
        columns = {name: texts[column].to_pylist() for name, column in self._extra.items()}
        fields = {
            nth: {name: row.get(column) for name, column in self._extra.items()} for nth, row in rows.items()
        }
        for nth in np.flatnonzero(~odd).tolist():
            fields[nth] = {name: column[nth] for name, column in columns.items()}
        written = kept_text(dict.fromkeys(self._extra, "string"), fields.values())
        return {nth: text for nth, text in zip(fields, written, strict=True) if text is not None}


def csv_fields(line: str, delimiter: str) -> list[str]:
    """The fields of a line. A quote within quotes is doubled; a quote that is not closed ends with the line. If more
    than blanks follow a closing quote, the quotes are part of the field.

    >>> csv_fields('a,"b,c",', ","), csv_fields('"a"b,"c" ,d"e', ",")
    (['a', 'b,c', ''], ['"a"b', 'c', 'd"e'])
    """
    if '"' not in line:
        return line.split(delimiter)
    fields, at = [], 0
    while True:
        if line[at : at + 1] == '"':
            value, at = _quoted(line, at + 1, delimiter)
        else:
            end = line.find(delimiter, at)
            value, at = (line[at:], len(line)) if end < 0 else (line[at:end], end)
        fields.append(value)
        if at >= len(line):
            return fields
        at += len(delimiter)


def _quoted(line: str, at: int, delimiter: str) -> tuple[str, int]:
    """The field after an opening quote, and where it ends."""
    if at == len(line):
        return '"', at
    content, begin = "", at
    while (end := line.find('"', begin)) >= 0 and line[end + 1 : end + 2] == '"':
        content += line[begin : end + 1]
        begin = end + 2
    if end < 0:
        return content + line[begin:], len(line)
    content, after = content + line[begin:end], end + 1
    if after == len(line) or line.startswith(delimiter, after):
        return content, after
    blank = after
    while blank < len(line) and line[blank] <= " " and not line.startswith(delimiter, blank):
        blank += 1
    if blank > after and (blank == len(line) or line.startswith(delimiter, blank)):
        return content, blank
    stop = line.find(delimiter, blank + 1)
    rest = line[after:] if stop < 0 else line[after:stop]
    return f'"{content}"{rest}', len(line) if stop < 0 else stop
