"""The log of a Delta table is kept short, for delta-rs reads in it with every commit (ADR 0072).

It lists the folder, and reads all commits after the last checkpoint. So there is a checkpoint often, and what nobody
needs any more to open the table leaves the folder: older checkpoints are deleted, and older commits moved out of it.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from latecomer.store import files
from latecomer.store.commits import LOG, actions_of
from latecomer.store.files import Location

CHECKPOINT_EVERY = 25
SETTINGS = {"delta.checkpointInterval": str(CHECKPOINT_EVERY)}
OLD = "_old_commits"
"""A folder for each day, with the commits that were written then."""
_READ_SECONDS = 3600.0
"""A table as it was so long ago can still be read, as `compact` keeps files at least."""
_KEPT_SECONDS = 30 * 86_400.0
"""Delta's own limit for commits."""
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
_COMMIT = re.compile(r"(\d{20})\.json")


def shorten(root: Location) -> None:
    """Take out of the log of a table what has not been needed for a while: all that came before the checkpoint that was
    the newest then. It is called after another checkpoint is on the disk."""
    now, checkpoints = time.time(), _versions(root / LOG, _CHECKPOINT)
    with contextlib.suppress(OSError):  # somebody else is at it, or the disk is full: another time
        old = [number for number, file in checkpoints.items() if files.written_at(file) < now - _READ_SECONDS]
        for number in old[:-1]:
            files.remove(checkpoints[number])
        first = old[-1] if old else 0
        for number, file in _versions(root / LOG, _COMMIT).items():
            if number < first:
                files.move(file, root / OLD / _day(files.written_at(file)) / file.name)
    for day in files.names(root / OLD):
        if day < _day(now - _KEPT_SECONDS):
            files.remove_all(root / OLD / day)


def commits_since(root: Location, moment: float) -> Iterator[str]:
    """The commits of a table that were written at a moment or later, as far back as they are kept. One that is moved
    meanwhile may come twice."""
    yield from _written_since(root / LOG, moment)
    for day in files.names(root / OLD):
        if day >= _day(moment):
            yield from _written_since(root / OLD / day, moment)


def _written_since(folder: Location, moment: float) -> Iterator[str]:
    for commit in _versions(folder, _COMMIT).values():
        with contextlib.suppress(FileNotFoundError):
            if files.written_at(commit) >= moment:
                yield files.read_text(commit)


def last_transaction(root: Location, application: str, version: int) -> int | None:
    """The last batch of an application up to a version of a table that cannot be opened any more, as its commits say;
    None where none of them does."""
    folders = [root / LOG, *(root / OLD / day for day in reversed(files.names(root / OLD)))]
    found = {number: file for folder in folders for number, file in _versions(folder, _COMMIT).items()}
    for number in sorted(found, reverse=True):
        if number <= version:
            for action in actions_of(found[number]):
                if action.get("txn", {}).get("appId") == application:
                    return int(action["txn"]["version"])
    return None


def _versions(folder: Location, named: re.Pattern[str]) -> dict[int, Location]:
    """What is in a folder under such names, by version, oldest first."""
    found = ((named.fullmatch(name), folder / name) for name in files.names(folder))
    return {int(match[1]): file for match, file in found if match}


def _day(moment: float) -> str:
    return datetime.fromtimestamp(max(moment, 0.0), UTC).date().isoformat()
