"""Lines and files that no memory would hold, and what a compressed file holds, a little at a time (ADR 0029)."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from latecomer.config.sizes import format_size

KEPT = 4096
"""How many bytes of a line that is too long its dead letter keeps."""
MOST_LONG = 100
"""A file with more lines that are too long is set aside as a whole."""
LONGEST_PASSED_OVER = (1 << 31) - 1
_CHUNK = 1 << 20
UNBOUNDED = (".deflate", ".lz4", ".snappy", ".zst")
"""What cannot be unpacked within a limit."""
_ENDS = {"utf-16le": (b"\n\0",), "utf-16be": (b"\0\n",)}
PLAIN_ENDS = (b"\n", b"\r")

Ends = tuple[bytes, ...]


@dataclass(frozen=True)
class LongLine:
    """A line that is too long: where it starts in the file, unpacked, its size with its end, and its first bytes."""

    start: int
    size: int
    first: bytes


def too_many_long(longest: int) -> str:
    """Why a file is set aside that has too many lines that are too long."""
    return f"more than {MOST_LONG} of its lines have over {format_size(longest)} (source.files.max_line)"


def line_ends(encoding: str) -> Ends:
    """What a line ends with."""
    return _ENDS.get(encoding, PLAIN_ENDS)


def unpacked(read: Callable[[int], bytes], suffix: str) -> Iterator[bytes]:
    """What a compressed file holds, a MiB at a time."""
    return (_gunzipped if suffix == ".gz" else _bunzipped)(read)


def _gunzipped(read: Callable[[int], bytes]) -> Iterator[bytes]:
    unpacker, data, whole = zlib.decompressobj(31), read(_CHUNK), True
    while data:
        yield unpacker.decompress(data, _CHUNK)
        whole, data = unpacker.eof, unpacker.unconsumed_tail
        if unpacker.eof:  # several files one after the other are one
            data = unpacker.unused_data.lstrip(b"\0")
            unpacker = zlib.decompressobj(31)
        data = data or read(_CHUNK)
    while rest := unpacker.decompress(b"", _CHUNK):
        yield rest
    if not (whole or unpacker.eof):
        raise EOFError("the compressed file is cut short")


def _bunzipped(read: Callable[[int], bytes]) -> Iterator[bytes]:
    unpacker, data = bz2.BZ2Decompressor(), read(_CHUNK)
    while data or not (unpacker.needs_input or unpacker.eof):
        yield unpacker.decompress(data, _CHUNK)
        data = b""
        if unpacker.eof:
            data = unpacker.unused_data
            if data or (data := read(_CHUNK)):
                unpacker = bz2.BZ2Decompressor()
        elif unpacker.needs_input:
            data = read(_CHUNK)
    if not unpacker.eof:
        raise EOFError("the compressed file is cut short")
