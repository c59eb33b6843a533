"""What must outlast a power cut: files, and the folders that name them, brought to the disk in order.

A file that was written and not synced may be empty after a power cut, or not be there at all, whatever
was written after it. So each step of a batch syncs what it wrote before the next step begins.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path


def sync(path: Path) -> None:
    """Bring a file's bytes, or a folder's list of names, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        with _named(path):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """What goes wrong with an open file does not say which: name it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def sync_files(files: Iterable[Path], root: Path) -> None:
    """Bring files to the disk, and every folder on the way to them from `root`, each once."""
    folders: set[Path] = set()
    for file in files:
        sync(file)
        folders.update(folder for folder in file.parents if folder.is_relative_to(root))
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Bring a folder's list of names to the disk, where that can be asked for: some file systems keep it
    by themselves, and a folder that may not be opened is not ours to keep."""
    try:
        sync(folder)
    except PermissionError:
        return
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def make_folder(folder: Path) -> None:
    """Make a folder that is still there after a power cut."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)


def require_room(folder: Path, size: int) -> None:
    """Refuse to begin what the disk has no room for, as far as it can be asked without writing."""
    with tempfile.TemporaryFile(dir=folder) as file, _named(folder):
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP):
                raise


def replace_text(file: Path, text: str) -> None:
    """Put a text into a file: whole or not at all, and for good once this returns."""
    draft = file.with_name(f".{file.name}")
    with _named(draft), open(draft, "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(draft, file)
    sync_folder(file.parent)
