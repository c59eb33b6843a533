"""Files that can be opened, wherever they are."""

from __future__ import annotations

from typing import BinaryIO, Literal, Protocol, TypeAlias, cast

from latecomer.objects.locations import Url


class Opens(Protocol):
    """A path, or a file of a source."""

    @property
    def suffix(self) -> str:
        """What its name ends with, from the last dot on."""

    def open(self, mode: Literal["rb"], /) -> BinaryIO:
        """Its bytes. They can be read anywhere."""


Readable: TypeAlias = Opens | Url


def opened(file: Readable) -> BinaryIO:
    """The bytes of a file, to be read anywhere; of an object by ranges."""
    if not isinstance(file, Url):
        return file.open("rb")
    from latecomer.objects.files import open_object  # with Arrow: only where there is an object

    return cast(BinaryIO, open_object(file))
