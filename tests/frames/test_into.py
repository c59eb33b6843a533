"""Batches of a user's own streaming query, handed in by `latecomer.into`: each exactly once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import latecomer
from frames.frames_kit import PIPELINE, drop, left, query_into, stream_of, tap, taps_of, write_pipeline
from latecomer import frames
from latecomer.engine.running import run
from latecomer.store.holding.lock import holder_of

FILES = PIPELINE.replace(
    "{dataframe: {order_by: came}}", "{files: {path: in, order_by: came, max_files_per_batch: 1}}"
)


def test_a_query_leaves_what_a_run_over_the_same_files_leaves(tmp_path: Path, spark: SparkSession) -> None:
    """Late, again, too late: every row has the fate that it has when the rows are read as files."""
    for nth, rows in enumerate(taps_of()):
        drop(tmp_path / "in", str(nth), rows)
        time.sleep(0.01)  # they are read in the order in which they were written
    by_files = write_pipeline(tmp_path / "files", FILES.replace("path: in", f"path: {tmp_path / 'in'}"))
    run(latecomer.load_pipeline(by_files), once=True, spark=spark)
    handed_in = write_pipeline(tmp_path / "handed")
    sink = latecomer.into(handed_in)
    with query_into(stream_of(spark, tmp_path / "in"), sink, tmp_path / "checkpoint") as query:
        query.processAllAvailable()
        assert left(handed_in) == left(by_files)
        assert sink.progress is not None
        assert sink.progress["rows"] == 13
    assert left(handed_in)["late"]  # so that this compares something


def test_a_batch_that_spark_repeats_is_not_counted_twice(tmp_path: Path, spark: SparkSession) -> None:
    """The process dies after our commit and before Spark's: Spark hands the same batch in again."""
    drop(tmp_path / "in", "0", taps_of()[0])
    file, stream = write_pipeline(tmp_path), stream_of(spark, tmp_path / "in")
    sink = latecomer.into(file)

    def fails_afterwards(frame: DataFrame, batch: int) -> None:
        sink(frame, batch)
        raise RuntimeError("the power went")

    writer = stream.writeStream.foreachBatch(fails_afterwards)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(StreamingQueryException, match="the power went"):
        query.processAllAvailable()
    sink.close()
    once = left(file)
    with query_into(stream, latecomer.into(file), tmp_path / "checkpoint") as query:
        query.processAllAvailable()
        assert left(file) == once
        drop(tmp_path / "in", "1", taps_of()[1])
        query.processAllAvailable()
    assert sum(row["received"] for row in left(file)["ledger"] if row["unit"] == "events") == 23


def test_another_checkpoint_is_another_query(tmp_path: Path, spark: SparkSession) -> None:
    """Its batches are counted from 0 again, and are taken in; what has an id is a duplicate then."""
    drop(tmp_path / "in", "0", taps_of()[0])
    file, stream = write_pipeline(tmp_path), stream_of(spark, tmp_path / "in")
    for checkpoint in ("one", "two"):
        with query_into(stream, latecomer.into(file), tmp_path / checkpoint) as query:
            query.processAllAvailable()
    assert [row["duplicate"] for row in left(file)["ledger"] if row["unit"] == "events"] == [0, 10]


def test_the_store_is_let_go_when_the_query_ends(tmp_path: Path, spark: SparkSession) -> None:
    """Whatever session is the active one."""
    drop(tmp_path / "in", "0", taps_of()[0])
    file = write_pipeline(tmp_path)
    writer = stream_of(spark.newSession(), tmp_path / "in").writeStream.foreachBatch(latecomer.into(file))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    query.processAllAvailable()
    assert holder_of(tmp_path / "store") is not None
    query.stop()
    _wait_until(lambda: holder_of(tmp_path / "store") is None)
    assert not frames._OPEN


def test_a_query_may_be_stopped_during_a_batch(tmp_path: Path, spark: SparkSession) -> None:
    """Spark takes it for what it is, and the batch is handed in again."""
    drop(tmp_path / "in", "0", taps_of()[0])
    sink, begun = latecomer.into(write_pipeline(tmp_path)), threading.Event()

    def is_stopped(frame: DataFrame, batch: int) -> None:
        begun.set()
        _wait_until(lambda: not query.isActive)
        sink(frame.withColumn("paise", F.raise_error(F.lit("cancelled")).cast("bigint")), batch)

    stream = stream_of(spark, tmp_path / "in")
    writer = stream.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.foreachBatch(is_stopped).start()
    assert begun.wait(60)
    query.stop()
    assert query.exception() is None
    with query_into(stream, sink, tmp_path / "checkpoint") as query:
        query.processAllAvailable()
    ledger = left(tmp_path / "pipeline.yaml")["ledger"]
    assert [row["received"] for row in ledger if row["unit"] == "events"] == [10]


@pytest.mark.long
def test_silence_closes_windows_while_the_query_finds_nothing(tmp_path: Path, spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "300")
    drop(tmp_path / "in", "0", [tap(1, 0, 0), tap(2, 30, 1)])
    text = PIPELINE.replace("{order_by: came}", "{}").replace("delay: 10s", "delay: 0s, idle_after: 2s")
    file = write_pipeline(tmp_path, text)
    sink = latecomer.into(file)
    with query_into(stream_of(session, tmp_path / "in"), sink, tmp_path / "checkpoint") as query:
        query.processAllAvailable()
        assert left(file)["results"] == []
        # The last event was 30 s before the end of its window: so long does the arrival clock have to go on.
        receiver = next(iter(frames._OPEN.values()))
        receiver._intake.quiet_since -= 40
        _wait_until(lambda: len(left(file)["results"]) == 1)


def test_two_queries_are_two_sources_of_one_store(tmp_path: Path, spark: SparkSession) -> None:
    columns = "{id: bigint, at: timestamp, came: timestamp, shop: string, paise: bigint}"
    named = [f"  {name}: {{dataframe: {{order_by: came}}, schema: {columns}}}" for name in ("app", "web")]
    text = PIPELINE.replace("source: {dataframe: {order_by: came}}", "\n".join(["sources:", *named]))
    for name, late in (("app", 0), ("web", 5)):
        drop(tmp_path / name, "0", [tap(late + 1, late, late), tap(late + 2, 70, 70), tap(late + 3, 90, 90)])
    pipeline = latecomer.load_pipeline(write_pipeline(tmp_path, text))
    app, web = (latecomer.into(pipeline, source=name) for name in ("app", "web"))
    with (
        query_into(stream_of(spark, tmp_path / "app"), app, tmp_path / "1") as first,
        query_into(stream_of(spark, tmp_path / "web"), web, tmp_path / "2") as second,
    ):
        first.processAllAvailable()
        second.processAllAvailable()
        drop(tmp_path / "app", "1", [tap(11, 100, 100)])  # the arrival clock goes on
        first.processAllAvailable()
    rows = latecomer.Reader(pipeline).results("minutes").to_pylist()
    assert [(row["shop"], row["taps"]) for row in rows] == [("a", 2)]


def test_the_session_of_the_user_stays_as_it_is(tmp_path: Path, spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    session.range(3).createOrReplaceTempView("mine")

    def state() -> tuple[object, ...]:
        described = session.sparkContext.getLocalProperty("spark.job.description")
        views = session.sql("show views").collect()
        return dict(session.conf.getAll), views, described, session.sparkContext.pythonExec  # type: ignore[attr-defined]

    before = state()
    seen = []
    drop(tmp_path / "in", "0", taps_of()[0])
    sink = latecomer.into(write_pipeline(tmp_path))

    def within(frame: DataFrame, batch: int) -> None:
        context = frame.sparkSession.sparkContext
        described = context.getLocalProperty("spark.job.description")
        sink(frame, batch)
        seen.append(described == context.getLocalProperty("spark.job.description") is not None)

    writer = stream_of(session, tmp_path / "in").writeStream.foreachBatch(within)
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()
        sink.close()
    assert seen == [True]
    assert state() == before


@pytest.mark.long
@pytest.mark.parametrize(
    "settings",
    [
        {"spark.sql.session.timeZone": "America/St_Johns", "spark.sql.ansi.enabled": "false"},
        {"spark.sql.caseSensitive": "true", "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS"},
    ],
    ids=["zone and no ANSI", "case and milliseconds"],
)
def test_settings_of_the_session_change_no_number(
    tmp_path: Path, spark: SparkSession, settings: dict[str, str]
) -> None:
    found = []
    for name, chosen in (("plain", dict[str, str]()), ("other", settings)):
        session = spark.newSession()
        for key, value in chosen.items():
            session.conf.set(key, value)
        rows = [row for batch in taps_of(3) for row in batch]
        drop(tmp_path / name / "in", "0", rows)
        frame = session.read.schema(
            "id bigint, at timestamp, came timestamp, shop string, paise bigint"
        ).json(str(tmp_path / name / "in"))
        file = write_pipeline(tmp_path / name)
        latecomer.append(file, frame, drain=True)
        found.append(left(file))
    assert found[0] == found[1]
    assert found[0]["results"]


def test_what_cannot_be_handed_in(tmp_path: Path, spark: SparkSession) -> None:
    file = write_pipeline(tmp_path)
    with pytest.raises(latecomer.LatecomerError, match="is for foreachBatch of a streaming query"):
        latecomer.into(file)(spark.range(1), 0)
    with pytest.raises(latecomer.LatecomerError, match=r"with Spark Connect that is the server"):
        cloudpickle.dumps(latecomer.into(file))
    with pytest.raises(latecomer.PipelineError, match=r"write source: \{dataframe: \{\}\}"):
        latecomer.into(write_pipeline(tmp_path / "files", FILES))
    with pytest.raises(latecomer.PipelineError, match="names no source of the pipeline"):
        latecomer.into(file, source="app")
    with pytest.raises(latecomer.PipelineError, match="is a stream"):
        latecomer.append(file, spark.readStream.format("rate").load())
    with pytest.raises(latecomer.PipelineError, match="a run cannot follow it"):
        latecomer.run(latecomer.load_pipeline(file), spark=spark)
    with pytest.raises(latecomer.SourceError, match="no DataFrame was handed in yet"):
        latecomer.run(latecomer.load_pipeline(file), once=True, spark=spark)


def test_a_frame_with_other_columns_is_refused_and_nothing_of_it_is_kept(
    tmp_path: Path, spark: SparkSession
) -> None:
    file = write_pipeline(tmp_path)
    frame = spark.sql(
        "select 1L id, timestamp'2026-01-01 00:00:00Z' at, timestamp'2026-01-01 00:00:01Z' came"
    )
    with pytest.raises(latecomer.PipelineError, match=r"outputs\.minutes\.by"):
        latecomer.append(file, frame)
    whole = frame.withColumns({"shop": F.lit("a"), "paise": F.lit(1).cast("bigint")})
    latecomer.append(file, whole)
    with pytest.raises(latecomer.SourceError, match="column paise is string, pinned as bigint"):
        latecomer.append(file, whole.withColumn("paise", F.lit("one")))
    assert not list((tmp_path / "store" / "inbox").glob("*.parquet"))
    assert latecomer.append(file, whole.withColumn("id", F.lit(2).cast("bigint"))).batches == 2


def _wait_until(is_so: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)
