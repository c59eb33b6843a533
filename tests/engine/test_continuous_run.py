"""The command line on a pipeline that keeps running: a real process, real signals, a real clock."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.cli_kit import Cli, calling

LATECOMER = str(Path(sys.executable).with_name("latecomer"))
PIPELINE = """\
name: live
store: ./store
source:
  files: {path: in, order_by: arrival_time}
  schema: {event_time: string, arrival_time: string, tower: string, paise: bigint}
event: {time: event_time, partition: tower}
watermark: {delay: 1s, idle_after: 3s}
ledger: [paise]
outputs:
  totals:
    window: {tumbling: 10s}
    aggregates: {paise: sum(paise), payments: count(*)}
    allowed_lateness: 1m
    late: update
    sinks: [{sqlite: results.db}]
  report:
    window: {tumbling: 10s}
    aggregates: {payments: count(*)}
    sinks: [{jsonl: report}]
"""
START = datetime(2026, 11, 8, 14, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, subprocess.Popen[str]]]:
    folder = tmp_path_factory.mktemp("live")
    (folder / "in").mkdir()
    file = folder / "pipeline.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    land(folder, "0.json", range(25))
    environment = {**os.environ, "LATECOMER_MEMORY": "1g"}
    process = subprocess.Popen(
        [LATECOMER, "run", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    yield file, process
    if process.poll() is None:
        process.kill()
    process.communicate()


def land(folder: Path, name: str, seconds: range, behind: int = 0) -> None:
    """A file of one payment a second, put in place in one step."""
    draft = folder / f".{name}"
    with open(draft, "w", encoding="utf-8") as lines:
        for second in seconds:
            at = START + timedelta(seconds=second)
            row = {
                "event_time": (at - timedelta(seconds=behind)).isoformat(),
                "arrival_time": at.isoformat(),
                "tower": "t",
                "paise": 100,
            }
            lines.write(json.dumps(row) + "\n")
    draft.rename(folder / "in" / name)


def ask(cli: Cli, file: Path, *words: str) -> list[dict[str, Any]]:
    """What a verb prints beside the run; nothing where there is no store yet."""
    verb, *rest = words
    said = cli(verb, file, *rest, "--format", "json")
    return json.loads(said.out) if said.status == 0 else []


def payments(cli: Cli, file: Path, output: str) -> list[int]:
    return [row["payments"] for row in ask(cli, file, "results", output)]


def newest_changes(folder: Path) -> list[tuple[str, str, int]]:
    """What the sink was fed with last; it comes to it in its own time."""
    newest = max(folder.glob("*.jsonl")).read_text(encoding="utf-8").splitlines()
    return [(row["op"], row["timing"], row["payments"]) for row in map(json.loads, newest)]


def until(true: Callable[[], bool], seconds: float = 300) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.5)
    return False


@pytest.mark.usefixtures("spark")
def test_a_running_pipeline_closes_its_last_window_in_silence_and_stops_cleanly(
    live: tuple[Path, subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """The run is a process as a user starts it. Those who ask it something share the tests' Spark: a process
    for each question would take the processor from the run."""
    file, process = live
    cli = calling(capsys)
    # 25 seconds of payments: two windows by the data alone, the third only because nothing more comes.
    assert until(lambda: len(payments(cli, file, "totals")) == 3), process.poll()
    assert payments(cli, file, "totals") == [10, 10, 5]
    assert {row["kind"] for row in ask(cli, file, "watermarks")} == {"tick", "heartbeat"}

    refused = subprocess.run(
        [LATECOMER, "run", str(file), "--once"], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert f"in use by process {process.pid}" in refused.stderr
    assert "Traceback" not in refused.stderr

    land(file.parent, "1.json", range(60, 61), behind=50)
    assert until(lambda: payments(cli, file, "totals") == [10, 11, 5])

    # The report set the late payment aside: a rebuild brings it in, and the run publishes that.
    assert payments(cli, file, "report") == [10, 10, 5]
    rebuilt = cli("rebuild", "apply", file, "report", "--from", START.isoformat())
    assert "published by the running pipeline as batch" in rebuilt.out, rebuilt.err
    assert payments(cli, file, "report") == [10, 11, 5]
    corrected = [("retract", "CORRECTION", 10), ("insert", "CORRECTION", 11)]
    assert until(lambda: newest_changes(file.parent / "report") == corrected)

    process.send_signal(signal.SIGTERM)
    out, outcome = process.communicate(timeout=120)
    assert process.returncode == 0, outcome
    assert "Traceback" not in outcome
    assert "stopped after batch" in out + outcome

    checked = cli("ledger", file, "--check")
    assert checked.status == 0, checked.err
    assert "the ledger balances" in checked.out
