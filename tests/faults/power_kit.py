"""A disk that loses power: what was synced is there afterwards, the rest is gone or empty.

The run itself writes to an ordinary folder. `Disk` listens to every fsync of this process and keeps what
is durable by then: the bytes of each file at its last sync, the names in each folder at its. A *cut* is
that record at one moment; it can be laid out as a folder again, as a machine would find it after power came
back. SQLite syncs by itself and is left out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest


class Named(NamedTuple):
    """What a name in a folder stands for. A folder stays one after it has been removed: its removal may be lost."""

    inode: int
    is_folder: bool


Names = Mapping[str, Named]
"""What a folder holds."""


@dataclass(frozen=True)
class Cut:
    """What is on the disk at one moment."""

    root: int
    contents: Mapping[int, bytes]
    """File → its bytes when it was last synced."""
    synced: Mapping[int, Names]
    """Folder → its names when it was last synced."""
    seen: Mapping[int, Names]
    """Folder → its names as the process sees them."""

    def files(self, names_survive: bool) -> dict[Path, bytes | None]:
        """What is found again, by its place below the folder; a folder has no bytes. Where names survive,
        files that were not synced are empty."""
        return dict(self._found(self.root, Path(), self.seen if names_survive else self.synced))

    def _found(
        self, folder: int, place: Path, names: Mapping[int, Names]
    ) -> Iterator[tuple[Path, bytes | None]]:
        yield place, None
        for name, each in names.get(folder, {}).items():
            if each.is_folder:
                yield from self._found(each.inode, place / name, names)
            else:
                yield place / name, self.contents.get(each.inode, b"")

    def lay_out(self, target: Path, names_survive: bool) -> None:
        """The folder as it is found again."""
        for place, written in self.files(names_survive).items():
            if written is None:
                (target / place).mkdir(parents=True, exist_ok=True)
            else:
                (target / place).write_bytes(written)


@dataclass
class Disk:
    """Everything below a folder, and every moment at which power might have been cut."""

    root: Path
    cuts: list[Cut] = field(default_factory=list)
    _contents: dict[int, bytes] = field(default_factory=dict)
    _synced: dict[int, Names] = field(default_factory=dict)
    _held: dict[int, int] = field(default_factory=dict)
    """Inode → a handle on it: while there is one, no other file gets its number."""
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def listening(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        fsync = os.fsync

        def listen(handle: int) -> None:
            with self._one_at_a_time:
                fsync(handle)
                self._heard(Path(os.readlink(f"/proc/self/fd/{handle}")))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", listen)
            yield
        for handle in self._held.values():
            os.close(handle)

    def _heard(self, path: Path) -> None:
        if not path.is_relative_to(self.root):
            return
        # The worst moment is the one before the sync: all that was written since the last one is at stake.
        self.cuts.append(self._cut())
        inode = path.stat().st_ino
        if inode not in self._held:
            self._held[inode] = os.open(path, os.O_RDONLY)
        if path.is_dir():
            self._synced[inode] = _names(path)
        else:
            self._contents[inode] = path.read_bytes()

    def _cut(self) -> Cut:
        seen: dict[int, Names] = {}
        _see(self.root, self.root.stat().st_ino, seen)
        return Cut(self.root.stat().st_ino, dict(self._contents), dict(self._synced), seen)


def _see(folder: Path, inode: int, seen: dict[int, Names]) -> None:
    """Note what each folder holds. Each is listed once: others make and remove folders meanwhile."""
    seen[inode] = names = _names(folder)
    for name, each in names.items():
        if each.is_folder:
            _see(folder / name, each.inode, seen)


def _names(folder: Path) -> Names:
    try:
        with os.scandir(folder) as found:
            return {each.name: Named(each.inode(), each.is_dir(follow_symlinks=False)) for each in found}
    except FileNotFoundError:
        return {}
