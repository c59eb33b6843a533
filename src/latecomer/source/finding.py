"""Finds the new files of a source, writes them down, and hands them out batch by batch.

The source's path is listed again and again, and only folders that have changed are read. A folder is read again until
its modification time has stood still for longer than the coarsest clock of a file system ticks, and whenever that time
changes. Clocks are not compared: that of a file server may be wrong. Some file systems do not keep the times of folders
at all, so every folder is read now and then in any case. At a URL all objects below the base are listed, and not too
often, since each listing costs.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from latecomer.config.encodings import is_text
from latecomer.config.paths import SourcePath, is_hidden_folder, loops_back, special_kind
from latecomer.errors import SourceOutage, StoreError
from latecomer.objects.files import below, size
from latecomer.objects.locations import Url, options_of
from latecomer.source.checkpoint import CHECKPOINT, remove_checkpoint, taken_over
from latecomer.source.decode.base import SourceFile
from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.source_files import Found, FoundLog, PathSet, digests_of, in_reading_order

LOG = logging.getLogger(__name__)
SETTLED = 3.0
"""Seconds: on FAT, times are multiples of two seconds."""
SELDOM = 2.0
"""Seconds between two listings of a URL, at least."""
SHARE = 20
"""All folders are read again after so many times the seconds that it took, and after one second at least."""
_UNSEEN = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
_State = tuple[int, int, int]


@dataclass
class Finder:
    """Finds the files of a path for the source whose folder in the store is `home`."""

    home: Location
    path: SourcePath
    most: int
    """Files of a batch, at most."""

    @cached_property
    def log(self) -> FoundLog:
        return FoundLog(self.home)

    @cached_property
    def listing(self) -> Listing | UrlListing:
        return UrlListing(self.path) if self.path.is_url else Listing(self.path)

    def resume(self, accepted: int, logged: bool, parts: int) -> None:
        """Read which files were found before, also from stores of earlier versions; refuse what does not belong to this
        store."""
        self.path.require_folder()
        if files.exists(self.home / CHECKPOINT):
            LOG.info("taking over which files were read from Spark's checkpoint")
            checkpoint = taken_over(self.home, accepted, parts, logged)
            self.log.take_over(checkpoint.read, accepted)
            self.log.write(checkpoint.left, checkpoint.size)
            remove_checkpoint(self.home)
        self.log.open(accepted, logged)

    def look(self, accepted: int) -> None:
        """Write down which files are new; `SourceOutage` if they cannot be listed."""
        new_files = self.listing.new_files(self.log.known)
        if new_files.files:
            self.log.forget(accepted)
            self.log.write(new_files.files, self.most, new_files.loops)

    def files(self, number: int) -> Sequence[SourceFile] | None:
        """The files of a batch, including those that are gone by now; None if the batch was not found yet."""
        batch = self.log.batch(number)
        return None if batch is None else [self._file(file) for file in batch]

    def _file(self, found: Found) -> SourceFile:
        if not isinstance(self.listing, UrlListing):
            return SourceFile(f"file://{found.path}", found.landed, _size(found.path))
        reached = options_of(Url(self.path.base))
        return SourceFile(found.path, found.landed, self.listing.size(found.path), reached)


def _size(path: str) -> int:
    """A file's size; 0 where it is gone."""
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


@dataclass(frozen=True)
class NewFiles:
    """The files that were not known before."""

    files: Sequence[Found]
    """By modification time, then by path."""
    loops: Sequence[str]
    """Links to folders that they lie in."""


@dataclass
class _Folder:
    """A folder when it was last read."""

    state: _State
    since: float
    """When it was first seen in this state."""
    settled: bool
    """Whether it had been in this state for a while when it was read: it is not read again until its state changes."""
    folders: Sequence[str]


@dataclass(frozen=True)
class _Entries:
    """The content of a folder."""

    files: list[str]
    folders: list[str]
    loops: list[str]


@dataclass
class Listing:
    """Lists the files of a path again and again."""

    path: SourcePath
    _folders: dict[str, _Folder] = field(default_factory=dict)
    _whole_after: float = 0.0
    _warned: set[str] = field(default_factory=set)

    def new_files(self, known: PathSet) -> NewFiles:
        """The files that are not known; `SourceOutage` if a folder cannot be read."""
        began = time.monotonic()
        whole = began >= self._whole_after
        folders, found, loops = dict[str, _Folder](), list[Found](), list[str]()
        left = [self.path.base]
        while left:
            folder = left.pop()
            state = self._state(folder)
            if state is None:
                continue
            before = self._folders.get(folder)
            same = before is not None and before.state == state
            if before is None or not same or not before.settled or whole:
                since = before.since if before is not None and same else began
                entries = self._entries(folder)
                self._require_mounted(folder, state, entries)
                new, has_unseen = self._new_files(entries.files, known)
                found += new
                loops += entries.loops
                before = _Folder(state, since, not has_unseen and began - since >= SETTLED, entries.folders)
            folders[folder] = before
            left += before.folders
        self._folders = folders
        if whole:
            ended = time.monotonic()
            self._whole_after = ended + max(1.0, SHARE * (ended - began))
        return NewFiles(in_reading_order(found), self._new_loops(loops, known))

    def _require_mounted(self, folder: str, state: _State, entries: _Entries) -> None:
        """Refuse an empty folder that is on another file system than before: its file system was unmounted."""
        before = self._folders.get(folder)
        if before is not None and before.state[0] != state[0] and not (entries.files or entries.folders):
            raise SourceOutage(
                f"source folder {folder} is empty, and on another file system than before; mount it"
            )

    def _state(self, folder: str) -> _State | None:
        """What changes when something is put into a folder; None if the folder is gone by now."""
        status = None
        with self._outages(folder):
            status = Path(folder).stat()
        return None if status is None else (status.st_dev, status.st_ino, status.st_mtime_ns)

    @contextmanager
    def _outages(self, folder: str) -> Iterator[None]:
        """An error of the system is an outage. A folder may be gone by now, unless it is the source's own."""
        try:
            yield
        except OSError as error:
            if folder == self.path.base or not isinstance(error, (FileNotFoundError, NotADirectoryError)):
                raise SourceOutage(f"source folder {folder} cannot be listed: {error.strerror}") from error

    def _entries(self, folder: str) -> _Entries:
        """The files in a folder, and the folders in it that may hold files of the path."""
        entries, start = _Entries([], [], []), folder.rstrip("/") + "/"
        with self._outages(folder), os.scandir(folder) as scanned:
            for entry in scanned:
                path = start + entry.name
                if not _is_folder(entry):
                    entries.files.append(path)
                elif entry.is_symlink() and not is_hidden_folder(entry.name) and loops_back(path):
                    entries.loops.append(path)
                elif self.path.leads_to(path) and self._is_text(path):
                    entries.folders.append(path)
        return entries

    def _new_files(self, paths: Sequence[str], known: PathSet) -> tuple[list[Found], bool]:
        """The files of the path that are not known, and whether some cannot be seen now but may be later without a
        change of the folder: links to nothing."""
        found, has_unseen = [], False
        for path in _unknown_paths(paths, known):
            if not self.path.matches(path) or not self._is_text(path):
                continue
            try:
                status = Path(path).stat()
            except OSError as error:
                if error.errno not in _UNSEEN:
                    raise SourceOutage(f"{path} cannot be looked at: {error.strerror}") from error
                has_unseen = True
                continue
            if not stat.S_ISREG(status.st_mode) and (kind := special_kind(path)) is not None:
                LOG.warning("%s is not read: it is %s; it is a dead letter", path, kind)
            found.append(Found(path, status.st_mtime_ns // 1_000_000 * 1000))
        return found, has_unseen

    def _new_loops(self, links: Sequence[str], known: PathSet) -> list[str]:
        new = _unknown_paths([link for link in links if self._is_text(link)], known)
        for link in new:
            self._warn(
                link, f"{link} is a link to a folder that it lies in: nothing below it is read; remove it"
            )
        return new

    def _is_text(self, path: str) -> bool:
        """Whether a path is UTF-8. Others are not read, since no table can hold their names."""
        if path.isascii() or is_text(path):
            return True
        self._warn(path, f"{path!r} is not read: its name is not UTF-8; rename it")
        return False

    def _warn(self, path: str, words: str) -> None:
        """Warn about a path, once."""
        if path not in self._warned:
            self._warned.add(path)
            LOG.warning("%s", words)


@dataclass
class UrlListing:
    """Lists the objects of a path again and again."""

    path: SourcePath
    _after: float = 0.0
    _sizes: dict[str, int] = field(default_factory=dict)

    def new_files(self, known: PathSet) -> NewFiles:
        """The objects that are not known; `SourceOutage` if they cannot be listed."""
        began = time.monotonic()
        if began < self._after:
            return NewFiles([], [])
        base = Url(self.path.base)
        try:
            objects = [(f"{base}/{name}", about) for name, about in below(base)]
        except (StoreError, OSError) as error:
            raise SourceOutage(f"source folder {base} cannot be listed: {error}") from error
        matching = {path: about for path, about in objects if about["size"] and self.path.matches(path)}
        new = {path: matching[path] for path in _unknown_paths(list(matching), known)}
        self._sizes |= {path: about["size"] for path, about in new.items()}
        landed = (
            Found(path, round(about["last_modified"].timestamp() * 1000) * 1000)
            for path, about in new.items()
        )
        ended = time.monotonic()
        self._after = ended + max(SELDOM, SHARE * (ended - began))
        return NewFiles(in_reading_order(landed), [])

    def size(self, path: str) -> int:
        """The size of an object when it was found, or now if another run found it; 0 if it is gone."""
        try:
            return self._sizes.pop(path) if path in self._sizes else size(Url(path))
        except FileNotFoundError:
            return 0


def _unknown_paths(paths: Sequence[str], known: PathSet) -> list[str]:
    are_known = known.holds(digests_of(paths)).tolist()
    return [path for path, is_known in zip(paths, are_known, strict=True) if not is_known]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads nowhere
        return False
