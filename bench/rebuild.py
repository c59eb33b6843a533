"""A day of ten rebuilt beside the same as a plain Spark job: `python -m bench.rebuild SOURCE --work FOLDER`.

Both read the same log. The plain job filters the day, groups and writes; it knows neither what stands nor
what changed. Each takes two days, one after the other: the first pays for the JVM's warming up.
"""

from __future__ import annotations

import argparse
import json
import time
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.workload import COLUMNS, DAY, START
from latecomer.after.rebuild import rebuilding
from latecomer.config.models import Event, Output, Pipeline
from latecomer.config.sources import Files, Source
from latecomer.model.durations import to_moment
from latecomer.model.strategies import Bounded
from latecomer.running import run
from latecomer.spark.session import build_session
from latecomer.store.store import open_store


def plain(spark: SparkSession, paths: list[str], first: int, folder: Path) -> float:
    """The job that a user would write: read the archive, keep the day, group, write."""
    began = time.monotonic()
    since, until = (F.lit(datetime.fromtimestamp(at / 1e6, UTC)) for at in (first, first + DAY))
    (
        spark.read.parquet(*paths)
        .where((F.col("event_time") >= since) & (F.col("event_time") < until))
        .groupBy(F.window("event_time", "1 hour"), "merchant")
        .agg(F.sum("paise").alias("paise"), F.count("*").alias("payments"))
        .write.parquet(str(folder))
    )
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    spark = build_session("rebuild", **{"spark.driver.memory": "4g"})
    pipeline = Pipeline(
        name="bench",
        store=str(asked.work / "store"),
        source=Source(
            files=Files(path=str(asked.source), order_by="arrival_time", max_files_per_batch=20),
            columns=COLUMNS,
        ),
        event=Event(time="event_time", partition="tower"),
        watermark=Bounded("30s"),
        outputs={
            "hour": Output(
                window={"tumbling": "1h"},
                by=["merchant"],
                aggregates={"paise": "sum(paise)", "payments": "count(*)"},
            )
        },
        ledger=("paise",),
    )
    run(pipeline, drain=True, spark=spark)
    events = open_store(pipeline).events
    files = events.files()
    runs = []
    # Days in the middle of the ten. They begin at midnight, the batches do not.
    for nth, name in ((3, "first, cold"), (5, "second, warm"), (7, "third, warm")):
        first = START - START % DAY + nth * DAY
        seconds = plain(spark, events.paths(files), first, asked.work / f"plain-{nth}")
        began = time.monotonic()
        done = rebuilding.apply(pipeline, "hour", first, first + DAY, spark=spark)
        took = time.monotonic() - began
        held = [
            f
            for f in files
            if f.minimum["event_time"] < to_moment(first + DAY)
            and f.maximum["event_time"] >= to_moment(first)
        ]
        counts = done.rebuild.record.counts
        assert counts["files"] == len(held), "a rebuild reads the files of its day and no other"  # noqa: S101
        runs.append(
            {
                "day": name,
                "plain": seconds,
                "rebuild": took,
                "files": counts["files"],
                "changed": done.rebuild.record.changes,
            }
        )
    print(json.dumps({"files": len(files), "runs": runs}))


if __name__ == "__main__":
    main()
