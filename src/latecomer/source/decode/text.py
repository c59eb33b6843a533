"""Text files with a record on each line: their encoding, their positions, and lines that are too long."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from latecomer.config.damaged_files import DamagedFile
from latecomer.config.encodings import file_encoding
from latecomer.config.sources import Files, UnknownFields
from latecomer.model.written_numbers import AS_USUAL, Numbers
from latecomer.source.decode.base import FileDecoder, FileSplit, SourceFile
from latecomer.source.decode.json_rows import JsonLines
from latecomer.source.decode.limits import MOST_LONG, UNBOUNDED, LongLine, too_many_long
from latecomer.source.decode.private_columns import POSITION
from latecomer.source.decode.retrying import reading
from latecomer.source.decode.text_lines import Lines, TextPart, cut
from latecomer.source.decode.typed_columns import broken_row


@dataclass(frozen=True)
class TextFiles(FileDecoder):
    """What JSON and CSV have in common."""

    settings: Files
    columns: Mapping[str, str]
    """By their names in the source."""
    unknown_fields: UnknownFields = field(default="ignore", kw_only=True)
    numbers: Numbers = field(default=AS_USUAL, kw_only=True)

    def misfit(self, file: SourceFile) -> str | None:
        if file.suffix in UNBOUNDED:
            return f"files compressed as {file.suffix} are not read; use .gz or .bz2"
        return None

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        return [FileSplit(file, *part) for part in cut(file.suffix, file.size, size)]

    def numbered(self, split: FileSplit, read: Callable[[Lines], pa.Table]) -> Iterator[pa.Table]:
        """The rows of a split, with their positions. A line that is too long is a row too; `DamagedFile` if these are
        too many."""
        file, settings, position, long = split.file, self.settings, split.start, 0
        encoding = self.encoding_of(file)
        part = TextPart(file, encoding, settings.max_line, settings.max_unpacked, split.start, split.end)
        with reading(file):
            for each in part.lines():
                if isinstance(each, LongLine):
                    long += 1
                    if long > MOST_LONG:
                        raise DamagedFile(too_many_long(settings.max_line))
                    yield self.too_long(each)
                elif len(each):
                    rows = read(each)
                    places = np.arange(position, position + rows.num_rows, dtype=np.int64)
                    position += rows.num_rows
                    yield rows.append_column(POSITION, pa.array(places))

    def too_long(self, line: LongLine) -> pa.Table:
        """The row of a line that is too long."""
        return broken_row(self.columns, str(line.size), line.start, line.first)

    def encoding_of(self, file: SourceFile) -> str:
        with reading(file):
            return file_encoding(file, self.settings.encoding)


class JsonFiles(TextFiles):
    """Files with a JSON object on each line."""

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        return self.numbered(split, JsonLines(self.columns, self.unknown_fields, numbers=self.numbers).read)
