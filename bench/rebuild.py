"""A day of ten rebuilt beside the same as a plain Spark job: `python -m bench.rebuild SOURCE --work FOLDER`.

Both read the same log. The plain job filters the day, groups and writes; it knows neither what stands nor
what changed. First each is a command of its own, as a user would call it: the time from its start to its end. Then
they take days in turn in a process that is warm.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.processes import answer
from bench.workload import COLUMNS, DAY, START
from latecomer.after.rebuild import rebuilding
from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.engine.running import run
from latecomer.model.durations import to_moment
from latecomer.model.strategies import Bounded
from latecomer.spark.session import build_session
from latecomer.store.delta.data_files import DataFile
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


def pipeline_of(source: Path, work: Path) -> Pipeline:
    return Pipeline(
        name="bench",
        store=str(work / "store"),
        source=Source(
            files=Files(path=str(source), order_by="arrival_time", max_files_per_batch=20), columns=COLUMNS
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


def session() -> SparkSession:
    return build_session("rebuild", **{"spark.driver.memory": "4g"})


def day(nth: int) -> int:
    """When a day of the ten begins. It is midnight; the batches do not begin then."""
    return START - START % DAY + nth * DAY


def cold(asked: argparse.Namespace, way: str, nth: int) -> dict[str, Any]:
    """One way to do a day, in a process of its own."""
    command = [sys.executable, "-m", "bench.rebuild", str(asked.source), "--work", str(asked.work)]
    began = time.monotonic()
    found = answer([*command, "--way", way, "--day", str(nth)], asked.work / f"errors-{way}")
    return {**found, "seconds": time.monotonic() - began}


def one_way(asked: argparse.Namespace) -> dict[str, int]:
    """What such a process does."""
    pipeline, first = pipeline_of(asked.source, asked.work), day(asked.day)
    if asked.way == "plain":
        events = open_store(pipeline).events
        plain(session(), events.paths(events.files()), first, asked.work / f"plain-{asked.day}")
        return {}
    return counts_of(rebuilding.apply(pipeline, "hour", first, first + DAY))


def counts_of(done: rebuilding.Applied) -> dict[str, int]:
    record = done.rebuild.record
    return {"files": record.counts["files"], "changed": record.changes}


def both_cold(asked: argparse.Namespace, nth: int) -> dict[str, Any]:
    spark, rebuilt = cold(asked, "plain", nth), cold(asked, "rebuild", nth)
    return {
        **rebuilt,
        "plain": spark["seconds"],
        "rebuild": rebuilt["seconds"],
        "day": "cold, a process each",
    }


def both_warm(spark: SparkSession, asked: argparse.Namespace, nth: int) -> dict[str, Any]:
    pipeline, first = pipeline_of(asked.source, asked.work), day(nth)
    events = open_store(pipeline).events
    seconds = plain(spark, events.paths(events.files()), first, asked.work / f"plain-{nth}")
    began = time.monotonic()
    done = rebuilding.apply(pipeline, "hour", first, first + DAY, spark=spark)
    return {
        "plain": seconds,
        "rebuild": time.monotonic() - began,
        **counts_of(done),
        "day": f"warm, day {nth}",
    }


def require_own_files(files: Sequence[DataFile], nth: int, read: int) -> None:
    since, until = to_moment(day(nth)), to_moment(day(nth + 1))
    held = [f for f in files if f.minimum["event_time"] < until and f.maximum["event_time"] >= since]
    if read != len(held):
        raise SystemExit(f"a rebuild reads the files of its day and no other: {read} of {len(held)}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--way", choices=["plain", "rebuild"])
    parser.add_argument("--day", type=int)
    asked = parser.parse_args()
    if asked.way:
        print(json.dumps(one_way(asked)))
        return
    pipeline, spark = pipeline_of(asked.source, asked.work), session()
    run(pipeline, drain=True, spark=spark)
    files = open_store(pipeline).events.files()
    # Days in the middle of the ten. The first of the warm ones pays for the warming up, and is not shown.
    runs = {3: both_cold(asked, 3), **{nth: both_warm(spark, asked, nth) for nth in (4, 5, 7)}}
    for nth, each in runs.items():
        require_own_files(files, nth, each["files"])
    del runs[4]
    print(json.dumps({"files": len(files), "runs": list(runs.values())}))


if __name__ == "__main__":
    main()
