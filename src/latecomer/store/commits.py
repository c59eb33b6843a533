"""The commit files of a Delta table: which are torn, and how they are brought to the disk.

A power cut can leave the newest commit file empty, cut off, or full of zeros. delta-rs takes an empty one
for a version in which nothing happened, so that a batch would be missing and nobody would know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from latecomer.errors import StoreError, TornCommit
from latecomer.store import files
from latecomer.store.files import Location, sync, sync_files, sync_folder

LOG = "_delta_log"
_PARQUET = b"PAR1"
_OURS = "data/"
"""Where the files are that latecomer commits."""
_ASIDE = ".torn-"
REACHED = "latecomer reached "
"""Begins what a commit says of other tables, before the line that makes it whole."""

LEASE = "latecomer-lease"
"""Begins the name under which a commit carries the token of a lease."""


def commit_file(root: Location, version: int) -> Location:
    return root / LOG / f"{version:020d}.json"


def commit_exists(root: Location, version: int) -> bool:
    return files.exists(commit_file(root, version))


def last_version(root: Location) -> int:
    """The newest commit of a table, torn or not; -1 where there is none."""
    return max((version for version, _ in _sizes(root)), default=-1)


def sync_added(root: Location, versions: Iterable[int]) -> None:
    """Bring the files that commits have added to the disk, where delta-rs has written them itself."""
    added = {file for version in versions for file, _ in _added(root, actions_of(commit_file(root, version)))}
    sync_files((file for file in added if files.exists(file)), root)


def sync_commits(root: Location, versions: Iterable[int]) -> bool:
    """Bring commits to the disk, and the checkpoint that delta-rs writes after some of them. Gives whether there was
    one."""
    checkpoints = 0
    for version in versions:
        sync(commit_file(root, version))
        checkpoint = root / LOG / f"{version:020d}.checkpoint.parquet"
        if files.exists(checkpoint):
            sync(checkpoint)
            sync(root / LOG / "_last_checkpoint")
            checkpoints += 1
    sync_folder(root / LOG)
    return checkpoints > 0


class Commit(NamedTuple):
    """A batch as a commit brought it, and what the commit says of itself: Delta's own timestamp, and its metadata."""

    application: str
    batch: int
    info: Mapping[str, Any]


def commits_of(root: Location) -> Iterator[Commit]:
    """The batches of a table with their commits, newest first, as far back as Delta has kept these and they can be
    read."""
    for version, _ in reversed(list(_sizes(root))):
        try:
            actions = actions_of(commit_file(root, version))
        except (ValueError, FileNotFoundError):  # whoever needs the commit itself says what is wrong with it
            continue
        info: Mapping[str, Any] = next(
            (action["commitInfo"] for action in actions if "commitInfo" in action), {}
        )
        yield from (
            Commit(action["txn"]["appId"], action["txn"]["version"], info)
            for action in actions
            if _closes(action)
        )


def torn_commits(root: Location, thorough: bool = False, shared: bool = False) -> list[int]:
    """The versions whose commit files a power cut left incomplete.

    All that are empty; of the others the newest is read, or, if `thorough`, each. Others write to a `shared`
    table, too, and need not name a transaction.
    """
    sizes = dict(_sizes(root))
    looked_into = sizes if thorough else list(sizes)[-1:]
    empty = [version for version, size in sizes.items() if size == 0]
    return sorted({*empty, *(version for version in looked_into if not _whole(root, version, shared))})


def _sizes(root: Location) -> Iterator[tuple[int, int]]:
    """Version and size of every commit file, oldest first."""
    for name, size in files.sizes(root / LOG, ".json").items():
        version = name.removesuffix(".json")
        if version.isdigit():
            yield int(version), size


def torn_checkpoints(root: Location) -> list[Location]:
    """What a power cut left incomplete of the summaries that delta-rs makes of a table's commits."""
    log, hint = root / LOG, root / LOG / "_last_checkpoint"
    made = {log / name: size for name, size in files.sizes(log, ".parquet").items() if ".checkpoint" in name}
    torn = [file for file, size in made.items() if not _ends(file, size)]
    if files.exists(hint):
        try:
            version = int(json.loads(files.read_bytes(hint))["version"])
            begins = f"{version:020d}.checkpoint"
            whole = any(name.startswith(begins) and log / name not in torn for name in files.names(log))
        except (ValueError, KeyError, TypeError):
            whole = False
        torn += [] if whole else [hint]
    return torn


def set_aside(root: Location, shared: bool = False) -> Location | None:
    """Move a torn commit out of the way, if it is the newest of its table. Gives where it is now. Torn
    checkpoints, and that of the torn commit, are deleted: they only say again what the commits say."""
    checkpoints = torn_checkpoints(root)
    for file in checkpoints:
        files.remove(file)
    if checkpoints:
        sync_folder(root / LOG)
    torn, newest = torn_commits(root, shared=shared), last_version(root)
    if not torn:
        return None
    if torn != [newest]:
        raise TornCommit(root, torn[0], newest)
    file = commit_file(root, newest)
    if not _is_beginning(files.read_bytes(file), shared):
        raise StoreError(
            f"table {root}: commit {file.name} is damaged, and not as by a power cut; restore the store from a backup, "
            "or start a new one"
        )
    _remove_checkpoint(root, newest)
    aside = files.move(file, file.with_name(f"{_ASIDE}{file.name}"))
    sync_folder(file.parent)
    return aside


def _remove_checkpoint(root: Location, version: int) -> None:
    """Remove the summary up to a commit, and the hint at it: a table would be opened by it at a version whose commit
    nobody can read."""
    log = root / LOG
    summaries = [name for name in files.names(log) if name.startswith(f"{version:020d}.checkpoint")]
    for name in (*summaries, "_last_checkpoint") if summaries else ():
        if files.exists(log / name):
            files.remove(log / name)


def put_back(aside: Location) -> None:
    """Name a torn commit again that was set aside, unless its batch has been committed since."""
    file = aside.with_name(aside.name.removeprefix(_ASIDE))
    if not files.exists(file):
        files.move(aside, file)
        sync_folder(file.parent)


def _is_beginning(written: bytes, shared: bool) -> bool:
    """Whether this may be what a power cut left: the beginning of a commit, or zeros where bytes should be. In
    a shared table the commit may be whole, and the files that it adds torn."""
    if shared or not written or b"\0" in written:
        return True
    *lines, last = written.split(b"\n")
    try:
        for line in lines:
            json.loads(line)
    except ValueError:
        return False
    return not last or last.startswith(b"{")


def _whole(root: Location, version: int, shared: bool) -> bool:
    """Whether every line of a commit can be read, and its transaction, the last line, is there; in a shared
    table, whose files are synced after the commit, whether the files that it adds are there."""
    try:
        actions = actions_of(commit_file(root, version))
    except (ValueError, FileNotFoundError):
        return False
    added = [action["add"] for action in actions if "add" in action]
    # Another hand's commits have no transaction of ours, and name files beside our folder.
    brings = any(file["dataChange"] and file["path"].startswith(_OURS) for file in added)
    named = shared or not brings or any(_closes(action) for action in actions)
    there = not shared or all(_ends(file, size) for file, size in _added(root, actions))
    return bool(actions) and named and there


def _closes(action: Mapping[str, Any]) -> bool:
    """Whether this is the transaction that ends a commit."""
    return "txn" in action and not action["txn"]["appId"].startswith((REACHED, LEASE))


def actions_of(commit: Location) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files.read_bytes(commit).splitlines()]


def transactions_of(commit: Location) -> dict[str, int]:
    """How far a commit says that each application is."""
    said = (action["txn"] for action in actions_of(commit) if "txn" in action)
    return {each["appId"]: each["version"] for each in said}


def _added(root: Location, actions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Location, int]]:
    for action in actions:
        if "add" in action and "://" not in action["add"]["path"]:
            yield root / unquote(action["add"]["path"]), action["add"]["size"]


def tables_in(root: Location) -> list[Location]:
    """Where a store's tables are: its own, then those of its outputs."""
    own = (root / name for name in files.names(root))
    return [*filter(is_table, own), *output_tables_in(root)]


def output_tables_in(root: Location) -> list[Location]:
    """Where the tables of all outputs are, of those too that the pipeline no longer has."""
    outputs = root / "outputs"
    kept = (outputs / name / kept for name in files.names(outputs) for kept in files.names(outputs / name))
    return list(filter(is_table, kept))


def is_table(folder: Location) -> bool:
    return files.exists(folder / LOG)


def _ends(file: Location, size: int) -> bool:
    """Whether a Parquet file is there to its end."""
    try:
        return files.read_end(file, len(_PARQUET)) == _PARQUET and files.size(file) == size
    except OSError:
        return False
