"""Deletes files that no table names any more: replaced ones, and those of attempts that failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from latecomer.config.models import INBOX
from latecomer.errors import StoreInUse
from latecomer.store.delta.data_files import DataFile
from latecomer.store.delta.table import Table
from latecomer.store.files import (
    Location,
    files_below,
    is_folder,
    is_link,
    names,
    remove,
    remove_all,
    remove_drafts,
    remove_empty,
    written_at,
)
from latecomer.store.holding.lock import BRIEFLY, exclusive
from latecomer.store.inbox import DRAFTS, Inbox
from latecomer.store.store import Store, home_of

_FOLDER = re.compile(r"(\d{10})(?:to(\d{10}))?-")


@dataclass(frozen=True)
class Safe:
    """Which files may be deleted: by a moment, in seconds since the epoch, and by a batch."""

    before: float
    """A file may be deleted if it was written, and removed from its table, before this."""
    under_way: int | None = None
    """Files of this batch and of later ones are kept: they may belong to an attempt that is not committed yet."""


def swept(table: Table, safe: Safe, needed: Sequence[DataFile] = ()) -> list[Location]:
    """The files below a table that it does not name any more. Files in `needed` are always kept."""
    unnamed = [file for file in table.unnamed_since(safe.before) if _is_ours(file, table.root, safe)]
    named = {file.path for file in [*table.files(), *needed]} if unnamed else set()
    return [file for file in unnamed if _belongs_to(file, table.root) not in named]


def delete(table: Table, files: Sequence[Location]) -> None:
    """Delete files, and the folders that they leave empty."""
    for file in files:
        remove(file)
    data = table.root / "data"
    for folder in {parent for file in files for parent in file.parents if data in parent.parents}:
        remove_empty(folder, data)


def sweep_staging(store: Location, before: float) -> None:
    """Remove files that were staged or half written for a batch or a verb that was killed. One that still runs has
    newer files."""
    remove_drafts(store, before)
    for place in (store / "staging", store / INBOX / DRAFTS):
        for folder in (place / name for name in names(place)):
            if is_link(place) or is_link(folder) or not is_folder(folder):
                continue
            if all(_written_before(each, before) for each in [folder, *files_below(folder)]):
                remove_all(folder)


def sweep_inboxes(store: Store, before: float) -> None:
    """Remove files in the store's inboxes that have no receipt: a query whose checkpoint was given up does not deliver
    them again. No query can deliver while the store is locked here."""
    if not is_folder(store.root / INBOX):
        return
    with suppress(StoreInUse), exclusive(store.root, holder=BRIEFLY):
        for source in store.pipeline.views:
            for file in Inbox(store.root, home_of(store.root, source), source).unreceived():
                if _written_before(file, before):
                    remove(file)


def _is_ours(file: Location, root: Location, safe: Safe) -> bool:
    """Whether a file lies in a folder that an attempt or a merge made, and that is not under way. No folder on its path
    is a link, which might lead anywhere."""
    data, *folders, _ = file.relative_to(root).parts
    match = _FOLDER.match(folders[0]) if data == "data" and folders else None
    if match is None:
        return False
    merged, last = match[2] is not None, int(match[2] or match[1])
    if not merged and safe.under_way is not None and last >= safe.under_way:
        return False
    return not any(is_link(folder) for folder in file.parents if root / data in folder.parents)


def _belongs_to(file: Location, root: Location) -> str:
    """A file's path in the table; for a checksum, the path of its file."""
    if file.name.startswith(".") and file.name.endswith(".crc"):
        file = file.with_name(file.name[1:-4])
    return file.relative_to(root).as_posix()


def _written_before(file: Location, before: float) -> bool:
    try:
        return written_at(file) < before
    except FileNotFoundError:
        return False
