"""Lines and files that no memory would hold: found before a file is read, in little memory.

Lines longer than `source.files.max_line` are looked for first, and passed over when the file is read. In a plain file
that costs next to nothing: one line end within every `max_line` bytes shows that no line is longer. A compressed file
has to be unpacked once more (ADR 0029).
"""

from __future__ import annotations

import bz2
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from latecomer.config.damage import DamagedFile, damage_found
from latecomer.config.sizes import format_size

KEPT = 4096
"""How many bytes of a line that is too long its dead letter keeps."""
MOST_FOUND = 100
"""A file with more lines that are too long is set aside as a whole."""
_LONGEST_PASSED_OVER = (1 << 31) - 1
_BLOCK, _CHUNK = 1 << 16, 1 << 20
_UNBOUNDED = (".deflate", ".lz4", ".snappy", ".zst")
"""What cannot be unpacked within a limit."""
_MARK = b"\xef\xbb\xbf"
_ENDS = {"utf-16le": (b"\n\0",), "utf-16be": (b"\0\n",)}
PLAIN_ENDS = (b"\n", b"\r")

Ends = tuple[bytes, ...]


@dataclass(frozen=True)
class LongLine:
    """A line that is too long: where it starts in the file, unpacked, its size with its end, and its first bytes."""

    start: int
    size: int
    first: bytes


@dataclass(frozen=True)
class Limits:
    """How large the lines of a text file may be, and what a compressed one unpacks to."""

    line: int
    unpacked: int

    def long_lines(self, file: Path, encoding: str) -> tuple[LongLine, ...]:
        """The lines that are too long; `DamagedFile` where the file cannot be read within the limits."""
        if file.suffix in _UNBOUNDED:
            raise DamagedFile(f"files compressed as {file.suffix} are not read; use .gz or .bz2")
        with damage_found("text"):
            lines = self._found(file, line_ends(encoding))
            found = tuple(islice(lines, MOST_FOUND + 1))
        if len(found) > MOST_FOUND:
            raise DamagedFile(
                f"more than {MOST_FOUND} of its lines have over {format_size(self.line)} (source.files.max_line)"
            )
        for line in found:
            if line.size > _LONGEST_PASSED_OVER:
                raise DamagedFile(
                    f"the line at byte {line.start} has {line.size} bytes, and at most 2 GiB are passed over"
                )
        return found

    def _found(self, file: Path, ends: Ends) -> Iterator[LongLine]:
        size = file.stat().st_size
        match file.suffix:
            case ".gz" | ".bz2":
                return self._in_compressed(file, ends)
        return self._in_plain(file, ends) if size > self.line else iter(())

    def _in_plain(self, file: Path, ends: Ends) -> Iterator[LongLine]:
        with open(file, "rb") as content:
            text = _Text(content.fileno(), os.fstat(content.fileno()).st_size, ends)
            at = len(_MARK) if text.read(0, len(_MARK)) == _MARK else 0
            while text.size - at > self.line:
                end = text.last_end(at, at + self.line)
                if end is None:
                    end = text.next_end(at + self.line - 1)
                    yield LongLine(at, end - at, text.read(at, min(end - at, KEPT)))
                at = end

    def _in_compressed(self, file: Path, ends: Ends) -> Iterator[LongLine]:
        """Only the first and the last line end of a chunk matter: what is between them is shorter than a chunk."""
        start, at, first = 0, 0, b""
        with open(file, "rb") as content:
            for chunk in _chunks(_unpacked(content.read, file.suffix, min(_CHUNK, self.line)), ends):
                if at + len(chunk) > self.unpacked:
                    limit = format_size(self.unpacked)
                    raise DamagedFile(f"it unpacks to more than {limit} (source.files.max_unpacked)")
                if at == 0 and chunk.startswith(_MARK):
                    chunk, start, at = chunk[len(_MARK) :], len(_MARK), len(_MARK)
                if (end := _first_end(chunk, ends)) is not None:
                    if at + end - start > self.line:
                        yield LongLine(start, at + end - start, (first + chunk[:end])[:KEPT])
                    last = _last_end(chunk, ends) or end
                    start, first = at + last, chunk[last : last + KEPT]
                else:
                    first += chunk[: KEPT - len(first)]
                at += len(chunk)
        if at - start > self.line:
            yield LongLine(start, at - start, first)


@dataclass(frozen=True)
class _Text:
    """A plain file, of which only small pieces are read."""

    descriptor: int
    size: int
    ends: Ends

    def read(self, at: int, size: int) -> bytes:
        return os.pread(self.descriptor, size, at)

    def last_end(self, at: int, upto: int) -> int | None:
        """Where the last line end between two places is over."""
        stop, more = upto, len(self.ends[0]) - 1
        while stop > at:
            begin = max(at, stop - _BLOCK)
            data = self.read(begin, min(stop + more, upto) - begin)
            end = _last_end(data, self.ends)
            if end is not None and begin + end == upto and self._is_split(upto):
                end = _last_end(data[: end - 1], self.ends)
            if end is not None:
                return begin + end
            stop = begin
        return None

    def next_end(self, at: int) -> int:
        """Where the next line end is over, or the file."""
        while data := self.read(at, _CHUNK):
            end = _first_end(data, self.ends)
            if end is not None:
                return at + end + (1 if self._is_split(at + end) else 0)
            at += max(len(data) - len(self.ends[0]) + 1, 1)
        return self.size

    def _is_split(self, place: int) -> bool:
        """Whether a place is between the two bytes of one line end."""
        return self.ends == PLAIN_ENDS and self.read(place - 1, 2) == b"\r\n"


def _chunks(pieces: Iterator[bytes], ends: Ends) -> Iterator[bytes]:
    """The pieces, put together so that a byte order mark is in the first, and no line end in two of them."""
    goes_on = b"\r" if ends == PLAIN_ENDS else ends[0][:1]
    held, is_first = b"", True
    for piece in filter(None, pieces):
        chunk = held + piece
        if is_first and len(chunk) < len(_MARK):
            held = chunk
            continue
        held = goes_on if chunk.endswith(goes_on) else b""
        yield chunk[: len(chunk) - len(held)]
        is_first = False
    yield held


def _first_end(data: bytes, ends: Ends) -> int | None:
    found = [place for end in ends if (place := data.find(end)) >= 0]
    if not found:
        return None
    return min(found) + (2 if data[min(found) : min(found) + 2] == b"\r\n" else len(ends[0]))


def _last_end(data: bytes, ends: Ends) -> int | None:
    place = max(data.rfind(end) for end in ends)
    return place + len(ends[0]) if place >= 0 else None


def _unpacked(read: Callable[[int], bytes], suffix: str, most: int) -> Iterator[bytes]:
    """What a compressed file holds, at most so many bytes at a time."""
    unpack = _gunzipped if suffix == ".gz" else _bunzipped
    yield from unpack(read, most)


def unpacked(read: Callable[[int], bytes], suffix: str) -> Iterator[bytes]:
    """What a compressed file holds, a MiB at a time."""
    return _unpacked(read, suffix, _CHUNK)


def line_ends(encoding: str) -> Ends:
    """What a line ends with."""
    return _ENDS.get(encoding, PLAIN_ENDS)


def _gunzipped(read: Callable[[int], bytes], most: int) -> Iterator[bytes]:
    unpacker, data, whole = zlib.decompressobj(31), read(_CHUNK), True
    while data:
        yield unpacker.decompress(data, most)
        whole, data = unpacker.eof, unpacker.unconsumed_tail
        if unpacker.eof:  # several files one after the other are one
            data = unpacker.unused_data.lstrip(b"\0")
            unpacker = zlib.decompressobj(31)
        data = data or read(_CHUNK)
    while rest := unpacker.decompress(b"", most):
        yield rest
    if not (whole or unpacker.eof):
        raise EOFError("the compressed file is cut short")


def _bunzipped(read: Callable[[int], bytes], most: int) -> Iterator[bytes]:
    unpacker, data = bz2.BZ2Decompressor(), read(_CHUNK)
    while data or not (unpacker.needs_input or unpacker.eof):
        yield unpacker.decompress(data, most)
        data = b""
        if unpacker.eof:
            data = unpacker.unused_data
            if data or (data := read(_CHUNK)):
                unpacker = bz2.BZ2Decompressor()
        elif unpacker.needs_input:
            data = read(_CHUNK)
    if not unpacker.eof:
        raise EOFError("the compressed file is cut short")
