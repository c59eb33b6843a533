"""A complete copy of a store, made while a run may go on: `latecomer snapshot` and `latecomer move`.

First the small files that a run overwrites (how far sources are read, plans, pins) are copied. They are read twice, and
have to be the same both times: so no batch was accepted or completed in between. At that moment the store has a last
complete batch and a last accepted batch. Then each table is copied as it was with that batch: its commits until then,
and the files that they name, which are never overwritten.

So a copy is what a crash at that moment would have left, and a run continues from it as after a crash.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from latecomer.errors import NoStore, StoreError
from latecomer.store import files
from latecomer.store.delta.commits import LEASE, REACHED, actions_of, commit_file, tables_in
from latecomer.store.delta.commits import LOG as COMMITS
from latecomer.store.delta.table import Table
from latecomer.store.files import Location
from latecomer.store.holding.lock import OF_ONE_STORE, exclusive
from latecomer.store.layout import LEDGER, WATERMARKS
from latecomer.store.pins import PINS, is_store, mark_moved, read_pins
from latecomer.store.store import no_complete_batch

LOG = logging.getLogger(__name__)
PATIENCE = 60.0
"""At most so many seconds are spent waiting for a moment in which no batch is accepted or completed."""
MADE_AGAIN = frozenset({"ids", "logs", "staging", *OF_ONE_STORE})
"""What a run makes again from the other files, or needs for itself alone."""
_DRAFTS = ".drafts"
_VERSION = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")
_ACCEPTED = frozenset({"events", "duplicates", "dead_letters", "repairs", "watermarks"})
"""The tables that get a batch when it is accepted; all others get it when it is complete."""
_NAMED = frozenset({"sources", "outputs", "inbox"})
"""Folders of a store in which users choose the names."""
_FIRST = ("ledger", "events")
"""Tables that record how far other tables were; they are copied before the others."""
_LAST = ("removals",)
"""Tables that are copied after all others: they record what was removed from those before it was removed."""


@dataclass(frozen=True)
class Copied:
    """What a copy holds."""

    place: Location
    batch: int
    """The last complete batch."""
    tables: int
    files: int
    bytes: int


@dataclass(frozen=True)
class StoreMoment:
    """The last batches of a store at a moment, and its files that belong to no table."""

    completed: int
    accepted: int
    small: dict[str, bytes] = field(default_factory=dict)
    large: dict[str, int] = field(default_factory=dict)
    """Parquet files, which are never overwritten, with their sizes."""


def snapshot(root: Location, to: Location) -> Copied:
    """Copy a store as of its last complete batch to a place that is empty; a run may go on meanwhile."""
    require_store(root)
    _require_nothing_at(to, root)
    moment = _still_moment(root)
    if moment.completed < 0:
        raise no_complete_batch(root)
    for name in moment.large:
        _copy(root / name, to / name)
    tables = _tables(root)
    count = size = 0
    for nth, name in enumerate(tables, start=1):
        LOG.info("table %s, %d of %d", name, nth, len(tables))
        copied = _copy_table(root, to, name, _until(to, name, moment))
        count, size = count + len(copied), size + sum(map(files.size, copied))
    for name, content in moment.small.items():
        if name != PINS:
            files.make_folder((to / name).parent)
            files.replace_bytes(to / name, content)
    files.sync_files(files.files_below(to), to)
    files.replace_bytes(to / PINS, moment.small[PINS])  # from here on it is a store
    return Copied(to, moment.completed, len(tables), count, size)


def move(root: Location, to: Location) -> Copied:
    """Copy a store that no run holds, and mark the old place as moved: runs refuse it then. Nothing is deleted."""
    require_store(root)
    with exclusive(root):
        copied = snapshot(root, to)
        mark_moved(root, files.url(to))
    return copied


def require_store(root: Location) -> None:
    """Refuse a place without a store, or with one that no run of this version could open."""
    if not is_store(root):
        raise NoStore(
            f"there is no store at {root}; name a store, or the file of a pipeline that has been run"
        )
    read_pins(root)


def _require_nothing_at(to: Location, root: Location) -> None:
    if to.is_relative_to(root):
        raise StoreError(f"{to} is within the store itself; name a place outside {root}")
    if files.names(to) or files.is_file(to):
        raise StoreError(f"{to} exists already; name a place that is empty")


# What a run overwrites


def _still_moment(root: Location) -> StoreMoment:
    """Everything that belongs to no table, at one moment: read twice, with the same result."""
    deadline, before = time.monotonic() + PATIENCE, None
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):  # a file was deleted while it was read
            now = _moment(root)
            if now == before:
                return now
            before = now
    raise StoreError(
        f"store {root}: the run wrote without a pause for {PATIENCE:g} s, and the store can only be copied in a pause; "
        "stop the run (kill -INT), copy, and start it again"
    )


def _moment(root: Location) -> StoreMoment:
    completed, accepted = (
        Table(root / name, schema).last_batch()
        for name, schema in (("ledger", LEDGER), ("watermarks", WATERMARKS))
    )
    tables = {root / name for name in _tables(root)}
    small: dict[str, bytes] = {}
    large: dict[str, int] = {}
    for file in _others(root, tables):
        name = file.relative_to(root).as_posix()
        if file.name.endswith(".parquet"):
            large[name] = files.size(file)
        else:
            small[name] = files.read_bytes(file)
    return StoreMoment(completed, accepted, small, large)


def _others(folder: Location, tables: set[Location]) -> Iterator[Location]:
    """Every file of a store that belongs to no table and that a run could not make again."""
    for name in files.names(folder):
        place = folder / name
        begun = name == "data" and folder.name not in _NAMED  # a table without a commit
        if place in tables or begun or name in (*MADE_AGAIN, _DRAFTS) or files.is_link(place):
            continue
        if files.is_folder(place):
            yield from _others(place, tables)
        else:
            yield place


def _tables(root: Location) -> list[str]:
    """The paths of a store's tables within it, in the order in which they are copied."""
    places = [table.relative_to(root).as_posix() for table in tables_in(root)]
    others = [name for name in places if name not in (*_FIRST, *_LAST)]
    return [name for name in (*_FIRST, *others, *_LAST) if name in places]


# Tables


def _until(to: Location, name: str, moment: StoreMoment) -> int:
    """The last batch that a table has in a copy: the next batch too, if a table that was copied before records it."""
    if name not in _ACCEPTED:
        return moment.completed
    recorded = (Table(to / first, None).reached_by(name) for first in _FIRST if files.exists(to / first))
    return max([moment.accepted, *recorded])


def _copy_table(root: Location, to: Location, name: str, until: int) -> list[Location]:
    """Copy a table as it was with batch `until`: its newest version without a later batch. Returns the copied files."""
    source, copy = root / name, Table(to / name, None)
    try:
        _copy_log(source, to / name, until)
        for file in copy.files():
            _copy(source / file.path, copy.location(file))
        if (lacking := copy.missing_file()) is not None:
            raise FileNotFoundError(lacking.path)
    except FileNotFoundError as error:
        raise StoreError(
            f"table {source}: {Path(error.filename or str(error)).name} was deleted while it was copied: the copy took "
            "longer than upkeep.keep, for which replaced files are kept; delete the copy, and try again with a longer "
            "upkeep.keep"
        ) from error
    return [copy.location(file) for file in copy.files()]


def _copy_log(source: Location, to: Location, until: int) -> None:
    """Copy the commits of a table up to a batch, from the newest checkpoint before it on."""
    names = files.names(source / COMMITS)
    versions = [match for match in map(_VERSION.fullmatch, names) if match is not None]
    commits = sorted(int(match[1]) for match in versions if match[2] == "json")
    last = max(commits)
    for version in reversed(commits):
        if any(_is_later(action, until) for action in actions_of(commit_file(source, version))):
            last = version - 1
    checkpoints = [int(match[1]) for match in versions if match[2] != "json" and int(match[1]) <= last]
    first = max(checkpoints, default=0)
    if last < commits[0] and not checkpoints:
        raise StoreError(f"table {source} does not go back to batch {until} any more; try again")
    for match in versions:
        needed = first <= int(match[1]) <= last and (match[2] == "json" or int(match[1]) == first)
        if needed:
            _copy(source / COMMITS / match[0], to / COMMITS / match[0])


def _is_later(action: dict[str, object], until: int) -> bool:
    """Whether a commit adds a batch after `until`."""
    transaction = action.get("txn")
    return (
        isinstance(transaction, dict)
        and not str(transaction["appId"]).startswith((REACHED, LEASE))
        and int(transaction["version"]) > until
    )


def _copy(file: Location, to: Location) -> None:
    files.make_folder(to.parent)
    files.copy(file, to)
