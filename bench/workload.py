"""The events: 1-minute windows, 10,000 keys, eight partitions, one event in 200 very late."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

COLUMNS = {
    "event_time": "string",
    "arrival_time": "string",
    "tower": "string",
    "merchant": "string",
    "paise": "bigint",
    "status": "string",
}
TIMES = ("event_time", "arrival_time")
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
    made = event_columns(F.col("id"), apart, partitions)
    texts = {name: _text(made[name]) for name in TIMES}
    rows = spark.range(0, events, 1, files).select(
        *(column.alias(name) for name, column in {**made, **texts}.items()),
        *(_ids(rows_a_batch) if rows_a_batch else ()),
    )
    line = F.to_json(F.struct("*"))
    broken = F.when(F.rand(9) < bad, F.substr(line, F.lit(1), F.length(line) - 9)).otherwise(line)
    rows.select(broken).write.mode("overwrite").text(str(folder))


def event_columns(number: Column, apart: int = MICROS_APART, partitions: int = 8) -> dict[str, Column]:
    """The event of a number: the same wherever it is made."""

    def chance(seed: int) -> Column:
        return F.pmod(F.xxhash64(number, F.lit(seed)), F.lit(1 << 30)) / (1 << 30)

    arrival = F.lit(START) + number * apart
    prompt = (-F.log(1 - chance(1)) * 3_000_000).cast("bigint")
    late = F.when(chance(2) < 0.005, (120_000_000 + chance(3) * 480_000_000).cast("bigint")).otherwise(0)
    return {
        "event_time": F.timestamp_micros(arrival - prompt - late),
        "arrival_time": F.timestamp_micros(arrival),
        "tower": F.concat(F.lit("tower-"), (chance(4) * partitions).cast("int")),
        "merchant": F.concat(F.lit("merchant-"), (chance(5) * 10_000).cast("int")),
        "paise": (100 + chance(6) * 50_000).cast("bigint"),
        "status": F.lit("SUCCESS"),
    }


def _ids(rows_a_batch: int) -> list[Column]:
    number = F.col("id")
    retried = F.when(F.rand(7) < 0.01, F.floor(number * F.rand(8))).otherwise(number)
    resent = F.when(F.floor(number / rows_a_batch) % 4 == 3, number - rows_a_batch).otherwise(number)
    return [
        F.md5(each.cast("string")).alias(name)
        for name, each in zip(IDS, (number, retried, resent), strict=True)
    ]


def _text(moment: Column) -> Column:
    return F.date_format(moment, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'")


def in_order(folder: Path) -> None:
    """Give the files modification times in order of arrival: part numbers are in that order."""
    import os

    for number, file in enumerate(sorted(folder.glob("part-*"))):
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
    for extra in folder.glob("[._]*"):
        extra.unlink()
