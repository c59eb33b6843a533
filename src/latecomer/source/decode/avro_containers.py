"""Object files of Avro, decoded in a task, block by block.

A file begins with its schema. Blocks of records follow, which may be compressed. A block begins with the number of its
records and of its bytes, and ends with a mark that is the same for the whole file. Only the schema tells where a record
ends. If any of this does not hold, the whole file is damaged.
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

from latecomer.config.avro_files import SYNC_SIZE, Head, file_head
from latecomer.config.damaged_files import DamagedFile
from latecomer.config.sources import UnknownFields
from latecomer.model.array_types import Integers
from latecomer.schemas.avro import Schema, SchemaError, incompatibilities, parse_schema
from latecomer.schemas.avro.ends import Ends
from latecomer.source.decode.avro_bytes import MOST_ITEMS, ByteCursor, Damaged, TooDeep
from latecomer.source.decode.avro_columns import AvroColumns, WriterReading, writer_reading
from latecomer.source.decode.base import FileDecoder, FileSplit, SourceFile
from latecomer.source.decode.json_text import refused_text, shape_of, stored_rows
from latecomer.source.decode.private_columns import CORRUPT, KEPT, POSITION
from latecomer.source.decode.retrying import cached_by_file
from latecomer.source.decode.retrying import reading as reading_file

MOST_UNPACKED = 512 << 20
"""Bytes of a block, at most; Avro's own writers make blocks of some ten thousand."""
_AT_ONCE, _MOST_ROWS = 16 << 20, 1 << 17
"""About so many bytes and rows are decoded together."""
_PADDING = bytes(16)
_NUMBER = 10
"""Bytes of a number, at most."""


@dataclass(frozen=True)
class _Block:
    """A block of records."""

    start: int
    first: int
    """The number of its first record within the file."""
    count: int
    body: int
    """Where its records begin."""
    size: int

    @property
    def end(self) -> int:
        return self.body + self.size + SYNC_SIZE


@dataclass(frozen=True)
class AvroContainers(FileDecoder):
    """Object files, each with the schema of its writer. A split is a range of bytes that consists of whole blocks."""

    reader: Schema
    """The schema that determines the columns."""
    columns: Mapping[str, str]
    """By their names in the source."""
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
        splits, begins = [], 0
        try:
            with reading_file(file), file.open() as opened:
                for block in _blocks(opened, _head_of(file)[0]):
                    if block.end - begins >= size:
                        splits.append(FileSplit(file, begins, block.end))
                        begins = block.end
        except (DamagedFile, SchemaError):
            return [FileSplit(file)]  # reading it reports what is wrong
        return [*splits, FileSplit(file, begins)] if begins < file.size else splits

    def decode(self, split: FileSplit) -> Iterator[pa.Table]:
        with reading_file(split.file), split.file.open("rb", ahead=_AT_ONCE) as opened:
            try:
                head, writer = _head_of(split.file)
            except SchemaError as error:
                raise DamagedFile(str(error)) from None
            keeps = self.unknown_fields != "ignore"
            of_writer = writer_reading(self.reader, writer, keeps, tuple(self.columns.items()))
            record_ends = Ends(writer)
            for first, bodies in _batches(opened, head, split):
                yield self._rows(of_writer, record_ends, first, bodies)

    def _rows(
        self, of_writer: WriterReading, record_ends: Ends, first: int, bodies: Sequence[tuple[int, bytes]]
    ) -> pa.Table:
        """The rows of some blocks, given as the number of records and the bytes of each."""
        data = b"".join([*(body for _, body in bodies), _PADDING])
        starts, ends = _borders(record_ends, bodies)
        plain, odd = of_writer.at_once(data, starts, ends, whole=True)
        corrupt: list[bytes | None] = [None] * len(odd)
        odd_rows = []
        for nth in np.flatnonzero(odd):
            record = _single(of_writer.columns, data[starts[nth] : ends[nth]])
            row, fits = of_writer.columns.row(record)
            odd_rows.append(row)
            if not fits:
                corrupt[nth] = of_writer.columns.as_written(record)
        rows = of_writer.with_odd(plain, odd, odd_rows)
        if self.unknown_fields == "dead_letter":
            self._refuse(rows, corrupt)
        rows = rows.append_column(CORRUPT, pa.array(corrupt, pa.binary()))
        rows = rows.append_column(POSITION, pa.array(first + np.arange(len(odd))))
        return rows.drop_columns(KEPT) if self.unknown_fields == "ignore" else rows

    def _refuse(self, rows: pa.Table, corrupt: list[bytes | None]) -> None:
        """A record with unknown fields is a dead letter: all of it as JSON."""
        shapes = {name: shape_of(kind) for name, kind in self.columns.items()}
        for nth in np.flatnonzero(np.asarray(rows.column(KEPT).is_valid())).tolist():
            (row,) = stored_rows(rows.select([*self.columns, KEPT]).slice(nth, 1))
            kept = row.pop(KEPT).encode()
            corrupt[nth] = b"%s,%s" % (refused_text(shapes, row)[:-1], kept[1:])


def _single(columns: AvroColumns, data: bytes) -> dict[str, Any]:
    """The one record in some bytes."""
    try:
        record, end = columns.reader.record(data)
        if end < len(data):
            raise Damaged
    except TooDeep:
        raise DamagedFile("it has too many records in one another") from None
    except Damaged:
        raise DamagedFile("it cannot be read to the end: a record is damaged") from None
    return record


@cached_by_file
def _head_of(file: SourceFile) -> tuple[Head, Schema]:
    """The head of a file, and the schema that it was written with."""
    head = file_head(file)
    return head, parse_schema(head.schema, strict=False)


# Blocks


def _blocks(opened: BinaryIO, head: Head) -> Iterator[_Block]:
    """The blocks of a file. Only the beginning of each is read."""
    at, first = head.size, 0
    while True:
        opened.seek(at)
        begins = opened.read(2 * _NUMBER)
        if not begins:
            return
        cursor = ByteCursor(begins)
        try:
            count, size = cursor.read_long(), cursor.read_long()
        except Damaged:
            raise DamagedFile("it ends within a block") from None
        if count < 0 or size < 0:
            raise DamagedFile(f"the block at byte {at} says that it has {min(count, size)} records or bytes")
        if size > MOST_UNPACKED:
            raise DamagedFile(f"the block at byte {at} says that it has {size} bytes")
        block = _Block(at, first, count, at + cursor.at, size)
        yield block
        at, first = block.end, first + count


def _batches(opened: BinaryIO, head: Head, split: FileSplit) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """Some blocks at a time: the number of their first record, and the number of records and the bytes of each."""
    first, size, count, bodies = 0, 0, 0, list[tuple[int, bytes]]()
    for block in _blocks(opened, head):
        if block.start < split.start:
            continue
        if split.end is not None and block.start >= split.end:
            break
        if not bodies:
            first = block.first
        body = _body(opened, head, block)
        bodies.append((block.count, body))
        size, count = size + len(body), count + block.count
        if size > _AT_ONCE or count > _MOST_ROWS:
            yield first, bodies
            size, count, bodies = 0, 0, []
    if count:
        yield first, bodies


def _body(opened: BinaryIO, head: Head, block: _Block) -> bytes:
    """The records of a block."""
    opened.seek(block.body)
    packed, sync = opened.read(block.size), opened.read(SYNC_SIZE)
    if len(packed) < block.size or len(sync) < SYNC_SIZE:
        raise DamagedFile("it ends within a block")
    if sync != head.sync:
        raise DamagedFile(f"the block at byte {block.start} does not end where it says")
    try:
        return _unpacked(packed, head.codec)
    except (zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, pa.ArrowException) as error:
        raise DamagedFile(f"the block at byte {block.start} cannot be unpacked: {error}") from None


_UNPACKING: dict[str, Callable[[], Any]] = {
    "deflate": lambda: zlib.decompressobj(-zlib.MAX_WBITS),
    "bzip2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
}
"""By codec, what unpacks up to so many bytes."""


def _unpacked(packed: bytes, codec: str) -> bytes:
    is_whole = True
    if codec == "null":
        return packed
    if codec == "snappy":
        return _snapped(packed)
    if codec == "zstandard":
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            body = stream.read(MOST_UNPACKED + 1)
    else:
        unpacking = _UNPACKING[codec]()
        body = unpacking.decompress(packed, MOST_UNPACKED + 1)
        is_whole = unpacking.eof
    if len(body) > MOST_UNPACKED:
        raise ValueError(f"it has more than {MOST_UNPACKED} bytes")
    if not is_whole:
        raise ValueError("it ends too early")
    return bytes(body)


def _snapped(packed: bytes) -> bytes:
    """Snappy begins with the size of the content, and Avro appends a checksum."""
    try:
        size = ByteCursor(packed)
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
    body = pa.Codec("snappy").decompress(packed[:-4], length, asbytes=True)
    if crc32(body) != int.from_bytes(packed[-4:], "big"):
        raise ValueError("its checksum is wrong")
    return bytes(body)


def _borders(ends: Ends, bodies: Sequence[tuple[int, bytes]]) -> tuple[Integers, Integers]:
    """Where each record begins and ends, in all blocks one behind the other."""
    starts: list[int] = []
    stops: list[int] = []
    before = 0
    for count, body in bodies:
        at = 0
        # A record may have no bytes, so there may be more records than bytes; but not too many.
        if count > max(len(body), MOST_ITEMS):
            raise DamagedFile(f"a block says that it has {count} records in {len(body)} bytes")
        for _ in range(count):
            end = ends.after(body, at)
            if end is None:
                raise DamagedFile("it cannot be read to the end: a record is damaged")
            starts.append(before + at)
            stops.append(before + end)
            at = end
        if at < len(body):
            raise DamagedFile("it cannot be read to the end: a block has more bytes than its records")
        before += len(body)
    return np.array(starts, np.int64), np.array(stops, np.int64)
