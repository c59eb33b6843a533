"""Real processes killed with SIGKILL and started again, one boundary after the other, on one store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faults.faults_kit import in_turn, left_behind, write_pipeline
from latecomer.store.failpoints import VARIABLE

SCRIPT = """
import sys
from latecomer.config.load import load_pipeline
from latecomer.running import run
run(load_pipeline(sys.argv[1]), drain=True)
"""


def run_process(file: Path, failpoint: str | None = None) -> int:
    environment = {**os.environ, "LATECOMER_MEMORY": "1g"}
    if failpoint is not None:
        environment[VARIABLE] = failpoint
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file)],
        env=environment,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert failpoint is not None or done.returncode == 0, done.stderr.decode()
    return done.returncode


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    file = write_pipeline(tmp_path_factory.mktemp("undisturbed"))
    run_process(file)
    return left_behind(file)


def kill_in_turn(file: Path, places: list[str]) -> None:
    ends = {place: run_process(file, place) for place in places}
    assert ends == dict.fromkeys(places, -signal.SIGKILL)
    run_process(file)


def test_killed_in_every_stage_of_a_batch(tmp_path: Path, undisturbed: dict[str, list[str]]) -> None:
    file = write_pipeline(tmp_path)
    stages = ["events.committed@1", "totals.panes.committed@1", "ledger.committed@1"]
    kill_in_turn(file, [*stages, "sink.sqlite.written@2", "sinks.applied@3"])
    assert left_behind(file) == undisturbed


@pytest.mark.long
def test_killed_at_every_boundary_in_turn(tmp_path: Path, undisturbed: dict[str, list[str]]) -> None:
    file = write_pipeline(tmp_path)
    kill_in_turn(file, in_turn())
    assert left_behind(file) == undisturbed
