"""Frames over the files of a store, for what only Spark can compute: users' SQL and users' decoders.

In a folder Spark reads and writes Parquet itself. At a URL it would need a connector of Hadoop's: so there its Python
workers read and write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from latecomer.spark.session import own_python
from latecomer.store.files import (
    Location,
    dataset,
    footer,
    is_url,
    new_parquet,
    new_token,
    parquet_files,
    url,
)


def frame_of(spark: SparkSession, files: Sequence[Location], ddl: str | None = None) -> DataFrame:
    """The rows of Parquet files, with the columns of a schema, or those of the first file."""
    if not any(map(is_url, files)):
        reader = spark.read if ddl is None else spark.read.schema(ddl)
        return reader.parquet(*map(url, files))
    first_schema = footer(files[0]).schema.to_arrow_schema()
    schema = from_arrow_schema(first_schema) if ddl is None else cast(StructType, StructType.fromDDL(ddl))
    numbers = spark.range(0, len(files), 1, len(files))
    with own_python(getattr(spark, "_sc", None)):
        return numbers.mapInArrow(partial(_read, list(files), to_arrow_schema(schema)), schema)


def write_frame(frame: DataFrame, folder: Location) -> list[Location]:
    """Write a frame as Parquet files into a folder. Gives the files in the order of the frame's partitions."""
    if not is_url(folder):
        frame.write.parquet(url(folder))
        return parquet_files(folder)
    with own_python(getattr(frame.sparkSession, "_sc", None)):
        written = frame.mapInArrow(partial(_write, folder), "name string")
    return sorted(folder / row["name"] for row in written.collect())


def _read(
    files: Sequence[Location], schema: pa.Schema, numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The rows of some files, with these columns in this order; columns that a file lacks are null."""
    for batch in numbers:
        for nth in batch.column(0).to_pylist():
            yield from dataset([files[nth]], schema).to_batches()


def _write(folder: Location, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the rows of a partition into a file of this attempt. Gives its name, which begins with the partition."""
    batches = iter(rows)
    first = next(batches, None)
    if first is None:
        return
    partition = cast(TaskContext, TaskContext.get()).partitionId()
    name = f"{partition:06}-{new_token()}.parquet"
    with new_parquet(folder / name, first.schema) as writer:
        writer.write_batch(first)
        for batch in batches:
            writer.write_batch(batch)
    yield pa.record_batch({"name": pa.array([name])})
