"""Spark's checkpoint: which files each batch of the stream is made of. Spark writes it and does not sync it.

metadata          the id of the query, for whoever watches it
offsets/N         that batch N is to be run, up to which entry of the source's log
sources/0/N       an entry of the source's log: the files that were found together
commits/N         that batch N was run
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from latecomer.errors import StoreError
from latecomer.source.files import SourceFile
from latecomer.store.durable import replace_text, sync, sync_files, sync_folder

METADATA = "metadata"
OFFSETS, COMMITS, FOUND = "offsets", "commits", "sources/0"
_VERSION = b"v1\n"
_RESTORE = "restore the store from a backup, or start a new store and read the source again"


def files_of_batch(checkpoint: Path, batch: int) -> list[SourceFile]:
    """The files that Spark's checkpoint names for a batch of the stream.

    A file that is gone by the time a batch is run, or run again, is left out of it without a word.
    The checkpoint still names it.
    """
    log = checkpoint / FOUND
    found = []
    for number in range(_offset(checkpoint, batch - 1) + 1, _offset(checkpoint, batch) + 1):
        plain = log / str(number)
        lines = (plain if plain.exists() else log / f"{number}.compact").read_text("utf-8").splitlines()
        found += [json.loads(line) for line in lines if line.endswith(f'"batchId":{number}}}')]
    named = [(unquote(entry["path"]), entry["timestamp"] * 1000) for entry in found]
    return [SourceFile(path, landed, _size(path)) for path, landed in named]


def _size(path: str) -> int:
    """A file's size; 0 where it is gone."""
    try:
        return SourceFile(path, 0, 0).local.stat().st_size
    except OSError:
        return 0


def _offset(checkpoint: Path, batch: int) -> int:
    """The last entry of the source's log that belongs to a batch."""
    if batch < 0:
        return -1
    last_line = (checkpoint / OFFSETS / str(batch)).read_text("utf-8").splitlines()[-1]
    return int(json.loads(last_line)["logOffset"])


def sync_checkpoint(checkpoint: Path, batch: int) -> None:
    """Bring to the disk what Spark has written so that a batch can be run, before it is."""
    if batch == 0:
        sync_files((path for path in checkpoint.rglob("*") if path.is_file()), checkpoint.parent)
        return
    found = range(_offset(checkpoint, batch - 1) + 1, _offset(checkpoint, batch) + 1)
    for folder, number in (*((FOUND, each) for each in found), (OFFSETS, batch), (COMMITS, batch - 1)):
        for name in (f"{number}", f"{number}.compact"):
            for file in (checkpoint / folder / name, checkpoint / folder / f".{name}.crc"):
                if file.exists():
                    sync(file)
        if (checkpoint / folder).exists():
            sync_folder(checkpoint / folder)


def repair_checkpoint(checkpoint: Path, accepted: int) -> None:
    """Remove what a power cut left incomplete; refuse a checkpoint that lacks an accepted batch.

    A batch that Spark forgets to have run is handed in again, and is known by its number. What it must not
    forget is which files belong to that number.
    """
    _renew_torn_metadata(checkpoint / METADATA)
    _remove_torn(checkpoint / COMMITS, needed=-1)
    _remove_torn(checkpoint / OFFSETS, needed=accepted)
    known = max((number for number, _ in _entries(checkpoint / OFFSETS)), default=-1)
    if known < accepted:
        raise StoreError(
            f"Spark's checkpoint {checkpoint} knows batches of the source up to {known}, and the store has accepted "
            f"batch {accepted}: files would be left out; {_RESTORE}"
        )
    _remove_torn(checkpoint / FOUND, needed=_offset(checkpoint, accepted))


def next_batch(checkpoint: Path) -> int:
    """The first batch of the stream that Spark may hand in: all before it were run, as far as it knows."""
    return max((number for number, _ in _entries(checkpoint / COMMITS)), default=-1) + 1


def _renew_torn_metadata(file: Path) -> None:
    """Give the query another id where its own is torn: no batch rests on it, and Spark does not start without."""
    try:
        json.loads(file.read_bytes())["id"]
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        replace_text(file, json.dumps({"id": str(uuid.uuid4())}))


def _remove_torn(folder: Path, needed: int) -> None:
    for number, file in _entries(folder):
        if file.read_bytes().startswith(_VERSION):
            continue
        if number <= needed:
            raise StoreError(f"{file} is incomplete, as after a power cut; {_RESTORE}")
        file.unlink()
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _entries(folder: Path) -> Iterator[tuple[int, Path]]:
    if not folder.is_dir():
        return
    for file in sorted(folder.iterdir()):
        number = file.name.removesuffix(".compact")
        if number.isdigit():
            yield int(number), file
