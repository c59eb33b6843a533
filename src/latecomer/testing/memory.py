"""A source in memory: its slices are lists of records. For tests, which hand them to the engine themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from latecomer.decode.arrow_json import json_lines
from latecomer.decode.columns import RECORD
from latecomer.decode.json import JsonRecords
from latecomer.fast import Declined
from latecomer.source.base import Clock, Loaded, Slice, beside
from latecomer.source.columns import LANDED, ORIGIN, POSITION
from latecomer.source.records import RecordSource


@dataclass(frozen=True)
class Records(Slice):
    """Some records, in the order in which they came."""

    origin: str
    records: Sequence[bytes]


@dataclass(frozen=True)
class MemorySource(RecordSource):
    """Reads what it is handed. There is no stream: whoever has the records has the batches."""

    @property
    def named(self) -> str:
        return "the records"

    def load(self, piece: Slice) -> Loaded:
        """Its records in this process: those of a line each, which is what most tests write."""
        if not isinstance(piece, Records) or not isinstance(self.decoder, JsonRecords):
            raise Declined("records that are not JSON")
        text, count = b"\n".join(piece.records), len(piece.records)
        if text.count(b"\n") != count - 1:
            raise Declined("records of several lines, or none")
        rows = json_lines(text, self.read_columns, self.pipeline.source.unknown_fields)
        where = {
            ORIGIN: pa.array([piece.origin] * count, pa.string()),
            POSITION: pa.array(range(count), pa.int64()),
            LANDED: pa.array([piece.newest] * count, pa.int64()),
        }
        named = {name: rows.column(self.pipeline.source_name(name)) for name in self.columns}
        return Loaded(pa.table({**named, **where, **beside(rows)}), Clock.READ)

    def found(self, spark: SparkSession, piece: Slice) -> DataFrame:
        if not isinstance(piece, Records):
            raise TypeError(f"a {type(piece).__name__} is not in memory")
        count = len(piece.records)
        return spark.createDataFrame(
            pa.table(
                {
                    RECORD: pa.array(piece.records, pa.binary()),
                    ORIGIN: pa.array([piece.origin] * count, pa.string()),
                    POSITION: pa.array(range(count), pa.int64()),
                }
            )
        )
