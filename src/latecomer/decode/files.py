"""A file of a source, as the stream found it, and files that belong together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

_PATTERN = set("*?[]{}\\")
_Group = TypeVar("_Group")


@dataclass(frozen=True)
class SourceFile:
    """A file of a batch, as the stream found it."""

    path: str
    landed: int
    size: int

    @property
    def local(self) -> Path:
        return Path("/" + self.path.removeprefix("file:").lstrip("/"))


def grouped(
    files: Sequence[SourceFile], group_of: Callable[[SourceFile], _Group]
) -> dict[_Group, list[SourceFile]]:
    groups: dict[_Group, list[SourceFile]] = {}
    for file in files:
        groups.setdefault(group_of(file), []).append(file)
    return groups


def together(files: Sequence[SourceFile]) -> list[list[str]]:
    """Paths that may be read in one go. Spark reads files more than once if one looks like a pattern."""
    odd = [[file.path] for file in files if _PATTERN & set(file.path)]
    plain = [file.path for file in files if not _PATTERN & set(file.path)]
    return [plain, *odd] if plain else odd
