"""Sources of records: bytes that are decoded, or rows, each with its origin and position."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.dead_letters import TOMBSTONE
from latecomer.source.base import NO_CLOCK, Chunk, Clock, Source
from latecomer.source.decode.base import RecordDecoder
from latecomer.source.decode.choose import record_decoder
from latecomer.source.decode.framing import FramedRecords, UnknownSchemas
from latecomer.source.decode.own import OwnRecords
from latecomer.source.decode.private_columns import RECORD
from latecomer.source.letters import RecordLetters
from latecomer.source.private_columns import BROKEN, FULL_ORIGIN, LANDED, ORIGIN, PARTITION, POSITION

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class RecordSource(Source):
    """How records become rows, for all such sources."""

    @property
    def skips_tombstones(self) -> bool:
        """Whether records without a value are left out and only counted."""
        return False

    @property
    def landed_clock(self) -> Clock:
        """The clock that LANDED is from, where it is not null."""
        return Clock.SOURCE

    decoding: RecordDecoder | None = field(default=None, kw_only=True)
    """The decoder in tasks, with the schemas that the driver knows."""

    @cached_property
    def decoder(self) -> RecordDecoder:
        """The decoder as the driver has it."""
        return record_decoder(self.pipeline)

    @cached_property
    def task_decoder(self) -> RecordDecoder:
        """The decoder as tasks have it."""
        if self.decoding is not None:
            return self.decoding
        return self.decoder.in_tasks() if isinstance(self.decoder, FramedRecords) else self.decoder

    def portable(self) -> Self:
        decoding = self.decoder.in_tasks() if isinstance(self.decoder, FramedRecords) else None
        return replace(super().portable(), decoding=decoding)

    def prepare(self) -> None:
        if isinstance(self.decoder, FramedRecords):
            self.decoder.prepare()

    def learn(self, unknown: UnknownSchemas) -> None:
        if not isinstance(self.decoder, FramedRecords):
            raise unknown
        self.decoder.know(unknown.ids)

    def decoded_by_spark(self, records: DataFrame) -> DataFrame:
        """For a user's own decoder, the records with their columns instead of RECORD; for others, as they are."""
        if not isinstance(self.decoder, OwnRecords):
            return records
        missing = {name: kind for name, kind in self.read_columns.items() if name not in records.columns}
        return self.decoder.decoded(records, missing)

    def chunk(self, found: pa.Table, newest: int) -> Chunk:
        """The rows of a table that has RECORD or the source's columns, ORIGIN and POSITION. It may have LANDED with
        nulls, PARTITION and FULL_ORIGIN."""
        skipped = 0
        if RECORD in found.column_names:
            valueless = np.asarray(flat(found.column(RECORD)).is_null())
            if valueless.any() and self.skips_tombstones:
                skipped, found = int(valueless.sum()), found.filter(pa.array(~valueless))
                valueless = np.zeros(found.num_rows, bool)
            rows = self._decoded(found, valueless)
        else:
            rows = found
        named = {name: rows.column(self.pipeline.source_name(name)) for name in self.columns}
        kept = {
            name: rows.column(name)
            for name in rows.column_names
            if name.startswith(PRIVATE) and name not in (RECORD, LANDED)
        }
        landed, clock = self._landed(found, newest)
        letters = RecordLetters(self.pipeline, self.read_columns)
        return Chunk(pa.table({**named, **kept, LANDED: landed}), clock, letters, skipped)

    def _decoded(self, found: pa.Table, valueless: Flags) -> pa.Table:
        """The decoded columns of records, beside those that are there; a record without a value is a tombstone."""
        given = [name for name in self.read_columns if name in found.column_names]
        missing = {name: kind for name, kind in self.read_columns.items() if name not in given}
        rows = self.task_decoder.decode(flat(found.column(RECORD)).drop_null().to_pylist(), missing)
        if valueless.any():
            rows = rows.take(pa.array(np.cumsum(~valueless) - 1, mask=valueless))
            broken = pc.if_else(pa.array(valueless), TOMBSTONE, pa.scalar(None, pa.string()))
            rows = rows.append_column(BROKEN, broken)
        for name in (*given, ORIGIN, POSITION, PARTITION, FULL_ORIGIN):
            if name in found.column_names:
                rows = rows.append_column(name, found.column(name))
        return rows

    def _landed(self, found: pa.Table, newest: int) -> tuple[pa.Array, Clock]:
        """When each row arrived, in microseconds, and the clock. A row without LANDED arrived when it was read."""
        count = found.num_rows
        if LANDED not in found.column_names:
            return pa.array(np.full(count, newest, np.int64)), Clock.READ if count else NO_CLOCK
        landed = flat(found.column(LANDED)).cast(pa.timestamp("us")).cast(pa.int64())
        clock = self.landed_clock if landed.null_count < count else NO_CLOCK
        return pc.fill_null(landed, newest), clock | (Clock.READ if landed.null_count else NO_CLOCK)
