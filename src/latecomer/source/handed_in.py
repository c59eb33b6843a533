"""DataFrames as a source: what a program hands in is in the store's inbox, as Parquet, and is read like any file.

Nobody asks this source for news: a receipt in the inbox is the next batch (`store/inbox.py`, ADR 0083).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from latecomer.config.views import place_in
from latecomer.decode.files import SourceFile
from latecomer.errors import SourceError, StoreError
from latecomer.source.base import Clock
from latecomer.source.files import FileSource
from latecomer.source.found_files import FileSlice
from latecomer.source.polled import resume_answers
from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.inbox import Inbox
from latecomer.store.recovery import RESTORE


@dataclass(frozen=True)
class HandedIn(FileSource):
    """The frames that programs hand in."""

    name: str = ""

    def inbox(self, home: Path) -> Inbox:
        return Inbox(self.pipeline.store_path, home, self.name)

    def require(self) -> None:
        """There is nothing to look at before a frame is handed in."""

    @property
    def clock(self) -> Clock:
        return Clock.READ if self.pipeline.order_by is None else Clock.COLUMN

    @property
    def stamps_arrivals(self) -> bool:
        return False

    def resume(self, home: Path, accepted: int, logged: bool, parts: int = 1) -> None:
        self.inbox(home).clear(accepted)
        resume_answers(home, accepted, logged)

    def ask_for_all(self, home: Path, number: int) -> None:
        """All that there is has a receipt."""

    def has_answered(self, home: Path, number: int) -> bool:
        return self.inbox(home).read(number) is not None

    def answered(self, home: Path, number: int) -> FileSlice | None:
        inbox = self.inbox(home)
        receipt = inbox.read(number)
        if receipt is None:
            return None
        found = inbox.files_of(receipt)
        for file in found:
            if not files.is_file(file):
                raise StoreError(
                    f"{file} was handed in and not read yet, and is not there any more; {RESTORE}"
                )
        return FileSlice.of([SourceFile(f"file://{file}", receipt.at, files.size(file)) for file in found])

    def require_fitting(self, files_placed: Sequence[Location]) -> None:
        """Refuse a frame that does not have the columns of the store: in a file it would be one dead letter."""
        for file in files_placed[:1]:  # all of them have one schema
            reason = self.decoder.misfit(SourceFile(f"file://{file}", 0, files.size(file)))
            if reason is not None:
                raise SourceError(
                    f"the DataFrame does not fit the store: {reason}; cast it, as in frame.withColumn(…), or declare "
                    f"{place_in(self.name, 'source.schema')} and start a new store"
                )

    def news(self, home: Path, number: int) -> FileSlice | None:
        return self.answered(home, number)
