"""What is published without any new event, at the far end of the calendar: nothing is left waiting after a drain."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from pyspark.sql import SparkSession

from after.story.story_kit import PIPELINE, new_story, second, shown
from latecomer.after.reading.reader import Reader
from latecomer.config.outputs import Output
from latecomer.engine.without_data import heartbeat
from latecomer.log.timeline.keeper import Section, WatermarkRise
from latecomer.model.durations import to_micros
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.model.timeline import TimelineRow
from latecomer.model.verdicts import END_OF_TIME
from latecomer.spark.base import InProcess
from latecomer.store.delta.data_files import DataFile
from latecomer.store.private_columns import SINCE
from latecomer.store.store import open_store
from latecomer.windowing.firing.clocks import settled_at, settled_by
from latecomer.windowing.firing.job import FiringJob, OutputNeeds, may_fire
from latecomer.windowing.firing.merge_bucket import merge_bucket
from latecomer.windowing.firing.output import FiringBatch
from latecomer.windowing.firing.session_output import output_logic
from latecomer.windowing.private_columns import PaneLane
from spark_kit import Bench

WINDOW_END = datetime(9997, 12, 31, tzinfo=UTC)
LATER = to_micros(datetime(9998, 12, 31, tzinfo=UTC))
NOTHING: Any = None


def output(window: dict[str, str]) -> Output:
    """Late events may come for longer than the calendar lasts, and are published ten at a time."""
    return Output(
        window=window,
        by=("key",),
        aggregates={"rows": "count(*)"},
        allowed_lateness="1200d",
        late="update",
        trigger={"late": {"count": 10}},
    )


def reaching(watermark: int) -> Section:
    return Section([(1, TimelineRow(0, 0, watermark))])


@pytest.mark.parametrize("window", [{"tumbling": "1m"}, {"session": "30s"}])
@pytest.mark.parametrize(("watermark", "publishes"), [(LATER, False), (END_OF_TIME, True)])
def test_late_events_that_wait_are_published_when_time_ends(
    window: dict[str, str], watermark: int, publishes: bool
) -> None:
    bounds = {"window_end": WINDOW_END}
    file = DataFile(f"data/000000000000-0a-{PaneLane.WAITING}/part.parquet", 1, 1, bounds, bounds)
    assert may_fire(output(window), NOTHING, file, reaching(watermark)) is publishes


@pytest.mark.parametrize("per", [{}, {"per": "batch"}])
@pytest.mark.parametrize(("seconds", "publishes"), [(59, False), (61, True)])
def test_an_early_pane_fires_in_silence_when_its_clock_has_passed(
    per: dict[str, str], seconds: int, publishes: bool
) -> None:
    window_end = {"window_end": WINDOW_END}
    file = DataFile("data/000000000000-0a/part.parquet", 1, 1, window_end, {**window_end, SINCE: 3})
    made = Output(
        window={"tumbling": "1d"},
        by=("key",),
        aggregates={"rows": "count(*)"},
        trigger={"early": {"every": "1m", **per}},
    )
    section = Section([(1, TimelineRow(0, seconds * 1_000_000, 0))], before=WatermarkRise(0, 1))
    assert may_fire(made, NOTHING, file, section) is publishes


@pytest.mark.parametrize(("watermark", "closes"), [(LATER, False), (END_OF_TIME, True)])
def test_windows_get_their_closing_pane_when_time_ends(tmp_path: Path, watermark: int, closes: bool) -> None:
    file = PIPELINE.replace("allowed_lateness: 5m", "allowed_lateness: 1200d\n    trigger: {closing: true}")
    story = new_story(tmp_path, file)
    span = {"window_start": to_micros(WINDOW_END) - 60_000_000, "window_end": to_micros(WINDOW_END)}
    story.panes("totals", 0, [{**shown((0, 60), 0, 100, 1), **span}])
    runner, store = InProcess(NOTHING), open_store(story.pipeline)
    logic = output_logic(runner, store, "totals")
    assert logic.closes
    assert FiringJob(runner, store).would_publish(FiringBatch(1, reaching(watermark)), [logic]) is closes


@pytest.mark.parametrize(("seconds", "files"), [(350, 0), (360, 1)])
def test_panes_are_read_for_closing_ones_only_when_a_window_becomes_final(
    tmp_path: Path, seconds: int, files: int
) -> None:
    file = PIPELINE.replace("allowed_lateness: 5m", "allowed_lateness: 5m\n    trigger: {closing: true}")
    story = new_story(tmp_path, file)
    story.panes("totals", 0, [shown((0, 60), 0, 100, 1)])
    logic = output_logic(InProcess(NOTHING), open_store(story.pipeline), "totals")
    section = Section([(1, TimelineRow(0, 0, second(seconds)))], before=WatermarkRise(second(320), 0))
    assert len(OutputNeeds(logic, FiringBatch(1, section)).closing) == files


@pytest.mark.parametrize(("seconds", "publishes"), [(100, False), (120, True)])
def test_empty_panes_are_known_to_come_without_computing_them(
    tmp_path: Path, seconds: int, publishes: bool
) -> None:
    story = new_story(tmp_path, PIPELINE.replace("late: retract", "late: retract\n    emit_empty: true"))
    story.panes("totals", 0, [shown((0, 60), 0, 100, 1)])
    runner, store = InProcess(NOTHING), open_store(story.pipeline)
    section = Section([(1, TimelineRow(0, 0, second(seconds)))], before=WatermarkRise(second(60), 0))
    job, logic = FiringJob(runner, store), output_logic(runner, store, "totals")
    with patch("latecomer.windowing.firing.job.merge_bucket", side_effect=AssertionError):
        assert job.would_publish(FiringBatch(1, section), [logic]) is publishes


@pytest.mark.parametrize("watermark", [LATER, END_OF_TIME - 1, END_OF_TIME])
def test_windows_have_settled_by_the_watermark_at_which_they_settle(watermark: int) -> None:
    made, ends = output({"tumbling": "1m"}), np.array([to_micros(WINDOW_END), END_OF_TIME - 1, END_OF_TIME])
    assert (watermark >= settled_at(made, ends)).tolist() == (ends <= settled_by(made, watermark)).tolist()


def test_windows_that_close_silently_are_not_tried_at_every_heartbeat(
    spark: SparkSession, tmp_path: Path
) -> None:
    """An output with many open keys would be computed each second, for as long as its source is silent."""
    made = Output(
        window={"tumbling": "10us"},
        aggregates={"rows": "count(*)"},
        trigger={"early": {"count": 1}, "on_time": "if_changed"},
    )
    strategy = Bounded("0us", idle_after="20us", on_idle="advance", every="5us")
    bench = Bench(spark, tmp_path, strategy, {"rows": made}, {}, measures=())
    engine = bench.engine()
    engine.data(0, bench.write(0, [Arrival(3, 100, "a", {}), Arrival(12, 101, "a", {})]))
    engine.await_batch()
    tried: list[int] = []

    def counted(*arguments: Any) -> Any:
        tried.append(at)
        return merge_bucket(*arguments)

    with patch("latecomer.windowing.firing.job.merge_bucket", counted):
        for at in range(110, 200, 10):
            assert not heartbeat(engine, at)
    assert 0 < len(tried) < 5
    engine.data(1, bench.write(1, [Arrival(31, 300, "a", {})]))
    engine.finish()
    engine.close()
    assert [pane["rows"] for pane in Reader(bench.pipeline).panes("rows").to_pylist()] == [1, 1, 1]
