"""Object files of Avro, decoded in a task, block by block.

A file has its schema at its beginning, and blocks of records that may be packed. A block says how many records it has
and in how many bytes, and ends with a mark that is the same in all of the file. Where a record ends, only the schema
says. A file in which any of that does not hold is damaged as a whole.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from binascii import crc32
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from latecomer.config.avro_files import SYNC_SIZE as _SYNC
from latecomer.config.avro_files import Head, file_head
from latecomer.config.damage import DamagedFile
from latecomer.config.sources import UnknownFields
from latecomer.schemas.avro import Schema, SchemaError, incompatibilities, parse_schema
from latecomer.schemas.avro.ends import Ends
from latecomer.source.decode.avro_bytes import MOST_ITEMS, Cursor, Damaged, TooDeep
from latecomer.source.decode.avro_reading import Rows, WriterReading, writer_reading
from latecomer.source.decode.base import FileDecoder, FileSplit
from latecomer.source.decode.columns import CORRUPT, KEPT, POSITION
from latecomer.source.decode.files import SourceFile
from latecomer.source.decode.frames import Numbers
from latecomer.source.decode.json_text import misread_text, refused_text, shape_of
from latecomer.source.decode.retrying import reading as reading_file
from latecomer.source.decode.retrying import remembered
from latecomer.source.decode.stored_values import stored_rows

MOST_UNPACKED = 512 << 20
"""Bytes of a block; Avro's own writers make blocks of some ten thousand."""
_AT_ONCE, _MOST_ROWS = 16 << 20, 1 << 17
"""Bytes and rows of blocks that are decoded together, about."""
_PADDING = bytes(16)
_NUMBER = 10
"""Bytes of a number, at most."""


@dataclass(frozen=True)
class _Block:
    """Where a block begins, how many records it has, and how many are before it; where its records are."""

    start: int
    first: int
    count: int
    body: int
    size: int

    @property
    def end(self) -> int:
        return self.body + self.size + _SYNC


@dataclass(frozen=True)
class AvroContainers(FileDecoder):
    """Object files, each with the schema that it was written with. A split begins and ends with a block, in bytes."""

    reader: Schema
    """The schema that the columns follow from."""
    columns: Mapping[str, str]
    """Under the names that the source has for them."""
    unknown_fields: UnknownFields = "ignore"

    def misfit(self, file: SourceFile) -> str | None:
        try:
            with reading_file(file):
                writer = _head_of(file)[1]
            for problem in incompatibilities(self.reader, writer):
                return f"what its schema wrote cannot be read as the pipeline's schema: {problem}"
        except (DamagedFile, SchemaError) as error:
            return f"not a readable Avro file: {error}"
        return None

    def splits(self, file: SourceFile, size: int) -> list[FileSplit]:
        if file.size <= size or file.url is not None:
            return [FileSplit(file)]
        found, begins = [], 0
        try:
            with reading_file(file), file.open() as opened:
                for block in _blocks(opened, _head_of(file)[0]):
                    if block.end - begins >= size:
                        found.append(FileSplit(file, begins, block.end))
                        begins = block.end
        except (DamagedFile, SchemaError):
            return [FileSplit(file)]  # of which reading it tells what is wrong
        return [*found, FileSplit(file, begins)] if begins < file.size else found

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        with reading_file(split.file), split.file.open("rb", ahead=_AT_ONCE) as opened:
            try:
                head, writer = _head_of(split.file)
            except SchemaError as error:
                raise DamagedFile(str(error)) from None
            keeps = self.unknown_fields != "ignore"
            found = writer_reading(self.reader, writer, keeps, tuple(self.columns.items()))
            ends = Ends(writer)
            for first, bodies in _batches(opened, head, split):
                yield self._rows(found, ends, first, bodies)

    def _rows(
        self, found: WriterReading, borders: Ends, first: int, bodies: Sequence[tuple[int, bytes]]
    ) -> pa.Table:
        """The rows of some blocks: how many records each has, and their bytes."""
        data = b"".join([*(body for _, body in bodies), _PADDING])
        starts, ends = _borders(borders, bodies)
        plain, odd = found.at_once(data, starts, ends, whole=True)
        corrupt: list[bytes | None] = [None] * len(odd)
        singly = []
        for nth in np.flatnonzero(odd):
            row, kept, corrupt[nth] = self._single(found, data, int(starts[nth]), int(ends[nth]))
            singly.append((row, kept))
        whole = plain.with_odd(odd, Rows.of(singly, self.columns))
        if self.unknown_fields == "dead_letter":
            corrupt = self._refused(whole, corrupt)
        rows = whole.columns.append_column(CORRUPT, pa.array(corrupt, pa.binary()))
        rows = rows.append_column(POSITION, pa.array(first + np.arange(len(odd))))
        return rows if self.unknown_fields == "ignore" else rows.append_column(KEPT, whole.kept)

    def _single(
        self, found: WriterReading, data: bytes, start: int, end: int
    ) -> tuple[Mapping[str, Any], str | None, bytes | None]:
        """A record by itself: its columns, what is kept, and all of it as JSON where its columns do not take it."""
        columns = found.columns
        try:
            read, ended = columns.reader.record(data[start:end])
            if ended < end - start:
                raise Damaged
        except TooDeep:
            raise DamagedFile("it has too many records in one another") from None
        except Damaged:
            raise DamagedFile("it cannot be read to the end: a record is damaged") from None
        if columns.fits(read):
            return columns.values(read), columns.kept(read), None
        written = {
            **columns.values(read, as_written=True),
            **{name: read.get(name) for name in columns.unknown},
        }
        return (
            columns.known_values(read),
            None,
            misread_text({**columns.written_shapes, **columns.unknown}, written),
        )

    def _refused(self, rows: Rows, corrupt: list[bytes | None]) -> list[bytes | None]:
        """What is kept makes a record a dead letter: all of it as JSON."""
        shapes = {name: shape_of(kind) for name, kind in self.columns.items()}
        found = list(corrupt)
        for nth in np.flatnonzero(np.asarray(rows.kept.is_valid())):
            (row,) = stored_rows(rows.columns.slice(int(nth), 1))
            kept = str(rows.kept[int(nth)].as_py()).encode()
            found[nth] = b"%s,%s" % (refused_text(shapes, row)[:-1], kept[1:])
        return found


@remembered
def _head_of(file: SourceFile) -> tuple[Head, Schema]:
    """What a file begins with, and the schema that it was written with."""
    head = file_head(file)
    return head, parse_schema(head.schema, strict=False)


# Blocks


def _blocks(opened: BinaryIO, head: Head) -> Iterator[_Block]:
    """The blocks of a file, of which only the beginnings are read."""
    at, first = head.size, 0
    while True:
        opened.seek(at)
        begins = opened.read(2 * _NUMBER)
        if not begins:
            return
        cursor = Cursor(begins)
        try:
            count, size = cursor.read_long(), cursor.read_long()
        except Damaged:
            raise DamagedFile("it ends within a block") from None
        if count < 0 or size < 0:
            raise DamagedFile(f"the block at byte {at} says that it has {min(count, size)} records or bytes")
        block = _Block(at, first, count, at + cursor.at, size)
        yield block
        at, first = block.end, first + count


def _batches(opened: BinaryIO, head: Head, split: FileSplit) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Some blocks at a time: the number of their first record, and of each how many records it has and their bytes."""
    first, held, count, bodies = 0, 0, 0, list[tuple[int, bytes]]()
    for block in _blocks(opened, head):
        if block.start < split.start:
            continue
        if split.end is not None and block.start >= split.end:
            break
        if not bodies:
            first = block.first
        body = _body(opened, head, block)
        bodies.append((block.count, body))
        held, count = held + len(body), count + block.count
        if held > _AT_ONCE or count > _MOST_ROWS:
            yield first, bodies
            held, count, bodies = 0, 0, []
    if count:
        yield first, bodies


def _body(opened: BinaryIO, head: Head, block: _Block) -> bytes:
    """The records of a block."""
    if block.size > MOST_UNPACKED:
        raise DamagedFile(f"the block at byte {block.start} says that it has {block.size} bytes")
    opened.seek(block.body)
    packed, sync = opened.read(block.size), opened.read(_SYNC)
    if len(packed) < block.size or len(sync) < _SYNC:
        raise DamagedFile("it ends within a block")
    if sync != head.sync:
        raise DamagedFile(f"the block at byte {block.start} does not end where it says")
    try:
        return _UNPACKED[head.codec](packed)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise DamagedFile(f"the block at byte {block.start} cannot be unpacked: {error}") from None


def _deflated(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
    found = unpacking.decompress(packed, MOST_UNPACKED + 1)
    return _limited(found, unpacking.eof)


def _limited(found: bytes, is_whole: bool) -> bytes:
    if len(found) > MOST_UNPACKED:
        raise ValueError(f"it has more than {MOST_UNPACKED} bytes")
    if not is_whole:
        raise ValueError("it ends too early")
    return found


def _snapped(packed: bytes) -> bytes:
    """Snappy says first how long the text is, and Avro puts a check sum behind it."""
    try:
        size = Cursor(packed)
        length = 0
        for shift in range(0, 35, 7):
            byte = size.take(1)[0]
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
    except Damaged:
        raise ValueError("it ends too early") from None
    if length > MOST_UNPACKED:
        raise ValueError(f"it has more than {MOST_UNPACKED} bytes")
    found = pa.Codec("snappy").decompress(packed[:-4], length, asbytes=True)
    if crc32(found) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("its check sum is another")
    return bytes(found)


def _streamed(packed: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        return _limited(stream.read(MOST_UNPACKED + 1), True)


def _bzipped(packed: bytes) -> bytes:
    unpacking = bz2.BZ2Decompressor()
    return _limited(unpacking.decompress(packed, MOST_UNPACKED + 1), unpacking.eof)


def _xzipped(packed: bytes) -> bytes:
    unpacking = lzma.LZMADecompressor()
    return _limited(unpacking.decompress(packed, MOST_UNPACKED + 1), unpacking.eof)


_UNPACKED: dict[str, Callable[[bytes], bytes]] = {
    "null": lambda packed: packed,
    "deflate": _deflated,
    "snappy": _snapped,
    "bzip2": _bzipped,
    "xz": _xzipped,
    "zstandard": _streamed,
}


def _borders(ends: Ends, bodies: Sequence[tuple[int, bytes]]) -> tuple[Numbers, Numbers]:
    """Where each record begins and ends, in all blocks one behind the other."""
    found: list[int] = []
    before = 0
    starts = []
    for count, body in bodies:
        at = 0
        if count > max(len(body), MOST_ITEMS):  # of records without a byte there may be some
            raise DamagedFile(f"a block says that it has {count} records in {len(body)} bytes")
        for _ in range(count):
            end = ends.after(body, at)
            if end is None:
                raise DamagedFile("it cannot be read to the end: a record is damaged")
            starts.append(before + at)
            found.append(before + end)
            at = end
        if at < len(body):
            raise DamagedFile("it cannot be read to the end: a block has more bytes than its records")
        before += len(body)
    return np.array(starts, np.int64), np.array(found, np.int64)
