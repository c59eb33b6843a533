"""A real SIGKILL at the failpoint, in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sink.sink_kit import apply, insert, opened, rows_of_postgres

TESTS = str(Path(__file__).parents[1])
SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from sink.sink_kit import apply, insert, opened
sink = opened(sys.argv[1], Path(sys.argv[2]))
apply(sink, 0, insert(0, "chai", 0))
apply(sink, 1, insert(0, "chai", 1), insert(1, "chai", 0))
"""


LATER = pytest.mark.long
"""A crash at this step is in tests/sink/test_sink_rule.py for every kind; here a process dies of it."""


@pytest.mark.parametrize(
    "kind",
    [
        "delta",
        "sqlite",
        *(pytest.param(kind, marks=LATER) for kind in ("iceberg", "duckdb", "parquet", "jsonl")),
    ],
)
def test_a_killed_batch_is_applied_by_the_next_run(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "sink"
    killed = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, str(path), TESTS],
        env={**os.environ, "LATECOMER_FAILPOINT": f"sink.{kind}.written@1"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    sink = opened(kind, path)
    assert sink.last_batch() == 0
    apply(sink, 1, insert(0, "chai", 1), insert(1, "chai", 0))
    assert sink.last_batch() == 1


@pytest.mark.parametrize(
    "step", [pytest.param("begun", marks=LATER), "copied", pytest.param("written", marks=LATER), "committed"]
)
def test_a_writer_that_is_killed_at_any_step_leaves_a_batch_in_postgres_whole_or_not_there(
    target: str, tmp_path: Path, step: str
) -> None:
    path = tmp_path / "sink"
    killed = subprocess.run(
        [sys.executable, "-c", SCRIPT, "postgres", str(path), TESTS],
        env={**os.environ, "LATECOMER_FAILPOINT": f"sink.postgres.{step}@1"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    undisturbed = tmp_path / "undisturbed"
    for place in (path, undisturbed):
        sink = opened("postgres", place)
        assert sink.last_batch() == ((1 if step == "committed" else 0) if place == path else -1)
        apply(sink, 0, insert(0, "chai", 0))
        apply(sink, 1, insert(0, "chai", 1), insert(1, "chai", 0))
        assert sink.last_batch() == 1
    found, wanted = (sorted(rows_of_postgres(place), key=str) for place in (path, undisturbed))
    assert found == wanted
