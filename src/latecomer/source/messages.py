"""Files of messages as a source: each file is divided, and its messages are decoded as those of a topic are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from latecomer.config.registered import Layout, Registered
from latecomer.decode.choose import framed_decoder
from latecomer.decode.columns import RECORD
from latecomer.decode.detail import REST
from latecomer.decode.files import SourceFile
from latecomer.decode.framing import FramedRecords
from latecomer.decode.limits import LongLine
from latecomer.decode.messages import Message, messages_of
from latecomer.decode.retrying import patiently, require_unchanged, states_of
from latecomer.fast import MOST_ROWS, Declined
from latecomer.source.base import Rows, Slice
from latecomer.source.columns import FULL_ORIGIN, LANDED, ORIGIN, POSITION
from latecomer.source.found_files import (
    Aside,
    FileSlice,
    FoundFiles,
    encoded_path,
    files_of,
    require_present,
)
from latecomer.source.records import RecordSource
from latecomer.store.files import Location, new_parquet, scratch, url
from latecomer.store.layout import arrow_type
from latecomer.store.sql import ddl

_COLUMNS = {
    ORIGIN: "string",
    FULL_ORIGIN: "string",
    POSITION: "bigint",
    LANDED: "timestamp",
    RECORD: "binary",
}
_SCHEMA = pa.schema([(name, arrow_type(kind)) for name, kind in _COLUMNS.items()])
_MOST_AT_ONCE = 32 << 20
"""Bytes of messages that are written in one go."""
_Written = TypeVar("_Written")


@dataclass(frozen=True)
class _DividedSlice(FileSlice):
    """Files whose messages are in a folder, as rows, but for those that are set aside."""

    folder: Location
    aside: Sequence[Aside]


@dataclass(frozen=True)
class MessageFiles(FoundFiles, RecordSource):
    """The pipeline's files, where they are of messages. A message stands where it begins in its file."""

    @property
    def named(self) -> str:
        return "source files"

    @cached_property
    def decoder(self) -> FramedRecords:
        return framed_decoder(self.pipeline)

    def read(self, spark: SparkSession, piece: Slice, write: Callable[[Rows], _Written]) -> _Written:
        """The messages are brought where Spark can read them, many at once."""
        files = files_of(piece)

        def attempt() -> _Written:
            before = states_of(file.local for file in files)
            for file in files:
                require_present(file)
            with scratch() as folder:
                aside = list(self._divide(spark, files, folder))
                found = _DividedSlice(piece.newest, files, folder, aside)
                written = RecordSource.read(self, spark, found, write)
            require_unchanged(before)
            return written

        return patiently(attempt)

    def found(self, spark: SparkSession, piece: Slice) -> DataFrame:
        return spark.read.schema(ddl(_COLUMNS)).parquet(url(_divided(piece).folder))

    def rows(self, spark: SparkSession, piece: Slice) -> Rows:
        rows, aside = RecordSource.rows(self, spark, piece), _divided(piece).aside
        frame = self.with_folders(rows.frame, files_of(piece))
        if not self.gives_landing:
            frame = frame.drop(LANDED)
        if aside:
            frame = frame.unionByName(self.set_aside(spark, aside), allowMissingColumns=True)
        return replace(rows, frame=frame, aside=len(aside))

    def require_fast(self) -> None:
        self.decoder.require_fast(self.read_columns)

    def load_file(self, file: SourceFile) -> tuple[pa.Table, pa.Array]:
        found: list[Message] = []
        self.decoder.prepare()
        for message in self._messages(file):
            if message.is_rest or len(found) == MOST_ROWS:
                raise Declined("a file that is damaged, or large")
            found.append(message)
        if not found:
            raise Declined("a file without a message")
        rows = self.decoder.load([message.record for message in found], self.read_columns)
        return rows, pa.array([message.start for message in found], pa.int64())

    def _messages(self, file: SourceFile) -> Iterator[Message]:
        return messages_of(file.local, self._layout, self.decoder)

    @property
    def _layout(self) -> Layout:
        written = self.pipeline.format
        assert isinstance(written, Registered) and written.messages is not None  # noqa: S101, PT018
        return written.messages

    def _divide(self, spark: SparkSession, files: Sequence[SourceFile], folder: Location) -> Iterator[Aside]:
        """Write the messages of files into a folder; what cannot be read is set aside."""
        for nth, file in enumerate(files):
            if (wrong := self.misplaced(file)) is not None:
                yield Aside(file, wrong)
                continue
            full = encoded_path(spark, file)
            place = {ORIGIN: self.origin(file, full), FULL_ORIGIN: full, LANDED: file.landed}
            with new_parquet(folder / f"{nth}.parquet", _SCHEMA) as written:
                for message in _in_tables(self._messages(file), place, written.write_table):
                    yield Aside(file, REST, LongLine(message.start, len(message.record), message.record))


def _in_tables(
    messages: Iterator[Message], place: dict[str, Any], write: Callable[[pa.Table], None]
) -> Iterator[Message]:
    """Hand the messages on as tables, not too many at once. What is none comes back."""
    starts, records, size = list[int](), list[bytes](), 0

    def handed_on() -> None:
        repeated = {name: pa.repeat(pa.scalar(value), len(starts)) for name, value in place.items()}
        columns = {**repeated, POSITION: pa.array(starts, pa.int64()), RECORD: pa.array(records, pa.binary())}
        write(pa.table({field.name: columns[field.name].cast(field.type) for field in _SCHEMA}))

    for message in messages:
        if message.is_rest:
            yield message
            continue
        starts.append(message.start)
        records.append(message.record)
        size += len(message.record)
        if size > _MOST_AT_ONCE:
            handed_on()
            starts, records, size = [], [], 0
    handed_on()


def _divided(piece: Slice) -> _DividedSlice:
    if not isinstance(piece, _DividedSlice):
        raise TypeError(f"a {type(piece).__name__} has no messages")
    return piece
