"""The commit files of a Delta table: syncing them to the disk, and finding torn ones.

A power cut can leave the newest commit file empty, cut off, or full of zeros. delta-rs takes an empty file for a
version without changes: a batch would be missing, and nobody would know.
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
"""The folder of the files that latecomer commits."""
_ASIDE = ".torn-"
REACHED = "latecomer reached "
"""The beginning of the transactions of a commit that record the last batch of other tables."""

LEASE = "latecomer-lease"
"""The beginning of the transactions of a commit that carry the token of a lease."""


def commit_file(root: Location, version: int) -> Location:
    return root / LOG / f"{version:020d}.json"


def last_version(root: Location) -> int:
    """The newest commit of a table, torn or not; -1 where there is none."""
    return max((version for version, _ in _sizes(root)), default=-1)


def sync_added(root: Location, versions: Iterable[int]) -> None:
    """Sync the files that commits have added: for files that delta-rs itself has written."""
    added = {file for version in versions for file, _ in _added(root, actions_of(commit_file(root, version)))}
    sync_files((file for file in added if files.exists(file)), root)


def sync_commits(root: Location, versions: Iterable[int]) -> bool:
    """Sync commits, and the checkpoints that delta-rs writes after some of them. Gives whether there was one."""
    has_checkpoint = False
    for version in versions:
        sync(commit_file(root, version))
        checkpoint = root / LOG / f"{version:020d}.checkpoint.parquet"
        if files.exists(checkpoint):
            sync(checkpoint)
            sync(root / LOG / "_last_checkpoint")
            has_checkpoint = True
    sync_folder(root / LOG)
    return has_checkpoint


class Commit(NamedTuple):
    """A batch, and the info of its commit: Delta's own timestamp, and our metadata."""

    application: str
    batch: int
    info: Mapping[str, Any]


def commits_of(root: Location) -> Iterator[Commit]:
    """The batches of a table with their commits, newest first: those that Delta has kept and that can be read."""
    for version, _ in reversed(list(_sizes(root))):
        try:
            actions = actions_of(commit_file(root, version))
        except (ValueError, FileNotFoundError):  # reported by whoever needs this commit
            continue
        info: Mapping[str, Any] = next(
            (action["commitInfo"] for action in actions if "commitInfo" in action), {}
        )
        yield from (
            Commit(action["txn"]["appId"], action["txn"]["version"], info)
            for action in actions
            if _ends_commit(action)
        )


def torn_commits(root: Location, thorough: bool = False, shared: bool = False) -> list[int]:
    """The versions whose commit files a power cut left incomplete.

    These are all empty ones, and of the others the newest one if it is torn; if `thorough`, each is checked. Others
    write to a `shared` table, too, and their commits need no transaction.
    """
    sizes = dict(_sizes(root))
    checked = sizes if thorough else list(sizes)[-1:]
    empty = [version for version, size in sizes.items() if size == 0]
    return sorted({*empty, *(version for version in checked if not _is_whole(root, version, shared))})


def _sizes(root: Location) -> Iterator[tuple[int, int]]:
    """Version and size of every commit file, oldest first."""
    for name, size in files.sizes(root / LOG, ".json").items():
        version = name.removesuffix(".json")
        if version.isdigit():
            yield int(version), size


def torn_checkpoints(root: Location) -> list[Location]:
    """The checkpoints of a table, and its `_last_checkpoint`, that a power cut left incomplete."""
    log, hint = root / LOG, root / LOG / "_last_checkpoint"
    existing = {
        log / name: size for name, size in files.sizes(log, ".parquet").items() if ".checkpoint" in name
    }
    torn = [file for file, size in existing.items() if not _is_complete_parquet(file, size)]
    if files.exists(hint):
        try:
            version = int(json.loads(files.read_bytes(hint))["version"])
            beginning = f"{version:020d}.checkpoint"
            whole = any(name.startswith(beginning) and log / name not in torn for name in files.names(log))
        except (ValueError, KeyError, TypeError):
            whole = False
        torn += [] if whole else [hint]
    return torn


def set_torn_commit_aside(root: Location, shared: bool = False) -> Location | None:
    """Rename a torn commit, if it is the newest of its table. Gives its new location. Torn checkpoints, and that of the
    torn commit, are deleted: they only repeat the commits."""
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
    """Remove the checkpoint at a commit, and `_last_checkpoint`. Else the table would be opened at a version whose
    commit cannot be read."""
    log = root / LOG
    checkpoints = [name for name in files.names(log) if name.startswith(f"{version:020d}.checkpoint")]
    for name in (*checkpoints, "_last_checkpoint") if checkpoints else ():
        if files.exists(log / name):
            files.remove(log / name)


def put_back(aside: Location) -> None:
    """Give a torn commit that was set aside its old name, unless its batch has been committed since."""
    file = aside.with_name(aside.name.removeprefix(_ASIDE))
    if not files.exists(file):
        files.move(aside, file)
        sync_folder(file.parent)


def _is_beginning(written: bytes, shared: bool) -> bool:
    """Whether a power cut may have left this: the beginning of a commit, or zeros instead of bytes. In a shared table
    the commit may be whole and its files torn."""
    if shared or not written or b"\0" in written:
        return True
    *lines, last = written.split(b"\n")
    try:
        for line in lines:
            json.loads(line)
    except ValueError:
        return False
    return not last or last.startswith(b"{")


def _is_whole(root: Location, version: int, shared: bool) -> bool:
    """Whether every line of a commit can be read, and it has its transaction, the last line. In a shared table, whose
    files are synced after the commit, whether these files are complete."""
    try:
        actions = actions_of(commit_file(root, version))
    except (ValueError, FileNotFoundError):
        return False
    added = [action["add"] for action in actions if "add" in action]
    # Commits of other programs have no transaction of ours, and add no files in our folder.
    adds_ours = any(file["dataChange"] and file["path"].startswith(_OURS) for file in added)
    has_transaction = shared or not adds_ours or any(_ends_commit(action) for action in actions)
    has_files = not shared or all(_is_complete_parquet(file, size) for file, size in _added(root, actions))
    return bool(actions) and has_transaction and has_files


def _ends_commit(action: Mapping[str, Any]) -> bool:
    """Whether this is the transaction that ends a commit."""
    return "txn" in action and not action["txn"]["appId"].startswith((REACHED, LEASE))


def actions_of(commit: Location) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files.read_bytes(commit).splitlines()]


def transactions_of(commit: Location) -> dict[str, int]:
    """The version of each application in a commit's transactions."""
    transactions = (action["txn"] for action in actions_of(commit) if "txn" in action)
    return {each["appId"]: each["version"] for each in transactions}


def _added(root: Location, actions: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Location, int]]:
    for action in actions:
        if "add" in action and "://" not in action["add"]["path"]:
            yield root / unquote(action["add"]["path"]), action["add"]["size"]


def tables_in(root: Location) -> list[Location]:
    """The folders of a store's tables: its own, then those of its outputs."""
    own = (root / name for name in files.names(root))
    return [*filter(is_table, own), *output_tables_in(root)]


def output_tables_in(root: Location) -> list[Location]:
    """The tables of all outputs, even of those that the pipeline no longer has."""
    outputs = root / "outputs"
    folders = (
        outputs / output / name for output in files.names(outputs) for name in files.names(outputs / output)
    )
    return list(filter(is_table, folders))


def is_table(folder: Location) -> bool:
    return files.exists(folder / LOG)


def _is_complete_parquet(file: Location, size: int) -> bool:
    """Whether a Parquet file has this size and its last bytes."""
    try:
        return files.read_end(file, len(_PARQUET)) == _PARQUET and files.size(file) == size
    except OSError:
        return False
