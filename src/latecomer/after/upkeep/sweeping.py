"""Files that nobody names any more: replaced ones, and those of attempts that came to nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from latecomer.store.table import DataFile, Table

_FOLDER = re.compile(r"(\d{10})(?:to(\d{10}))?-")


@dataclass(frozen=True)
class Safe:
    """What may go: seconds since the epoch, and a batch."""

    before: float
    """A file goes if it was written, and taken out of its table, before this."""
    under_way: int | None = None
    """What no commit names of this batch and later ones may be an attempt under way."""


def swept(table: Table, safe: Safe, needed: Sequence[DataFile] = ()) -> list[Path]:
    """The files below a table that nobody names any more. `needed` are files to keep whatever happens."""
    table.refresh()
    named = {file.path for file in [*table.files(), *needed]}
    found = [
        file
        for folder in _folders(table, safe)
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and _belongs_to(file, table.root) not in named
        and _written_before(file, safe.before)
    ]
    lately = _taken_out_since(table, safe.before) if found else set()
    return [file for file in found if _belongs_to(file, table.root) not in lately]


def delete(table: Table, files: Sequence[Path]) -> None:
    """Delete files, and the folders that they leave empty."""
    for file in files:
        file.unlink(missing_ok=True)
    data = table.root / "data"
    for folder in {parent for file in files for parent in file.parents if data in parent.parents}:
        _remove_empty(folder, data)


def _remove_empty(folder: Path, data: Path) -> None:
    while folder != data:
        try:
            folder.rmdir()
        except OSError:  # not empty, or gone already
            return
        folder = folder.parent


def _folders(table: Table, safe: Safe) -> Iterator[Path]:
    """The folders that attempts and merges have made, less those that may be under way. None of them is a link:
    one that somebody has put there may lead anywhere."""
    data = table.root / "data"
    for folder in sorted(data.iterdir()) if data.is_dir() else []:
        told = _FOLDER.match(folder.name)
        if told is None or folder.is_symlink() or not folder.is_dir():
            continue
        merged, last = told[2] is not None, int(told[2] or told[1])
        if merged or safe.under_way is None or last < safe.under_way:
            yield folder


def _belongs_to(file: Path, root: Path) -> str:
    """A file's path in the table; a checksum goes with the file that it is of."""
    if file.name.startswith(".") and file.name.endswith(".crc"):
        file = file.with_name(file.name[1:-4])
    return file.relative_to(root).as_posix()


def _written_before(file: Path, before: float) -> bool:
    try:
        return file.stat().st_mtime < before
    except FileNotFoundError:
        return False


def _taken_out_since(table: Table, moment: float) -> set[str]:
    """The files that commits since a moment took out: who opened the table before may be reading them."""
    found: set[str] = set()
    for commit in (table.root / "_delta_log").glob("*.json"):
        if _written_before(commit, moment):
            continue
        for line in commit.read_text(encoding="utf-8").splitlines():
            if '"remove"' in line and (taken_out := json.loads(line).get("remove")):
                found |= {taken_out["path"], unquote(taken_out["path"])}
    return found
