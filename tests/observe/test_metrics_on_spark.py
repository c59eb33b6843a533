"""Metrics of a real run, read while it follows its source: they say what the ledger, the tables and the sinks say."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cli.cli_kit import Cli
from latecomer import (
    Bounded,
    Output,
    Pipeline,
    Reader,
    Tumbling,
    check_alerts,
    load_pipeline,
    plan_rebuild,
    run,
)
from latecomer.engine.rebuilds import publish_rebuild_now
from latecomer.model.oracle.arrivals import Arrival
from latecomer.observe import figures
from latecomer.observe.figures import Figures
from latecomer.observe.history import HOUR, PipelineHistory, Sums
from latecomer.observe.inventory import METRICS
from latecomer.observe.metrics_server import ServedMetrics
from latecomer.observe.recorded import read_history
from latecomer.spark.noted import noted_work
from latecomer.store.publications import wall_clock
from observe.observe_kit import Samples, get, read, samples, value
from spark_kit import Bench

FILE = """
name: live
store: ./lake
source:
  files: {path: "in/*.json", order_by: a}
  schema: {t: timestamp, a: timestamp, k: string, v: bigint}
event: {time: t, partition: k}
watermark: {delay: 30s}
ledger: [v]
alerts: {lag: 1m}
outputs:
  totals:
    window: {tumbling: 1m}
    by: [k]
    aggregates: {n: count(*), v: sum(v)}
    allowed_lateness: 5m
    late: update
    sinks: [{sqlite: results.db}]
"""
NOW = datetime.now(UTC).replace(microsecond=0)
NOON, SECOND = 1_777_118_400_000_000, 1_000_000


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    (tmp_path / "in").mkdir()
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE, encoding="utf-8")
    return load_pipeline(file)


def land(pipeline: Pipeline, name: str, *rows: tuple[int, int, str]) -> None:
    """Events by event time and arrival, in seconds before now, and partition."""
    lines = [
        json.dumps(
            {
                "t": (NOW - timedelta(seconds=event)).isoformat(),
                "a": (NOW - timedelta(seconds=arrival)).isoformat(),
                "k": k,
                "v": 1,
            }
        )
        for event, arrival, k in rows
    ]
    hidden = pipeline.base / "in" / f".{name}"
    hidden.write_text("\n".join([*lines, "no event\n"]), encoding="utf-8")
    hidden.rename(pipeline.base / "in" / name)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.5)


def test_a_run_is_read_while_it_follows(
    spark: SparkSession, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "EVERY_SECONDS", 0.5)
    monkeypatch.setattr(figures, "TRENDS_EVERY", 0)
    land(pipeline, "0.json", (600, 599, "a"), (590, 588, "b"), (480, 479, "a"), (470, 400, "b"))
    stop, failed = threading.Event(), []

    def follow(served: ServedMetrics) -> None:
        try:
            run(pipeline, spark=spark, stop=stop, watch=served.figures.batch, begin=served.figures.begin)
        except BaseException as error:
            failed.append(error)

    with ServedMetrics(pipeline, "127.0.0.1", 0) as served:

        def now() -> Samples:
            return samples(get(served.url)[1])

        runs = threading.Thread(target=follow, args=(served,))
        runs.start()
        try:
            until(lambda: bool(failed) or value(now(), "rows_total") == 5)
            # Late for a window that has closed, and too late for all of them.
            land(pipeline, "1.json", (595, 390, "a"), (9000, 389, "a"), (380, 380, "a"), (370, 370, "b"))
            until(lambda: bool(failed) or value(now(), "rows_total") == 10)
            until(lambda: bool(failed) or value(now(), "sink_batches_behind", sink=SINK, kind="sqlite") == 0)
            assert get(served.url.replace("/metrics", "/readyz"))[0] == 200
        finally:
            stop.set()
            runs.join()
        found = now()  # from here on no heartbeat publishes anything
    assert not failed
    agrees(found, pipeline)
    assert value(found, "lateness_seconds_count") == 8, "dead letters have no event time"
    assert value(found, "lateness_seconds_bucket", le="1.0") == 4
    assert value(found, "lateness_seconds_bucket", le="+Inf") == 8
    assert value(found, "sink_down", sink=SINK, kind="sqlite") == 0
    assert value(found, "backfill_under_way", kind="history") == 1, (
        "this store is minutes old, and far behind"
    )
    assert value(found, "store_files", table="events") >= 1
    for stage in ("log", "timeline", "windowing", "firing", "ledger"):
        assert value(found, "batch_seconds_sum", stage=stage) > 0, stage
    jobs, tasks = value(found, "spark_jobs_total"), value(found, "spark_tasks_total")
    assert jobs >= 2, "Spark has run each batch"
    assert tasks >= jobs
    assert value(found, "spark_task_seconds_total") > 0
    assert value(found, "spark_rows_total") > 0
    noted = noted_work(pipeline.store_path)
    assert (noted.runs, noted.last.jobs, noted.last.tasks) == (1, jobs, tasks)
    assert noted.last.rows == value(found, "spark_rows_total")
    lag = value(found, "watermark_lag_seconds")
    assert lag == pytest.approx(time.time() - value(found, "watermark_timestamp_seconds"), abs=30)
    lags = {name: value(found, "partition_watermark_lag_seconds", partition=name) for name in ("a", "b")}
    assert lag == pytest.approx(max(lags.values())), "the slowest partition decides"
    assert value(found, "partition_holds_watermark", partition=max(lags, key=lags.__getitem__)) == 1
    served_names = {name for name, _ in found}
    for metric in METRICS:
        if metric.name not in RARE:
            assert any(name.startswith(f"latecomer_{metric.name}") for name in served_names), metric.name


SINK = "outputs.totals.sinks.0"
RARE = {
    "source_unread_rows",
    "corrections_growth_ratio",
    "side_output_baseline_ratio",
    "upkeep_timestamp_seconds",
    "lease_held",
    "lease_token",
    "lease_taken_timestamp_seconds",
    "lease_renewal_age_seconds",
}
"""What files do not tell, what takes days to know, and what only a store with a lease has."""


def agrees(found: Samples, pipeline: Pipeline) -> None:
    """The metrics have what the store has."""
    reader = Reader(pipeline)
    (line,) = [row for row in reader.ledger_totals().to_pylist() if row["unit"] == "events"]
    for fate in (
        "on_time",
        "late_accepted",
        "side_output",
        "dropped",
        "duplicate",
        "filtered",
        "dead_letter",
    ):
        assert value(found, "events_total", output="totals", fate=fate) == line[fate], fate
    assert value(found, "received_total", output="totals") == line["received"] == 10
    assert line["side_output"] == 1
    assert line["late_accepted"] == 1
    panes = reader.panes("totals").to_pylist()
    for timing in ("ON_TIME", "LATE"):
        for op in ("insert", "retract"):
            expected = sum((pane["timing"], pane["op"]) == (timing, op) for pane in panes)
            assert value(found, "panes_total", output="totals", timing=timing, op=op) == expected, (
                timing,
                op,
            )
    assert value(found, "corrections_total", output="totals", kind="late_pane") == 1
    assert value(found, "last_batch") == reader.batches() - 1
    timeline = reader.timeline()
    assert timeline is not None
    assert value(found, "watermark_timestamp_seconds") * 1_000_000 == pytest.approx(timeline.watermark)
    for unit in ("events", "assignments", "v"):
        assert value(found, "ledger_difference", output="totals", unit=unit) == 0


def test_the_verb_serves_while_it_runs(
    spark: SparkSession, pipeline: Pipeline, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(pipeline, "0.json", (600, 599, "a"), (480, 479, "a"))
    seen: list[Samples] = []
    counted = Figures.batch

    def batch(figures: Figures, report: object) -> None:
        counted(figures, report)  # type: ignore[arg-type]
        url = next(each.url for each in kept)
        seen.append(samples(get(url)[1]))

    kept: list[ServedMetrics] = []
    entered = ServedMetrics.__enter__
    monkeypatch.setattr(ServedMetrics, "__enter__", lambda each: (kept.append(each), entered(each))[1])
    monkeypatch.setattr(Figures, "batch", batch)
    said = cli("run", pipeline.base / "pipeline.yaml", "--once", "--metrics", "0")
    assert said.status == 0, said.err
    assert "metrics: http://127.0.0.1:" in said.err
    assert re.fullmatch(
        r"Spark ran \d+ jobs? with \d+ tasks?, which read [\d,]+ rows? and took [\d.]+ s",
        said.err.splitlines()[-1],
    )
    assert value(seen[-1], "rows_total") == 3
    with pytest.raises(OSError, match="refused"):
        get(kept[0].url)


def test_a_rebuild_counts_as_corrections(spark: SparkSession, tmp_path: Path) -> None:
    def paid(second: int, came: int) -> Arrival:
        return Arrival(NOON + second * SECOND, NOON + came * SECOND, payload={"paise": 1})

    output = Output(window=Tumbling("1m"), aggregates={"paise": "sum(paise)"}, late="side_output")
    bench = Bench(
        spark, tmp_path, Bounded("1s"), {"one": output}, {"paise": "bigint"}, measures=(), ids=False
    )
    engine = bench.engine()
    shown = Figures(bench.pipeline)
    shown.begin(engine)
    engine.watch = shown.batch
    try:
        engine.data(0, bench.write(0, [paid(5, 5), paid(200, 200), paid(10, 210)]))
        publish_rebuild_now(engine, plan_rebuild(bench.pipeline, "one", last="4m", spark=spark))
        found = read(shown)
    finally:
        engine.close()
        shown.close()
    assert value(found, "events_total", output="one", fate="side_output") == 1
    assert value(found, "corrections_total", output="one", kind="rebuilt") == 1
    assert value(found, "corrections_total", output="one", kind="late_pane") == 0
    assert value(found, "backfill_under_way", kind="rebuild") == 1
    assert value(found, "batches_total", kind="rebuild") == 1

    # The store alone says the same.
    history = PipelineHistory()
    now = wall_clock()
    for output, at, sums in read_history(engine.store, now, engine.last):
        history.add(output, at, sums)
    assert history.total("one", now - HOUR, now + HOUR) == Sums(received=3, side_output=1, rebuilt=1)
    states = {row["alert"]: row["state"] for row in check_alerts(bench.pipeline).to_pylist()}
    assert states["ledger"] == "ok"
