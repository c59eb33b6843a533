"""Real processes killed with SIGKILL and started again, one boundary after the other, on one store."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.faults_kit import in_turn, left_behind, run_and_die, take_sink_away, write_pipeline
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run
from spark_kit import quick_start


def kill_in_turn(
    file: Path, places: list[str], spark: SparkSession, environment: Mapping[str, str]
) -> dict[str, list[str]]:
    """Kill one process after the other; what is left behind once a run has gone through."""
    ends = {}
    for place in places:
        take_sink_away(file, place)
        ends[place] = run_and_die(file, place, environment)
    assert ends == dict.fromkeys(places, -signal.SIGKILL)
    run(load_pipeline(file), drain=True, spark=spark)
    return left_behind(file)


def test_killed_early_and_late_in_a_batch(
    tmp_path: Path, spark: SparkSession, undisturbed_with_rows: dict[str, list[str]]
) -> None:
    """In the log and in a sink. test_interrupted.py goes through every boundary in one process."""
    places = ["events.committed@0", "sink.sqlite.written@1"]
    environment = quick_start()
    assert (
        kill_in_turn(write_pipeline(tmp_path, sinks_for_rows=True), places, spark, environment)
        == undisturbed_with_rows
    )


@pytest.mark.long
def test_killed_at_every_boundary_in_turn(
    tmp_path: Path, spark: SparkSession, undisturbed_with_rows: dict[str, list[str]]
) -> None:
    environment = {"LATECOMER_MEMORY": "1g"}
    assert (
        kill_in_turn(write_pipeline(tmp_path, sinks_for_rows=True), in_turn(), spark, environment)
        == undisturbed_with_rows
    )
