"""The events: 1-minute windows, 10,000 keys, eight partitions, one event in 200 very late."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

COLUMNS = {
    "event_time": "string",
    "arrival_time": "string",
    "tower": "string",
    "merchant": "string",
    "paise": "bigint",
    "status": "string",
}
IDS = ("fresh", "retried", "resent")
"""Columns to identify events by: no id comes twice; one event in a hundred has the id of any before it; every
fourth batch has the ids of the batch before."""
ROWS_A_FILE = 50_000
MICROS_APART = 600  # a million events in ten minutes
START = 1_770_000_000_000_000
DELAY = "30 seconds"
DAY = 86_400_000_000


def write_events(
    spark: SparkSession,
    folder: Path,
    events: int,
    rows_a_file: int = ROWS_A_FILE,
    apart: int = MICROS_APART,
    rows_a_batch: int | None = None,
    partitions: int = 8,
    bad: float = 0,
) -> None:
    """The events as JSON lines in order of arrival, a file for each `rows_a_file` of them.

    With `rows_a_batch` they have the columns of IDS too. A share of them may be `bad`: their lines break off.
    """
    files = events // rows_a_file
    arrival = F.lit(START) + F.col("id") * apart
    prompt = (-F.log(1 - F.rand(1)) * 3_000_000).cast("bigint")
    late = F.when(F.rand(2) < 0.005, (120_000_000 + F.rand(3) * 480_000_000).cast("bigint")).otherwise(0)
    rows = spark.range(0, events, 1, files).select(
        _text(arrival - prompt - late).alias("event_time"),
        _text(arrival).alias("arrival_time"),
        F.concat(F.lit("tower-"), (F.rand(4) * partitions).cast("int")).alias("tower"),
        F.concat(F.lit("merchant-"), (F.rand(5) * 10_000).cast("int")).alias("merchant"),
        (100 + F.rand(6) * 50_000).cast("bigint").alias("paise"),
        F.lit("SUCCESS").alias("status"),
        *(_ids(rows_a_batch) if rows_a_batch else ()),
    )
    line = F.to_json(F.struct("*"))
    broken = F.when(F.rand(9) < bad, F.substr(line, F.lit(1), F.length(line) - 9)).otherwise(line)
    rows.select(broken).write.mode("overwrite").text(str(folder))


def _ids(rows_a_batch: int) -> list[F.Column]:
    number = F.col("id")
    retried = F.when(F.rand(7) < 0.01, F.floor(number * F.rand(8))).otherwise(number)
    resent = F.when(F.floor(number / rows_a_batch) % 4 == 3, number - rows_a_batch).otherwise(number)
    return [
        F.md5(each.cast("string")).alias(name)
        for name, each in zip(IDS, (number, retried, resent), strict=True)
    ]


def _text(micros: F.Column) -> F.Column:
    return F.date_format(F.timestamp_micros(micros), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")


def in_order(folder: Path) -> None:
    """Give the files modification times in order of arrival: part numbers are in that order."""
    import os

    for number, file in enumerate(sorted(folder.glob("part-*"))):
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    for extra in folder.glob("[._]*"):
        extra.unlink()
