"""What a decoder is: it turns what a source holds into typed columns, and says what it could not read.

A record is the bytes of one event: a line of a file, a message of a topic. Decoders work in tasks: they can be pickled,
and need no Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from latecomer.source.decode.files import SourceFile


@dataclass(frozen=True)
class FileSplit:
    """A part of a file that is read by itself: of text the lines that begin in it."""

    file: SourceFile
    start: int = 0
    end: int | None = None
    unpacked: int | None = None
    """How many bytes it has when it is unpacked, where start and end do not count bytes."""

    @property
    def size(self) -> int:
        """About how many bytes there are to read."""
        if self.unpacked is not None:
            return self.unpacked
        return (self.file.size if self.end is None else min(self.end, self.file.size)) - self.start


def other_columns(found: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The columns that are missing or of another type: what there is instead, the name, and the type that it should
    have."""
    for name, kind in wanted.items():
        if found.get(name) != kind:
            yield f"{name} is {found[name]}" if name in found else f"there is no {name}", name, kind


class RecordDecoder(ABC):
    """Decodes records."""

    @abstractmethod
    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        """One row a record, in their order: the columns, and CORRUPT; KEPT, INVALID and SCHEMA_ID where the decoder
        knows them."""


class FileDecoder(ABC):
    """Decodes files of one format."""

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        """The parts of a file that can be read by themselves, in its order, of about so many bytes each."""
        return [FileSplit(file)]

    @abstractmethod
    def misfit(self, file: SourceFile) -> str | None:
        """Why a file cannot be read, as far as that can be seen before it is decoded."""

    @abstractmethod
    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        """The rows of a part, a chunk at a time: the columns, CORRUPT and POSITION; KEPT and BROKEN where one has it.
        `DamagedFile` where the file cannot be read to the end: then none of its rows counts."""
