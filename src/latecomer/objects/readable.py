"""What can be opened and read: a path, a URL, or a file of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Literal, Protocol, cast

from latecomer.objects.locations import Url, location


class Readable(Protocol):
    """Something with a name, which it prints as, and bytes to read."""

    @property
    def suffix(self) -> str:
        """The end of its name, from the last dot on."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Its bytes, in any order."""


@dataclass(frozen=True)
class _AtUrl:
    url: Url

    def __str__(self) -> str:
        return str(self.url)

    @property
    def suffix(self) -> str:
        return self.url.suffix

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        from latecomer.objects.open_files import open_object  # imports Arrow: only where it is needed

        return cast(BinaryIO, open_object(self.url))


def readable(name: str) -> Readable:
    """The file or object with this name."""
    place = location(name)
    return _AtUrl(place) if isinstance(place, Url) else place
