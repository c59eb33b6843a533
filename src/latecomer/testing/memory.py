"""A source in memory: its slices are lists of records. For tests, which hand them to the engine themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from latecomer.decode.base import RECORD
from latecomer.source.base import ORIGIN, POSITION, Slice
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
