"""A source in memory, for tests that hand lists of records to the engine themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from latecomer.source.base import Chunk, Slice, Split
from latecomer.source.decode.private_columns import RECORD
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.source.records import RecordSource
from latecomer.source.staging import Staging


@dataclass(frozen=True)
class Records(Slice):
    """Records in the order in which they came."""

    origin: str
    records: Sequence[bytes]
    positions: Sequence[int]


@dataclass(frozen=True)
class RecordsSplit(Split):
    """All records of a slice."""

    whole: Records

    @property
    def size(self) -> int:
        return sum(map(len, self.whole.records))


@dataclass(frozen=True)
class MemorySource(RecordSource):
    """Reads the records of a slice. It follows no stream: a test makes the slices."""

    @property
    def named(self) -> str:
        return "the records"

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        if not isinstance(slice_, Records):
            raise TypeError(f"a {type(slice_).__name__} is not in memory")
        return [RecordsSplit(slice_)] if slice_.records else []

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        for split in splits:
            if isinstance(split, RecordsSplit):
                yield self.chunk(_table(split.whole), split.whole.newest)


def _table(records: Records) -> pa.Table:
    return pa.table(
        {
            RECORD: pa.array(records.records, pa.binary()),
            ORIGIN: pa.array([records.origin] * len(records.records), pa.string()),
            POSITION: pa.array(records.positions, pa.int64()),
        }
    )
