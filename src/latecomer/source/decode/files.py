"""A file of a source, as it was found."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath

from latecomer.errors import SourceOutage, StoreError
from latecomer.objects.fetching import fetched
from latecomer.objects.locations import PLAIN, Storage, Url, reached_by, scheme_of


@dataclass(frozen=True)
class SourceFile:
    """A file of a batch, as it was found."""

    path: str
    landed: int
    size: int
    reached: Storage = field(default=PLAIN, compare=False)
    """How it is reached, where it is at a URL."""

    @property
    def named(self) -> PurePath:
        """Its name: a path on this machine, or a URL."""
        return Path("/" + self.path.removeprefix("file:").lstrip("/")) if self.url is None else self.url

    @cached_property
    def url(self) -> Url | None:
        """Where it is, if that is not on this machine."""
        if scheme_of(self.path) in (None, "file"):
            return None
        place = Url(self.path)
        return place if self.reached == PLAIN else reached_by(place, self.reached)

    @property
    def local(self) -> Path:
        """The file, or a copy of it, on this machine."""
        if self.url is None:
            return Path(self.named)
        try:
            return fetched(self.url, (self.landed, self.size))
        except (StoreError, OSError) as error:
            raise SourceOutage(
                f"{self.path} was found, and now it cannot be read ({error}); bring it back and run again, or put an "
                "empty file in its place to go on without it"
            ) from error
