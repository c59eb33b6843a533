"""Files that nobody names any more: replaced ones, and those of attempts that came to nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from latecomer.config.models import INBOX
from latecomer.store.files import (
    Location,
    files_below,
    is_folder,
    is_link,
    names,
    remove,
    remove_all,
    remove_empty,
    written_at,
)
from latecomer.store.inbox import DRAFTS
from latecomer.store.short_log import commits_since
from latecomer.store.table import DataFile, Table

_FOLDER = re.compile(r"(\d{10})(?:to(\d{10}))?-")


@dataclass(frozen=True)
class Safe:
    """What may go: seconds since the epoch, and a batch."""

    before: float
    """A file goes if it was written, and taken out of its table, before this."""
    under_way: int | None = None
    """What no commit names of this batch and later ones may be an attempt under way."""


def swept(table: Table, safe: Safe, needed: Sequence[DataFile] = ()) -> list[Location]:
    """The files below a table that nobody names any more. `needed` are files to keep whatever happens."""
    table.refresh()
    named = {file.path for file in [*table.files(), *needed]}
    found = [
        file
        for folder in _folders(table, safe)
        for file in files_below(folder)
        if _belongs_to(file, table.root) not in named and _written_before(file, safe.before)
    ]
    lately = _taken_out_since(table, safe.before) if found else set()
    return [file for file in found if _belongs_to(file, table.root) not in lately]


def delete(table: Table, files: Sequence[Location]) -> None:
    """Delete files, and the folders that they leave empty."""
    for file in files:
        remove(file)
    data = table.root / "data"
    for folder in {parent for file in files for parent in file.parents if data in parent.parents}:
        remove_empty(folder, data)


def sweep_staging(store: Location, before: float) -> None:
    """Remove what was staged for a batch or a verb that was killed. Whoever has not been is at work on newer files."""
    for place in (store / "staging", store / INBOX / DRAFTS):
        for folder in (place / name for name in names(place)):
            if is_link(place) or is_link(folder) or not is_folder(folder):
                continue
            if all(_written_before(each, before) for each in [folder, *files_below(folder)]):
                remove_all(folder)


def _folders(table: Table, safe: Safe) -> Iterator[Location]:
    """The folders that attempts and merges have made, less those that may be under way. None of them is a link:
    one that somebody has put there may lead anywhere."""
    data = table.root / "data"
    for folder in (data / name for name in names(data)):
        match = _FOLDER.match(folder.name)
        if match is None or is_link(folder) or not is_folder(folder):
            continue
        merged, last = match[2] is not None, int(match[2] or match[1])
        if merged or safe.under_way is None or last < safe.under_way:
            yield folder


def _belongs_to(file: Location, root: Location) -> str:
    """A file's path in the table; a checksum goes with the file that it is of."""
    if file.name.startswith(".") and file.name.endswith(".crc"):
        file = file.with_name(file.name[1:-4])
    return file.relative_to(root).as_posix()


def _written_before(file: Location, before: float) -> bool:
    try:
        return written_at(file) < before
    except FileNotFoundError:
        return False


def _taken_out_since(table: Table, moment: float) -> set[str]:
    """The files that commits since a moment took out: who opened the table before may be reading them."""
    found: set[str] = set()
    for commit in commits_since(table.root, moment):
        for line in commit.splitlines():
            if '"remove"' in line and (taken_out := json.loads(line).get("remove")):
                found |= {taken_out["path"], unquote(taken_out["path"])}
    return found
