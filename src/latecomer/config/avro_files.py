"""The head of an Avro object file: the schema that it was written with. Read without Spark, byte by byte."""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

from latecomer.config.damage import DamagedFile
from latecomer.objects.readable import Readable

MAGIC = b"Obj\x01"
CODECS = ("null", "deflate", "snappy", "bzip2", "xz", "zstandard")
LARGEST_HEAD = 4 << 20
"""Bytes that a head may have."""


SYNC_SIZE = 16
"""Bytes of the mark behind the head and behind each block."""


@dataclass(frozen=True)
class Head:
    """What a file has before its first block."""

    schema: str
    codec: str
    sync: bytes
    size: int
    """In bytes."""


def file_schema(file: Readable) -> str:
    """The text of a file's schema; `DamagedFile` where there is none."""
    return file_head(file).schema


def file_head(file: Readable) -> Head:
    """The head of a file; `DamagedFile` where it has none."""
    with file.open("rb") as opened:
        if (begins := opened.read(len(MAGIC))) != MAGIC:
            framed = ", but as a message in Confluent's framing" if begins[:1] == b"\0" else ""
            raise DamagedFile(f"it does not begin as an Avro object file does{framed}")
        found = _map(opened)
        sync, size = opened.read(SYNC_SIZE), opened.tell()
    codec = found.get("avro.codec", b"null").decode("utf-8", "replace")
    if codec not in CODECS:
        raise DamagedFile(f"its codec {codec[:40]!r} is not known; there are {', '.join(CODECS)}")
    try:
        return Head(found["avro.schema"].decode(), codec, sync, size)
    except KeyError:
        raise DamagedFile("its head has no schema") from None
    except UnicodeDecodeError:
        raise DamagedFile("the schema in its head is not UTF-8") from None


def _map(opened: BinaryIO) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    while count := _long(opened):
        if count < 0:
            count = -count
            _long(opened)  # the size of the block, for those who skip it
        for _ in range(count):
            name = _bytes(opened).decode("utf-8", "replace")
            found[name] = _bytes(opened)
            if opened.tell() > LARGEST_HEAD:
                raise DamagedFile(f"its head has more than {LARGEST_HEAD} bytes")
    return found


def _bytes(opened: BinaryIO) -> bytes:
    size = _long(opened)
    if not 0 <= size <= LARGEST_HEAD:
        raise DamagedFile("its head is damaged")
    found = opened.read(size)
    if len(found) < size:
        raise DamagedFile("it ends within its head")
    return found


def _long(opened: BinaryIO) -> int:
    """A number as Avro writes it: seven bits a byte, the lowest first, the sign in the last bit."""
    found = 0
    for shift in range(0, 70, 7):
        byte = opened.read(1)
        if not byte:
            raise DamagedFile("it ends within its head")
        found |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (found >> 1) ^ -(found & 1)
    raise DamagedFile("its head is damaged")
