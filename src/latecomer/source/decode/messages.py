"""Cuts a file into messages, each in Confluent's framing.

Messages that are `joined` lie one behind another, with line ends or nothing between them: the schema of a message tells
where it ends. Those that are `sized` have their length before them, in four bytes, big-endian. If a message has no end,
nothing is known of what follows: it is the rest of the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from latecomer.config.registered import Layout
from latecomer.objects.readable import Readable
from latecomer.source.decode.frames import HEAD_SIZE, End, framing_mistake, number_of
from latecomer.source.decode.retrying import reading

LARGEST_MESSAGE = 64 << 20
"""Bytes of a message, at most: what is larger is taken for damage."""
MOST_KEPT = 1 << 20
"""Bytes of the rest of a file that are kept."""
_CHUNK = 16 << 20
_SIZE = 4
"""Bytes of a length."""
_LINE_END = b"\r\n"


@dataclass(frozen=True)
class Message:
    """A message, and where it begins in its file; or the first bytes of the rest of a file."""

    start: int
    record: bytes
    is_rest: bool = False


class KnowsEnds(Protocol):
    """What can find the ends of payloads."""

    def ends(self, number: int) -> End: ...


def messages_of(file: Readable, layout: Layout, decoder: KnowsEnds) -> Iterator[Message]:
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

    def __init__(self, decoder: KnowsEnds) -> None:
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
