"""Files on this machine: what `files.py` offers, for locations that are paths.

What must survive a power cut is synced to the disk in order: a file that was not synced may be empty or missing
afterwards, even if later files are complete. So each step of a batch syncs its files before the next step begins (ADR
0026).
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
from uuid import uuid4

import pyarrow as pa

from latecomer.objects.files import Tagged

Location: TypeAlias = PurePath
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_NOT_OFFERED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
"""Errors of a file system that does not offer an operation."""


# Looking


def names(folder: Location) -> list[str]:
    """The names in a folder, sorted; none where there is no folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def sizes(folder: Location, ending: str) -> dict[str, int]:
    """The sizes of the files in a folder with this ending, in order of name."""
    try:
        with os.scandir(folder) as entries:
            matching = [each for each in entries if each.name.endswith(ending)]
    except (FileNotFoundError, NotADirectoryError):
        return {}
    found = {}
    for each in sorted(matching, key=lambda each: each.name):
        with suppress(FileNotFoundError):  # removed meanwhile
            found[each.name] = each.stat().st_size
    return found


def files_below(folder: Location) -> list[Location]:
    """Every file in a folder and in those below it, in order of name. Links to folders are not followed."""
    found: list[Location] = [Path(each, name) for each, _, inside in os.walk(folder) for name in inside]
    return sorted(found)


def folder_identity(folder: Location) -> tuple[int, int] | None:
    """What tells a folder from a later one of the same name; None where there is no folder."""
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_writable(folder: Location) -> bool:
    """Whether files can be made in a folder that exists."""
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
    """Write bytes into a file: whole or not at all, and durable once this returns."""
    draft = file.with_name(f".{file.name}")
    with _named(draft), open(draft, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    os.replace(draft, file)
    sync_folder(file.parent)


def read_tagged(file: Location) -> Tagged | None:
    """The content of a small file, and a tag; writing another content changes the tag. None where there is no file."""
    try:
        content = read_bytes(file)
    except FileNotFoundError:
        return None
    return Tagged(content, _tag(content))


def put_if(file: Location, content: bytes, tag: str | None) -> str | None:
    """Replace a file that still has this tag, or, for None, write a new one. Gives the new tag, or None where the file
    has another tag, or exists. Of several writers, one succeeds."""
    make_folder(file.parent)
    with open(file.with_name(f".{file.name}.lock"), "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stored = read_tagged(file)
        if (stored and stored.tag) != tag:
            return None
        replace_bytes(file, content)
        return _tag(content)


def _tag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# A small file that engines replace without a lock: a folder of numbered versions
#
# A lease cannot use a lock: an engine that is stopped keeps its lock, and nobody could take over from it. Some shared
# folders have no locks at all. A version gets its number by a hard link, once its content is complete. Of several
# engines, one gets the link. The highest number is the file, and older versions are removed. A slow engine may get a
# number that was removed long ago. Then it sees a higher one, and nobody ever reads its own.


def read_numbered(folder: Location) -> Tagged | None:
    """The content and its tag, the number; None where there is no version."""
    while numbers := _numbers(folder):
        with suppress(FileNotFoundError):  # it was replaced meanwhile
            return Tagged(read_bytes(_version(folder, numbers[-1])), str(numbers[-1]))
    return None


def put_numbered(folder: Location, content: bytes, tag: str | None) -> str | None:
    """Replace the version with this tag, or write the first one for None. Gives the new tag, or None where there is
    another version by now; even then the new one may exist for a moment."""
    number = int(tag or 0) + 1
    make_folder(folder)
    draft = folder / f".{uuid4().hex}"
    try:
        with open(draft, "wb") as opened:
            opened.write(content)
        sync(draft)
        if not _link(draft, _version(folder, number)):
            return None
    finally:
        Path(draft).unlink(missing_ok=True)
    sync_folder(folder)
    numbers = _numbers(folder)
    if numbers[-1] != number:
        Path(_version(folder, number)).unlink(missing_ok=True)
        return None
    for before in numbers[:-1]:
        Path(_version(folder, before)).unlink(missing_ok=True)
    return str(number)


def _link(draft: Location, version: Location) -> bool:
    """Give a draft the name of a version; False where the name is taken."""
    try:
        os.link(draft, version)
    except FileExistsError:
        return Path(draft).stat().st_nlink > 1  # a server that got the request twice made it the first time
    return True


def _numbers(folder: Location) -> list[int]:
    try:
        stems = (each.stem for each in Path(folder).iterdir() if each.suffix == ".json")
        return sorted(int(stem) for stem in stems if stem.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _version(folder: Location, number: int) -> Location:
    return folder / f"{number:012}.json"


# Removing and moving


def remove(file: Location) -> None:
    """Remove a file, if it exists."""
    Path(file).unlink(missing_ok=True)


def remove_all(folder: Location) -> None:
    """Remove a folder with all its content, as far as possible."""
    shutil.rmtree(folder, ignore_errors=True)


def remove_empty(folder: Location, within: Location) -> None:
    """Remove an empty folder, and then the empty folders above it, up to `within`, which stays."""
    while folder != within:
        try:
            os.rmdir(folder)
        except OSError:  # not empty, or removed already
            return
        folder = folder.parent


def move(file: Location, to: Location) -> Location:
    """Move a file to another location."""
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
    """A new Arrow file. It gets its name once it is complete and synced. A power cut may lose the name."""
    draft = file.with_suffix(".tmp")
    os.makedirs(file.parent, exist_ok=True)
    with pa.OSFile(str(draft), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        yield writer
    sync(draft)  # a file torn in the middle could still be opened
    os.replace(draft, file)


def open_arrow(file: Location) -> pa.ipc.RecordBatchFileReader:
    """An Arrow file. Only the needed parts are read."""
    return pa.ipc.open_file(pa.memory_map(str(file)))


# Syncing to the disk, in order


def sync(location: Location) -> None:
    """Sync a file's bytes, or a folder's list of names, to the disk."""
    handle = os.open(location, os.O_RDONLY)
    try:
        with _named(location):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _named(location: Location) -> Iterator[None]:
    """Add the name of the file to errors: those of an open file lack it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(location)) from None


def sync_files(files: Iterable[Location], root: Location) -> None:
    """Sync files, and every folder between `root` and them once."""
    folders: set[Location] = set()
    for file in files:
        sync(file)
        folders.update(folder for folder in file.parents if folder.is_relative_to(root))
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        sync_folder(folder)


def sync_folder(folder: Location) -> None:
    """Sync a folder's list of names, where that is possible: some file systems need no sync, and a folder that may not
    be opened is not ours."""
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
    """Make a folder that survives a power cut."""
    missing = [each for each in (folder, *folder.parents) if not Path(each).exists()]
    os.makedirs(folder, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)


def require_room(folder: Location, count: int) -> None:
    """Raise an error if the disk has no room for so many bytes, as far as that is known without writing them."""
    with tempfile.TemporaryFile(dir=folder) as file, _named(folder):
        try:
            os.posix_fallocate(file.fileno(), 0, count)
        except OSError as error:
            if error.errno not in _NOT_OFFERED:
                raise


# Permissions and locks


def keep_to_user(location: Location) -> None:
    """Let only the owner read a file with those that SQLite and DuckDB keep beside it, or a folder with all its
    content. Links are not followed. An error names the file."""
    for each in _within(Path(location)):
        with suppress(FileNotFoundError):  # a concurrent run may remove files
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
    """A file that one process at a time can lock. The kernel releases it when the process ends, even after SIGKILL.

    If `whole`, the folder is locked, too: if the file were deleted, another process could lock a new one.
    """

    def __init__(self, folder: Location, name: str, whole: bool) -> None:
        make_folder(folder)
        self._file = open(folder / name, "a+", encoding="utf-8")  # noqa: SIM115 - open as long as it is locked
        try:
            self._folder = os.open(folder, os.O_RDONLY) if whole else None
        except OSError:
            self._file.close()
            raise

    def take(self) -> bool:
        """Lock it; False where another process has it."""
        try:
            for each in (self._folder, self._file.fileno()):
                if each is not None:
                    fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    @property
    def holder(self) -> str:
        """The holder, as written in the file."""
        self._file.seek(0)
        return self._file.read().strip()

    def sign(self, holder: str) -> None:
        """Write the holder into the file."""
        os.ftruncate(self._file.fileno(), 0)
        os.write(self._file.fileno(), holder.encode())

    def close(self) -> None:
        """Release it."""
        if self._folder is not None:
            os.close(self._folder)
        self._file.close()


def lock_holder(file: Location) -> tuple[str, float] | None:
    """The holder of a lock, and since when; None where there is none, or the file may not be read. To find out, the
    lock is taken and released at once."""
    try:
        with open(file, encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return handle.read().strip(), os.fstat(handle.fileno()).st_mtime
    except OSError:
        pass
    return None
