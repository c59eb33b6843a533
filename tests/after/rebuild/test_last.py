"""`last`: the windows that ended, or that late events came for, within a time before the watermark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.after.rebuild import rebuilding
from latecomer.after.rebuild.ranges import last_windows
from latecomer.config.operation import Schedule
from latecomer.config.outputs import Output
from latecomer.log.progress import LogProgress, Watched
from latecomer.model.durations import UNITS, parse_duration, to_micros
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Calendar, Session, Tumbling
from spark_kit import Bench

HOUR, DAY = UNITS["h"], UNITS["d"]
MIDNIGHT = to_micros(datetime(2026, 11, 7, 18, 30, tzinfo=UTC))
"""The eighth of November begins in Kolkata."""


def bench_of(spark: SparkSession, folder: Path, output: Output, arrivals: list[tuple[float, float]]) -> Bench:
    """A store with events at these hours of the eighth, each with the hour at which it came; drained at no time."""
    bench = Bench(spark, folder, Bounded("1s"), {"one": output}, {}, measures=(), ids=False)
    engine = bench.engine()
    rows = [Arrival(_hour(event), _hour(came)) for event, came in arrivals]
    engine.data(0, bench.write(0, rows))
    engine.close()
    return bench


def _hour(hours: float) -> int:
    return MIDNIGHT + round(hours * HOUR)


def counted(**options: object) -> Output:
    return Output.model_validate({"aggregates": {"many": "count(*)"}, **options})


def test_a_nightly_rebuild_catches_the_day_before(spark: SparkSession, tmp_path: Path) -> None:
    """It is two in the morning of the ninth, and an event of the eighth has come at half past one."""
    output = counted(window=Calendar("day", zone="Asia/Kolkata"))
    bench = bench_of(spark, tmp_path, output, [(10, 10), (25, 25), (20, 25.5), (26, 26)])
    since, until = last_windows(bench.pipeline, "one", DAY)
    assert since == MIDNIGHT
    plan = rebuilding.plan(bench.pipeline, "one", since, until, spark=spark)
    assert (plan.record.counts["changed"], plan.record.counts["computed"]) == (1, 1)
    assert plan.record.seconds > 0


@pytest.mark.parametrize("policy", [{}, {"late": "drop"}])
def test_windows_that_late_events_came_for_are_meant_too(
    spark: SparkSession, tmp_path: Path, policy: dict[str, str]
) -> None:
    output = counted(window=Tumbling("1h"), **policy)
    bench = bench_of(spark, tmp_path, output, [(1.5, 1.5), (9.5, 9.5), (1.6, 9.6), (10, 10)])
    assert last_windows(bench.pipeline, "one", HOUR)[0] == _hour(1.5)
    # It came longer ago than that: only what has ended since counts. The watermark is that of the last event but one.
    assert last_windows(bench.pipeline, "one", HOUR // 4)[0] == _hour(8.5)


def test_sessions_are_meant_as_they_touch_the_range(spark: SparkSession, tmp_path: Path) -> None:
    bench = bench_of(spark, tmp_path, counted(window=Session("10m")), [(1, 1), (9, 9), (10, 10)])
    since, until = last_windows(bench.pipeline, "one", HOUR)
    assert until - since == HOUR


@pytest.mark.parametrize(
    ("written", "pause"),
    [
        ({"cron": "0 2 * * *"}, "1d"),
        ({"cron": "0 2 * * 1-5"}, "3d"),
        ({"cron": "15,45 8-18 * * *"}, "13h30m"),
        ({"cron": "0 2 1 * *"}, "31d"),
        ({"cron": "0 2 1 * 1"}, "7d"),
        ({"cron": "0 2 29 2 *"}, "1464d"),
        ({"every": "15m"}, "15m"),
        ({"every": "6h"}, "6h"),
        ({"every": "1d"}, "1d"),
    ],
)
def test_the_longest_pause_of_a_schedule(written: dict[str, str], pause: str) -> None:
    assert Schedule(last="1h", **written).longest_pause() == parse_duration(pause)


def test_a_plan_that_was_published_is_not_published_again(spark: SparkSession, tmp_path: Path) -> None:
    bench = bench_of(spark, tmp_path, counted(window=Tumbling("1h")), [(1, 1), (9, 9), (1.1, 9.1), (10, 10)])
    plan = rebuilding.plan(bench.pipeline, "one", _hour(0), _hour(9), spark=spark)
    first, again = (rebuilding.apply(bench.pipeline, "one", plan_id=plan.id, spark=spark) for _ in range(2))
    assert (first.batch, first.beside, first.before) == (1, False, False)
    assert (again.batch, again.beside, again.before) == (1, False, True)
    assert first.rebuild.seconds is not None
    assert first.rebuild.seconds >= plan.record.seconds


def test_what_is_left_is_said_of_reading_alone() -> None:
    """It had said "99 %, 0 s left" for as long as it took to compute what changes."""
    found: list[LogProgress] = []
    watched = Watched(100, found.append)
    watched.read(50)
    watched.read(50)
    watched.report(1.0)
    assert [(each.is_read, each.left is None) for each in found] == [
        (False, True),
        (False, False),
        (True, True),
        (False, True),
    ]
