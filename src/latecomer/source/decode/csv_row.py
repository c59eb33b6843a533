"""One line of CSV: its fields, however they are quoted, and their values in the types of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from latecomer.config.damage import DamagedFile
from latecomer.model.written_numbers import AS_USUAL, Numbers, Signs
from latecomer.source.decode.written import Misfit, value_of

MOST_FIELDS = 20_480
"""Fields of a line, at most: a file with more is no CSV, or has another delimiter."""


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


@dataclass(frozen=True)
class CsvRow:
    """Reads lines with these columns, in their order."""

    columns: Sequence[tuple[str, str]]
    delimiter: str
    numbers: Numbers = AS_USUAL

    @cached_property
    def _signs(self) -> dict[str, Signs]:
        return {name: self.numbers.of(name) for name, _ in self.columns}

    def read(self, line: str) -> tuple[dict[str, Any], bool]:
        """The values of a line, and whether all of it could be read. An empty field is null."""
        fields = csv_fields(line, self.delimiter)
        if len(fields) > MOST_FIELDS:
            raise DamagedFile(f"a line has more than {MOST_FIELDS} fields")
        values: dict[str, Any] = {}
        whole = len(fields) == len(self.columns)
        for text, (name, kind) in zip(fields, self.columns, strict=False):
            if not text:
                continue
            try:
                values[name] = text if kind == "string" else value_of(text, kind, self._signs[name])
            except Misfit:
                whole = False
        return values, whole
