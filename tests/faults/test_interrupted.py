"""A run that is interrupted anywhere and started again leaves the same as one that was not.

Here the process goes on and only the run dies, so that every boundary can be tried by itself;
test_killed.py does the same to real processes with SIGKILL.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.faults_kit import (
    BOUNDARIES,
    QUIET_BOUNDARIES,
    Died,
    in_turn,
    left_behind,
    take_sink_away,
    write_pipeline,
)
from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.config.load import load_pipeline
from latecomer.config.outputs import Output
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.engine.without_data import heartbeat
from latecomer.errors import StoreError
from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.strategies import Bounded
from latecomer.store import failpoints
from spark_kit import PAYLOAD, Bench


def test_an_undisturbed_run_reaches_every_table_and_sink(undisturbed_with_rows: dict[str, list[str]]) -> None:
    empty = [name for name, rows in undisturbed_with_rows.items() if not rows]
    # Once everything is drained no window is open.
    assert empty == ["totals.partials", "alerts.partials"]


SOME = (
    *("events.written", "events.committed", "watermarks.committed"),
    *("totals.panes.written", "totals.panes.committed", "totals.late.committed", "totals.partials.committed"),
    *("ledger.committed", "publications.committed"),
    *("sink.delta.written", "sink.jsonl.written", "sinks.applied"),
)
"""Before and after a commit, each table that a batch needs, a sink that is a table and one that is a folder."""


@pytest.mark.parametrize(
    "names", [SOME, pytest.param(BOUNDARIES, marks=pytest.mark.long)], ids=["some", "all"]
)
def test_interrupted_at_one_boundary_after_the_other(
    spark: SparkSession,
    tmp_path: Path,
    undisturbed_with_rows: dict[str, list[str]],
    deadly: pytest.MonkeyPatch,
    names: Collection[str],
) -> None:
    """In the middle of it and at the end, the ledger can be recomputed."""
    file = write_pipeline(tmp_path, sinks_for_rows=True)
    for boundary in in_turn(names):
        take_sink_away(file, boundary)
        deadly.setenv(failpoints.VARIABLE, boundary)
        with pytest.raises(Died):
            run(load_pipeline(file), drain=True, spark=spark)
        if boundary == "totals.panes.committed@1":
            assert check_ledger(load_pipeline(file), spark) == []
    deadly.delenv(failpoints.VARIABLE)
    run(load_pipeline(file), drain=True, spark=spark)
    assert left_behind(file) == undisturbed_with_rows
    assert check_ledger(load_pipeline(file), spark) == []


@pytest.mark.long
@pytest.mark.parametrize(
    "boundary", [f"{name}@1" for name in BOUNDARIES] + [f"{name}@3" for name in QUIET_BOUNDARIES]
)
def test_interrupted_and_started_again(
    spark: SparkSession,
    tmp_path: Path,
    undisturbed_with_rows: dict[str, list[str]],
    deadly: pytest.MonkeyPatch,
    boundary: str,
) -> None:
    file = write_pipeline(tmp_path, sinks_for_rows=True)
    deadly.setenv(failpoints.VARIABLE, boundary)
    with pytest.raises(Died):
        run(load_pipeline(file), drain=True, spark=spark)
    deadly.delenv(failpoints.VARIABLE)
    run(load_pipeline(file), drain=boundary.endswith("@1"), once=True, spark=spark)
    assert left_behind(file) == undisturbed_with_rows


@pytest.mark.parametrize("boundary", ["events.committed@1", "dead_letters.committed@1"])
def test_silence_and_rebuilds_leave_the_number_of_a_batch_that_is_logged(
    spark: SparkSession, tmp_path: Path, deadly: pytest.MonkeyPatch, boundary: str
) -> None:
    output = Output(window={"tumbling": "10us"}, aggregates={"rows": "count(*)"})
    bench = Bench(spark, tmp_path, Bounded("1us", every="event", idle_after="5us"), {"one": output}, PAYLOAD)
    events = [Arrival(at, at, "a", {"key": "x", "paise": 1, "ok": True}) for at in range(24)]
    late = Arrival(2, 12, "a", events[0].payload)
    engine = bench.engine()
    engine.data(0, bench.write(0, [*events[:12], late]))
    deadly.setenv(failpoints.VARIABLE, boundary)
    second = bench.write(1, [*events[12:], Arrival(30, 30, "a", events[0].payload, dead=True)])
    with pytest.raises(Died):
        engine.data(1, second)
    deadly.delenv(failpoints.VARIABLE)
    engine.close()
    with pytest.raises(StoreError, match="run the pipeline once"):
        rebuilding.apply(bench.pipeline, "one", spark=spark)
    again = bench.engine()
    assert not heartbeat(again, 1_000)
    again.data(1, second)
    assert heartbeat(again, 1_000)
    again.close()
    assert check_ledger(bench.pipeline, spark) == []
    assert sum(row["rows"] for row in Reader(bench.pipeline).results("one").to_pylist()) == len(events)
