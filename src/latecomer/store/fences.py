"""What holds a lease keeps others out: the fences of this process, by the folder that each stands around.

A lease alone keeps nobody from writing: an engine that was paused does not know that it has lost it. So whoever takes a
lease writes its token into every table (`Table.fence`), and every commit carries the token of its engine as an
application transaction. A commit with an older one conflicts in Delta's own log. A small file that is written again
says which token wrote it, and is put over the content that its writer knows.
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
from latecomer.store.lease import Lease, Record

if TYPE_CHECKING:
    from deltalake import DeltaTable

BESIDE = frozenset({"removals", "corrections"})
"""Tables that are filled beside a run, under leases of their own."""


@dataclass(frozen=True)
class Fence:
    """A lease that this process holds, and what it is about."""

    root: Location
    application: str
    """The transaction that carries its token in tables."""
    lease: Lease
    around_files: bool = True
    """Whether it is the lease of the store itself: nobody but its holder makes tables and writes the small files."""
    opened: dict[Location, DeltaTable] = field(default_factory=dict)
    """The tables that were opened to be fenced: whoever reads one first need not open it again."""
    _tags: dict[Location, str | None] = field(default_factory=dict)
    """Of the small files that were read or written under it."""

    @property
    def token(self) -> int:
        return self.lease.token

    def covers(self, location: Location) -> bool:
        """Whether it stands around a table or a file."""
        return location.is_relative_to(self.root) and not (self.around_files and location.name in BESIDE)

    def require(self) -> None:
        """Refuse to go on where it is known that somebody else has taken over."""
        if self.lease.lost:
            raise self.refusal()

    def confirm(self) -> None:
        """Likewise, and ask the store whether it is so."""
        if not self.lease.confirm():
            raise self.refusal()

    def refusal(self) -> StoreInUse:
        """What to say to an engine that has lost it."""
        self.lease.confirm()
        after = f"{self.lease.record.takes_over_after:g} s"
        return StoreInUse(
            f"store {self.root} was taken over by {_who(self.lease.lost_to)}: this engine (token {self.token}) gave no "
            f"sign of life for {after}. What it was doing is refused, and the other engine does it; to stand by "
            "for it, run with --standby"
        )

    def adopt(self, file: Location) -> None:
        """Put a small file over itself, so that nobody who read it before can."""
        self._tags[file] = None
        while (found := files.read_tagged(file)) is not None:
            self.confirm()  # after that was read: whoever takes over now puts the file over itself
            tag = files.put_over(file, self._stamped(found.content), found.tag)
            if tag is not None:
                self._tags[file] = tag
                return

    def write(self, file: Location, content: bytes) -> None:
        """Write a small file again, unless somebody else has."""
        stamped, tag = self._stamped(content), self._tags.get(file)
        written = files.put_new(file, stamped) if tag is None else files.put_over(file, stamped, tag)
        if written is None:
            found = files.read_tagged(file)
            self.confirm()
            written = (
                files.put_new(file, stamped) if found is None else files.put_over(file, stamped, found.tag)
            )
        if written is None:
            self.confirm()
            raise StoreError(f"{file} is written by somebody else at the same time; run again")
        self._tags[file] = written

    def _stamped(self, content: bytes) -> bytes:
        """The content with as much white space at its end as tells it from the same one by another holder."""
        return content.rstrip() + b"\n" + _marks(self.token) + b"\n"


def _marks(token: int) -> bytes:
    """A number in white space, which JSON and plain words do not mind."""
    return bytes(b" \t"[int(bit)] for bit in f"{token:b}")


def _who(record: Record | None) -> str:
    if record is None:
        return "somebody else (its lease is gone)"
    return f"{record.in_words} at {record.since} (token {record.token})"


_FENCES: list[Fence] = []
_CHANGING = threading.Lock()


@contextmanager
def standing(fence: Fence) -> Iterator[Fence]:
    """Have a fence around what this process does, as long as this lasts."""
    with _CHANGING:
        _FENCES.append(fence)
    try:
        yield fence
    finally:
        with _CHANGING:
            _FENCES.remove(fence)


def fences_over(location: Location) -> list[Fence]:
    """The fences around a location."""
    return [each for each in tuple(_FENCES) if each.covers(location)]


def lease_over(root: Location) -> Lease | None:
    """The lease of a store, where this process has it."""
    return next((each.lease for each in tuple(_FENCES) if each.around_files and each.root == root), None)


def require_held(root: Location) -> None:
    """Refuse to go on where it is known that somebody else has taken the store over."""
    for fence in fences_over(root):
        fence.require()


def confirm_held(root: Location) -> None:
    """Likewise, and ask the store whether it is so: before something that no fence stands around."""
    for fence in fences_over(root):
        fence.confirm()


def rewrite(file: Location, text: str) -> None:
    """Put a text into a small file that is written again and again: whole, for good, and refused to whoever has lost
    the store."""
    content = text.encode("utf-8")
    for fence in fences_over(file):
        if fence.around_files:
            fence.write(file, content)
            return
    files.replace_bytes(file, content)


def write_once(file: Location, text: str) -> None:
    """Put a text into a small file that is not written again: refused where somebody was there before."""
    for fence in fences_over(file):
        if fence.around_files:
            content = text.encode("utf-8")
            if files.put_new(file, content) is None and files.read_bytes(file) != content:
                fence.confirm()
                raise StoreError(
                    f"{file} was written by an engine that had lost the store already; run again, and it is read"
                )
            return
    files.replace_text(file, text)
