"""Frames as people have them: without rows, without columns, with odd names and odd moments."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import latecomer
from frames.frames_kit import PIPELINE, drop, left, query_into, stream_of, tap, write_pipeline
from latecomer.store.store import open_store


def test_the_first_batch_of_a_query_may_be_empty(tmp_path: Path, spark: SparkSession) -> None:
    """That of `rate` always is. Its columns are known from then on, and what is wrong with them is said at once."""
    drop(tmp_path / "in", "0", [tap(1, 0, 0, shop="closed")])
    stream = stream_of(spark, tmp_path / "in").where("shop <> 'closed'")
    file = write_pipeline(tmp_path)
    with query_into(stream, latecomer.into(file), tmp_path / "checkpoint") as query:
        query.processAllAvailable()
        assert not list((tmp_path / "store" / "inbox").rglob("*.parquet"))
        drop(tmp_path / "in", "1", [tap(2, 0, 0), tap(3, 80, 80)])
        query.processAllAvailable()
        drop(tmp_path / "in", "2", [tap(4, 90, 90)])
        query.processAllAvailable()
        assert len(left(file)["results"]) == 1
    with pytest.raises(latecomer.PipelineError, match=r"outputs\.minutes\.by"):
        latecomer.append(
            write_pipeline(tmp_path / "other", PIPELINE.replace("by: [shop]", "by: [town]")),
            spark.read.schema("id bigint, at timestamp, came timestamp, paise bigint").json([]),
        )


def test_a_stream_of_the_rate_source(tmp_path: Path, spark: SparkSession) -> None:
    """Its rows arrive when they are handed in, where no column says when they came."""
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    frame = rate.selectExpr(
        "value as id", "timestamp_seconds(1794146400 + value) as at", "'a' as shop", "1L as paise"
    )
    file = write_pipeline(tmp_path, PIPELINE.replace("{order_by: came}", "{}"))
    sink = latecomer.into(file)
    with query_into(frame, sink, tmp_path / "checkpoint", availableNow=True) as query:
        query.awaitTermination()
    events = open_store(latecomer.load_pipeline(file)).events
    (found,) = events.query("select count(*) as rows, count(distinct event_id) as ids from t").to_pylist()
    assert found == {"rows": 10, "ids": 10}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("", "cannot be taken in.* at least one"),
        ("1L id, 'a' shop, 'b' shop", "has a column shop twice"),
        ("1L id, 'a' `shop.city`, struct('b' as city) shop", r"has a column shop\.city twice"),
    ],
    ids=["no columns", "two of one name", "a field and a column"],
)
def test_frames_that_no_table_can_hold(
    tmp_path: Path, spark: SparkSession, columns: str, message: str
) -> None:
    frame = spark.sql(f"select {columns}") if columns else spark.range(3).select()
    with pytest.raises(latecomer.SourceError, match=message):
        latecomer.append(write_pipeline(tmp_path), frame)
    assert not list((tmp_path / "store").rglob("*.parquet"))


def test_a_later_frame_without_the_event_time_is_refused(tmp_path: Path, spark: SparkSession) -> None:
    """All of its rows would be dead letters. Names differ by their capitals, too."""
    file = write_pipeline(tmp_path)
    frame = spark.sql(
        "select 1L id, timestamp'2026-01-01 00:00:00Z' at, timestamp'2026-01-01 00:00:01Z' came, 'a' shop, 1L paise"
    )
    latecomer.append(file, frame)
    for other in (frame.drop("at"), frame.withColumnRenamed("at", "At")):
        with pytest.raises(latecomer.SourceError, match="has no column at, which is the event time"):
            latecomer.append(file, other)
