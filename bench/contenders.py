"""The two that are compared, each in a process of its own: `python -m bench.contenders NAME …`."""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.usage import Memory, processor_seconds
from bench.workload import COLUMNS, DELAY, IDS, ROWS_A_FILE, TIMES, event_columns
from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Frames, Source
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.running import run
from latecomer.frames import into
from latecomer.model.strategies import Bounded
from latecomer.spark.session import LOOPBACK, build_session
from latecomer.store.sql import ddl

WINDOWS: dict[str, dict[str, str]] = {
    "tumbling": {"tumbling": "1m"},
    "sliding": {"sliding": "5m", "every": "1m"},
    "session": {"session": "30s"},
}


TYPED = {**COLUMNS, **dict.fromkeys(TIMES, "timestamp")}
"""The columns where a query hands them in as they are."""


@dataclass
class Measured:
    """How long a contender took, and each of its batches; processor seconds by batch where they are known."""

    seconds: float
    batches: list[float]
    worked: list[float] = field(default_factory=list)
    in_spark: str = "all"
    """What of it Spark did."""


def output(window: str, lateness: str = "10m") -> Output:
    """The number that all of them compute."""
    return _output(WINDOWS[window], "merchant", lateness)


def _output(window: dict[str, str], by: str, lateness: str) -> Output:
    return Output(
        window=window,
        by=[by],
        aggregates={"paise": "sum(paise)", "payments": "count(*)"},
        allowed_lateness=lateness,
        late="update",
    )


def more_outputs(count: int) -> dict[str, Output]:
    """Outputs beside that one: the same numbers over other windows and by other columns."""
    kinds = [(length, by) for by in ("tower", "merchant") for length in ("1m", "2m", "5m", "10m", "1h")]
    kinds.remove(("1m", "merchant"))
    return {f"{by}_{length}": _output({"tumbling": length}, by, "10m") for length, by in kinds[:count]}


def pipeline_of(asked: argparse.Namespace) -> Pipeline:
    """Latecomer's job. `identified_by` is one of IDS, or `nothing` where an id is there and not used; empty without."""
    identified = asked.identified_by if asked.identified_by in IDS else None
    ids = {identified or IDS[0]: "string"} if asked.identified_by else {}
    files_a_batch = asked.rows // asked.rows_a_file
    return Pipeline(
        name="bench",
        store=str(asked.work / "store"),
        source=Source(
            files=Files(path=str(asked.source), order_by="arrival_time", max_files_per_batch=files_a_batch),
            columns={**COLUMNS, **ids},
            unknown_fields="ignore"
            if ids
            else "keep",  # the events have ids of every kind, and a job has one
        ),
        event=Event(time="event_time", partition="tower", id=identified),
        watermark=Bounded("30s"),
        outputs={"minute": output(asked.window, asked.lateness), **more_outputs(asked.outputs - 1)},
        ledger=("paise",),
    )


def latecomer(spark: SparkSession, asked: argparse.Namespace) -> Measured:
    batches: list[float] = []
    marks = [processor_seconds()]

    def watch(report: BatchReport) -> None:
        batches.append(report.seconds)
        marks.append(processor_seconds())

    began = time.monotonic()
    report = run(pipeline_of(asked), once=True, drain=asked.end == "drain", spark=spark, watch=watch)
    seconds = time.monotonic() - began
    work = f"{report.work.jobs:,} jobs, {report.work.tasks:,} tasks, {report.work.seconds:,.1f} s in them"
    return Measured(seconds, batches, [after - before for before, after in pairwise(marks)], work)


def handed_in(spark: SparkSession, asked: argparse.Namespace) -> Measured:
    """The same rows, handed in by a streaming query of Spark's own: of the rate source, or of the files."""
    pipeline = pipeline_of(asked)
    columns = TYPED if asked.rows_from == "rate" else COLUMNS
    changed = {"files": None, "dataframe": Frames(order_by="arrival_time"), "columns": columns}
    source = pipeline.source.model_copy(update=changed)
    sink = into(pipeline.model_copy(update={"source": source}))
    measured = _query_into(sink, spark, asked)
    sink.close()
    return measured


def unread(spark: SparkSession, asked: argparse.Namespace) -> Measured:
    """The same query alone: what it takes to make its rows, of which nothing is done."""

    def take(frame: DataFrame, _: int) -> None:
        frame.write.format("noop").mode("overwrite").save()

    return _query_into(take, spark, asked)


def _query_into(
    take: Callable[[DataFrame, int], None], spark: SparkSession, asked: argparse.Namespace
) -> Measured:
    """A query that hands in as many events as asked."""
    batches, marks, count = [time.monotonic()], [processor_seconds()], asked.events // asked.rows
    done = threading.Event()

    def within(frame: DataFrame, batch: int) -> None:
        if batch < count:
            take(frame, batch)
            batches.append(time.monotonic())
            marks.append(processor_seconds())
        if batch >= count - 1:
            done.set()

    rows = _of_rate(spark, asked) if asked.rows_from == "rate" else _of_files(spark, asked)
    checkpoint = str(asked.work / "checkpoint")
    query = rows.writeStream.foreachBatch(within).option("checkpointLocation", checkpoint).start()
    while not done.wait(0.05):
        if not query.isActive:
            query.awaitTermination()  # raises what went wrong
    query.stop()
    seconds, worked = ([after - before for before, after in pairwise(each)] for each in (batches, marks))
    return Measured(batches[-1] - batches[0], seconds, worked)


def _of_files(spark: SparkSession, asked: argparse.Namespace) -> DataFrame:
    read = spark.readStream.schema(ddl(COLUMNS)).option("maxFilesPerTrigger", asked.rows // asked.rows_a_file)
    return read.json(str(asked.source))


def _of_rate(spark: SparkSession, asked: argparse.Namespace) -> DataFrame:
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", asked.rows).load()
    return rate.select(*(column.alias(name) for name, column in event_columns(F.col("value")).items()))


def native(spark: SparkSession, asked: argparse.Namespace) -> Measured:
    """Spark's aggregation, and beside it the archive that a user needs to be able to correct later."""
    work = asked.work

    def rows() -> DataFrame:
        read = (
            spark.readStream.schema(ddl(COLUMNS))
            .option("maxFilesPerTrigger", asked.rows // asked.rows_a_file)
            .json(str(asked.source))
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


CONTENDERS = {"latecomer": latecomer, "native": native, "handed_in": handed_in, "unread": unread}


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=CONTENDERS)
    parser.add_argument("source", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--events", type=int, default=0, help="that a query hands in")
    parser.add_argument(
        "--rows-from", choices=["files", "rate"], default="files", help="where it has its rows from"
    )
    parser.add_argument("--rows-a-file", type=int, default=ROWS_A_FILE)
    parser.add_argument("--lateness", default="10m")
    parser.add_argument("--window", choices=WINDOWS, default="tumbling")
    parser.add_argument("--identified-by", choices=["", "nothing", *IDS], default="")
    parser.add_argument("--outputs", type=int, default=1)
    parser.add_argument("--cores", type=int, help="of Spark; all of the machine's unless said")
    parser.add_argument("--executors", type=int, help="processes of one core each, in place of such cores")
    parser.add_argument("--end", choices=["once", "drain"], default="once", help="drain closes every window")
    return parser


def _spark_in(folder: Path) -> Path:
    """Spark as it is installed, in a folder of its own: executors have their folders below it."""
    folder.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (folder / each.name).symlink_to(each)
    return folder


def main() -> None:
    asked = arguments().parse_args()
    memory = Memory()
    settings = {"spark.driver.memory": "4g", "spark.sql.streaming.numRecentProgressUpdates": "1000"}
    if asked.cores:
        settings["spark.master"] = f"local[{asked.cores}]"
    if asked.executors:
        os.environ |= {"SPARK_HOME": str(_spark_in(asked.work / "spark")), "PYSPARK_PYTHON": sys.executable}
        settings |= {"spark.master": f"local-cluster[{asked.executors},1,1024]", **LOOPBACK}
    spark = build_session(asked.name, **settings)
    measured = CONTENDERS[asked.name](spark, asked)
    runtime = spark._jvm.java.lang.Runtime.getRuntime()  # type: ignore[union-attr]
    spark._jvm.java.lang.System.gc()  # type: ignore[union-attr]
    held = runtime.totalMemory() - runtime.freeMemory()
    driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({**asdict(measured), "peak": memory.peak, "heap": held, "driver": driver}))


if __name__ == "__main__":
    main()
