"""DataFrames as a source: what a program hands in lies in the store's inbox as Parquet, and is read like any file.

This source is not polled: a receipt in the inbox is the next batch (`store/inbox.py`, ADR 0083).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from latecomer.config.views import place_in
from latecomer.errors import SourceError, StoreError
from latecomer.objects.locations import PLAIN, Url, options_of
from latecomer.source.base import Clock
from latecomer.source.decode.base import SourceFile
from latecomer.source.decode.parquet_reading import columns_of
from latecomer.source.file_source import FileSource
from latecomer.source.found_files import FileSlice, encoded_path
from latecomer.source.polled import resume_answers
from latecomer.source.private_columns import FULL_ORIGIN, ORIGIN
from latecomer.store import files
from latecomer.store.files import Location
from latecomer.store.inbox import Inbox
from latecomer.store.recovery import RESTORE


@dataclass(frozen=True)
class FrameSource(FileSource):
    """The frames that programs hand in."""

    name: str = ""

    def where(self, file: SourceFile) -> dict[str, str]:
        """A frame is known by its giver and number, not by its file: that is removed once it is logged."""
        name = encoded_path("/".join((self.name, file.named.name) if self.name else (file.named.name,)))
        return {ORIGIN: name, FULL_ORIGIN: name}

    def inbox(self, home: Location) -> Inbox:
        return Inbox(self.pipeline.store_path, home, self.name)

    def require(self) -> None:
        """There is nothing to check before a frame is handed in."""

    @property
    def clock(self) -> Clock:
        return Clock.READ if self.pipeline.order_by is None else Clock.COLUMN

    @property
    def stamps_arrivals(self) -> bool:
        return False

    def resume(self, home: Location, accepted: int, logged: bool, parts: int = 1) -> None:
        self.inbox(home).clear(accepted)
        resume_answers(home, accepted, logged)

    def find_all(self, home: Location, number: int) -> None:
        """Everything that was handed in has a receipt."""

    def has_slice(self, home: Location, number: int) -> bool:
        return self.inbox(home).read(number) is not None

    def slice_of(self, home: Location, number: int) -> FileSlice | None:
        inbox = self.inbox(home)
        receipt = inbox.read(number)
        if receipt is None:
            return None
        frames = inbox.files_of(receipt)
        for file in frames:
            if not files.is_file(file):
                raise StoreError(f"{file} was handed in, was not read yet, and is missing; {RESTORE}")
        return FileSlice.of([_source_file(file, receipt.at) for file in frames])

    def require_fitting(self, files_placed: Sequence[Location]) -> None:
        """Refuse a frame that does not have the columns of the store: its file, or each of its rows, would be a dead
        letter."""
        for file in files_placed[:1]:  # all of them have the same schema
            frame_file = _source_file(file, 0)
            reason = self.decoder.misfit(frame_file)
            if reason is not None:
                raise SourceError(
                    f"the DataFrame does not fit the store: {reason}; cast it, as in frame.withColumn(…), or declare "
                    f"{place_in(self.name, 'source.schema')} and start a new store"
                )
            frame_columns = columns_of(frame_file).kinds
            time = self.pipeline.source_name(self.pipeline.event.time)
            if time not in frame_columns:
                raise SourceError(
                    f"the DataFrame has no column {time}, which is the event time; it has {', '.join(frame_columns)}: "
                    f"rename one, as in frame.withColumnRenamed(…, {time!r})"
                )

    def next_slice(self, home: Location, number: int) -> FileSlice | None:
        return self.slice_of(home, number)


def _source_file(file: Location, at: int) -> SourceFile:
    reached = options_of(file) if isinstance(file, Url) else PLAIN
    return SourceFile(files.uri(file), at, files.size(file), reached)
