"""Files of text, a record a line: their encoding, lines that are too long, and decimals, which are text at first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from latecomer.config.damage import DamagedFile
from latecomer.config.encodings import UTF8, file_encoding
from latecomer.config.sources import Files, UnknownFields
from latecomer.decode.arrow_json import may_have_others
from latecomer.decode.base import FileDecoder, FileSplit
from latecomer.decode.columns import BROKEN, CORRUPT, POSITION
from latecomer.decode.decimals import misfits, numbers
from latecomer.decode.files import SourceFile
from latecomer.decode.limits import Limits, LongLine, may_run_on
from latecomer.decode.retrying import reading
from latecomer.decode.text_lines import Lines, TextPart, cut
from latecomer.decode.typed_columns import column_type
from latecomer.fast import Declined
from latecomer.model.types import is_decimal
from latecomer.store.sql import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PACKED = (".gz", ".bz2", ".deflate", ".lz4", ".snappy", ".zst", ".xz", ".zip")


@dataclass(frozen=True)
class TextFiles(FileDecoder):
    """What JSON and CSV have in common."""

    settings: Files
    columns: Mapping[str, str]
    """Under the names that the source has for them."""
    unknown_fields: UnknownFields = field(default="ignore", kw_only=True)

    def misfit(self, file: SourceFile) -> str | None:
        try:
            self.long_lines(file)
        except DamagedFile as error:
            return str(error)
        return None

    def long_lines(self, file: SourceFile) -> tuple[LongLine, ...]:
        limits = Limits(self.settings.max_line, self.settings.max_unpacked)
        with reading(file.local):
            found = _long_lines_of(file, limits, self.encoding_of(file))
        if isinstance(found, str):
            raise DamagedFile(found)
        return found

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        with reading(file.local):
            return [FileSplit(file, *part) for part in cut(file.local, size)]

    def lines(self, split: FileSplit) -> Iterator[Lines | LongLine]:
        """The lines of a part, and those that are too long."""
        file, settings = split.file, self.settings
        part = TextPart(
            file.local,
            self.encoding_of(file),
            settings.max_line,
            settings.max_unpacked,
            split.start,
            split.end,
        )
        with reading(file.local):
            yield from part.lines()

    def numbered(self, split: FileSplit, read: Callable[[Lines], pa.Table]) -> Iterator[pa.Table]:
        """What is read of the lines of a part, and where each row stands. A line that is too long is a row, too."""
        position = split.start
        for each in self.lines(split):
            if isinstance(each, LongLine):
                yield self._too_long(each)
            elif len(each):
                rows = read(each)
                places = np.arange(position, position + rows.num_rows, dtype=np.int64)
                position += rows.num_rows
                yield rows.append_column(POSITION, pa.array(places))

    def _too_long(self, line: LongLine) -> pa.Table:
        columns = {name: pa.nulls(1, column_type(kind)) for name, kind in self.columns.items()}
        about = {
            CORRUPT: pa.array([line.first], pa.binary()),
            BROKEN: pa.array([""], pa.string()),
            POSITION: pa.array([line.start], pa.int64()),
        }
        return pa.table({**columns, **about})

    def encoding_of(self, file: SourceFile) -> str:
        with reading(file.local):
            return file_encoding(file.local, self.settings.encoding)

    def require_fast(self) -> None:
        if self.settings.encoding != UTF8:
            raise Declined("files in another encoding than UTF-8")

    def text_of(self, file: SourceFile) -> bytes:
        """The bytes of a file whose lines are all short enough, to be decoded in this process."""
        if file.local.suffix in PACKED:
            raise Declined("a file that is compressed")
        text = file.local.read_bytes()
        if has_longer_line(text, self.settings.max_line):
            raise Declined("lines that are too long")
        return text

    def doubt(self, part: DataFrame) -> Column | None:
        """For a number that its decimal column does not take: the dead letter has the bytes of its row."""
        from pyspark.sql import functions as F

        return F.expr(misfits(self._decimals)) if self._decimals else None

    def value(self, column: str, by_line: bool) -> str:
        return quoted(column) if by_line else numbers(self._decimals).get(column, quoted(column))

    def needs_lines(self, files: Sequence[SourceFile]) -> bool:
        return self.settings.encoding != UTF8

    @cached_property
    def _decimals(self) -> dict[str, str]:
        return {name: kind for name, kind in self.columns.items() if is_decimal(kind)}


def has_longer_line(text: bytes, longest: int) -> bool:
    """Whether a line has more bytes than this, with its end: one line end within as many bytes shows that none has.

    >>> has_longer_line(b"ab\\nabc\\n", 3), has_longer_line(b"ab\\nabc\\n", 4)
    (True, False)
    """
    start = 0
    while len(text) - start > longest:
        end = text.rfind(b"\n", start, start + longest)
        if end < 0:
            return True
        start = end + 1
    return False


@lru_cache(maxsize=4096)
def _long_lines_of(file: SourceFile, limits: Limits, encoding: str) -> tuple[LongLine, ...] | str:
    """The lines, or why they cannot be told: a batch may be read several times, and unpacking takes long."""
    try:
        return limits.long_lines(file.local, encoding)
    except DamagedFile as error:
        return str(error)


@lru_cache(maxsize=4096)
def runs_on(file: SourceFile) -> bool:
    """Whether a file of JSON lines may have one with more in it than an object."""
    with reading(file.local):
        return may_run_on(file.local)


@lru_cache(maxsize=4096)
def others_in(file: SourceFile, columns: tuple[tuple[str, str], ...]) -> bool:
    """Whether a file of JSON lines may have fields that are not among these columns."""
    return file.local.suffix in PACKED or may_have_others(file.local, dict(columns))


def forget_text_files() -> None:
    others_in.cache_clear()
    _long_lines_of.cache_clear()
    runs_on.cache_clear()
