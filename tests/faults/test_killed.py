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


def test_killed_at_every_boundary_in_turn(tmp_path: Path, undisturbed: dict[str, list[str]]) -> None:
    file = write_pipeline(tmp_path)
    # Outputs are published side by side: where one dies, the other may be through with that batch.
    first = [name for name in BOUNDARIES if not name.startswith(("alerts.", "ledger.", "sink"))]
    places = [f"{name}@1" for name in first] + [f"{name}@2" for name in BOUNDARIES if name not in first]
    ends = {place: run_process(file, place) for place in places}
    assert ends == dict.fromkeys(places, -signal.SIGKILL)
    run_process(file)
    assert left_behind(file) == undisturbed
