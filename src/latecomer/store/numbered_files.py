"""A small file in a folder that engines replace without a lock: a folder of numbered versions.

A lease cannot use a lock: an engine that is stopped keeps its lock, and nobody could take over from it. Some shared
folders have no locks at all. A version gets its number by a hard link, once its content is complete. Of several
engines, one gets the link. The highest number is the file, and older versions are removed.

A slow engine may get a number that was removed long ago. Then it sees a higher one, and nobody ever reads its own.
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
