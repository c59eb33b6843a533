"""A real SIGKILL at the failpoint, in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from sink_kit import apply, insert, opened

SCRIPT = """
import sys; sys.path.insert(0, sys.argv[3])
from pathlib import Path
from sink_kit import apply, insert, opened
sink = opened(sys.argv[1], Path(sys.argv[2]))
apply(sink, 0, insert(0, "chai", 0))
apply(sink, 1, insert(0, "chai", 1), insert(1, "chai", 0))
"""


@pytest.mark.parametrize("kind", ["delta", "sqlite", "parquet", "jsonl"])
def test_a_killed_batch_is_applied_by_the_next_run(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "sink"
    killed = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind, str(path), str(Path(__file__).parent)],
        env={"LATECOMER_FAILPOINT": f"sink.{kind}.written@1"},
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    sink = opened(kind, path)
    assert sink.last_batch() == 0
    apply(sink, 1, insert(0, "chai", 1), insert(1, "chai", 0))
    assert sink.last_batch() == 1
