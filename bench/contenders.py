"""The two that are compared, each in a process of its own: `python -m bench.contenders NAME …`."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.workload import COLUMNS, DELAY, IDS, ROWS_A_FILE
from latecomer.config.models import Event, Output, Pipeline
from latecomer.config.sources import Files, Source
from latecomer.model.strategies import Bounded
from latecomer.pipeline import BatchReport
from latecomer.running import run
from latecomer.spark.session import build_session
from latecomer.store.sql import ddl

WINDOWS: dict[str, dict[str, str]] = {
    "tumbling": {"tumbling": "1m"},
    "sliding": {"sliding": "5m", "every": "1m"},
    "session": {"session": "30s"},
}


class Memory:
    """The most memory that this process and the JVM below it held together, sampled."""

    def __init__(self) -> None:
        self.peak = self.now = 0
        self._done = threading.Event()
        threading.Thread(target=self._sample, daemon=True).start()

    def _sample(self) -> None:
        me = psutil.Process()
        while not self._done.wait(0.1):
            try:
                family = [me, *me.children(recursive=True)]
                self.now = sum(process.memory_info().rss for process in family)
                self.peak = max(self.peak, self.now)
            except psutil.NoSuchProcess:
                continue


def processor_seconds(but: Collection[int] = ()) -> float:
    """What this process and the JVM below it have used so far: steadier than the clock on a busy machine.

    `but` are processes below it that do somebody else's work.
    """
    me = psutil.Process()
    times = [each.cpu_times() for each in (me, *me.children(recursive=True)) if each.pid not in but]
    return sum(each.user + each.system for each in times)


@dataclass
class Measured:
    """How long a contender took, and each of its batches; processor seconds by batch where they are known."""

    seconds: float
    batches: list[float]
    worked: list[float] = field(default_factory=list)


def output(window: str, lateness: str = "10m") -> Output:
    """The number that all of them compute."""
    return Output(
        window=WINDOWS[window],
        by=["merchant"],
        aggregates={"paise": "sum(paise)", "payments": "count(*)"},
        allowed_lateness=lateness,
        late="update",
    )


def latecomer(
    spark: SparkSession,
    source: Path,
    work: Path,
    files_a_batch: int,
    lateness: str,
    window: str,
    identified_by: str,
) -> Measured:
    """`identified_by` is one of IDS, or `nothing` where they are there and not used; empty without them."""
    ids = dict.fromkeys(IDS, "string") if identified_by else {}
    pipeline = Pipeline(
        name="bench",
        store=str(work / "store"),
        source=Source(
            files=Files(path=str(source), order_by="arrival_time", max_files_per_batch=files_a_batch),
            columns={**COLUMNS, **ids},
        ),
        event=Event(time="event_time", partition="tower", id=identified_by if identified_by in IDS else None),
        watermark=Bounded("30s"),
        outputs={"minute": output(window, lateness)},
        ledger=("paise",),
    )
    batches: list[float] = []
    marks = [processor_seconds()]

    def watch(report: BatchReport) -> None:
        batches.append(report.seconds)
        marks.append(processor_seconds())

    began = time.monotonic()
    run(pipeline, once=True, spark=spark, watch=watch)
    return Measured(time.monotonic() - began, batches, [after - before for before, after in pairwise(marks)])


def native(spark: SparkSession, source: Path, work: Path, files_a_batch: int, *_: str) -> Measured:
    """Spark's aggregation, and beside it the archive that a user needs to be able to correct later."""

    def rows() -> F.DataFrame:
        read = (
            spark.readStream.schema(ddl(COLUMNS))
            .option("maxFilesPerTrigger", files_a_batch)
            .json(str(source))
        )
        return read.withColumn("event_time", F.col("event_time").cast("timestamp"))

    began = time.monotonic()
    totals = (
        rows()
        .withWatermark("event_time", DELAY)
        .groupBy(F.window("event_time", "1 minute"), "merchant")
        .agg(F.sum("paise").alias("paise"), F.count("*").alias("payments"))
        .writeStream.format("parquet")
        .option("path", str(work / "totals"))
        .option("checkpointLocation", str(work / "totals-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    archive = (
        rows()
        .writeStream.format("parquet")
        .option("path", str(work / "archive"))
        .option("checkpointLocation", str(work / "archive-checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    totals.awaitTermination()
    archive.awaitTermination()
    seconds = time.monotonic() - began
    batches = [
        progress["durationMs"]["triggerExecution"] / 1000
        for progress in totals.recentProgress
        if progress["numInputRows"]
    ]
    return Measured(seconds, batches)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=["latecomer", "native"])
    parser.add_argument("source", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--rows-a-file", type=int, default=ROWS_A_FILE)
    parser.add_argument("--lateness", default="10m")
    parser.add_argument("--window", choices=WINDOWS, default="tumbling")
    parser.add_argument("--identified-by", choices=["", "nothing", *IDS], default="")
    asked = parser.parse_args()
    memory = Memory()
    settings = {"spark.driver.memory": "4g", "spark.sql.streaming.numRecentProgressUpdates": "1000"}
    spark = build_session(asked.name, **settings)
    contender = {"latecomer": latecomer, "native": native}[asked.name]
    measured = contender(
        spark,
        asked.source,
        asked.work,
        asked.rows // asked.rows_a_file,
        asked.lateness,
        asked.window,
        asked.identified_by,
    )
    runtime = spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    held = runtime.totalMemory() - runtime.freeMemory()
    print(json.dumps({**asdict(measured), "peak": memory.peak, "heap": held}))


if __name__ == "__main__":
    main()
