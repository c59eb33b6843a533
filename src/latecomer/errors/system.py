"""What the operating system refuses, in words: the reason and the fix.

The same refusal comes in many forms: as an `OSError` of Python or Arrow, as a text of delta-rs
(`… (os error 28)`) or of Java (`… (No space left on device)`). All of them are reported alike.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path


def nothing_lost(goes_on: str = "continues where this one stopped") -> str:
    """The last sentence of an error that ends a run.

    >>> nothing_lost("continues with batch 12")
    'Nothing is lost: the next run continues with batch 12'
    """
    return f"Nothing is lost: the next run {goes_on}"


@dataclass(frozen=True)
class Refusal:
    """Why the operating system refused a call."""

    number: int
    reason: str
    fix: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.fix}"


MORE_FILES = "allow more of them (ulimit -n 4096, or LimitNOFILE in a unit of systemd)"
_RIGHTS = "give whoever runs latecomer the right to read and write there"
_WORDS = {
    errno.ENOSPC: ("the disk is full", "make room there"),
    errno.EDQUOT: ("the user's quota is used up", "make room there, or raise the quota"),
    errno.EROFS: (
        "the file system can only be read",
        "check the disk for errors, then mount it for writing again",
    ),
    errno.EACCES: ("permission is denied", _RIGHTS),
    errno.EPERM: ("permission is denied", _RIGHTS),
    errno.EMFILE: ("too many files are open", MORE_FILES),
    errno.ENFILE: ("too many files are open on this machine", "close other programs, or raise fs.file-max"),
    errno.EIO: ("the disk reports an input/output error", "check the disk and how it is attached"),
    errno.ESTALE: ("the network file system has lost the file", "mount it again"),
}
_BY_TEXT = {os.strerror(number): number for number in _WORDS} | {
    # Java's exception for it has the path alone.
    "AccessDeniedException": errno.EACCES,
    "Stale NFS file handle": errno.ESTALE,
}
_RUST = re.compile(r"\(os error (\d+)\)")
_PATH = re.compile(r"(?<![\w/.])/[^\n]*?(?=#\d|\x20\(|:\x20|\n|$)")
"""A path within a text, up to the words after it."""
_ROOM = (errno.ENOSPC, errno.EDQUOT)


def refusal_of(error: BaseException | str) -> Refusal | None:
    """What the operating system refused, by an error of Python or by the text of another program.

    >>> str(refusal_of("Unable to open file: No space left on device (os error 28)"))
    'the disk is full; make room there'
    """
    text, by_rust = str(error), _RUST.search(str(error))
    numbers = [
        error.errno if isinstance(error, OSError) else None,
        None if by_rust is None else int(by_rust[1]),
        *(number for words, number in _BY_TEXT.items() if words in text),
    ]
    return next((Refusal(number, *_WORDS[number]) for number in numbers if number in _WORDS), None)


def refused(places: Iterable[Path]) -> Iterator[tuple[Path, Refusal]]:
    """The folders that cannot be written now, and why: for errors that name no folder."""
    for place in places:
        if (refusal := _try_to_write(place)) is not None:
            yield place, refusal


def _try_to_write(place: Path) -> Refusal | None:
    try:
        with tempfile.NamedTemporaryFile(dir=_nearest(place), prefix=".latecomer-") as file:
            file.write(b"\0" * 65536)
            file.flush()
    except OSError as error:
        return refusal_of(error)
    return None


def fullest(places: Iterable[Path]) -> Path:
    """The folder whose file system has the least room left."""
    return min(places, key=_room)


def _room(place: Path) -> int:
    try:
        system = os.statvfs(_nearest(place))
    except OSError:
        return 0
    # A file system that limits the number of files may run out of those instead.
    return 0 if system.f_files and not system.f_favail else system.f_bavail * system.f_frsize


def _nearest(place: Path) -> Path:
    """The folder itself, or the first existing one above it."""
    return next(each for each in (place, *place.parents) if each.is_dir())


def refused_sentence(error: BaseException | str, places: Iterable[Path]) -> str | None:
    """What was refused, where, and what to do; None if the operating system refused nothing.

    The place is the file that the error names. Java names none when it runs out of room: then the place is the
    fullest of `places`, the folders that may have been written.
    """
    refusal = refusal_of(error)
    return None if refusal is None else refused_in_words(refusal, _place(error, refusal, list(places)))


def refused_in_words(refusal: Refusal, place: object) -> str:
    """A refusal at a place, in one sentence."""
    where = "" if place is None else f": {place}"
    return f"{refusal.reason}{where}; {refusal.fix}, and run again. {nothing_lost()}"


def _place(error: BaseException | str, refusal: Refusal, places: list[Path]) -> object:
    if isinstance(error, OSError) and error.filename is not None:
        return os.fsdecode(error.filename)
    if (named := _PATH.search(str(error))) is not None:
        return named[0]
    if refusal.number in _ROOM and places:
        return fullest(places)
    return next((place for place, why in refused(places) if why == refusal), None)
