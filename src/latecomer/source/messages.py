"""Files of messages as a source: each file is cut into messages, which are decoded like those of a topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from latecomer.config.registered import Layout, Registered
from latecomer.model.dead_letters import REST
from latecomer.source.base import Chunk, Slice, Split
from latecomer.source.decode.base import FileSplit
from latecomer.source.decode.frames import FramedDecoder
from latecomer.source.decode.messages import Message, messages_of
from latecomer.source.decode.null_rows import broken_row
from latecomer.source.decode.retrying import reading_unchanged
from latecomer.source.file_source import FilePart
from latecomer.source.found_files import FoundFiles
from latecomer.source.letters import RecordLetters
from latecomer.source.private_columns import POSITION
from latecomer.source.records import RecordSource
from latecomer.source.staging import Staging

_MOST_AT_ONCE = 32 << 20
"""Bytes of messages that are decoded together."""


@dataclass(frozen=True)
class MessageFiles(FoundFiles, RecordSource):
    """The pipeline's files of messages. The position of a message is the byte at which it begins."""

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        return [FilePart(FileSplit(file), reason) for file, reason in self.present_files(slice_)]

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
            yield broken_row(self.read_columns, split.unreadable)
            return
        file = split.part.file
        with reading_unchanged(file):
            for messages in _in_parts(messages_of(file, self._layout, decoder)):
                if (rest := messages[-1]).is_rest:
                    yield broken_row(self.read_columns, REST, rest.start, rest.record)
                else:
                    rows = decoder.decode([each.record for each in messages], self.read_columns)
                    yield rows.append_column(
                        POSITION, pa.array([each.start for each in messages], pa.int64())
                    )

    @property
    def _layout(self) -> Layout:
        written = self.pipeline.format
        assert isinstance(written, Registered) and written.messages is not None  # noqa: S101, PT018
        return written.messages


def _in_parts(messages: Iterator[Message]) -> Iterator[list[Message]]:
    """Messages, not too many at once; the rest of a file by itself. No part is empty."""
    part, size = list[Message](), 0
    for message in messages:
        if part and (message.is_rest or size > _MOST_AT_ONCE):
            yield part
            part, size = [], 0
        part.append(message)
        size += len(message.record)
    if part:
        yield part
