"""Files as a source: each is cut into splits, which tasks decode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import functions as F

from latecomer.config.damaged_files import DamagedFile
from latecomer.config.names import PRIVATE
from latecomer.source.base import Chunk, Slice
from latecomer.source.decode.base import FileDecoder, FileSplit, Split
from latecomer.source.decode.choose import file_decoder
from latecomer.source.decode.limits import MOST_LONG, too_many_long
from latecomer.source.decode.own import OwnLines
from latecomer.source.decode.private_columns import CORRUPT, RECORD
from latecomer.source.decode.retrying import reading_unchanged
from latecomer.source.decode.typed_columns import broken_row
from latecomer.source.found_files import FoundFiles, UnreadableFiles
from latecomer.source.letters import FileLetters
from latecomer.source.private_columns import BROKEN
from latecomer.source.staging import StagedSplit, Staging, staged_rows

_KEPT_RECORD = f"{PRIVATE}kept_record"
SPLIT_BYTES = 4 << 20
"""About the bytes of a split, the same on every machine: the position of a row depends on it."""


@dataclass(frozen=True)
class FileSource(FoundFiles):
    """The pipeline's files."""

    @cached_property
    def decoder(self) -> FileDecoder:
        return file_decoder(self.pipeline, self.read_columns, self.folder_values)

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        """The splits of each file; one for a file that cannot be read, with the reason."""
        parts: list[Split] = []
        for file, reason in self.present_files(slice_):
            if reason is not None:
                parts.append(FileSplit(file, unreadable=reason))
            else:
                parts += self.decoder.splits(file, SPLIT_BYTES)
        if isinstance(self.decoder, OwnLines):
            return self._decoded(self.decoder, parts, slice_, staging)
        return parts

    def _decoded(self, own: OwnLines, parts: Sequence[Split], slice_: Slice, staging: Staging) -> list[Split]:
        """For a user's own decoder: tasks cut the files into records, and Spark decodes these."""
        readable = [each for each in parts if isinstance(each, FileSplit) and each.unreadable is None]
        unreadable = [each for each in parts if each not in readable]
        records = staging.records(self, readable)
        if records is None:
            return unreadable
        kept = records.withColumn(_KEPT_RECORD, F.col(RECORD))
        decoded = own.records.decoded(kept, self.read_columns)
        whole = F.when(F.col(BROKEN).isNotNull(), F.col(_KEPT_RECORD).cast("string"))
        rows = decoded.withColumn(CORRUPT, F.coalesce(CORRUPT, whole)).drop(_KEPT_RECORD)
        return [*unreadable, *staging.staged(rows, slice_.newest)]

    def recorded(self, splits: Sequence[Split]) -> Iterator[pa.Table]:
        """RECORD, and the origin and position of each, a chunk at a time."""
        for split in splits:
            assert isinstance(split, FileSplit)  # noqa: S101
            for rows in self._rows(split):
                yield self.located(rows, split.file)

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        """Damaged files are refused as a whole, and all in one `UnreadableFiles`."""
        parts = [each for each in splits if isinstance(each, FileSplit)]

        for split in splits:
            if isinstance(split, StagedSplit):
                letters = FileLetters(self.pipeline, self.read_columns, self.decoder, [])
                for rows in staged_rows(split, self.read_columns):
                    named = {self.pipeline.source_name(name): name for name in self.columns}
                    rows = rows.rename_columns([named.get(each, each) for each in rows.column_names])
                    yield Chunk(rows, self.clock, letters, long_lines=letters.long_lines(rows))
        files = list(dict.fromkeys(each.file for each in parts))
        letters = FileLetters(self.pipeline, self.read_columns, self.decoder, files)
        damaged = dict[str, str]()
        for split in parts:
            file = split.file
            try:
                for rows in self._rows(split):
                    if not damaged:
                        placed = self.placed(rows, file)
                        long = letters.long_lines(placed)
                        yield Chunk(placed, self.clock, letters, landed=file.landed, long_lines=long)
            except UnreadableFiles as error:
                damaged |= error.reasons
        if damaged:
            raise UnreadableFiles(damaged)

    def require_few(self, long_lines: Mapping[str, int]) -> None:
        paths = [path for path, count in long_lines.items() if count > MOST_LONG]
        if paths:
            raise UnreadableFiles(dict.fromkeys(paths, too_many_long(self.pipeline.files.max_line)))

    def _rows(self, split: FileSplit) -> Iterator[pa.Table]:
        file = split.file
        if split.unreadable is not None:
            yield broken_row(self.read_columns, split.unreadable)
            return
        with reading_unchanged(file):
            reason = self.decoder.misfit(file)
            if reason is None:
                try:
                    yield from self.decoder.decode(split)
                except DamagedFile as error:
                    reason = str(error)
        if reason is not None:
            raise UnreadableFiles({file.path: reason})
