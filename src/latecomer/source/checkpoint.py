"""Stores of earlier versions: Structured Streaming listed the files of their sources, in its checkpoint.

checkpoint/
  offsets/N       that batch N of the stream is to be run, up to which entry of the source's log
  sources/0/N     an entry of the source's log, with the files that were found together; N.compact has all up to N
  commits/N       that batch N was run
parts.json        how the last batch of the stream is cut into batches of ours

Files that were read are taken over as known. The rest of a batch that was begun is taken over with the cuts that it
had. All other files are found anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote

from latecomer.config.paths import SourcePath
from latecomer.errors import StoreError, StoreMismatch
from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.recovery import RESTORE
from latecomer.store.source_files import Found, in_reading_order

CHECKPOINT, PARTS = "checkpoint", "parts.json"
OFFSETS, COMMITS, FOUND = "offsets", "commits", "sources/0"
_VERSION = "v1\n"


@dataclass(frozen=True)
class Cut:
    """How a batch of the stream is cut."""

    batch: int
    path: str
    size: int
    parts: int
    """How many parts there are: none, if the path names no file of the batch. Older stores do not say it."""
    loops: Sequence[str] = ()
    """Links to folders that they lie in. Spark found every file again below them."""

    def files(self, batch_files: Sequence[Found]) -> list[Found]:
        """The files of the batch that are read, in order."""
        source, looped = SourcePath(self.path), tuple(f"{link}/" for link in self.loops)
        return in_reading_order(
            {file for file in batch_files if source.matches(file.path) and not file.path.startswith(looped)}
        )


@dataclass(frozen=True)
class TakenOver:
    """What is taken over from a checkpoint."""

    read: Sequence[str] = ()
    """The paths that are not read again."""
    left: Sequence[Found] = ()
    """The files of a batch that was begun that are still to be read, in reading order."""
    size: int = 1
    """How many of them are read at a time."""


def taken_over(home: Location, accepted: int, parts: int, logged: bool) -> TakenOver:
    """What is taken over for a source whose folder in the store is `home`. `parts` is how many parts of the batch that
    was `accepted` last are on the timeline; `logged` is whether the next one is in the log already."""
    checkpoint, cut = _Checkpoint(home / CHECKPOINT), _recorded(home)
    _require_next(home, checkpoint.last_run + 1, accepted, parts, cut)
    last = max(checkpoint.last_run, accepted)
    read = checkpoint.files(-1, last) if last >= 0 else []
    if cut is not None and cut.batch > checkpoint.last_run:
        begun, size = cut.batch, cut.size
    elif cut is None and logged:  # before there were parts
        begun, size = last + 1, 0
    else:
        return TakenOver([file.path for file in read])
    try:
        batch_files = checkpoint.files(begun - 1, begun)
    except StoreError:
        if logged or begun <= accepted:
            raise
        return TakenOver([file.path for file in read])  # nothing depends on it: its files are found anew
    begin = size * parts if begun == accepted else 0
    left = cut.files(batch_files)[begin:] if cut else in_reading_order(batch_files)
    unread, known = {file.path for file in left}, read if begun <= last else [*read, *batch_files]
    paths = [file.path for file in known if file.path not in unread]
    return TakenOver(paths, left, size or max(len(left), 1))


def remove_checkpoint(home: Location) -> None:
    """Remove a checkpoint that was taken over. It is renamed first: a checkpoint that is there counts, so it must not
    be there in part."""
    removed = home / f".{CHECKPOINT}"
    files.remove_all(removed)
    if files.exists(home / CHECKPOINT):
        files.move(home / CHECKPOINT, removed)
        files.sync_folder(home)
    files.remove(home / PARTS)
    files.remove_all(removed)


@dataclass(frozen=True)
class _Checkpoint:
    """Spark's checkpoint. Spark does not sync it: after a power cut the newest files may be empty."""

    root: Location

    @cached_property
    def last_run(self) -> int:
        """The last batch that Spark ran, by its own account."""
        return max((number for number, file in self._entries(COMMITS) if _lines(file)), default=-1)

    def files(self, after: int, last: int) -> list[Found]:
        """The files of the batches `after` one, up to the `last`."""
        begin, end = self._offset(after, last), self._offset(last, last)
        compacted, entries = self._found
        found = list(compacted)
        for number in range(self._compacted_to + 1, end + 1):
            if number not in entries:
                raise StoreError(
                    f"Spark's checkpoint does not say which files batch {last} of the source has: "
                    f"{self.root / FOUND / str(number)} is missing, or incomplete; {RESTORE}"
                )
            found += entries[number]
        return [file for entry, file in found if begin < entry <= end]

    @cached_property
    def _compacted_to(self) -> int:
        """The last entry of the newest compact file that is whole."""
        whole = (int(file.stem) for _, file in self._entries(FOUND) if file.suffix and _found_in(file))
        return max(whole, default=-1)

    @cached_property
    def _found(self) -> tuple[list[tuple[int, Found]], dict[int, list[tuple[int, Found]]]]:
        """Files with their entries: those of the compact file, and those of each later entry that is whole."""
        compact = self.root / FOUND / f"{self._compacted_to}.compact"
        later = {
            number: found
            for number, file in self._entries(FOUND)
            if number > self._compacted_to and not file.suffix and (found := _found_in(file))
        }
        return _found_in(compact) if self._compacted_to >= 0 else [], later

    def _offset(self, batch: int, needed: int) -> int:
        """The last entry of the source's log that belongs to a batch."""
        if batch < 0:
            return -1
        file = self.root / OFFSETS / str(batch)
        try:
            return int(json.loads(_lines(file)[-1])["logOffset"])
        except (IndexError, ValueError, KeyError, TypeError):
            raise StoreError(
                f"Spark's checkpoint does not say how far batch {needed} of the source goes: {file} is missing, or "
                f"incomplete; {RESTORE}"
            ) from None

    def _entries(self, folder: str) -> Iterator[tuple[int, Location]]:
        for name in files.names(self.root / folder):
            if (number := name.removesuffix(".compact")).isdigit():
                yield int(number), self.root / folder / name


def _lines(file: Location) -> list[str]:
    """The lines of a file of Spark's after the version; none if the file is missing or torn."""
    if not files.is_file(file):
        return []
    text = files.read_bytes(file).decode("utf-8", "replace")
    return text.removeprefix(_VERSION).split("\n") if text.startswith(_VERSION) else []


def _found_in(file: Location) -> list[tuple[int, Found]]:
    """The files in an entry of the source's log, each with its entry; none if the entry is not whole."""
    try:
        lines = [json.loads(line) for line in _lines(file)]
        return [
            (int(each["batchId"]), Found(_path(each["path"]), each["timestamp"] * 1000)) for each in lines
        ]
    except (ValueError, KeyError, TypeError):
        return []


def _path(url: str) -> str:
    return "/" + unquote(url).removeprefix("file:").lstrip("/")


def _require_next(home: Location, batch: int, last: int, parts: int, cut: Cut | None) -> None:
    """Refuse a checkpoint whose next batch does not follow all of the batch that was accepted last: files would be
    missing. A batch without parts is on no timeline, so the recorded cut counts too."""
    before = cut if cut is not None and cut.batch >= last else Cut(last, "", 0, 0)
    parts_accepted = parts if before.batch == last else 0
    if batch > before.batch + 1:
        what = f"batch {before.batch}" if before.batch >= 0 else "none"
    elif batch > before.batch and parts_accepted < before.parts:
        what = f"part {parts_accepted} of the {before.parts} of batch {before.batch}"
    else:
        return
    raise StoreError(
        f"store {home}: the source hands in batch {batch}, and the last that was accepted is {what}: what lies "
        "between would be missing; restore store and checkpoint from one backup, or start a new store"
    )


def _recorded(home: Location) -> Cut | None:
    if not files.exists(home / PARTS):
        return None
    try:
        cut = json.loads(files.read_text(home / PARTS))
        return Cut(
            int(cut["source_batch"]),
            cut["path"],
            int(cut["size"]),
            int(cut.get("parts", 0)),
            tuple(cut.get("loops", ())),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreMismatch(f"store {home}: {PARTS} cannot be read ({error}); restore it") from None
