"""CSV files: columns are found by their names in the header, in any order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from latecomer.config.columns import csv_row, header_mistake
from latecomer.config.damaged_files import DamagedFile, damage_found
from latecomer.config.encodings import UTF8, is_text, open_text, other_encoding
from latecomer.source.decode.base import FileSplit, SourceFile
from latecomer.source.decode.csv_rows import CsvLines
from latecomer.source.decode.retrying import reading
from latecomer.source.decode.text import TextFiles
from latecomer.source.decode.text_lines import BLANK, Lines

_LONGEST_HEADER, _BYTES_OF_A_CHARACTER = 1 << 20, 4


@dataclass(frozen=True)
class CsvFiles(TextFiles):
    """Files of CSV, with a header or without."""

    folders: Callable[[SourceFile], Mapping[str, str | None]]
    """The column values in the folder names of a file."""

    def misfit(self, file: SourceFile) -> str | None:
        return super().misfit(file) or (self._header_mistake(file) if self.settings.header else None)

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        header = self.header(split.file)
        if not header:  # all lines are blank
            return
        rows = CsvLines(
            header, dict(self.columns), self.settings.delimiter, self.unknown_fields, self.numbers
        )
        has_header = self.settings.header and split.start == 0

        def read(lines: Lines) -> pa.Table:
            nonlocal has_header
            if has_header and (behind := lines.behind_header()) is not None:
                has_header, lines = False, behind
            return rows.read(lines)

        yield from self.numbered(split, read)

    def header(self, file: SourceFile) -> tuple[str, ...]:
        """The names of a file's columns, in their order; none if all lines are blank. `DamagedFile` if they cannot be
        read."""
        settings = self.settings
        if not settings.header:  # the declared columns that its folders do not have
            in_folders = self.folders(file)
            return tuple(column for column in self.columns if column not in in_folders)
        with damage_found("csv"):
            return tuple(csv_row(self._header_line(file), settings.delimiter))

    def _header_line(self, file: SourceFile) -> str:
        """The first line that is not blank; empty if all are."""
        settings = self.settings
        with reading(file), damage_found("csv"), open_text(file, settings.encoding) as text:
            left = longest = min(settings.max_line // _BYTES_OF_A_CHARACTER, _LONGEST_HEADER)
            while line := text.readline(left):
                left -= len(line)
                if left == 0:
                    raise DamagedFile(f"it is not in the first {longest} characters")
                if line.strip(BLANK.decode()):
                    return line.rstrip("\r\n")
        return ""

    def _header_mistake(self, file: SourceFile) -> str | None:
        """Why a file's header cannot be used."""
        encoding = self.settings.encoding
        try:
            header = self.header(file)
        except DamagedFile as error:
            return f"the header cannot be read: {error}"
        if encoding == UTF8 and any("\0" in name for name in header):
            return "the header looks like UTF-16; set source.files.encoding: utf-16"
        if not all(is_text(name, encoding) for name in header):
            return f"the header is not {encoding}; {other_encoding(encoding)}"
        named = [name for name in header if name in self.columns]
        if doubled := [name for name, count in Counter(named).items() if count > 1]:
            return f"the header names a column twice: {', '.join(doubled)}"
        if header and not named:
            return header_mistake(self._header_line(file), self.settings.delimiter, self.columns)
        return None
