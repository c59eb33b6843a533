"""Rows that only Spark can compute: the DataFrame of a user's own source, or the Column of a user's own decoder. Spark
writes them to files once, and tasks log them like any other split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, Self

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from latecomer.source.decode.base import Split
from latecomer.source.decode.private_columns import CORRUPT
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
from latecomer.store.layout import source_type

_AT_ONCE = 100_000
"""Rows that are handed over together."""


@dataclass(frozen=True)
class StagedSplit(Split):
    """A file of rows that was written for this batch only."""

    file: Location
    bytes: int
    newest: int
    """The arrival of rows that have none of their own."""

    @property
    def size(self) -> int:
        return self.bytes


class UndecodedSource(Protocol):
    """A source whose records can be read without decoding them."""

    def recorded(self, splits: Sequence[Split]) -> Iterator[pa.Table]:
        """RECORD, and the origin and position of each, a chunk at a time."""

    def portable(self) -> Self:
        """The source as it is sent to tasks."""


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
        """A new path for a temporary file."""
        return self.folder / f"{new_token()}.parquet"

    def records(self, source: UndecodedSource, splits: Sequence[Split]) -> DataFrame | None:
        """The records of splits as a DataFrame; None if there are none."""
        place = self.folder / new_token()
        kernel = partial(_write_records, Shared(source.portable()), place)
        files = [
            each
            for found in self._runner.run("records", kernel, [[each] for each in splits]).tasks
            for each in found
        ]
        return frame_of(self.spark, files) if files else None


def _write_records(
    source: Shared[UndecodedSource], place: Location, splits: Sequence[Split]
) -> list[Location]:
    token = new_token()
    return [
        write_table(rows, place / f"{token}-{nth}.parquet")
        for nth, rows in enumerate(source.value.recorded(splits))
        if rows.num_rows
    ]


def staged_rows(split: StagedSplit, columns: Mapping[str, str]) -> Iterator[pa.Table]:
    """The rows of a staged file, some at a time, with these columns in their types. CORRUPT need not be UTF-8."""
    types = {name: source_type(kind) for name, kind in columns.items()} | {CORRUPT: pa.binary()}
    with open_parquet(split.file) as opened:
        for part in opened.iter_batches(_AT_ONCE):
            rows = pa.Table.from_batches([part])
            for name, kind in types.items():
                if name in rows.column_names and rows.schema.field(name).type != kind:
                    place = rows.schema.get_field_index(name)
                    rows = rows.set_column(place, name, rows.column(place).cast(kind))
            yield rows
