"""A copy of a store that is as good as the store, while a run goes on: `latecomer snapshot` and `latecomer move`.

First everything that a run writes anew (how far sources are read, plans, what is pinned) is copied in a moment in which
neither a batch was accepted nor one was completed: it is looked at twice, and had not changed. That moment has a batch
that was complete last, and one that was accepted last. Then each table is copied as it was with that batch: its commits
until then, and the files that they name, which are never written again.

So a copy is what a crash in that moment would have left, and a run goes on from it as after a crash.
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
from latecomer.store.commits import LEASE, REACHED, actions_of, commit_file, tables_in
from latecomer.store.commits import LOG as COMMITS
from latecomer.store.files import Location
from latecomer.store.layout import LEDGER, WATERMARKS
from latecomer.store.lock import OF_ONE_STORE, exclusive
from latecomer.store.pins import PINS, is_store, mark_moved, read_pins
from latecomer.store.table import Table

LOG = logging.getLogger(__name__)
PATIENCE = 60.0
"""So many seconds a moment is looked for in which nothing is accepted or completed."""
MADE_AGAIN = frozenset({"ids", "logs", "staging", *OF_ONE_STORE})
"""What a run makes of the rest, or needs for itself alone."""
_DRAFTS = ".drafts"
_VERSION = re.compile(r"(\d{20})\.(json|checkpoint\.parquet)")
_ACCEPTED = frozenset({"events", "duplicates", "dead_letters", "repairs", "watermarks"})
"""The tables that have a batch when it is accepted; all others, when it is complete."""
_NAMED = frozenset({"sources", "outputs", "inbox"})
"""Folders of a store in which users name what is there."""
_FIRST = ("ledger", "events")
"""Tables that say of others how far those were; they are copied before these."""
_LAST = ("removals",)
"""Tables that are copied after all others: what has gone from those is written down before."""


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
class Moment:
    """How far a store was, and what of it is no table."""

    completed: int
    accepted: int
    small: dict[str, bytes] = field(default_factory=dict)
    large: dict[str, int] = field(default_factory=dict)
    """Parquet files, which are never written again, by their sizes."""


def snapshot(root: Location, to: Location) -> Copied:
    """Copy a store as of its last complete batch, beside a run or not, to a place where nothing is yet."""
    _require_store(root)
    _require_nothing_at(to, root)
    moment = _still_moment(root)
    if moment.completed < 0:
        raise NoStore(f"store {root} has no complete batch yet; run the pipeline first")
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
    """Copy a store that no run holds, and have it refused in its old place from then on. Nothing is deleted there."""
    _require_store(root)
    with exclusive(root):
        copied = snapshot(root, to)
        mark_moved(root, files.url(to))
    return copied


def _require_store(root: Location) -> None:
    if not is_store(root):
        raise NoStore(
            f"there is no store at {root}; name a store, or the file of a pipeline that has been run"
        )
    read_pins(root)


def _require_nothing_at(to: Location, root: Location) -> None:
    if to.is_relative_to(root):
        raise StoreError(f"{to} is within the store itself; name a place outside {root}")
    if files.names(to) or files.is_file(to):
        raise StoreError(f"{to} is there already; name a place where nothing is yet")


# What a run writes anew


def _still_moment(root: Location) -> Moment:
    """Everything that is no table, at one moment: looked at twice, and the same."""
    deadline, before = time.monotonic() + PATIENCE, None
    while time.monotonic() < deadline:
        with suppress(FileNotFoundError):  # it has gone while it was looked at
            now = _moment(root)
            if now == before:
                return now
            before = now
    raise StoreError(
        f"store {root}: the run writes without a pause, and no moment was found to copy it in {PATIENCE:g} s; stop the "
        "run (kill -INT), copy, and start it again"
    )


def _moment(root: Location) -> Moment:
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
    return Moment(completed, accepted, small, large)


def _others(folder: Location, tables: set[Location]) -> Iterator[Location]:
    """Every file of a store that belongs to no table, and that a run does not make again."""
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
    """The tables of a store by their places in it, in the order in which they are copied."""
    found = [table.relative_to(root).as_posix() for table in tables_in(root)]
    between = (name for name in found if name not in (*_FIRST, *_LAST))
    return [*(each for each in _FIRST if each in found), *between, *(each for each in _LAST if each in found)]


# Tables


def _until(to: Location, name: str, moment: Moment) -> int:
    """The last batch that a table has in a copy. The next batch may be in the log already; where what is copied says
    that it was, it is there."""
    if name not in _ACCEPTED:
        return moment.completed
    said = (Table(to / witness, None).reached_by(name) for witness in _FIRST if files.exists(to / witness))
    return max([moment.accepted, *said])


def _copy_table(root: Location, to: Location, name: str, until: int) -> list[Location]:
    """Copy a table as it was with a batch: the newest version without a later one. Gives its files in the copy."""
    source, copy = root / name, Table(to / name, None)
    try:
        _copy_log(source, to / name, until)
        for file in copy.files():
            _copy(source / file.path, copy.location(file))
        if (lacking := copy.missing_file()) is not None:
            raise FileNotFoundError(lacking.path)
    except FileNotFoundError as error:
        raise StoreError(
            f"table {source}: {Path(error.filename or str(error)).name} was deleted while it was copied, which takes "
            "longer than upkeep.keep says that files are kept; delete the copy, and try again with a longer one"
        ) from error
    return [copy.location(file) for file in copy.files()]


def _copy_log(source: Location, to: Location, until: int) -> None:
    """Copy the log of a table up to a batch, from the newest checkpoint before that on."""
    names = files.names(source / COMMITS)
    found = [match for match in map(_VERSION.fullmatch, names) if match is not None]
    commits = sorted(int(match[1]) for match in found if match[2] == "json")
    last = max(commits)
    for version in reversed(commits):
        if any(_is_later(action, until) for action in actions_of(commit_file(source, version))):
            last = version - 1
    checkpoints = [int(match[1]) for match in found if match[2] != "json" and int(match[1]) <= last]
    first = max(checkpoints, default=0)
    if last < commits[0] and not checkpoints:
        raise StoreError(f"table {source} does not go back to batch {until} any more; try again")
    for match in found:
        needed = first <= int(match[1]) <= last and (match[2] == "json" or int(match[1]) == first)
        if needed:
            _copy(source / COMMITS / match[0], to / COMMITS / match[0])


def _is_later(action: dict[str, object], until: int) -> bool:
    """Whether a commit brings a batch after one."""
    brought = action.get("txn")
    return (
        isinstance(brought, dict)
        and not str(brought["appId"]).startswith((REACHED, LEASE))
        and int(brought["version"]) > until
    )


def _copy(file: Location, to: Location) -> None:
    files.make_folder(to.parent)
    files.copy(file, to)
