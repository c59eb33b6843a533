"""A small disk that can be filled up, and the steps of a run at which that is done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from latecomer.store import failpoints


@dataclass(frozen=True)
class SmallDisk:
    """A file system of a few megabytes, in memory."""

    root: Path

    @property
    def _filler(self) -> Path:
        return self.root / "filler"

    def fill(self) -> None:
        """Leave no room for a single byte."""
        with open(self._filler, "ab", buffering=0) as filler, suppress(OSError):
            while filler.write(b"x" * 4096):
                pass

    def make_room(self) -> None:
        self._filler.unlink(missing_ok=True)

    def remount(self, how: str) -> None:
        """Mount it once more: `ro`, to be read only, or `rw`."""
        subprocess.run(["mount", "-o", f"remount,{how}", str(self.root)], check=True)


@contextmanager
def small_disk(root: Path, megabytes: int) -> Iterator[SmallDisk]:
    """A disk mounted at a folder; the test is skipped where that is not allowed."""
    root.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", str(root)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("a small file system cannot be mounted here: it takes root's rights")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)


@dataclass
class Steps:
    """Disturbs a run where it first comes to a step; one step in each run, until each has had its turn."""

    disturb: Callable[[], None]
    chosen: Collection[str] | None = None
    begun: list[str] = field(default_factory=list)
    armed: bool = False

    def reached(self, name: str, batch: int = 0) -> None:
        if self.armed and name not in self.begun and (self.chosen is None or name in self.chosen):
            self.armed = False
            self.begun.append(name)
            self.disturb()

    def listen(self, monkeypatch: pytest.MonkeyPatch, owner: type, functions: Iterable[str]) -> None:
        """Listen at every failpoint, and at some functions of a class before they are called."""
        for each in list(sys.modules.values()):
            if vars(each).get("failpoint") is failpoints.failpoint and each is not failpoints:
                monkeypatch.setattr(each, "failpoint", self.reached)
        for name in functions:
            monkeypatch.setattr(owner, name, self._announced(name, getattr(owner, name)))

    def _announced(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def announced(*given: Any, **named: Any) -> Any:
            self.reached(name)
            return function(*given, **named)

        return announced


def failing_syncs(nth: int, number: int, monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """Let the nth sync below a folder fail with an error of the operating system, and every one after it."""
    fsync, heard = os.fsync, 0

    def fail(handle: int) -> None:
        nonlocal heard
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if path.is_relative_to(root):
            heard += 1
            if heard >= nth:
                raise OSError(number, os.strerror(number), str(path))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fail)
