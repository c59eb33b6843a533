"""CSV files: a column is found by its name in the header, wherever it stands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from latecomer.config.columns import csv_row
from latecomer.config.damage import DamagedFile, damage_found
from latecomer.config.encodings import is_text, open_text, other_encoding
from latecomer.decode.arrow_csv import csv_lines, require_plain_csv
from latecomer.decode.base import PERMISSIVE, FileSplit, NewReader
from latecomer.decode.columns import CORRUPT, EXTRA, KEPT, METADATA
from latecomer.decode.csv_rows import CsvLines
from latecomer.decode.decimals import decimals_as_text
from latecomer.decode.files import SourceFile, grouped, together
from latecomer.decode.retrying import reading
from latecomer.decode.text import TextFiles
from latecomer.decode.text_lines import Lines
from latecomer.store.sql import ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LONGEST_HEADER, _BYTES_OF_A_CHARACTER = 1 << 20, 4


@dataclass(frozen=True)
class CsvFiles(TextFiles):
    """Files of CSV, with a header or without."""

    folders: Callable[[SourceFile], Mapping[str, str | None]]
    """What the folders of a file say of its columns."""
    with_metadata: bool

    def misfit(self, file: SourceFile) -> str | None:
        return super().misfit(file) or (self._misled(file) if self.settings.header else None)

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        header = self.header(split.file)
        if not header:  # there is nothing but blank lines
            return
        rows = CsvLines(header, dict(self.columns), self.settings.delimiter, self.unknown_fields)
        has_header = self.settings.header and split.start == 0

        def read(lines: Lines) -> pa.Table:
            nonlocal has_header
            if has_header and (first := lines.first_written()) is not None:
                has_header, lines = False, lines.after(first)
            return rows.read(lines)

        yield from self.numbered(split, read)

    def doubt(self, part: DataFrame) -> Column | None:
        """For text that may not be UTF-8, too: Spark's reader does not say so."""
        from latecomer.decode import lines

        replaced, doubt = lines.holds_replacement(part), super().doubt(part)
        return replaced if doubt is None else replaced | doubt

    def parts(self, reader: NewReader, files: Sequence[SourceFile], by_line: bool) -> list[DataFrame]:
        """Files grouped by header and encoding."""
        from pyspark.sql import functions as F

        from latecomer.decode import lines
        from latecomer.decode.unknown import kept_values, plain

        settings, columns = self.settings, self.columns
        options = {
            **PERMISSIVE,
            "sep": settings.delimiter,
            "escape": '"',  # a quote within quotes is doubled
        }
        parts = []
        for (header, encoding), group in grouped(
            files, lambda file: (self.header(file), self.encoding_of(file))
        ).items():
            if not header:  # there is nothing but blank lines
                continue
            # A column that is not pinned is read as text, under a name that clashes with none, and left out.
            layout = {
                name if name in columns else f"{EXTRA}{nth}": columns.get(name, "string")
                for nth, name in enumerate(header)
            }
            extra = {column: name for column, name in zip(layout, header, strict=True) if name not in columns}
            for paths in together(group):
                if by_line:
                    found = lines.read(reader(), paths, encoding)
                    part = lines.csv_records(
                        found, encoding, layout, options, settings.header, self.unknown_fields, extra
                    )
                else:
                    part = (
                        reader()
                        .schema(ddl({**decimals_as_text(layout), CORRUPT: "string"}))
                        .options(**options)
                        .option("header", settings.header)
                        .option("columnPruning", False)  # or a row too short or too long would pass
                        .csv(paths)
                    )
                    if self.unknown_fields == "keep":
                        kept = F.when(F.col(CORRUPT).isNull(), kept_values(plain(extra)))
                        part = part.withColumn(KEPT, kept)
                    if self.with_metadata:
                        part = part.select("*", part.metadataColumn("_metadata").alias(METADATA))
                missing = [F.lit(None).cast(kind).alias(n) for n, kind in columns.items() if n not in layout]
                parts.append(part.select("*", *missing))
        return parts

    def require_fast(self) -> None:
        super().require_fast()
        require_plain_csv(self.columns, self.settings.delimiter)

    def load(self, file: SourceFile) -> pa.Table:
        header = None if self.settings.header else self._headless(file)
        return csv_lines(
            self.text_of(file), self.columns, self.settings.delimiter, header, self.unknown_fields
        )

    def needs_lines(self, files: Sequence[SourceFile]) -> bool:
        """A dead letter has the bytes of its row."""
        return super().needs_lines(files) or self.unknown_fields == "dead_letter"

    def header(self, file: SourceFile) -> tuple[str, ...]:
        """The names of a file's columns, in their order; none where it has only blank lines. `DamagedFile`
        where they cannot be read."""
        settings = self.settings
        if not settings.header:
            return self._headless(file)
        with (
            reading(file.local),
            damage_found("csv"),
            open_text(file.local, settings.encoding, newline="") as text,
        ):
            left = longest = min(settings.max_line // _BYTES_OF_A_CHARACTER, _LONGEST_HEADER)
            while line := text.readline(left):
                left -= len(line)
                if left == 0:
                    raise DamagedFile(f"it is not in the first {longest} characters")
                if row := csv_row(line.rstrip("\r\n"), settings.delimiter):
                    return tuple(row)
        return ()

    def _headless(self, file: SourceFile) -> tuple[str, ...]:
        """The columns of a file without a header: those that its folders do not say, as declared."""
        in_folders = self.folders(file)
        return tuple(column for column in self.columns if column not in in_folders)

    def _misled(self, file: SourceFile) -> str | None:
        """Why a file's header cannot be followed."""
        encoding = self.settings.encoding
        try:
            header = self.header(file)
        except DamagedFile as error:
            return f"the header cannot be read: {error}"
        if not all(is_text(name, encoding) for name in header):
            return f"the header is not {encoding}; {other_encoding(encoding)}"
        known = [name for name in header if name in self.columns]
        if len(known) > len(set(known)):
            return f"the header names a column twice: {', '.join(known)}"
        if header and not known:
            return f"the header names none of the columns {', '.join(self.columns)}"
        return None
