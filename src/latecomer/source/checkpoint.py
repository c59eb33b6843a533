"""Stores of earlier versions: Structured Streaming found the files of their sources, and kept them in its checkpoint.

checkpoint/
  offsets/N       that batch N of the stream is to be run, up to which entry of the source's log
  sources/0/N     an entry of the source's log, with the files that were found together; N.compact has all up to N
  commits/N       that batch N was run
parts.json        how the last batch of the stream is cut into batches of ours

What was read is taken over as known, and what is left of a batch that was begun, cut as it was; the rest is found anew.
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
from latecomer.store.found import Found, in_reading_order
from latecomer.store.recovery import RESTORE

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
    """How many parts there are: none, if the path names no file of the batch. Not known of older ones."""
    loops: Sequence[str] = ()
    """Links to folders that they lie in. Spark found every file again below them."""

    def files(self, found: Sequence[Found]) -> list[Found]:
        """The files of the batch that are read, in order."""
        source, looped = SourcePath(self.path), tuple(f"{link}/" for link in self.loops)
        kept = {file for file in found if source.matches(file.path) and not file.path.startswith(looped)}
        return in_reading_order(kept)


@dataclass(frozen=True)
class TakenOver:
    """What a checkpoint says."""

    read: Sequence[str] = ()
    """The paths that are not read again."""
    left: Sequence[Found] = ()
    """What is left of a batch that was begun, in reading order."""
    size: int = 1
    """How many of them are read at a time."""


def taken_over(home: Location, accepted: int, parts: int, logged: bool) -> TakenOver:
    """What is to be known of a source whose folder in the store is `home`. Of the batch that was `accepted` last, so
    many `parts` are on the timeline; `logged` is whether what follows is in the log already."""
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
        found = checkpoint.files(begun - 1, begun)
    except StoreError:
        if logged or begun <= accepted:
            raise
        return TakenOver([file.path for file in read])  # nothing rests on it: its files are found anew
    left = cut.files(found)[size * (parts if begun == accepted else 0) :] if cut else in_reading_order(found)
    unread, handed = {file.path for file in left}, read if begun <= last else [*read, *found]
    paths = [file.path for file in handed if file.path not in unread]
    return TakenOver(paths, left, size or max(len(left), 1))


def set_aside(home: Location) -> None:
    """Remove a checkpoint that was taken over. Whoever finds one takes it for what holds, so it goes at once."""
    gone = home / f".{CHECKPOINT}"
    files.remove_all(gone)
    if files.exists(home / CHECKPOINT):
        files.move(home / CHECKPOINT, gone)
        files.sync_folder(home)
    files.remove(home / PARTS)
    files.remove_all(gone)


@dataclass(frozen=True)
class _Checkpoint:
    """What Spark has written down. It does not sync it: after a power cut the newest files may be empty."""

    root: Location

    @cached_property
    def last_run(self) -> int:
        """The last batch that was run, as far as Spark knows."""
        return max((number for number, file in self._entries(COMMITS) if _lines(file)), default=-1)

    def files(self, after: int, last: int) -> list[Found]:
        """The files of the batches after one and up to another."""
        begin, end = self._offset(after, last), self._offset(last, last)
        summed, entries = self._found
        found = list(summed)
        for number in range(self._summed_to + 1, end + 1):
            if number not in entries:
                raise StoreError(
                    f"Spark's checkpoint does not say which files batch {last} of the source has: "
                    f"{self.root / FOUND / str(number)} is missing, or incomplete; {RESTORE}"
                )
            found += entries[number]
        return [file for entry, file in found if begin < entry <= end]

    @cached_property
    def _summed_to(self) -> int:
        whole = (int(file.stem) for _, file in self._entries(FOUND) if file.suffix and _found_in(file))
        return max(whole, default=-1)

    @cached_property
    def _found(self) -> tuple[list[tuple[int, Found]], dict[int, list[tuple[int, Found]]]]:
        """Entry and file: of all entries that were summed up, and of each that came later and is whole."""
        compact = self.root / FOUND / f"{self._summed_to}.compact"
        later = {
            number: found
            for number, file in self._entries(FOUND)
            if number > self._summed_to and not file.suffix and (found := _found_in(file))
        }
        return _found_in(compact) if self._summed_to >= 0 else [], later

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
    """What Spark wrote into a file after the version; nothing where it is not there, or torn."""
    if not files.is_file(file):
        return []
    text = files.read_bytes(file).decode("utf-8", "replace")
    return text.removeprefix(_VERSION).split("\n") if text.startswith(_VERSION) else []


def _found_in(file: Location) -> list[tuple[int, Found]]:
    """The files that an entry of the source's log names, each with its entry; nothing where it is not whole."""
    try:
        found = [json.loads(line) for line in _lines(file)]
        return [
            (int(each["batchId"]), Found(_path(each["path"]), each["timestamp"] * 1000)) for each in found
        ]
    except (ValueError, KeyError, TypeError):
        return []


def _path(url: str) -> str:
    return "/" + unquote(url).removeprefix("file:").lstrip("/")


def _require_next(home: Location, batch: int, last: int, parts: int, cut: Cut | None) -> None:
    """Refuse a checkpoint whose next batch does not follow the one that was accepted last, whole: the files between
    would be missing. A batch without parts is on no timeline, so what was recorded counts, too."""
    before = cut if cut is not None and cut.batch >= last else Cut(last, "", 0, 0)
    there = parts if before.batch == last else 0
    if batch > before.batch + 1:
        what = f"batch {before.batch}" if before.batch >= 0 else "none"
    elif batch > before.batch and there < before.parts:
        what = f"part {there} of the {before.parts} of batch {before.batch}"
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
        kept = json.loads(files.read_text(home / PARTS))
        return Cut(
            int(kept["source_batch"]),
            kept["path"],
            int(kept["size"]),
            int(kept.get("parts", 0)),
            tuple(kept.get("loops", ())),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreMismatch(f"store {home}: {PARTS} cannot be read ({error}); restore it") from None
