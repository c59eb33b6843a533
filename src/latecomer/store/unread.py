"""Whether a store holds nothing of its source yet: then it can be deleted, with all that it pins."""

from __future__ import annotations

from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.table import Table
from latecomer.store.turns import SOURCES

_TABLES = ("dead_letters", "repairs", "duplicates", "events", "watermarks", "ledger")
_PROGRESS = ("found", "offsets")
"""Folders with files and answers of a source, which are written down before a batch of them is in any table."""


def fix_if_unread(root: Location) -> str | None:
    """The fix for a definition that differs from a store that never began a batch; None where one was begun: then a
    part of it may be in the store, or the source may no longer have what it gave."""
    if any(files.names(root / folder) for folder in _PROGRESS):
        return None
    if any(file.parent.name in _PROGRESS for file in files.files_below(root / SOURCES)):
        return None
    if any(Table(root / name, None).last_batch() >= 0 for name in _TABLES):
        return None
    return f"delete the store at {root} and run again: no batch was read yet"
