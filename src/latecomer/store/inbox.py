"""The frames that programs hand in, in the store: Parquet files, and for each frame a receipt that names them.

A receipt is an answer of the source (`store/answers.py`): its number is that of the source's batch that it makes. It is
written, durably, once the files are on the disk. From then on the frame belongs to the store: a batch that was
interrupted is read from there again, and the program need not hand it in again. If it does, the frame is not taken
twice: a giver (such as a streaming query) numbers its frames, and the receipt has the last number of each giver.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass as checked_dataclass

from latecomer.config.models import INBOX
from latecomer.store import files
from latecomer.store.answers import SourceAnswer, SourceAnswers
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location

DRAFTS = ".drafts"
_AWKWARD = re.compile(r"[^A-Za-z0-9._-]")


def has_rows(file: Location) -> bool:
    return bool(files.footer(file).num_rows)


@checked_dataclass(frozen=True, config=ConfigDict(strict=True, extra="forbid"))
class Receipt:
    """The receipt for one frame."""

    files: list[str]
    at: int
    """When, in microseconds."""
    reached: dict[str, int] = field(default_factory=dict)
    """Giver → the number of its last frame, this one included."""


@dataclass(frozen=True)
class Inbox:
    """The frames that are handed in as one source."""

    root: Location
    """The store."""
    home: Location
    """The folder of the source's progress in the store."""
    source: str = ""

    @property
    def folder(self) -> Location:
        return self.root / INBOX / self.source

    @property
    def answers(self) -> SourceAnswers:
        return SourceAnswers(self.home)

    def draft(self) -> Location:
        """A folder to write a frame into before it is received."""
        return self.root / INBOX / DRAFTS / files.new_token()

    def reached(self, giver: str) -> int:
        """The number of the last frame of a giver; -1 where it has handed in none."""
        last = self.read(self.answers.last())
        return -1 if last is None else last.reached.get(giver, -1)

    def read(self, number: int) -> Receipt | None:
        """The receipt of a batch, if there is one of that number."""
        answer = self.answers.read(number)
        with files.as_written(self.answers.file(number)):
            return None if answer is None else Receipt(**answer.until)

    def files_of(self, receipt: Receipt) -> list[Location]:
        return [self.folder / name for name in receipt.files]

    def place(self, draft: Location, giver: str, number: int) -> list[Location]:
        """Move the files of a draft that have rows to where they are read, and sync them.

        Of a frame without rows one file is moved, for its columns."""
        label = f"{_AWKWARD.sub('_', giver)[:80]}-{number}"
        for name in files.names(self.folder):  # left by an attempt without receipt
            if name.startswith(f"{label}-"):
                files.remove(self.folder / name)
        written = files.parquet_files(draft)
        moving = [file for file in written if has_rows(file)] or written[:1]
        placed = [files.move(file, self.folder / f"{label}-{nth}.parquet") for nth, file in enumerate(moving)]
        files.sync_files(placed, self.root)
        files.remove_all(draft)
        failpoint("inbox.placed", self.answers.last() + 1)
        return placed

    def discard(self, placed: Sequence[Location]) -> None:
        """Remove placed files that were not received."""
        for file in placed:
            files.remove(file)

    def unreceived(self) -> list[Location]:
        """Placed files without a receipt: of attempts that failed or are under way."""
        receipts = (self.read(number) for number in self.answers.numbers())
        named = {name for receipt in receipts if receipt is not None for name in receipt.files}
        placed = [
            name for name in files.names(self.folder) if name.endswith(".parquet") and name not in named
        ]
        return [self.folder / name for name in placed]

    def receive(self, placed: Sequence[Location], giver: str, number: int, at: int) -> int:
        """Write the receipt for placed files. Gives the number of the batch that they make."""
        last = self.answers.last()
        before = self.read(last)
        reached = {**(before.reached if before else {}), giver: number}
        receipt = {"files": [file.name for file in placed], "at": at, "reached": reached}
        self.answers.write(last + 1, SourceAnswer(None, receipt))
        failpoint("inbox.received", last + 1)
        return last + 1

    def clear(self, accepted: int) -> None:
        """Remove the files of receipts up to the accepted one: their rows are in the log."""
        for number in self.answers.numbers():
            receipt = self.read(number) if number <= accepted else None
            for file in self.files_of(receipt) if receipt is not None else ():
                files.remove(file)
        self.answers.forget(accepted)
