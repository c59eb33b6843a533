"""Files on this machine: what `files.py` offers, for locations that are paths.

What must outlast a power cut is brought to the disk in order: a file that was written and not synced may be
empty afterwards, or not be there at all, whatever was written after it. So each step of a batch syncs what it
wrote before the next step begins (ADR 0026).
"""

from __future__ import annotations

import errno
import fcntl
import glob
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import TypeAlias

import pyarrow as pa

from latecomer.objects.tagged import Tagged

Location: TypeAlias = PurePath
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_NOT_OFFERED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
"""What a file system answers that cannot do what it was asked for."""


# What is there


def exists(location: Location) -> bool:
    return Path(location).exists()


def is_file(location: Location) -> bool:
    return Path(location).is_file()


def is_folder(location: Location) -> bool:
    return Path(location).is_dir()


def is_link(location: Location) -> bool:
    """Whether it only leads to what is somewhere else."""
    return Path(location).is_symlink()


def names(folder: Location) -> list[str]:
    """What is in a folder, in order; nothing where there is none."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def sizes(folder: Location, ending: str) -> dict[str, int]:
    """The sizes of the files in a folder whose names end so, in order of name."""
    try:
        with os.scandir(folder) as entries:
            found = sorted(
                (each for each in entries if each.name.endswith(ending)), key=lambda each: each.name
            )
    except (FileNotFoundError, NotADirectoryError):
        return {}
    known = {}
    for each in found:
        try:
            known[each.name] = each.stat().st_size
        except FileNotFoundError:  # gone meanwhile
            continue
    return known


def files_below(folder: Location) -> list[Location]:
    """Every file in a folder and in those below it, in order of name. Links to folders are not followed."""
    found: list[Location] = [Path(each, name) for each, _, inside in os.walk(folder) for name in inside]
    return sorted(found)


def size(file: Location) -> int:
    return os.stat(file).st_size


def written_at(location: Location) -> float:
    """When a file was last written, or a folder's list of names; in seconds since the epoch."""
    return os.stat(location).st_mtime


def made(folder: Location) -> tuple[int, int] | None:
    """What tells a folder from another that took its name; None where there is none."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_writable(folder: Location) -> bool:
    """Whether files can be made in a folder that is there."""
    return os.access(folder, os.W_OK | os.X_OK)


# Small files


def read_bytes(file: Location) -> bytes:
    return Path(file).read_bytes()


def read_end(file: Location, count: int) -> bytes:
    """The last bytes of a file."""
    with open(file, "rb") as opened:
        opened.seek(-count, os.SEEK_END)
        return opened.read()


def replace_bytes(file: Location, content: bytes) -> None:
    """Put bytes into a file: whole or not at all, and for good once this returns."""
    draft = file.with_name(f".{file.name}")
    with _named(draft), open(draft, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(draft, file)
    sync_folder(file.parent)


def read_tagged(file: Location) -> Tagged | None:
    try:
        content = read_bytes(file)
    except FileNotFoundError:
        return None
    return Tagged(content, _tag(content))


def put_new(file: Location, content: bytes) -> str | None:
    return _put_if(file, content, None)


def put_over(file: Location, content: bytes, tag: str) -> str | None:
    return _put_if(file, content, tag)


def _put_if(file: Location, content: bytes, tag: str | None) -> str | None:
    """Put a content into a file whose tag is this one, or which is not there: one process after the other."""
    make_folder(file.parent)
    with open(file.with_name(f".{file.name}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = read_tagged(file)
        if (found and found.tag) != tag:
            return None
        replace_bytes(file, content)
        return _tag(content)


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# What goes, and what moves


def remove(file: Location) -> None:
    """Remove a file, if it is there."""
    Path(file).unlink(missing_ok=True)


def remove_all(folder: Location) -> None:
    """Remove a folder with all that is in it, as far as that can be done."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_empty(folder: Location, within: Location) -> None:
    """Remove a folder if it is empty, and those above it that are empty then, as long as they are within another."""
    while folder != within:
        try:
            os.rmdir(folder)
        except OSError:  # not empty, or gone already
            return
        folder = folder.parent


def move(file: Location, to: Location) -> Location:
    """Have a file in another location, and no longer in this one."""
    os.makedirs(to.parent, exist_ok=True)
    os.replace(file, to)
    return to


def copy(file: Location, to: Location) -> Location:
    os.makedirs(to.parent, exist_ok=True)
    shutil.copyfile(file, to)
    return to


# Arrow


@contextmanager
def new_arrow(file: Location, schema: pa.Schema) -> Iterator[pa.ipc.RecordBatchFileWriter]:
    """A new Arrow file, which gets its name once it is whole and on the disk. The name may be lost in a power cut."""
    draft = file.with_suffix(".tmp")
    os.makedirs(file.parent, exist_ok=True)
    with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        yield writer
    sync(draft)  # torn in the middle it would still open
    os.replace(draft, file)


def open_arrow(file: Location) -> pa.ipc.RecordBatchFileReader:
    """An Arrow file. What is not asked for stays on the disk."""
    return pa.ipc.open_file(pa.memory_map(str(file)))


# On the disk, in order


def sync(location: Location) -> None:
    """Bring a file's bytes, or a folder's list of names, to the disk."""
    handle = os.open(location, os.O_RDONLY)
    try:
        with _named(location):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _named(location: Location) -> Iterator[None]:
    """What goes wrong with an open file does not say which: name it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(location)) from None


def sync_files(files: Iterable[Location], root: Location) -> None:
    """Bring files to the disk, and every folder on the way to them from `root`, each once."""
    folders: set[Location] = set()
    for file in files:
        sync(file)
        folders.update(folder for folder in file.parents if folder.is_relative_to(root))
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        sync_folder(folder)


def sync_folder(folder: Location) -> None:
    """Bring a folder's list of names to the disk, where that can be asked for: some file systems keep it
    by themselves, and a folder that may not be opened is not ours to keep."""
    try:
        sync(folder)
    except PermissionError:
        return
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise


def make_folders(folder: Location) -> None:
    """Make a folder and those above it."""
    os.makedirs(folder, exist_ok=True)


def make_folder(folder: Location) -> None:
    """Make a folder that is still there after a power cut."""
    missing = [each for each in (folder, *folder.parents) if not exists(each)]
    os.makedirs(folder, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)


def require_room(folder: Location, count: int) -> None:
    """Refuse to begin what the disk has no room for, as far as it can be asked without writing."""
    with tempfile.TemporaryFile(dir=folder) as file, _named(folder):
        try:
            os.posix_fallocate(file.fileno(), 0, count)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise


# Who may read it, and who holds it


def keep_to_user(location: Location) -> None:
    """Let nobody but their owner read a file with those that SQLite and DuckDB keep beside it, or a folder with all
    that is in it. Links are not followed. An error says which file it was."""
    for each in _within(Path(location)):
        with suppress(FileNotFoundError):  # a run that goes on beside may remove files
            mode = each.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & _OTHERS:
                each.chmod(stat.S_IMODE(mode) & ~_OTHERS)


def _within(location: Path) -> Iterator[Path]:
    yield location
    for beside in ("-*", ".wal") if location.is_file() else ():
        yield from location.parent.glob(f"{glob.escape(location.name)}{beside}")
    for folder, folders, inside in os.walk(location):
        yield from (Path(folder, name) for name in (*folders, *inside))


class LockFile:
    """A file that one process at a time can hold. The kernel lets go of it, even after SIGKILL.

    If `whole`, the folder is held beside the file: the file can be deleted, and another process would then hold a
    new one.
    """

    def __init__(self, folder: Location, name: str, whole: bool) -> None:
        make_folder(folder)
        self._file = open(folder / name, "a+", encoding="utf-8")  # noqa: SIM115 - held until it is closed
        try:
            self._folder = os.open(folder, os.O_RDONLY) if whole else None
        except OSError:
            self._file.close()
            raise

    def take(self) -> bool:
        """Hold it from here on; False where somebody else does."""
        try:
            for each in (self._folder, self._file.fileno()):
                if each is not None:
                    fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @property
    def holder(self) -> str:
        """Who holds it, as they have written."""
        self._file.seek(0)
        return self._file.read().strip()

    def sign(self, holder: str) -> None:
        """Write who holds it."""
        os.ftruncate(self._file.fileno(), 0)
        os.write(self._file.fileno(), holder.encode())

    def close(self) -> None:
        """Let go of it."""
        if self._folder is not None:
            os.close(self._folder)
        self._file.close()


def lock_holder(file: Location) -> tuple[str, float] | None:
    """Who holds a lock, and since when; None where nobody does, or it is not ours to ask. It is asked for and let go
    at once."""
    try:
        with open(file, encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return handle.read().strip(), os.fstat(handle.fileno()).st_mtime
    except OSError:
        pass
    return None
