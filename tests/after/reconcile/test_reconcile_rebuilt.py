"""What a rebuild has put into the numbers explains no gap, whatever became of it before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from after.reconcile.log_kit import BEGIN, OUTPUTS, PAYLOAD, SECOND, arrivals
from after.reconcile.reconcile_kit import against, csv, gap_of, late, listed, row
from cli.cli_kit import MINUTE, NOON, Lake, at
from latecomer.after.rebuild import rebuilding
from latecomer.after.reconcile.against import Against
from latecomer.after.reconcile.gaps import Reconciliation
from latecomer.after.reconcile.reconcile import reconcile
from latecomer.config.outputs import Output
from latecomer.model.durations import to_moment
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import END_OF_TIME
from latecomer.store.rebuilds import RebuildRecord, Rebuilds
from scenarios import cut
from spark_kit import Bench

REBUILT = {
    **OUTPUTS,
    "visits": Output(
        window={"session": "7s"},
        by=["key"],
        aggregates={"paise": "sum(paise)", "n": "count(*)"},
        late="side_output",
    ),
}


def rebuilt(bench: Bench, output: str, since: int, until: int = END_OF_TIME) -> None:
    """Compute some windows of an output anew, and publish what changed."""
    rebuilding.apply(bench.pipeline, output, since, until, spark=bench.spark)


def ran_on(bench: Bench, number: int, batch: list[Arrival]) -> None:
    engine = bench.engine()
    engine.data(engine.last + 1, bench.write(number, batch))
    engine.close()


@pytest.fixture(scope="module")
def ran(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Four batches; between them some minutes of each output are computed anew, and some of these once more."""
    bench = Bench(spark, tmp_path_factory.mktemp("log"), Bounded("5s"), REBUILT, PAYLOAD)
    first, second, third, fourth = cut(arrivals(280), [70, 70, 70])
    ran_on(bench, 0, first)
    ran_on(bench, 1, second)
    for output in REBUILT:
        rebuilt(bench, output, BEGIN, BEGIN + 120 * SECOND)
    ran_on(bench, 2, third)
    for output in REBUILT:
        rebuilt(bench, output, BEGIN + 60 * SECOND, BEGIN + 240 * SECOND)
    ran_on(bench, 3, fourth)
    return bench


def came(seconds: int, later: int | None = None) -> Arrival:
    """An event, so many seconds after the beginning."""
    return Arrival(BEGIN + seconds * SECOND, BEGIN + (later or seconds) * SECOND, "part", {})


def unexplained(found: Reconciliation) -> dict[str, Any]:
    return {gap.aggregate: gap.unexplained for gap in found.gaps if gap.gap is not None}


@pytest.mark.parametrize("output", REBUILT)
def test_after_rebuilds_every_gap_to_the_log_is_explained_and_no_more(
    ran: Bench, spark: SparkSession, output: str
) -> None:
    found = reconcile(ran.pipeline, output, Against("log"), spark=spark)
    assert found.counts["different"] > 1  # what came since the rebuilds is late for the same windows
    assert found.explained
    assert all(abs(each) < 1e-6 for each in unexplained(found).values())


@pytest.mark.parametrize("output", ["drops", "aside", "updates"])
def test_in_a_range_likewise(ran: Bench, spark: SparkSession, output: str) -> None:
    since, until = (to_moment(BEGIN + minute * MINUTE) for minute in (1, 3))
    found = reconcile(ran.pipeline, output, Against("log"), spark=spark, since=since, until=until)
    assert found.explained
    assert all(abs(each) < 1e-6 for each in unexplained(found).values())


def test_a_false_number_of_a_rebuilt_window_is_not_explained_by_what_is_in_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    """An event was late for two windows, and only one of them is computed anew."""
    outputs = {
        "aside": Output(
            window={"sliding": "2m", "every": "1m"}, aggregates={"n": "count(*)"}, late="side_output"
        ),
        "dropped": Output(window={"tumbling": "1m"}, aggregates={"n": "count(*)"}, late="drop"),
    }
    bench = Bench(spark, tmp_path, Bounded("1s"), outputs, {}, measures=(), ids=False)
    ran_on(bench, 0, [came(60), came(400), came(61, 401)])
    rebuilt(bench, "aside", BEGIN + 60 * SECOND, BEGIN + 120 * SECOND)
    rebuilt(bench, "dropped", BEGIN, BEGIN + 120 * SECOND)
    source = csv(tmp_path, "window_start,n\n2026-11-08T12:00:00Z,2\n2026-11-08T12:01:00Z,3")
    found = reconcile(bench.pipeline, "aside", Against(source))
    assert listed(found, "n", "n_source", "explained") == [(1, 2, True), (2, 3, False)]
    assert (gap_of(found, "n").known["side_output"], gap_of(found, "n").unexplained) == (1, 1)
    source = csv(tmp_path, "window_start,n\n2026-11-08T12:01:00Z,3")
    found = reconcile(bench.pipeline, "dropped", Against(source))
    assert listed(found, "n", "n_source", "explained") == [(2, 3, False)]
    assert gap_of(found, "n").known["dropped"] is None
    assert "how much was dropped is not known for n; --against log shows it" in found.notes


@pytest.mark.parametrize("late", ["side_output", "drop"])
def test_a_session_is_computed_anew_whole(spark: SparkSession, tmp_path: Path, late: str) -> None:
    """A second late event joins a session of the range by way of the first one alone."""
    output = Output(window={"session": "7s"}, aggregates={"n": "count(*)"}, late=late)
    bench = Bench(spark, tmp_path, Bounded("1s"), {"one": output}, {}, measures=(), ids=False)
    ran_on(bench, 0, [came(100), came(300), came(105, 301), came(110, 302)])
    rebuilt(bench, "one", BEGIN + 100 * SECOND, BEGIN + 104 * SECOND)
    ran_on(bench, 1, [came(112, 310)])
    found = reconcile(bench.pipeline, "one", Against("log"), spark=spark)
    known = gap_of(found, "n").known
    assert known["side_output"] + known["dropped"] == 1
    assert found.explained


def test_likewise_where_the_rebuild_gives_the_output_another_definition(
    spark: SparkSession, tmp_path: Path
) -> None:
    def bench(where: str | None) -> Bench:
        output = Output(
            window={"tumbling": "1m"}, aggregates={"n": "count(*)"}, late="side_output", where=where
        )
        return Bench(spark, tmp_path, Bounded("1s"), {"one": output}, PAYLOAD, measures=(), ids=False)

    ran_on(bench(None), 0, [came(5), came(65), came(400), came(6, 401), came(66, 402)])
    everything = bench("key is null")
    rebuilt(everything, "one", BEGIN + 60 * SECOND)
    ran_on(everything, 1, [came(7, 500), came(67, 501)])
    source = csv(tmp_path, "window_start,n\n2026-11-08T12:00:00Z,3\n2026-11-08T12:01:00Z,3")
    found = reconcile(everything.pipeline, "one", Against(source))
    assert listed(found, "n", "n_source", "explained") == [(1, 3, True), (2, 3, True)]
    source = csv(tmp_path, "window_start,n\n2026-11-08T12:00:00Z,3\n2026-11-08T12:01:00Z,4")
    found = reconcile(everything.pipeline, "one", Against(source))
    assert sorted(listed(found, "n", "n_source", "explained")) == [(1, 3, True), (2, 4, False)]


# A store made by hand: records of rebuilds, without Spark


def recorded(lake: Lake, through: int, minutes: tuple[int, int]) -> None:
    """What a rebuild of `totals` leaves behind, by the log up to a batch: it is published as the next one."""
    since, until = (NOON + minute * MINUTE for minute in minutes)
    watermark = NOON + 10 * MINUTE
    record = RebuildRecord("totals", since, until, through, watermark, 0, 0, None, {})
    rebuilds = Rebuilds(lake.pipeline.store_path, "totals")
    rebuilds.keep(rebuilds.draft(), record).accept(through + 1)
    lake.panes("totals", through + 1, [])


def test_only_the_range_and_the_batches_of_a_rebuild_count(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(minute, "amul", 10) for minute in range(4)])
    lake.late("totals", 1, [late(minute, "amul", 3) for minute in range(4)])
    recorded(lake, 1, (1, 3))
    lake.late("totals", 3, [late(minute, "amul", 4, 1) for minute in range(4)])
    recorded(lake, 3, (2, 3))
    lake.late("totals", 5, [late(minute, "amul", 5, 2) for minute in range(4)])
    lines = "\n".join(f"@{minute},amul,22,4" for minute in range(4))
    found = against(lake, "totals", csv(tmp_path, f"window_start,merchant,paise,payments\n{lines}"))
    assert listed(found, "window_start", "explained") == [
        (at(0), True),
        (at(1), False),
        (at(2), False),
        (at(3), True),
    ]
    assert gap_of(found, "paise").known["side_output"] == 12 + 9 + 5 + 12
    assert gap_of(found, "paise").unexplained == 3 + 7
    assert not found.explained


def test_a_rebuild_that_is_not_published_includes_nothing(lake: Lake, tmp_path: Path) -> None:
    lake.panes("totals", 0, [row(0, "amul", 10)])
    lake.late("totals", 0, [late(0, "amul", 3)])
    rebuilds = Rebuilds(lake.pipeline.store_path, "totals")
    record = RebuildRecord("totals", NOON, END_OF_TIME, 0, NOON + 10 * MINUTE, 0, 0, None, {})
    planned = rebuilds.keep(rebuilds.draft(), record)
    source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,13,2")
    assert against(lake, "totals", source).explained
    planned.accept(1)
    assert against(lake, "totals", source).explained  # it has a batch, and its panes are not there yet
    lake.panes("totals", 1, [])
    assert not against(lake, "totals", source).explained


def test_the_ledger_shows_what_was_dropped_after_a_rebuild(lake: Lake, tmp_path: Path) -> None:
    def dropped(batch: int, paise: int) -> None:
        units = {"events": 1, "assignments": 1, "paise": paise}
        lake.ledger(batch, [{"output": "totals", "unit": unit, "dropped": n} for unit, n in units.items()])

    lake.panes("totals", 0, [row(0, "amul", 10)])
    recorded(lake, 0, (0, 9))
    dropped(2, 9)
    source = csv(tmp_path, "window_start,merchant,paise,payments\n@0,amul,19,2")
    found = against(lake, "totals", source)
    assert (gap_of(found, "paise").known["dropped"], found.explained) == (9, True)
    recorded(lake, 2, (0, 9))
    found = against(lake, "totals", source)
    assert (gap_of(found, "paise").known["dropped"], found.explained) == (None, False)
    assert "how much was dropped is not known for paise, payments; --against log shows it" in found.notes
