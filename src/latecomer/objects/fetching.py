"""Copies of objects on this machine, for what reads files as a whole: one for all processes here, kept for a while."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from functools import lru_cache
from pathlib import Path

from latecomer.objects.locations import Url, scheme_of

MOST_BYTES = 4 << 30
"""So much is kept, at least for as long as it may be in use."""
IN_USE_SECONDS = 3600.0
_BLOCK = 8 << 20


def fetched(file: Url, version: object) -> Path:
    """A copy of an object. The `version` tells it from one that takes its place."""
    from latecomer.objects.files import open_object  # with Arrow: only where there is an object

    copy = _place(file, version)
    if not copy.exists():
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        _make_room(copy.parent.parent)
        descriptor, draft = tempfile.mkstemp(dir=copy.parent, prefix=".draft-")
        with os.fdopen(descriptor, "wb") as written:
            content = open_object(file)
            while block := content.read(_BLOCK):
                written.write(block)
        Path(draft).replace(copy)
    return copy


def readable(name: str) -> str:
    """A file on this machine: itself, or a copy of an object as it is now."""
    if scheme_of(name) in (None, "file"):
        return name
    from latecomer.objects.files import written_at

    return str(fetched(Url(name), written_at(Url(name))))


@lru_cache(maxsize=4096)
def _place(file: Url, version: object) -> Path:
    return _folder() / hashlib.sha256(f"{file} {version!r}".encode()).hexdigest()[:24] / file.name


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"latecomer-fetched-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(1, "belongs to another user", str(folder))
    return folder


def _make_room(folder: Path) -> None:
    """Remove the oldest copies while there are too many."""
    found = []
    for each in folder.glob("*/*"):
        try:
            about = each.stat()
        except OSError:  # somebody else has removed it
            continue
        found.append((about.st_mtime, about.st_size, each))
    total = sum(size for _, size, _ in found)
    for made, size, each in sorted(found):
        if total <= MOST_BYTES or made > time.time() - IN_USE_SECONDS:
            return
        total -= size
        shutil.rmtree(each.parent, ignore_errors=True)
