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
) -> None:
    """The events as JSON lines in order of arrival, a file for each `rows_a_file` of them."""
    files = events // rows_a_file
    arrival = F.lit(START) + F.col("id") * apart
    prompt = (-F.log(1 - F.rand(1)) * 3_000_000).cast("bigint")
    late = F.when(F.rand(2) < 0.005, (120_000_000 + F.rand(3) * 480_000_000).cast("bigint")).otherwise(0)
    rows = spark.range(0, events, 1, files).select(
        _text(arrival - prompt - late).alias("event_time"),
        _text(arrival).alias("arrival_time"),
        F.concat(F.lit("tower-"), (F.rand(4) * 8).cast("int")).alias("tower"),
        F.concat(F.lit("merchant-"), (F.rand(5) * 10_000).cast("int")).alias("merchant"),
        (100 + F.rand(6) * 50_000).cast("bigint").alias("paise"),
        F.lit("SUCCESS").alias("status"),
    )
    rows.write.mode("overwrite").json(str(folder))


def _text(micros: F.Column) -> F.Column:
    return F.date_format(F.timestamp_micros(micros), "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")


def in_order(folder: Path) -> None:
    """Give the files modification times in order of arrival: part numbers are in that order."""
    import os

    for number, file in enumerate(sorted(folder.glob("part-*.json"))):
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    for extra in folder.glob("[._]*"):
        extra.unlink()
