"""Stores that have grown large: `python -m bench.scale keys|log --events N --work FOLDER`.

`keys`: as many keys as events, in one window of a day that stays open, a million in a batch; then small batches; then
two events, of which the second closes the window.
`log`: a store whose log names as many events as asked, in files of a million rows that nothing is in and nobody reads;
then small batches.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, Transaction
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.usage import Memory
from latecomer.config.models import Event, Pipeline
from latecomer.config.operation import Upkeep
from latecomer.config.outputs import Output
from latecomer.config.sources import Files, Source
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.running import run
from latecomer.model.strategies import Bounded
from latecomer.spark.session import build_session
from latecomer.store.delta.tables import actions_for, files_of, open_delta

ROWS = 1_000_000
"""In a large batch, and in a file of the synthetic log: as many as a merged file has."""
SMALL, SMALL_ROWS = 20, 100
"""Small batches, and the events in one."""
COLUMNS = {"event_time": "string", "key": "string", "paise": "bigint"}
START = 1_770_000_000_000_000
MINUTE = 60 * 1000
"""Events of a minute."""
CLOSING = 2 * 24 * 60 * MINUTE
"""The number of an event that comes two days after the first: that window closes for good."""


def pipeline_of(source: Path, store: Path) -> Pipeline:
    return Pipeline(
        name="scale",
        store=str(store),
        source=Source(
            files=Files(path=str(source), order_by="event_time", max_files_per_batch=1), columns=COLUMNS
        ),
        event=Event(time="event_time"),
        watermark=Bounded("30s"),
        upkeep=Upkeep(every=None),
        outputs={
            "daily": Output(
                window={"tumbling": "1d"},
                by=["key"],
                aggregates={"paise": "sum(paise)", "payments": "count(*)"},
                allowed_lateness="1d",
            )
        },
        ledger=("paise",),
    )


def write(spark: SparkSession, source: Path, first: int, count: int, keys: int) -> None:
    """Add a file of events, a millisecond apart, with keys that look like hashes, a new one each as far as they go."""
    number = F.col("id")
    moment = F.timestamp_micros(F.lit(START) + number * 1000)
    event = {
        "event_time": F.date_format(moment, "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"),
        "key": F.md5((number % keys).cast("string")),
        "paise": F.pmod(number * 7919, F.lit(50_000)),
    }
    made = source / f"made-{first:012}"
    rows = spark.range(first, first + count, 1, 1).select(*(each.alias(name) for name, each in event.items()))
    rows.select(F.to_json(F.struct("*"))).write.text(str(made))
    (part,) = made.glob("part-*")
    part.rename(source / f"{first:012}.json")
    for each in made.iterdir():
        each.unlink()
    made.rmdir()


def batches(spark: SparkSession, pipeline: Pipeline) -> dict[str, Any]:
    """Take in the files that are new; the seconds of each batch, and of all of it."""
    seconds: list[float] = []

    def watch(report: BatchReport) -> None:
        seconds.append(report.seconds)

    began = time.monotonic()
    run(pipeline, once=True, spark=spark, watch=watch)
    return {"batches": seconds, "seconds": time.monotonic() - began}


def keys(spark: SparkSession, asked: argparse.Namespace) -> dict[str, Any]:
    """As many open keys as events; at last, all of them close in one batch."""
    source = asked.work / "events"
    source.mkdir()
    pipeline = pipeline_of(source, asked.work / "store")
    memory = Memory()
    for first in range(0, asked.events, ROWS):
        write(spark, source, first, min(ROWS, asked.events - first), asked.events)
    large = batches(spark, pipeline)
    small = _small(spark, source, pipeline, asked.events)
    partials = asked.work / "store" / "outputs" / "daily" / "partials"
    size = sum(each.stat().st_size for each in partials.rglob("*.parquet"))
    peak, memory = memory.stop(), Memory()
    for at in (CLOSING, CLOSING + MINUTE):  # the watermark follows the first once its tick is over
        write(spark, source, at, 1, asked.events)
    closing = batches(spark, pipeline)
    return {
        "large": large,
        "small": small,
        "closing": {**closing, "peak": memory.stop()},
        "bytes a key": size / asked.events,
        "peak": peak,
    }


def log(spark: SparkSession, asked: argparse.Namespace) -> dict[str, Any]:
    """As many events in the log as asked; before that, the same batches over an empty one."""
    source = asked.work / "events"
    source.mkdir()
    pipeline = pipeline_of(source, asked.work / "store")
    before = _small(spark, source, pipeline, 0)
    table = asked.work / "store" / "events"
    delta = open_delta(table)
    pattern = files_of(delta)[0]
    synthetic = [
        replace(pattern, path=f"data/synthetic/{nth}.parquet", rows=ROWS)
        for nth in range(asked.events // ROWS)
    ]
    (table / "data" / "synthetic").mkdir()
    for each in synthetic:  # empty, but as long as the table says
        with (table / each.path).open("wb") as file:
            file.truncate(each.size)
    delta.create_write_transaction(
        actions_for(synthetic, (), data_change=True),
        "append",
        delta.schema(),
        commit_properties=CommitProperties(app_transactions=[Transaction("synthetic", 0)]),
    )
    after = _small(spark, source, pipeline, SMALL * SMALL_ROWS)
    return {"empty": before, "full": after, "files": len(files_of(open_delta(table)))}


def _small(spark: SparkSession, source: Path, pipeline: Pipeline, first: int) -> dict[str, Any]:
    """Batches of a few events with keys that are known, by a run of their own."""
    for nth in range(SMALL):
        write(spark, source, first + nth * SMALL_ROWS, SMALL_ROWS, max(first, SMALL_ROWS))
    return batches(spark, pipeline)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["keys", "log"])
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    spark = build_session("scale", None, **{"spark.driver.memory": "3g"})
    memory = Memory()
    found = {"keys": keys, "log": log}[asked.what](spark, asked)
    driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"peak": memory.stop(), **found, "driver": driver}))


if __name__ == "__main__":
    main()
