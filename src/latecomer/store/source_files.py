"""Which files of a source were found, in the store.

found/
  000000000012.json                   files that were found together, in reading order, as batches from 12 on
  known-000000000000-000000000011     a digest of each path of the batches up to 11

A file is known by its path. A record of the found files is written before any of them is read, so that a batch that
was interrupted has the same files again. Records whose batches are all accepted are replaced by digests now and then.
A file in found/ never changes: it exists whole, under the numbers of its batches, or not at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from latecomer.errors import StoreError
from latecomer.model.array_types import Flags
from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.holding.fences import confirm_held, write_once
from latecomer.store.recovery import RESTORE

MOST_FILES = 10_000
"""How many files one record has at most, unless a batch has more."""
MOST_RECORDS, MOST_READ = 64, 20_000
"""Once so many records, or files in them, are of accepted batches, they are replaced by digests."""
_SIZE = 16
_KNOWN = "known-"
_NAME = re.compile(rf"\.?(\d+\.json|{_KNOWN}\d+-\d+)")
Digests = npt.NDArray[np.bytes_]


class Found(NamedTuple):
    """A file that was found."""

    path: str
    """Absolute, as the operating system names it."""
    landed: int
    """When it was last written, in microseconds."""


def in_reading_order(found: Iterable[Found]) -> list[Found]:
    """Files by modification time, then by path."""
    return sorted(found, key=lambda file: (file.landed, file.path))


class Batches(NamedTuple):
    """Consecutive batches of a source."""

    first: int
    last: int


@dataclass(frozen=True)
class FileRecord:
    """Files that were found together."""

    first: int
    """The number of the first batch."""
    size: int
    """How many files each batch has, except the last one."""
    files: Sequence[Found]
    passed_over: Sequence[str] = ()
    """Paths that are not read, and not reported again."""

    @property
    def batches(self) -> Batches:
        return Batches(self.first, self.first + -(-len(self.files) // self.size) - 1)

    def batch(self, number: int) -> Sequence[Found]:
        """The files of a batch."""
        begin = (number - self.first) * self.size
        return self.files[begin : begin + self.size]

    def digests(self) -> Digests:
        return digests_of([*(file.path for file in self.files), *self.passed_over])

    @property
    def text(self) -> str:
        about = {"first": self.first, "size": self.size, "passed_over": list(self.passed_over)}
        return json.dumps({**about, "files": self.files}, separators=(",", ":")) + "\n"

    @classmethod
    def of_text(cls, text: str) -> FileRecord:
        written = json.loads(text)
        found = [Found(str(path), int(landed)) for path, landed in written["files"]]
        return cls(int(written["first"]), int(written["size"]), found, list(map(str, written["passed_over"])))


class PathSet:
    """A set of paths, by their digests of 16 bytes each."""

    def __init__(self) -> None:
        self._sorted: list[Digests] = []

    def add(self, digests: Digests) -> None:
        """Add digests in any order. Arrays of similar size are merged, so that there are few."""
        more = np.sort(digests)
        while self._sorted and len(self._sorted[-1]) <= 2 * len(more):
            more = np.sort(np.concatenate([self._sorted.pop(), more]), kind="stable")
        self._sorted.append(more)

    def holds(self, digests: Digests) -> Flags:
        """For each digest: whether it is in the set."""
        known = np.zeros(len(digests), dtype=bool)
        for each in self._sorted:
            if len(each):
                nearest = np.minimum(np.searchsorted(each, digests), len(each) - 1)
                known |= each[nearest] == digests
        return known


def digests_of(paths: Sequence[str]) -> Digests:
    """A digest of each path; paths need not be UTF-8."""
    joined = b"".join(
        blake2b(path.encode("utf-8", "surrogateescape"), digest_size=_SIZE).digest() for path in paths
    )
    return np.frombuffer(joined, dtype=f"S{_SIZE}")


@dataclass
class FoundLog:
    """The found files of a source whose folder in the store is `home`."""

    home: Location
    known: PathSet = field(default_factory=PathSet)
    last: int = -1
    """The last batch whose files are known."""
    _records: dict[Batches, int] = field(default_factory=dict)
    """The batches of each record, in order, and how many files the record has."""
    _digests: list[Batches] = field(default_factory=list)
    _recent: FileRecord | None = None

    @property
    def folder(self) -> Location:
        return self.home / "found"

    def open(self, accepted: int, logged: bool) -> None:
        """Read the records and digests. A file that a power cut left incomplete is removed if no batch needs it: its
        paths are found again. An error where the files of a batch up to the `accepted` one are not known, or of the
        next one if that is `logged` already; and where a batch after the `accepted` one has digests only."""
        files.make_folder(self.folder)
        self._clear()
        torn: list[Location] = []
        drafts, whole = self._files()
        contents = {each: what for each in whole if (what := self._read(each, torn)) is not None}
        chain = list(_without_gap(batches for batches, _ in contents.values()))
        self.last = chain[-1].last if chain else -1
        self._digests = [each for each in chain if self._digests_file(each) in contents]
        if self.last < accepted + logged:
            raise self._unknown(self.last + 1, torn)
        if self._digests and self._digests[-1].last > accepted:
            raise self._unknown(accepted + 1, torn)
        needed = {self._digests_file(each) for each in self._digests}
        needed |= {self._record_file(each.first) for each in chain if each not in self._digests}
        for file, (batches, digests) in contents.items():
            if file in needed:
                self.known.add(digests)
                if batches not in self._digests:
                    self._records[batches] = len(digests)
        unneeded = [file for file in (*drafts, *torn, *contents) if file not in needed]
        if unneeded:
            confirm_held(self.folder)
        for file in unneeded:
            files.remove(file)
        self.forget(accepted)

    def batch(self, number: int) -> Sequence[Found] | None:
        """The files of a batch, if it was found."""
        batches = next((each for each in self._records if each.first <= number <= each.last), None)
        return None if batches is None else self._record(batches).batch(number)

    def write(self, found: Sequence[Found], size: int, passed_over: Sequence[str] = ()) -> None:
        """Record files in reading order, `size` to a batch; durable once this returns."""
        most = max(size, MOST_FILES // size * size)
        for begin in range(0, len(found), most):
            record = FileRecord(self.last + 1, size, found[begin : begin + most], passed_over)
            write_once(self._record_file(record.first), record.text)
            self.known.add(record.digests())
            self._records[record.batches] = len(record.files)
            self.last, passed_over = record.batches.last, ()

    def forget(self, accepted: int) -> None:
        """Replace the records of accepted batches by digests, once there are enough of them."""
        read = [each for each in self._records if each.last <= accepted]
        if len(read) >= MOST_RECORDS or sum(self._records[each] for each in read) >= MOST_READ:
            self._replace(read, np.concatenate([self._record(each).digests() for each in read]))

    def take_over(self, paths: Iterable[str], accepted: int) -> None:
        """Start anew, with paths that were read in batches up to the `accepted` one."""
        files.remove_all(self.folder)
        files.make_folder(self.folder)
        self._clear()
        if accepted >= 0:
            digests = np.unique(digests_of(list(paths)))
            self.known.add(digests)
            self._write_digests(Batches(0, accepted), digests)
            self.last = accepted

    def _clear(self) -> None:
        self.known, self.last, self._records, self._digests, self._recent = PathSet(), -1, {}, [], None

    def _replace(self, read: Sequence[Batches], digests: Digests) -> None:
        """Replace records by digests, merged with earlier digests of a similar number."""
        replaced, first = [self._record_file(each.first) for each in read], read[0].first
        kept = self._digests
        while kept and files.size(self._digests_file(kept[-1])) <= 2 * digests.nbytes:
            last = kept[-1]
            digests = np.concatenate([_digests_in(files.read_bytes(self._digests_file(last))), digests])
            replaced, first, kept = [*replaced, self._digests_file(last)], last.first, kept[:-1]
        self._digests = kept
        self._write_digests(Batches(first, read[-1].last), np.sort(digests))
        for each in read:
            del self._records[each]
        confirm_held(self.folder)
        for file in replaced:
            files.remove(file)

    def _write_digests(self, batches: Batches, digests: Digests) -> None:
        content = digests.tobytes()
        files.replace_bytes(self._digests_file(batches), content + _check(content))
        self._digests.append(batches)

    def _record(self, batches: Batches) -> FileRecord:
        if self._recent is None or self._recent.batches != batches:
            self._recent = FileRecord.of_text(files.read_text(self._record_file(batches.first)))
        return self._recent

    def _files(self) -> tuple[list[Location], list[Location]]:
        """The drafts, which were not finished, and the finished files."""
        ours = [name for name in files.names(self.folder) if _NAME.fullmatch(name)]
        drafts = [self.folder / name for name in ours if name.startswith(".")]
        return drafts, [self.folder / name for name in ours if not name.startswith(".")]

    def _read(self, file: Location, torn: list[Location]) -> tuple[Batches, Digests] | None:
        """The batches of a file, and the digests of its paths; None where it is not whole."""
        try:
            if file.name.startswith(_KNOWN):
                first, last = map(int, file.name.removeprefix(_KNOWN).split("-"))
                return Batches(first, last), _digests_in(files.read_bytes(file))
            record = FileRecord.of_text(files.read_text(file))
            if file == self._record_file(record.first) and record.files and record.size > 0:
                return record.batches, record.digests()
        except (ValueError, KeyError, TypeError):
            pass
        torn.append(file)
        return None

    def _unknown(self, batch: int, torn: Sequence[Location]) -> StoreError:
        incomplete = f" ({torn[0].name} is incomplete, as after a power cut)" if torn else ""
        what = f"does not say which files batch {batch} of the source has{incomplete}"
        return StoreError(f"store {self.home}: {self.folder.name} {what}; {RESTORE}")

    def _record_file(self, first: int) -> Location:
        return self.folder / f"{first:012}.json"

    def _digests_file(self, batches: Batches) -> Location:
        return self.folder / f"{_KNOWN}{batches.first:012}-{batches.last:012}"


def _without_gap(existing: Iterable[Batches]) -> Iterator[Batches]:
    """Batches from 0 on up to the first gap. Of those that begin with the same batch, the longest."""
    longest: dict[int, Batches] = {}
    for each in existing:
        longest[each.first] = max(each, longest.get(each.first, each))
    first = 0
    while (batches := longest.get(first)) is not None:
        yield batches
        first = batches.last + 1


def _check(content: bytes) -> bytes:
    return blake2b(content, digest_size=_SIZE).digest()


def _digests_in(content: bytes) -> Digests:
    """The digests in a file; a ValueError where it is not whole."""
    digests, check = content[:-_SIZE], content[-_SIZE:]
    if len(content) % _SIZE or _check(digests) != check:
        raise ValueError("not whole")
    return np.frombuffer(digests, dtype=f"S{_SIZE}")
