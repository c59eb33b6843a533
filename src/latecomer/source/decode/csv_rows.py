"""Lines of CSV as typed columns: Arrow reads plain lines, and `csv_row.py` all others, one by one.

A line is not plain if it has quotes that are not around whole fields, too many or too few fields, or a value that its
column does not take. In the text that Arrow reads, such a line is replaced by one of empty fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from latecomer.config.sources import UnknownFields
from latecomer.model.arrays import flat
from latecomer.model.written_numbers import AS_USUAL, Numbers
from latecomer.source.decode.columns import CORRUPT, EXTRA, KEPT
from latecomer.source.decode.csv_row import CsvRow, layout
from latecomer.source.decode.null_rows import null_columns
from latecomer.source.decode.text_lines import BYTE_ORDER_MARK, FEED, SPACE, Lines, Mask
from latecomer.source.decode.typed_columns import of_texts, sparse, with_rows

_QUOTE = 0x22
_BLOCK = 1 << 20
_ESCAPE = re.compile(r"\\u00[0-9a-f]{2}")
_as_json = json.JSONEncoder(ensure_ascii=False).encode


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
        places = np.flatnonzero(odd & ~blank).tolist()
        rows: list[dict[str, Any]] = []
        corrupt: dict[int, bytes] = {}
        for nth in places:
            text, whole = lines.text_of(nth)
            values, fits = self._row.read(text)
            rows.append(values)
            if not (whole and fits):
                corrupt[nth] = lines.bytes_of(nth)
        mask = np.zeros(len(lines), bool)
        mask[places] = True
        kept = self._kept(
            texts, {nth: row for nth, row in zip(places, rows, strict=True) if nth not in corrupt}, mask
        )
        if self.unknown == "dead_letter":
            corrupt |= {nth: lines.bytes_of(nth) for nth in kept}
        table = pa.table(with_rows(columns, self.columns, mask, rows))
        table = table.append_column(
            CORRUPT, sparse(len(lines), list(corrupt), _in_order(corrupt), pa.binary())
        )
        if kept:
            table = table.append_column(KEPT, sparse(len(lines), list(kept), _in_order(kept), pa.string()))
        return table.filter(pa.array(~blank)) if blank.any() else table

    @cached_property
    def _layout(self) -> list[tuple[str, str]]:
        return list(layout(self.header, self.columns, EXTRA))

    @cached_property
    def _row(self) -> CsvRow:
        return CsvRow(self._layout, self.delimiter, self.numbers)

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

    def _odd(self, lines: Lines) -> tuple[Mask, Mask]:
        """Lines that must be read one by one, and lines that are blank."""
        count = len(lines)
        odd, blank = np.zeros(count, bool), np.zeros(count, bool)
        if not count:
            return odd, blank
        letters, begins, ends = lines.letters, lines.begins, lines.ends
        if (letters[begins] <= SPACE).any():
            blank |= np.add.reduceat(letters > SPACE, begins, dtype=np.int64) == 0
        by_arrow = len(self.delimiter.encode()) == 1 and self.delimiter != '"'
        odd |= blank if by_arrow else True
        if not by_arrow:
            return odd, blank
        delimiter = ord(self.delimiter)
        control = np.flatnonzero(letters < SPACE)
        if len(control) > count:
            odd[lines.holding(control[(letters[control] != FEED) & (letters[control] != delimiter)])] = True
        odd[lines.not_utf8()] = True
        odd[0] |= lines.body.startswith(BYTE_ORDER_MARK)  # Arrow would drop it
        odd |= ends - begins > _BLOCK // 2
        odd |= self._fields_of(lines, odd, delimiter) != len(self.header)
        return odd, blank

    def _fields_of(self, lines: Lines, odd: Mask, delimiter: int) -> Any:
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

    # Plain lines

    def _texts(self, lines: Lines, odd: Mask) -> dict[str, pa.Array]:
        """The texts of plain lines, by column, with those of undeclared columns that are kept."""
        wanted = {
            str(place): name
            for place, (name, _) in enumerate(self._layout)
            if name in self.columns or name in self._extra.values()
        }
        if odd.all():
            return {name: pa.nulls(len(lines), pa.string()) for name in wanted.values()}
        rows = pc_csv.read_csv(
            pa.BufferReader(self._replaced(lines, odd)),
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

    def _replaced(self, lines: Lines, odd: Mask) -> bytes:
        places = np.flatnonzero(odd)
        if not len(places):
            return lines.body
        empty = self.delimiter.encode() * (len(self.header) - 1)
        parts, at = [], 0
        for start, stop in zip(lines.begins[places].tolist(), lines.ends[places].tolist(), strict=True):
            parts += [lines.body[at:start], empty]
            at = stop
        return b"".join([*parts, lines.body[at:]])

    # Columns that are not declared

    def _kept(
        self, texts: Mapping[str, pa.Array], rows: Mapping[int, Mapping[str, Any]], odd: Mask
    ) -> dict[int, str]:
        if not self._extra:
            return {}
        kept = {
            nth: text
            for nth, row in rows.items()
            if (text := _object([(name, row.get(column)) for name, column in self._extra.items()]))
        }
        columns = [(name, texts[column].to_pylist()) for name, column in self._extra.items()]
        for nth in np.flatnonzero(~odd).tolist():
            if text := _object([(name, column[nth]) for name, column in columns]):
                kept[nth] = text
        return kept


def _in_order(values: Mapping[int, Any]) -> list[Any]:
    return [values[nth] for nth in sorted(values)]


def _object(fields: Sequence[tuple[str, str | None]]) -> str:
    """Fields that are not null, as JSON; nothing where all are."""
    written = ",".join(f"{_escaped(name)}:{_escaped(value)}" for name, value in fields if value is not None)
    return f"{{{written}}}" if written else ""


def _escaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: f"\\u{match[0][2:].upper()}", _as_json(text))
