"""Real processes killed with SIGKILL: at every commit boundary, one after the other, on one store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from faults.faults_kit import BOUNDARIES, left_behind, write_pipeline
from latecomer.store.failpoints import VARIABLE

SCRIPT = """
import sys
from latecomer.config.load import load_pipeline
from latecomer.run import run
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


def test_killed_at_every_boundary_in_turn(tmp_path: Path, undisturbed: dict[str, list[str]]) -> None:
    file = write_pipeline(tmp_path)
    ends = {name: run_process(file, f"{name}@1") for name in BOUNDARIES}
    assert ends == dict.fromkeys(BOUNDARIES, -signal.SIGKILL)
    run_process(file)
    assert left_behind(file) == undisturbed
