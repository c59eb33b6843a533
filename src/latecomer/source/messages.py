"""Files of messages as a source: each file is divided, and its messages are decoded as those of a topic are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from latecomer.config.registered import Layout, Registered
from latecomer.model.dead_letters import REST
from latecomer.source.base import Chunk, Slice, Split
from latecomer.source.columns import BROKEN, POSITION
from latecomer.source.decode.base import FileSplit
from latecomer.source.decode.columns import CORRUPT
from latecomer.source.decode.frames import FramedDecoder
from latecomer.source.decode.messages import Message, messages_of
from latecomer.source.decode.retrying import reading_unchanged
from latecomer.source.files import FilePart, broken_row
from latecomer.source.found_files import FileSlice, FoundFiles, files_of, present
from latecomer.source.letters import RecordLetters
from latecomer.source.records import RecordSource
from latecomer.source.staging import Staging
from latecomer.store.layout import source_type

_MOST_AT_ONCE = 32 << 20
"""Bytes of messages that are decoded in one go."""


@dataclass(frozen=True)
class MessageFiles(FoundFiles, RecordSource):
    """The pipeline's files, where they are of messages. A message stands where it begins in its file."""

    @property
    def named(self) -> str:
        return "source files"

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        known = slice_.unreadable if isinstance(slice_, FileSlice) else {}
        found = []
        for file in files_of(slice_):
            found.append(FilePart(FileSplit(present(file)), known.get(file.path) or self.misplaced(file)))
        return found

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        letters, decoder = RecordLetters(self.pipeline, self.read_columns), self.task_decoder
        assert isinstance(decoder, FramedDecoder)  # noqa: S101
        for split in splits:
            assert isinstance(split, FilePart)  # noqa: S101
            file = split.part.file
            for rows in self._rows(split, decoder):
                yield Chunk(self.placed(rows, file), self.clock, letters, landed=file.landed)

    def _rows(self, split: FilePart, decoder: FramedDecoder) -> Iterator[pa.Table]:
        if split.unreadable is not None:
            yield broken_row(split.unreadable, self.read_columns)
            return
        file = split.part.file
        with reading_unchanged(file):
            for messages in _in_parts(messages_of(file, self._layout, decoder)):
                if messages[-1].is_rest:
                    yield self._rest(messages[-1])
                else:
                    rows = decoder.decode([each.record for each in messages], self.read_columns)
                    yield rows.append_column(
                        POSITION, pa.array([each.start for each in messages], pa.int64())
                    )

    def _rest(self, message: Message) -> pa.Table:
        """The row of what follows in a file where a message has no end."""
        nothing = {name: pa.nulls(1, source_type(kind)) for name, kind in self.read_columns.items()}
        about = {
            CORRUPT: pa.array([message.record], pa.binary()),
            BROKEN: pa.array([REST], pa.string()),
            POSITION: pa.array([message.start], pa.int64()),
        }
        return pa.table({**nothing, **about})

    @property
    def _layout(self) -> Layout:
        written = self.pipeline.format
        assert isinstance(written, Registered) and written.messages is not None  # noqa: S101, PT018
        return written.messages


def _in_parts(messages: Iterator[Message]) -> Iterator[list[Message]]:
    """Messages, not too many at once; the rest of a file by itself. Those of an empty part are none."""
    held, size = list[Message](), 0
    for message in messages:
        if message.is_rest or size > _MOST_AT_ONCE:
            if held:
                yield held
            held, size = [], 0
        if message.is_rest:
            yield [message]
            continue
        held.append(message)
        size += len(message.record)
    if held:
        yield held
