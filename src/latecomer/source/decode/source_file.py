"""A file of a source, as it was found."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, Literal, cast

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
