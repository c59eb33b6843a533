"""A small file of a folder that engines replace without a lock, as a row of numbered versions.

A lock would not do for a lease: an engine that is stopped while it holds one keeps it, and nobody could take over from
it. Some shared folders have no locks at all. A version gets its number by a hard link, which the file system makes for
one of several, and its content is whole by then. The highest number is the file. Older ones are removed.

Whoever was slow may get a number that was removed long ago. It sees higher ones then, and nobody ever looks at its own.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from latecomer.store.local_files import Location, make_folder, sync, sync_folder


def read_numbered(folder: Location) -> tuple[bytes, str] | None:
    """The content and its tag, the number; None where there is no version."""
    while numbers := _numbers(folder):
        with suppress(FileNotFoundError):  # it was replaced meanwhile
            return Path(_version(folder, numbers[-1])).read_bytes(), str(numbers[-1])
    return None


def put_numbered(folder: Location, content: bytes, tag: str | None) -> str | None:
    """Replace the version that has this tag, or write the first one; the new tag, or None where there is another by
    now. It may be there for a moment even then."""
    number = int(tag or 0) + 1
    make_folder(folder)
    draft = folder / f".{uuid4().hex}"
    try:
        with open(draft, "wb") as opened:
            opened.write(content)
        sync(draft)
        if not _linked(draft, _version(folder, number)):
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


def _linked(draft: Location, version: Location) -> bool:
    try:
        os.link(draft, version)
    except FileExistsError:
        return Path(draft).stat().st_nlink > 1  # a server that was asked twice has made it the first time
    return True


def _numbers(folder: Location) -> list[int]:
    try:
        stems = (each.stem for each in Path(folder).iterdir() if each.suffix == ".json")
        return sorted(int(stem) for stem in stems if stem.isdigit())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _version(folder: Location, number: int) -> Location:
    return folder / f"{number:012}.json"
