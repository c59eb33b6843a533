"""What a decoder is: it turns the content of a source into typed columns, and reports what it could not read.

A record is the bytes of one event: a line of a file, a message of a topic. Decoders work in tasks: they can be pickled,
and need no Spark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Literal, cast

import pyarrow as pa

from latecomer.objects.files import Fingerprint, fingerprint
from latecomer.objects.locations import PLAIN, Storage, Url, reached_by, scheme_of
from latecomer.objects.open_files import AHEAD, open_object


@dataclass(frozen=True)
class SourceFile:
    """A file of a batch, as it was found. `str` gives its name."""

    path: str
    landed: int
    size: int
    reached: Storage = field(default=PLAIN, compare=False)
    """How it is reached, if it is at a URL."""
    seen: Fingerprint | None = field(default=None, compare=False)
    """The object that was cut into splits, if it is at a URL: all splits are read from the same object."""

    def __str__(self) -> str:
        return str(self.named)

    @property
    def named(self) -> Path | Url:
        """Its name: a path on this machine, or a URL."""
        return Path("/" + self.path.removeprefix("file:").lstrip("/")) if self.url is None else self.url

    @property
    def suffix(self) -> str:
        return self.named.suffix

    @cached_property
    def url(self) -> Url | None:
        """Its URL, if it is not on this machine."""
        if scheme_of(self.path) in (None, "file"):
            return None
        place = Url(self.path)
        return place if self.reached == PLAIN else reached_by(place, self.reached)

    def open(self, mode: Literal["rb"] = "rb", /, ahead: int = AHEAD) -> BinaryIO:
        """Its bytes; those of an object are fetched `ahead`, so many at once."""
        match self.named:
            case Url() as url:
                return cast(BinaryIO, open_object(url, self.seen, ahead))
            case path:
                return path.open(mode)

    @property
    def state(self) -> Hashable:
        """What changes if it is replaced or written to."""
        match self.named:
            case Url() as url:
                return self.seen or fingerprint(url)
            case path:
                status = path.stat()
                return status.st_ino, status.st_size, status.st_mtime_ns

    def as_it_is(self) -> SourceFile:
        """The same file with its size at this moment."""
        match self.named:
            case Url() as url:
                now = fingerprint(url)
                return replace(self, size=now.size, seen=now)
            case path:
                return replace(self, size=path.stat().st_size)


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
