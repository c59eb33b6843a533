"""Spark Connect: DataFrames through a server that the test starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import latecomer
from cli.cli_kit import Lake

PROGRAM = Path(__file__).with_name("connect_program.py")
NEEDED = ("grpc", "grpc_status", "google.rpc", "zstandard", "pandas")


@pytest.mark.long
def test_dataframes_come_out_through_a_connect_server(lake: Lake, tmp_path: Path) -> None:
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        pytest.skip(f"Spark Connect's client lacks {', '.join(missing)}")
    source = str(Path(latecomer.__file__).parents[1])
    there = os.environ.get("PYTHONPATH")
    found = subprocess.run(
        [sys.executable, str(PROGRAM), str(lake.file), str(tmp_path)],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join([source, *([there] if there else [])]),
        },
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert json.loads(found.stdout.splitlines()[-1]) == {
        "results": [2, 3, 9],
        "called": [1, 2, 2, 3, 3, 3, 9],
        "sql": [23],
        "changes": sorted([["insert", number] for number in (1, 1, 2, 2, 3, 3, 9, 3)] + [["retract", 1]]),
        "mistake": "latecomer.errors.PipelineError: latecomer: option output: pipeline upi has no such output "
        "(value: 'hours')",
    }
