"""What can be opened and read: a path, a URL, or a file of a source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Literal, Protocol, cast

from latecomer.objects.locations import Url, location


class Readable(Protocol):
    """It prints as its name."""

    @property
    def suffix(self) -> str:
        """What its name ends with, from the last dot on."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Its bytes. They can be read anywhere."""


@dataclass(frozen=True)
class _AtUrl:
    url: Url

    def __str__(self) -> str:
        return str(self.url)

    @property
    def suffix(self) -> str:
        return self.url.suffix

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        from latecomer.objects.files import open_object  # with Arrow: only where there is an object

        return cast(BinaryIO, open_object(self.url))


def readable(name: str) -> Readable:
    """What has this name."""
    place = location(name)
    return _AtUrl(place) if isinstance(place, Url) else place
