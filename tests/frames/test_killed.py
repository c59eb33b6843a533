"""A user's own query, killed with SIGKILL and started again: Spark's checkpoint and our store agree afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import latecomer
from frames.frames_kit import PIPELINE, drop, left, query_into, stream_of, taps_of, write_pipeline
from latecomer.store.failpoints import VARIABLE
from spark_kit import quick_start

SCRIPT = """
import sys
from pathlib import Path
import latecomer
from frames.frames_kit import stream_of
from pyspark.sql import SparkSession

folder = Path(sys.argv[1])
settings = {"spark.master": "local[1]", "spark.ui.enabled": "false", "spark.driver.memory": "1g"}
spark = SparkSession.builder.config(map=settings).getOrCreate()
writer = stream_of(spark, folder / "in").writeStream.foreachBatch(latecomer.into(folder / "pipeline.yaml"))
query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
query.awaitTermination()
"""
MOMENTS = [
    "inbox.placed@0",
    "inbox.received@0",
    "events.written@0",
    "events.committed@0",
    "watermarks.committed@0",
    "minutes.partials.committed@0",
    "ledger.committed@0",
    "inbox.read@0",
    "inbox.placed@1",
    "inbox.received@1",
    "duplicates.committed@1",
    "events.committed@1",
    "minutes.panes.written@1",
    "publications.committed@1",
    "inbox.read@1",
    "watermarks.committed@2",
    "minutes.panes.committed@2",
    "minutes.late.committed@5",
    "inbox.read@3",
    "inbox.received@5",
]


@pytest.fixture
def undisturbed(tmp_path: Path, spark: SparkSession) -> dict[str, list[object]]:
    return _to_the_end(tmp_path / "undisturbed", spark)


def _to_the_end(folder: Path, spark: SparkSession) -> dict[str, list[object]]:
    """What is left when a query has read everything."""
    file = _prepared(folder)
    sink = latecomer.into(file)
    with query_into(stream_of(spark, folder / "in"), sink, folder / "checkpoint", availableNow=True) as query:
        query.awaitTermination()
    return left(file)


def _prepared(folder: Path) -> Path:
    if not folder.exists():
        for nth, rows in enumerate(taps_of()):
            drop(folder / "in", str(nth), rows)
            os.utime(folder / "in" / f"{nth}.json", (nth + 1, nth + 1))  # the order in which they are read
    return write_pipeline(folder, PIPELINE)


def _killed_at(folder: Path, moment: str) -> int:
    environment = {**os.environ, **quick_start(), "PYTHONPATH": str(Path(__file__).parents[1])}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        env={**environment, VARIABLE: moment},
        capture_output=True,
        timeout=600,
        check=False,
    )
    return ended.returncode


@pytest.mark.long
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment(
    tmp_path: Path, spark: SparkSession, undisturbed: dict[str, list[object]], moment: str
) -> None:
    folder = tmp_path / "killed"
    _prepared(folder)
    assert _killed_at(folder, moment) == -signal.SIGKILL
    assert _to_the_end(folder, spark) == undisturbed
