"""Files as a source: each is cut into splits, which tasks decode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from latecomer.config.damage import DamagedFile
from latecomer.decode.base import FileDecoder, FileSplit
from latecomer.decode.choose import file_decoder
from latecomer.decode.retrying import require_unchanged, states_of
from latecomer.source.base import Chunk, Slice, Split
from latecomer.source.columns import BROKEN, POSITION
from latecomer.source.found_files import FileSlice, FoundFiles, UnreadableFile, files_of, require_present
from latecomer.source.letters import FileLetters
from latecomer.source.staging import Staging
from latecomer.store.layout import source_type

SPLIT_BYTES = 32 << 20
"""About so many bytes of a file are one split, on every machine: a row's position depends on it."""


@dataclass(frozen=True)
class FilePart(Split):
    """A split of a file, or the whole of a file that cannot be read."""

    part: FileSplit
    unreadable: str | None = None
    """Why none of the file is read: it is one dead letter."""

    @property
    def size(self) -> int:
        file = self.part.file
        return (file.size if self.part.end is None else min(self.part.end, file.size)) - self.part.start


@dataclass(frozen=True)
class FileSource(FoundFiles):
    """The pipeline's files."""

    @cached_property
    def decoder(self) -> FileDecoder:
        return file_decoder(self.pipeline, self.read_columns, self.folder_values)

    def splits(self, piece: Slice, staging: Staging) -> Sequence[Split]:
        """The parts of each file; of one that was found to be unreadable, one part with the reason."""
        known = piece.unreadable if isinstance(piece, FileSlice) else {}
        found: list[FilePart] = []
        for file in files_of(piece):
            require_present(file)
            if (reason := known.get(file.path) or self.misplaced(file)) is not None:
                found.append(FilePart(FileSplit(file), reason))
            else:
                found += [FilePart(part) for part in self.decoder.splits(file, SPLIT_BYTES)]
        return found

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        """A file that turns out to be damaged is refused as a whole: `UnreadableFile`."""
        parts = [each for each in splits if isinstance(each, FilePart)]
        files = list(dict.fromkeys(each.part.file for each in parts))
        letters = FileLetters(self.pipeline, self.read_columns, self.decoder, files)
        for split in parts:
            for rows in self._rows(split):
                file = split.part.file
                yield Chunk(self.placed(rows, file), self.clock, letters, landed=file.landed)

    def _rows(self, split: FilePart) -> Iterator[pa.Table]:
        file = split.part.file
        if split.unreadable is not None:
            yield _broken(split.unreadable, self.read_columns)
            return
        before = states_of([file.local])
        if (reason := self.decoder.misfit(file)) is not None:
            raise UnreadableFile(file.path, reason)
        try:
            yield from self.decoder.decode(split.part)
        except DamagedFile as error:
            require_unchanged(before)
            raise UnreadableFile(file.path, str(error)) from None
        require_unchanged(before)


def _broken(reason: str, columns: Mapping[str, str]) -> pa.Table:
    """The one row that stands for a file which cannot be read."""
    nothing = {name: pa.nulls(1, source_type(kind)) for name, kind in columns.items()}
    return pa.table({**nothing, BROKEN: pa.array([reason], pa.string()), POSITION: pa.array([0], pa.int64())})
