"""Rows that only Spark can compute, because users wrote it for Spark: the DataFrame of a source of their own, or a
decoder that is a Column. Spark writes them down once, and tasks log them like any other split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol, Self

import pyarrow as pa

from latecomer.source.base import Split
from latecomer.source.decode.columns import CORRUPT
from latecomer.spark.at_url import frame_of, write_frame
from latecomer.spark.base import Runner, Shared
from latecomer.store.files import (
    Location,
    footer,
    new_token,
    open_parquet,
    parquet_files,
    size,
    write_table,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_AT_ONCE = 100_000
"""So many rows are handed over together."""


@dataclass(frozen=True)
class StagedSplit(Split):
    """A file of rows that was written for this batch alone."""

    file: Location
    bytes: int
    newest: int
    """When a row came that does not say so."""

    @property
    def size(self) -> int:
        return self.bytes


class Recorded(Protocol):
    """A source whose records can be had before they are decoded."""

    def recorded(self, splits: Sequence[Split]) -> Iterator[pa.Table]:
        """RECORD, and where each record stands, a chunk at a time."""

    def portable(self) -> Self:
        """The source as tasks are given it."""


class Staging:
    """Where rows are staged: a folder of this attempt, in the store, so that every executor sees it."""

    def __init__(self, spark: Callable[[], SparkSession], runner: Runner, folder: Location) -> None:
        self._start = spark
        self._runner = runner
        self.folder = folder

    @cached_property
    def spark(self) -> SparkSession:
        return self._start()

    def staged(self, rows: DataFrame | pa.Table, newest: int) -> list[StagedSplit]:
        """Rows as splits."""
        place = self.folder / new_token()
        if isinstance(rows, pa.Table):
            write_table(rows, place / "part.parquet")
        else:
            write_frame(rows, place)
        return [
            StagedSplit(file, size(file), newest) for file in parquet_files(place) if footer(file).num_rows
        ]

    def new_file(self) -> Location:
        """Where a file may be written that is needed meanwhile."""
        return self.folder / f"{new_token()}.parquet"

    def records(self, source: Recorded, splits: Sequence[Split]) -> DataFrame | None:
        """The records of splits, to Spark; None where there are none."""
        place = self.folder / new_token()
        kernel = partial(_write_records, Shared(source.portable()), place)
        files = [
            each
            for found in self._runner.run("records", kernel, [[each] for each in splits]).tasks
            for each in found
        ]
        return frame_of(self.spark, files) if files else None


def _write_records(source: Shared[Recorded], place: Location, splits: Sequence[Split]) -> list[Location]:
    token = new_token()
    return [
        write_table(rows, place / f"{token}-{nth}.parquet")
        for nth, rows in enumerate(source.value.recorded(splits))
        if rows.num_rows
    ]


def staged_rows(split: StagedSplit, columns: Mapping[str, pa.DataType]) -> Iterator[pa.Table]:
    """The rows of a staged file, some at a time. Text that was corrupt need not be UTF-8."""
    with open_parquet(split.file) as opened:
        for part in opened.iter_batches(_AT_ONCE):
            rows = pa.Table.from_batches([part])
            if CORRUPT in rows.column_names:
                place = rows.schema.get_field_index(CORRUPT)
                rows = rows.set_column(place, CORRUPT, rows.column(place).cast(pa.binary()))
            for name, kind in columns.items():
                if name in rows.column_names and rows.schema.field(name).type != kind:
                    place = rows.schema.get_field_index(name)
                    rows = rows.set_column(place, name, rows.column(place).cast(kind))
            yield rows
