"""Reads the header of an Avro object file, which holds the schema of its writer: without Spark, byte by byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from latecomer.config.damaged_files import DamagedFile
from latecomer.objects.readable import Readable

MAGIC = b"Obj\x01"
CODECS = ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")
LARGEST_HEAD = 4 << 20
"""The most bytes of a header."""
SYNC_SIZE = 16
"""The bytes of the sync marker after the header and after each block."""


@dataclass(frozen=True)
class Head:
    """The header of a file: what comes before its first block."""

    schema: str
    codec: str
    sync: bytes
    size: int
    """In bytes."""


def file_schema(file: Readable) -> str:
    """The text of a file's schema; raises `DamagedFile` where there is none."""
    return file_head(file).schema


def file_head(file: Readable) -> Head:
    """The header of a file; raises `DamagedFile` where it has none."""
    with file.open("rb") as opened:
        if (begins := opened.read(len(MAGIC))) != MAGIC:
            framed = ", but as a message in Confluent's framing" if begins[:1] == b"\0" else ""
            raise DamagedFile(f"it does not begin as an Avro object file does{framed}")
        metadata = _map(opened)
        sync, size = opened.read(SYNC_SIZE), opened.tell()
    codec = metadata.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in CODECS:
        raise DamagedFile(f"its codec {codec[:40]!r} is not known; there are {', '.join(CODECS)}")
    try:
        return Head(metadata["avro.schema"].decode(), codec, sync, size)
    except KeyError:
        raise DamagedFile("its head has no schema") from None
    except UnicodeDecodeError:
        raise DamagedFile("the schema in its head is not UTF-8") from None


def _map(opened: BinaryIO) -> dict[str, bytes]:
    entries: dict[str, bytes] = {}
    while count := _long(opened):
        if count < 0:
            count = -count
            _long(opened)  # the size of the block, for readers that skip it
        for _ in range(count):
            name = _bytes(opened).decode("utf-8", "replace")
            entries[name] = _bytes(opened)
            if opened.tell() > LARGEST_HEAD:
                raise DamagedFile(f"its head has more than {LARGEST_HEAD} bytes")
    return entries


def _bytes(opened: BinaryIO) -> bytes:
    size = _long(opened)
    if not 0 <= size <= LARGEST_HEAD:
        raise DamagedFile("its head is damaged")
    data = opened.read(size)
    if len(data) < size:
        raise DamagedFile("it ends within its head")
    return data


def _long(opened: BinaryIO) -> int:
    """A number as Avro writes it: seven bits a byte, the lowest first, and the sign in the lowest bit."""
    number = 0
    for shift in range(0, 70, 7):
        byte = opened.read(1)
        if not byte:
            raise DamagedFile("it ends within its head")
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise DamagedFile("its head is damaged")
