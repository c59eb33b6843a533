"""Spark's checkpoint: what each batch of the stream is made of. Spark writes it and does not sync it.

metadata          the id of the query, for whoever watches it
offsets/N         that batch N is to be run, up to which offset of the stream
sources/0/N       of files: an entry of the source's log, with the files that were found together
commits/N         that batch N was run

An offset is whatever the stream makes of it; that of files is the number of an entry.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

from latecomer.decode.files import SourceFile
from latecomer.errors import StoreError
from latecomer.store.files import replace_text, sync, sync_files, sync_folder
from latecomer.store.recovery import RESTORE

METADATA = "metadata"
OFFSETS, COMMITS, FOUND = "offsets", "commits", "sources/0"
_VERSION = b"v1\n"


def files_of_batch(checkpoint: Path, batch: int) -> list[SourceFile]:
    """The files that Spark's checkpoint names for a batch of the stream.

    A file that is gone by the time a batch is run, or run again, is left out of it without a word.
    The checkpoint still names it.
    """
    found = []
    for entry in _found_in(checkpoint, batch):
        try:
            lines = entry.read_text("utf-8").splitlines()
        except FileNotFoundError:
            raise _files_unknown(batch, entry) from None
        number = entry.name.removesuffix(".compact")
        found += [json.loads(line) for line in lines if line.endswith(f'"batchId":{number}}}')]
    named = [(unquote(entry["path"]), entry["timestamp"] * 1000) for entry in found]
    return [SourceFile(path, landed, _size(path)) for path, landed in named]


def _size(path: str) -> int:
    """A file's size; 0 where it is gone."""
    try:
        return SourceFile(path, 0, 0).local.stat().st_size
    except OSError:
        return 0


def offset_of(checkpoint: Path, batch: int) -> str:
    """The offset up to which a batch goes, as the stream writes it."""
    file = checkpoint / OFFSETS / str(batch)
    try:
        return file.read_text("utf-8").splitlines()[-1]
    except FileNotFoundError:
        raise StoreError(
            f"Spark's checkpoint does not say how far batch {batch} of the source goes: {file} is missing; {RESTORE}"
        ) from None


def _offset(checkpoint: Path, batch: int) -> int:
    """The last entry of the source's log that belongs to a batch."""
    return -1 if batch < 0 else int(json.loads(offset_of(checkpoint, batch))["logOffset"])


def sync_found(checkpoint: Path, batch: int) -> None:
    """Bring to the disk which files a batch has, and that it is to be run."""
    sync_offsets(checkpoint, batch, _found_in(checkpoint, batch) if batch else ())


def sync_offsets(checkpoint: Path, batch: int, more: Sequence[Path] = ()) -> None:
    """Bring to the disk what Spark has written so that a batch can be run, before it is."""
    if batch == 0:
        sync_files((path for path in checkpoint.rglob("*") if path.is_file()), checkpoint.parent)
        return
    written = [*more, checkpoint / OFFSETS / str(batch), checkpoint / COMMITS / str(batch - 1)]
    for file in written:
        for each in (file, file.with_name(f".{file.name}.crc")):
            if each.exists():
                sync(each)
    for folder in dict.fromkeys(file.parent for file in written):
        if folder.exists():
            sync_folder(folder)


def repair_offsets(checkpoint: Path, accepted: int) -> int:
    """Remove what a power cut left incomplete; refuse a checkpoint that lacks an accepted batch. Returns the last
    batch it knows.

    A batch that Spark forgets to have run is handed in again, and is known by its number. What it must not
    forget is what belongs to that number.
    """
    _renew_torn_metadata(checkpoint / METADATA)
    _remove_torn(checkpoint / COMMITS, needed=-1)
    _remove_torn(checkpoint / OFFSETS, needed=accepted)
    known = max((number for number, _ in _entries(checkpoint / OFFSETS)), default=-1)
    if known < accepted:
        raise StoreError(
            f"Spark's checkpoint {checkpoint} knows batches of the source up to {known}, and the store has accepted "
            f"batch {accepted}: files would be left out; {RESTORE}"
        )
    return known


def repair_found(checkpoint: Path, accepted: int, logged: bool = False) -> None:
    """Likewise where the source is files; refuse one, too, that lacks the files of a batch that is `logged` and was not
    accepted yet."""
    known = repair_offsets(checkpoint, accepted)
    _remove_torn(checkpoint / FOUND, needed=_offset(checkpoint, accepted))
    _remove_without_files(checkpoint, range(accepted + 1, known + 1), logged)


def _remove_without_files(checkpoint: Path, batches: Sequence[int], logged: bool) -> None:
    """Forget batches of which the checkpoint does not say which files they have: their files are found anew."""
    for nth, batch in enumerate(batches):
        if batch and not (checkpoint / OFFSETS / str(batch - 1)).exists():  # Spark has cleared it away
            continue
        lost = next((each for each in _found_in(checkpoint, batch) if not each.exists()), None)
        if lost is None:
            continue
        if logged:
            raise _files_unknown(batch, lost)
        for later in batches[nth:]:
            _remove(checkpoint / OFFSETS / str(later))
        return


def _files_unknown(batch: int, lost: Path) -> StoreError:
    return StoreError(
        f"Spark's checkpoint does not say which files batch {batch} of the source has: {lost} is missing; {RESTORE}"
    )


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


def _found_in(checkpoint: Path, batch: int) -> list[Path]:
    """The entries of the source's log that belong to a batch."""
    numbers = range(_offset(checkpoint, batch - 1) + 1, _offset(checkpoint, batch) + 1)
    compacted = (checkpoint / FOUND / f"{number}.compact" for number in numbers)
    return [file if file.exists() else file.with_suffix("") for file in compacted]


def _remove(file: Path) -> None:
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _remove_torn(folder: Path, needed: int) -> None:
    for number, file in _entries(folder):
        if file.read_bytes().startswith(_VERSION):
            continue
        if number <= needed:
            raise StoreError(f"{file} is incomplete, as after a power cut; {RESTORE}")
        _remove(file)


def _entries(folder: Path) -> Iterator[tuple[int, Path]]:
    if not folder.is_dir():
        return
    for file in sorted(folder.iterdir()):
        number = file.name.removesuffix(".compact")
        if number.isdigit():
            yield int(number), file
