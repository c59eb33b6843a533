"""What a decoder is: it turns the content of a source into typed columns, and reports what it could not read.

A record is the bytes of one event: a line of a file, a message of a topic. Decoders work in tasks: they can be pickled,
and need no Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from latecomer.source.decode.source_file import SourceFile


class Split(ABC):
    """A part of a slice that one task reads. The object itself is small, and can be sent to another process."""

    @property
    @abstractmethod
    def size(self) -> int:
        """About how many bytes it has."""


@dataclass(frozen=True)
class FileSplit(Split):
    """A part of a file that is read by itself; of a text file, the lines that begin in it."""

    file: SourceFile
    start: int = 0
    end: int | None = None
    unpacked: int | None = None
    """Its size in bytes when it is unpacked, if start and end do not count bytes."""
    unreadable: str | None = None
    """Why nothing of the file is read: the file is one dead letter."""

    @property
    def size(self) -> int:
        if self.unpacked is not None:
            return self.unpacked
        return (self.file.size if self.end is None else min(self.end, self.file.size)) - self.start


def other_columns(actual: Mapping[str, str], wanted: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """The columns that are missing or have another type: what is there instead, the name, and the wanted type."""
    for name, kind in wanted.items():
        if actual.get(name) != kind:
            yield f"{name} is {actual[name]}" if name in actual else f"there is no {name}", name, kind


class RecordDecoder(ABC):
    """Decodes records."""

    @abstractmethod
    def decode(self, records: Sequence[bytes], columns: Mapping[str, str]) -> pa.Table:
        """One row a record, in their order: the columns, and CORRUPT; KEPT, INVALID and SCHEMA_ID where the decoder
        knows them."""


class FileDecoder(ABC):
    """Decodes files of one format."""

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        """The splits of a file, in its order, of about so many bytes each."""
        return [FileSplit(file)]

    @abstractmethod
    def misfit(self, file: SourceFile) -> str | None:
        """Why a file cannot be read, as far as that is seen before it is decoded."""

    @abstractmethod
    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        """The rows of a split, a chunk at a time: the columns, CORRUPT and POSITION; KEPT and BROKEN if a row has them.
        `DamagedFile` if the file cannot be read to the end: then none of its rows counts."""
