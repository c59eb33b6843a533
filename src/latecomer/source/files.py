"""Files as a source: each is cut into splits, which tasks decode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import functions as F

from latecomer.config.damage import DamagedFile
from latecomer.config.names import PRIVATE
from latecomer.source.base import Chunk, Slice, Split
from latecomer.source.columns import BROKEN, POSITION
from latecomer.source.decode.base import FileDecoder, FileSplit
from latecomer.source.decode.choose import file_decoder
from latecomer.source.decode.columns import CORRUPT, RECORD
from latecomer.source.decode.limits import MOST_LONG, too_many_long
from latecomer.source.decode.own import OwnLines
from latecomer.source.decode.retrying import reading_unchanged
from latecomer.source.found_files import FileSlice, FoundFiles, UnreadableFiles, files_of, present
from latecomer.source.letters import FileLetters
from latecomer.source.staging import StagedSplit, Staging, staged_rows
from latecomer.store.layout import source_type

_KEPT_RECORD = f"{PRIVATE}kept_record"
SPLIT_BYTES = 4 << 20
"""About so many bytes of a file are one split, on every machine: a row's position depends on it."""


@dataclass(frozen=True)
class FilePart(Split):
    """A split of a file, or the whole of a file that cannot be read."""

    part: FileSplit
    unreadable: str | None = None
    """Why none of the file is read: it is one dead letter."""

    @property
    def size(self) -> int:
        return self.part.size


@dataclass(frozen=True)
class FileSource(FoundFiles):
    """The pipeline's files."""

    @cached_property
    def decoder(self) -> FileDecoder:
        return file_decoder(self.pipeline, self.read_columns, self.folder_values)

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        """The parts of each file; of one that was found to be unreadable, one part with the reason."""
        known = slice_.unreadable if isinstance(slice_, FileSlice) else {}
        found: list[Split] = []
        for file in map(present, files_of(slice_)):
            if (reason := known.get(file.path) or self.misplaced(file)) is not None:
                found.append(FilePart(FileSplit(file), reason))
            else:
                found += [FilePart(part) for part in self.decoder.splits(file, SPLIT_BYTES)]
        return (
            found
            if not isinstance(self.decoder, OwnLines)
            else self._decoded(self.decoder, found, slice_, staging)
        )

    def _decoded(self, own: OwnLines, parts: Sequence[Split], slice_: Slice, staging: Staging) -> list[Split]:
        """Records that a decoder of the user's own reads: tasks cut the files into them, and Spark decodes."""
        readable = [each for each in parts if isinstance(each, FilePart) and each.unreadable is None]
        aside = [each for each in parts if each not in readable]
        records = staging.records(self, readable)
        if records is None:
            return aside
        kept = records.withColumn(_KEPT_RECORD, F.col(RECORD))
        decoded = own.records.decoded(kept, self.read_columns)
        whole = F.when(F.col(BROKEN).isNotNull(), F.col(_KEPT_RECORD).cast("string"))
        rows = decoded.withColumn(CORRUPT, F.coalesce(CORRUPT, whole)).drop(_KEPT_RECORD)
        return [*aside, *staging.staged(rows, slice_.newest)]

    def recorded(self, splits: Sequence[Split]) -> Iterator[pa.Table]:
        """RECORD, and where each record stands, a chunk at a time."""
        for split in splits:
            assert isinstance(split, FilePart)  # noqa: S101
            for rows in self._rows(split):
                yield self.located(rows, split.part.file)

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        """Files that turn out to be damaged are refused as a whole, all of them together: `UnreadableFiles`."""
        parts = [each for each in splits if isinstance(each, FilePart)]
        kinds = {name: source_type(kind) for name, kind in self.read_columns.items()}
        for split in splits:
            if isinstance(split, StagedSplit):
                letters = FileLetters(self.pipeline, self.read_columns, self.decoder, [])
                for rows in staged_rows(split, kinds):
                    named = {self.pipeline.source_name(name): name for name in self.columns}
                    rows = rows.rename_columns([named.get(each, each) for each in rows.column_names])
                    yield Chunk(rows, self.clock, letters, long_lines=letters.long_lines(rows))
        files = list(dict.fromkeys(each.part.file for each in parts))
        letters = FileLetters(self.pipeline, self.read_columns, self.decoder, files)
        damaged = dict[str, str]()
        for split in parts:
            file = split.part.file
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
        found = [path for path, count in long_lines.items() if count > MOST_LONG]
        if found:
            raise UnreadableFiles(dict.fromkeys(found, too_many_long(self.pipeline.files.max_line)))

    def _rows(self, split: FilePart) -> Iterator[pa.Table]:
        file = split.part.file
        if split.unreadable is not None:
            yield broken_row(split.unreadable, self.read_columns)
            return
        with reading_unchanged(file):
            reason = self.decoder.misfit(file)
            if reason is None:
                try:
                    yield from self.decoder.decode(split.part)
                except DamagedFile as error:
                    reason = str(error)
        if reason is not None:
            raise UnreadableFiles({file.path: reason})


def broken_row(reason: str, columns: Mapping[str, str]) -> pa.Table:
    """The one row that stands for a file which cannot be read."""
    nothing = {name: pa.nulls(1, source_type(kind)) for name, kind in columns.items()}
    return pa.table({**nothing, BROKEN: pa.array([reason], pa.string()), POSITION: pa.array([0], pa.int64())})
