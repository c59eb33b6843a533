"""What users of Spark see of a pipeline where they look: progress, a listener of theirs, Spark's own metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, StreamingQueryListener

import latecomer
from frames.frames_kit import SCHEMA, drop, taps_of, write_pipeline
from latecomer.engine.ledger.report import BatchProgress


class Listening(StreamingQueryListener):
    """A listener as users have it."""

    def __init__(self) -> None:
        self.events: list[QueryProgressEvent] = []

    def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        self.events.append(event)

    def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802


def test_a_run_says_what_its_last_batch_did(tmp_path: Path, spark: SparkSession) -> None:
    report = _appended(tmp_path, spark)
    progress = report.progress
    assert isinstance(progress, BatchProgress)
    assert (progress["batch"], progress["rows"], progress["duplicates"]) == (0, 75, 5)
    assert progress["outputs"]["minutes"]["side_output"] > 0
    assert {"log", "timeline", "windowing", "firing", "ledger"} <= progress["stages"].keys()
    assert json.loads(str(progress)) == progress
    assert progress["watermark"].startswith("2026-11-08T14:0")


def test_progress_is_one_line_in_a_notebook(tmp_path: Path, spark: SparkSession) -> None:
    progress = _appended(tmp_path, spark).progress
    assert progress is not None
    line = progress._repr_html_()
    assert line.startswith("<div>batch 0: 75 rows in ")
    assert "side output" in line
    assert "\n" not in line


def test_a_listener_of_sparks_is_told(tmp_path: Path, spark: SparkSession) -> None:
    listener = Listening()
    _appended(tmp_path, spark, watch=listener)
    _appended(tmp_path, spark, watch=listener)
    first, second = (event.progress for event in listener.events)
    assert (first.batchId, first.numInputRows, first.name) == (0, 75, "taps")
    assert second.batchId == 1
    assert first.id == second.id != first.runId
    assert first.eventTime["watermark"].startswith("2026-11-08")
    assert first.observedMetrics["latecomer"]["minutes_side_output"] > 0
    assert second.observedMetrics["latecomer"]["duplicates"] == 67  # the others are too old to do harm
    assert first.durationMs["log"] >= 0


def test_sparks_metrics_have_the_numbers(tmp_path: Path, spark: SparkSession) -> None:
    """They are set anew by each run, under the names that the first one has registered."""
    for folder in ("one", "two"):
        _appended(tmp_path / folder, spark)
        found = _metrics(spark)
        assert found["latecomer.taps.rows_total"] == 75
        assert found["latecomer.taps.duplicates_total"] == 5
        assert found["latecomer.taps.side_output_total"] > 0
        assert found["latecomer.taps.batch_seconds"] > 0
        assert found["latecomer.taps.lag_seconds"] > 0


def test_a_run_takes_a_listener_too(tmp_path: Path, spark: SparkSession) -> None:
    drop(tmp_path / "in", "0", taps_of()[0])
    text = (write_pipeline(tmp_path).read_text()).replace(
        "{dataframe: {order_by: came}}", "{files: {path: in, order_by: came}}"
    )
    listener = Listening()
    pipeline = latecomer.load_pipeline(write_pipeline(tmp_path, text))
    report = latecomer.run(pipeline, once=True, spark=spark, watch=listener)
    assert [event.progress.numInputRows for event in listener.events] == [10]
    assert report.progress is not None
    assert report.progress["rows"] == 10


def _appended(folder: Path, spark: SparkSession, **options: Any) -> latecomer.RunReport:
    rows = [row for batch in taps_of() for row in batch]
    drop(folder / "in", "0", rows)
    frame = spark.read.schema(SCHEMA).json(str(folder / "in"))
    return latecomer.append(write_pipeline(folder), frame, **options)


def _metrics(spark: SparkSession) -> dict[str, float]:
    """The gauges of Spark's driver, as any reader of its metrics gets them."""
    system = spark._jvm.org.apache.spark.SparkEnv.get().metricsSystem()  # type: ignore[union-attr]
    found = dict[str, float]()
    sources = system.getSourcesByName("AccumulatorSource")
    for nth in range(sources.size()):
        gauges = sources.apply(nth).metricRegistry().getGauges()
        for name in gauges.keySet():
            if str(name).startswith("latecomer."):
                found[str(name)] = float(gauges[name].getValue())
    return found
