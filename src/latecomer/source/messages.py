"""Files of messages as a source: each file is cut into messages, which are decoded like those of a topic.

Each message is in Confluent's framing. Messages that are `joined` lie one behind another, with line ends or nothing
between them: the schema of a message tells where it ends. Those that are `sized` have their length before them, in four
bytes, big-endian. If a message has no end, nothing is known of what follows: it is the rest of the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa

from latecomer.config.registered import Layout, Registered
from latecomer.model.dead_letters import REST
from latecomer.objects.readable import Readable
from latecomer.source.base import Chunk, Slice, Split
from latecomer.source.decode.base import FileSplit
from latecomer.source.decode.framing import HEAD_SIZE, End, FramedDecoder, framing_mistake, number_of
from latecomer.source.decode.retrying import reading, reading_unchanged
from latecomer.source.decode.typed_columns import broken_row
from latecomer.source.found_files import FoundFiles
from latecomer.source.letters import RecordLetters
from latecomer.source.private_columns import POSITION
from latecomer.source.records import RecordSource
from latecomer.source.staging import Staging

LARGEST_MESSAGE = 64 << 20
"""Bytes of a message, at most: what is larger is taken for damage."""
MOST_KEPT = 1 << 20
"""Bytes of the rest of a file that are kept."""
_CHUNK = 16 << 20
_SIZE = 4
"""Bytes of a length."""
_LINE_END = b"\r\n"
_MOST_AT_ONCE = 32 << 20
"""Bytes of messages that are decoded together."""


@dataclass(frozen=True)
class Message:
    """A message, and where it begins in its file; or the first bytes of the rest of a file."""

    start: int
    record: bytes
    is_rest: bool = False


@dataclass(frozen=True)
class MessageFiles(FoundFiles, RecordSource):
    """The pipeline's files of messages. The position of a message is the byte at which it begins."""

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        return [FileSplit(file, unreadable=reason) for file, reason in self.present_files(slice_)]

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        letters, decoder = RecordLetters(self.pipeline, self.read_columns), self.task_decoder
        assert isinstance(decoder, FramedDecoder)  # noqa: S101
        for split in splits:
            assert isinstance(split, FileSplit)  # noqa: S101
            file = split.file
            for rows in self._rows(split, decoder):
                yield Chunk(self.placed(rows, file), self.clock, letters, landed=file.landed)

    def _rows(self, split: FileSplit, decoder: FramedDecoder) -> Iterator[pa.Table]:
        if split.unreadable is not None:
            yield broken_row(self.read_columns, split.unreadable)
            return
        file = split.file
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


def messages_of(file: Readable, layout: Layout, decoder: FramedDecoder) -> Iterator[Message]:
    """The messages of a file in their order, and the rest of the file if there is one. `SchemaOutage` or
    `UnknownSchemas` if a schema is needed to find an end and cannot be fetched or is not known."""
    with reading(file):
        opened = file.open("rb")
    with opened:
        yield from _divided(file, opened, _Sized() if layout == "sized" else _Joined(decoder))


def _divided(file: Readable, opened: BinaryIO, borders: _Sized | _Joined) -> Iterator[Message]:
    """At most as much of the file is in memory as a message may have, and one chunk."""
    data, before, at, is_last = b"", 0, 0, False
    while True:
        at = borders.next_start(data, at)
        end = borders.end(data, at, is_last) if at < len(data) else None
        if end is not None:
            start = at + borders.head
            yield Message(before + start, data[start:end])
            at = end
        elif not is_last and len(data) - at <= LARGEST_MESSAGE:
            with reading(file):
                more = opened.read(_CHUNK)
            data, before, at, is_last = data[at:] + more, before + at, 0, not more
        else:
            break
    if at < len(data):
        yield Message(before + at, data[at : at + MOST_KEPT], is_rest=True)


class _Sized:
    head = _SIZE

    def next_start(self, data: bytes, at: int) -> int:
        return at

    def end(self, data: bytes, at: int, is_last: bool) -> int | None:
        end = at + _SIZE + int.from_bytes(data[at : at + _SIZE], "big")
        return end if at + _SIZE <= end <= len(data) else None


class _Joined:
    head = 0

    def __init__(self, decoder: FramedDecoder) -> None:
        self.decoder = decoder
        self.ends: dict[int, End] = {}

    def next_start(self, data: bytes, at: int) -> int:
        while at < len(data) and data[at] in _LINE_END:
            at += 1
        return at

    def end(self, data: bytes, at: int, is_last: bool) -> int | None:
        head = data[at : at + HEAD_SIZE]
        if framing_mistake(head) is not None:
            return None
        number = number_of(head)
        if number not in self.ends:
            self.ends[number] = self.decoder.ends(number)
        return self.ends[number](data, at + HEAD_SIZE, is_last)
