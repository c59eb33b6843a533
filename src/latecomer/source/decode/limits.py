"""Limits for lines and files that are too large for memory, and compressed files unpacked piecemeal (ADR 0029)."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from latecomer.config.sizes import format_size

KEPT = 4096
"""Bytes of a line that is too long that its dead letter keeps."""
MOST_LONG = 100
"""Lines that are too long in one file: with more of them, the whole file becomes a dead letter."""
LONGEST_PASSED_OVER = (1 << 31) - 1
_CHUNK = 1 << 20
UNBOUNDED = (".deflate", ".lz4", ".snappy", ".zst")
"""Compressions that cannot be unpacked within a limit."""
_ENDS = {"utf-16le": (b"\n\0",), "utf-16be": (b"\0\n",)}
PLAIN_ENDS = (b"\n", b"\r")

Ends = tuple[bytes, ...]


@dataclass(frozen=True)
class LongLine:
    """A line that is too long: where it starts in the unpacked file, its size with its end, and its first bytes."""

    start: int
    size: int
    first: bytes


def too_many_long(longest: int) -> str:
    """Why a file with too many lines that are too long becomes a dead letter."""
    return f"more than {MOST_LONG} of its lines have over {format_size(longest)} (source.files.max_line)"


def line_ends(encoding: str) -> Ends:
    """The bytes that a line may end with."""
    return _ENDS.get(encoding, PLAIN_ENDS)


def unpacked(read: Callable[[int], bytes], suffix: str) -> Iterator[bytes]:
    """The content of a compressed file, a MiB at a time."""
    return (_gunzipped if suffix == ".gz" else _bunzipped)(read)


def _gunzipped(read: Callable[[int], bytes]) -> Iterator[bytes]:
    unpacker, data, whole = zlib.decompressobj(31), read(_CHUNK), True
    while data:
        yield unpacker.decompress(data, _CHUNK)
        whole, data = unpacker.eof, unpacker.unconsumed_tail
        if unpacker.eof:
            # Several files one after the other are one. Zeros may fill up the space between them.
            data, block = unpacker.unused_data.lstrip(b"\0"), b"\0"
            while not data and block:
                block = read(_CHUNK)
                data = block.lstrip(b"\0")
            unpacker = zlib.decompressobj(31)
        else:
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
