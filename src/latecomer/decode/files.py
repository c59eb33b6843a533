"""A file of a source, as it was found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SourceFile:
    """A file of a batch, as it was found."""

    path: str
    landed: int
    size: int

    @property
    def local(self) -> Path:
        return Path("/" + self.path.removeprefix("file:").lstrip("/"))
