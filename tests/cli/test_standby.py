"""`latecomer run --standby`, in processes of its own: it says what it waits for, and goes on where it may."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faults.faults_kit import left_behind, write_pipeline
from faults.lease_kit import until, with_lease
from latecomer.store.holding.lock import exclusive
from spark_kit import quick_start


@contextmanager
def standing_by(file: Path, *options: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A run that stands by, and the file that has its standard error."""
    said, command = (
        file.parent / "said.txt",
        [sys.executable, "-m", "latecomer", "run", str(file), "--standby"],
    )
    with (
        open(said, "wb") as errors,
        subprocess.Popen(
            [*command, *options],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **quick_start()},
        ) as process,
    ):
        try:
            yield process, said
        finally:
            process.kill()


@pytest.mark.parametrize("leased", [False, True])
def test_whoever_is_stopped_while_it_stands_by_never_had_the_store(tmp_path: Path, leased: bool) -> None:
    file = write_pipeline(tmp_path)
    takeover = 60.0 if leased else None
    if leased:
        with_lease(file, 60)
    with exclusive(tmp_path / "store", takeover=takeover), standing_by(file) as (process, said):
        until(lambda: "standing by for store" in said.read_text())
        assert f"process {os.getpid()}" in said.read_text()
        assert ("(token 1)" in said.read_text()) == leased
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert "was never held: the run was stopped while it stood by for it" in said.read_text()
    assert not (tmp_path / "store" / "pipeline.json").exists()


@pytest.mark.long
def test_it_goes_on_once_the_store_is_let_go(tmp_path: Path, undisturbed: dict[str, list[str]]) -> None:
    file = with_lease(write_pipeline(tmp_path), 60)
    with exclusive(tmp_path / "store", takeover=60.0):
        waiting = standing_by(file, "--drain")
        process, said = waiting.__enter__()
        until(lambda: "standing by for store" in said.read_text())
    try:
        assert process.wait(300) == 0, said.read_text()
    finally:
        waiting.__exit__(None, None, None)
    assert left_behind(file) == undisturbed
