"""Copies of a folder that is written to meanwhile: each file is of the moment at which the copying came to it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

View = Mapping[Path, bytes]
"""Every file of the folder at one moment."""


@dataclass
class Film:
    """Everything below a folder, at every moment at which the process brought something to the disk."""

    root: Path
    views: list[View] = field(default_factory=list)
    _known: dict[tuple[int, int, int], bytes] = field(default_factory=dict)
    _one_at_a_time: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def shooting(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        fsync = os.fsync

        def listen(handle: int) -> None:
            with self._one_at_a_time:
                fsync(handle)
                self.views.append(self._view())

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", listen)
            yield
        self.views.append(self._view())

    def _view(self) -> View:
        found = {}
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):  # Spark renames files of its own meanwhile
                    status = path.stat()
                    state = (status.st_ino, status.st_size, status.st_mtime_ns)
                    if state not in self._known:
                        self._known[state] = path.read_bytes()
                    found[path.relative_to(self.root)] = self._known[state]
        return found

    def copy(self, target: Path, random: Random) -> None:
        """A copy that begins and ends at any two moments, folder by folder in any order, as a program would make it."""
        first, last = sorted(random.choices(range(len(self.views)), k=2))
        paths = _in_any_order(sorted({path for view in self.views for path in view}), random)
        listed: dict[Path, View] = {}
        for nth, path in enumerate(paths):
            now = self.views[first + (last - first) * nth // len(paths)]
            # A folder is listed when the copying comes to it: what is made there later is not seen.
            seen = listed.setdefault(path.parent, now)
            if path in seen and path in now:
                (target / path).parent.mkdir(parents=True, exist_ok=True)
                (target / path).write_bytes(now[path])


def _in_any_order(paths: Sequence[Path], random: Random) -> list[Path]:
    """Folders in any order, each with all that is in it before the next."""
    rank: dict[Path, float] = {}
    return sorted(
        paths,
        key=lambda path: [rank.setdefault(each, random.random()) for each in (*reversed(path.parents), path)],
    )
