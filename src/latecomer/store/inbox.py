"""What programs hand in, in the store: Parquet files, and for each frame a receipt that names them.

A receipt is an answer of the source (`store/answers.py`): its number is that of the source's batch that it makes. It is
written, durably, once the files are on the disk. From then on the frame is the store's: a batch that was interrupted
is read from there again, and the program need not hand it in a second time. Where it does, the receipt says so: a giver
(a streaming query, say) counts its frames, and what it has handed in once is not taken again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from latecomer.config.models import INBOX
from latecomer.store import files
from latecomer.store.answers import Answer, Answers
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location

DRAFTS = ".drafts"
_AWKWARD = re.compile(r"[^A-Za-z0-9._-]")


def has_rows(file: Location) -> bool:
    return bool(files.footer(file).num_rows)


@dataclass(frozen=True)
class Receipt:
    """What was handed in at once."""

    files: Sequence[str]
    at: int
    """When, in microseconds."""
    reached: Mapping[str, int] = field(default_factory=dict)
    """How far each giver is, with this."""


@dataclass(frozen=True)
class Inbox:
    """The frames that are handed in as one source."""

    root: Location
    """The store."""
    home: Location
    """The folder in which the store keeps how far the source was read."""
    source: str = ""

    @property
    def folder(self) -> Location:
        return self.root / INBOX / self.source

    @property
    def answers(self) -> Answers:
        return Answers(self.home)

    def draft(self) -> Location:
        """Where a frame may be written that is not received yet."""
        return self.root / INBOX / DRAFTS / files.new_token()

    def reached(self, giver: str) -> int:
        """The number of the last frame of a giver; -1 where it has handed in none."""
        last = self.read(self.answers.last())
        return -1 if last is None else last.reached.get(giver, -1)

    def read(self, number: int) -> Receipt | None:
        """The receipt of a batch, if there is one of that number."""
        answer = self.answers.read(number)
        return None if answer is None else Receipt(**answer.until)

    def files_of(self, receipt: Receipt) -> list[Location]:
        return [self.folder / name for name in receipt.files]

    def place(self, draft: Location, giver: str, number: int) -> list[Location]:
        """Move the files of a draft, those that have rows, to where they are read from; they are on the disk then.

        Of a frame without rows one file is moved: it says the columns."""
        label = f"{_AWKWARD.sub('_', giver)[:80]}-{number}"
        for name in files.names(self.folder):  # of an attempt that was not received
            if name.startswith(f"{label}-"):
                files.remove(self.folder / name)
        written = files.parquet_files(draft)
        found = [file for file in written if has_rows(file)] or written[:1]
        placed = [files.move(file, self.folder / f"{label}-{nth}.parquet") for nth, file in enumerate(found)]
        files.sync_files(placed, self.root)
        files.remove_all(draft)
        failpoint("inbox.placed", self.answers.last() + 1)
        return placed

    def discard(self, placed: Sequence[Location]) -> None:
        """Remove files that are placed and were not received."""
        for file in placed:
            files.remove(file)

    def unreceived(self) -> list[Location]:
        """Files that are placed and have no receipt: those of attempts that came to nothing, or are under way."""
        receipts = (self.read(number) for number in self.answers.numbers())
        named = {name for receipt in receipts if receipt is not None for name in receipt.files}
        placed = [
            name for name in files.names(self.folder) if name.endswith(".parquet") and name not in named
        ]
        return [self.folder / name for name in placed]

    def receive(self, placed: Sequence[Location], giver: str, number: int, at: int) -> int:
        """Write the receipt for files that are placed; gives the number of the batch that they make."""
        last = self.answers.last()
        before = self.read(last)
        reached = {**(before.reached if before else {}), giver: number}
        receipt = {"files": [file.name for file in placed], "at": at, "reached": reached}
        self.answers.write(last + 1, Answer(None, receipt))
        failpoint("inbox.received", last + 1)
        return last + 1

    def clear(self, accepted: int) -> None:
        """Remove what is in the log: the files of receipts up to this one."""
        for number in self.answers.numbers():
            receipt = self.read(number) if number <= accepted else None
            for file in self.files_of(receipt) if receipt is not None else ():
                files.remove(file)
        self.answers.forget(accepted)
