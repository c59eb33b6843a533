"""Fences: they let only the holder of a lease write. This module has the fences of this process, by folder.

A lease alone does not keep others from writing: an engine that was paused does not know that it has lost the lease. So
an engine that takes a lease writes its token into every table (`Table.fence`), and every commit has the token of its
engine as an application transaction. A commit with an older token conflicts in Delta's own log. A small file that is
written more than once has the token of its writer. It is replaced only if its content is still the one that the writer
has read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from latecomer.errors import StoreError, StoreInUse
from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.holding.lease import Lease, LeaseRecord

if TYPE_CHECKING:
    from deltalake import DeltaTable

BESIDE = frozenset({"removals", "corrections"})
"""Tables that others fill while a pipeline runs. They have leases of their own."""


@dataclass(frozen=True)
class Fence:
    """A lease that this process holds, and the folder that it protects."""

    root: Location
    application: str
    """The application transaction that has its token in tables."""
    lease: Lease
    around_files: bool = True
    """Whether it is the lease of the store itself: only its holder makes tables and writes the small files."""
    opened: dict[Location, DeltaTable] = field(default_factory=dict)
    """The tables that were opened for the fence: the first reader of each need not open it again."""
    _tags: dict[Location, str | None] = field(default_factory=dict)
    """The tags of the small files that were read or written with this lease."""

    @property
    def token(self) -> int:
        return self.lease.token

    def covers(self, location: Location) -> bool:
        """Whether it protects a table or a file."""
        return location.is_relative_to(self.root) and not (self.around_files and location.name in BESIDE)

    def require(self) -> None:
        """Refuse to go on if this process knows that another engine has taken over."""
        if self.lease.lost:
            raise self.refusal()

    def confirm(self) -> None:
        """Refuse to go on if another engine has taken over; the store is read to know it."""
        if not self.lease.confirm():
            raise self.refusal()

    def refusal(self) -> StoreInUse:
        """The error for an engine that has lost the lease."""
        self.lease.confirm()
        after = f"{self.lease.record.takes_over_after:g} s"
        return StoreInUse(
            f"store {self.root} was taken over by {_who(self.lease.lost_to)}: this engine (token {self.token}) gave no "
            f"sign of life for {after}. What it was doing is refused, and the other engine does it; to stand by "
            "for it, run with --standby"
        )

    def adopt(self, file: Location) -> None:
        """Replace a small file by itself with a new tag: engines that read it before can no longer replace it."""
        self._tags[file] = None
        while (stored := files.read_tagged(file)) is not None:
            self.confirm()  # after the read: an engine that takes over later replaces the file, too
            tag = files.put_if(file, self._stamped(stored.content), stored.tag)
            if tag is not None:
                self._tags[file] = tag
                return

    def write(self, file: Location, content: bytes) -> None:
        """Replace a small file, unless another engine has replaced it."""
        stamped = self._stamped(content)
        written = files.put_if(file, stamped, self._tags.get(file))
        if written is None:
            stored = files.read_tagged(file)
            self.confirm()
            written = files.put_if(file, stamped, None if stored is None else stored.tag)
        if written is None:
            self.confirm()
            raise StoreError(f"{file} is written by somebody else at the same time; run again")
        self._tags[file] = written

    def _stamped(self, content: bytes) -> bytes:
        """The content with the token as white space at its end: the same content by another holder differs."""
        return content.rstrip() + b"\n" + _marks(self.token) + b"\n"


def _marks(token: int) -> bytes:
    """A token as white space, which readers of JSON and plain text ignore."""
    return bytes(b" \t"[int(bit)] for bit in f"{token:b}")


def _who(record: LeaseRecord | None) -> str:
    if record is None:
        return "somebody else (its lease is gone)"
    return f"{record.in_words} at {record.since} (token {record.token})"


_FENCES: list[Fence] = []
_CHANGING = threading.Lock()


@contextmanager
def in_force(fence: Fence) -> Iterator[Fence]:
    """Within this context, a fence applies to all that this process writes."""
    with _CHANGING:
        _FENCES.append(fence)
    try:
        yield fence
    finally:
        with _CHANGING:
            _FENCES.remove(fence)


def fences_over(location: Location) -> list[Fence]:
    """The fences that protect a location."""
    return [each for each in tuple(_FENCES) if each.covers(location)]


def lease_over(root: Location) -> Lease | None:
    """The lease of a store, if this process holds it."""
    return next((each.lease for each in tuple(_FENCES) if each.around_files and each.root == root), None)


def require_held(root: Location) -> None:
    """Refuse to go on if this process knows that another engine has taken over the store."""
    for fence in fences_over(root):
        fence.require()


def confirm_held(root: Location) -> None:
    """Refuse to go on if another engine has taken over; the store is read to know it. Called before steps that no fence
    protects."""
    for fence in fences_over(root):
        fence.confirm()


def rewrite(file: Location, text: str) -> None:
    """Write a text to a small file that is written again and again. The file is replaced as a whole and durably. An
    engine that has lost the store is refused."""
    content, fence = text.encode("utf-8"), _store_fence(file)
    if fence is None:
        files.replace_bytes(file, content)
    else:
        fence.write(file, content)


def write_once(file: Location, text: str) -> None:
    """Write a text to a small file that is written once. It is refused if the file exists with another content."""
    content, fence = text.encode("utf-8"), _store_fence(file)
    if fence is None:
        files.replace_bytes(file, content)
    elif files.put_if(file, content, None) is None and files.read_bytes(file) != content:
        fence.confirm()
        raise StoreError(
            f"{file} was written by an engine that had lost the store already; run again, and it is read"
        )


def _store_fence(file: Location) -> Fence | None:
    """The fence of the store itself, if this process holds it."""
    return next((each for each in fences_over(file) if each.around_files), None)
