"""Steps and warnings on standard error: live on a terminal, in few lines elsewhere, in time everywhere."""

from __future__ import annotations

import logging
import os
import pty
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.cli_kit import Lake, pane
from latecomer.cli import steps
from latecomer.cli.reporting import reporting

A_MOMENT = 2.5
"""Processor seconds until something is shown: one by itself, and more on a machine that is busy with other tests."""
LOG = logging.getLogger("latecomer.somewhere")
WITHOUT_SPARK = """
import time
from pyspark.sql import SparkSession
from latecomer.cli import main, steps

SparkSession.Builder.getOrCreate = lambda builder: time.sleep(600)
steps.MOMENT = 0.01
main()
"""
SLOW = """
import logging, sys, time, types
from latecomer.cli import main, verbs

def slow():
    logging.getLogger("latecomer.x").info("counting")
    time.sleep(1.5)
    logging.getLogger("latecomer.x").warning("few of them")
    print("the answer")

sys.modules["latecomer.cli.slow"] = types.SimpleNamespace(slow=slow)
verbs.VERBS["slow"] = "Take long."
main()
"""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "MOMENT", 0.02)


def seen(capsys: pytest.CaptureFixture[str], until: Callable[[str], bool]) -> str:
    """What has been printed on standard error, once it is what is waited for."""
    err, deadline = "", time.monotonic() + 30
    while not until(err) and time.monotonic() < deadline:
        time.sleep(0.01)
        err += capsys.readouterr().err
    return err


def test_a_step_is_a_line_and_its_news_wait(at_once: None, capsys: pytest.CaptureFixture[str]) -> None:
    with reporting():
        LOG.info("replaying batch %d of %d", 1, 9)
        err = seen(capsys, lambda err: "batch 1" in err)
        for batch in range(2, 8):
            LOG.info("replaying batch %d of %d", batch, 9)
            time.sleep(0.04)
        LOG.info("comparing with the store")
        err += seen(capsys, lambda err: "comparing" in err)
    assert err.splitlines() == ["replaying batch 1 of 9", "comparing with the store"]


def test_news_of_a_long_step_come_now_and_then(
    at_once: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps, "NEWS", 0.1)
    with reporting():
        LOG.info("replaying batch %d", 1)
        err = seen(capsys, lambda err: "batch 1" in err)
        LOG.info("replaying batch %d", 2)
        err += seen(capsys, lambda err: "batch 2" in err)
    # On a busy machine a step may last long enough to be shown again.
    again = r"(?:replaying batch \d \(\d+ s\)\n)*"
    assert re.fullmatch(rf"replaying batch 1\n{again}replaying batch 2 \(\d+ s\)\n{again}", err)


def test_a_step_without_news_is_shown_again(
    at_once: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps, "STILL", 0.1)
    with reporting():
        LOG.info("reading")
        err = seen(capsys, lambda err: err.count("reading") == 3)
    assert err.count("reading") == 3


def test_a_step_that_lasts_says_how_far_the_watermark_is_by_then(
    at_once: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(steps, "NEWS", 0.1)
    monkeypatch.setattr(steps, "STILL", 0.2)
    lags = iter(range(5, 1000))
    with reporting() as display:
        display.watermark = lambda: f"watermark {next(lags)}m behind"
        LOG.info("reading batch %d", 7)
        err = seen(capsys, lambda err: err.count("reading") >= 3)
    assert re.match(r"(reading batch 7\n)?reading batch 7 \(0 s\), watermark 5m behind\n.*6m behind\n", err)


def test_a_short_step_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting():
        LOG.info("reading")
    assert capsys.readouterr() == ("", "")


def test_quiet_leaves_warnings(at_once: None, capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(quiet=True):
        LOG.info("reading")
        time.sleep(0.2)
        LOG.warning("%d are late", 3)
    assert capsys.readouterr() == ("", "warning: 3 are late\n")


def test_elsewhere_nothing_is_printed_for_those_who_use_python(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting():
        pass
    LOG.info("reading")
    assert capsys.readouterr() == ("", "")


def test_standard_output_stays_clean() -> None:
    said = subprocess.run(
        [sys.executable, "-c", SLOW, "slow"], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "the answer\n"
    # A machine that has much to do is slow to start, and then it says so.
    assert said.stderr.removeprefix("starting\n") == "counting\nwarning: few of them\n"


def test_on_a_terminal_the_live_line_gives_way_to_the_answer() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", SLOW, "slow"], stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert process.returncode == 0
    text = shown.decode()
    assert "counting  1 s" in text, text
    assert "warning: few of them" in text
    # What is left on the screen after the last time a line was taken back.
    assert text.rsplit("\x1b[2K", 1)[-1].strip().endswith("the answer")


@pytest.mark.parametrize(
    "verb",
    [
        ["run", "FILE", "--once"],
        ["ledger", "FILE", "--check"],
        ["replay", "FILE"],
        ["rebuild", "plan", "FILE", "minute_totals", "--from", "2026-04-25"],
        ["reconcile", "FILE", "minute_totals", "--against", "log"],
        ["test", "FOLDER", "--spark"],
    ],
    ids=lambda verb: verb[0],
)
def test_something_is_shown_before_spark_has_started(verb: list[str], lake: Lake, tmp_path: Path) -> None:
    """Spark never comes up here, and the process is stopped as soon as it has printed anything."""
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5, payments=1)])
    lake.watermarks(0, [{"tick": 0, "at": 0, "watermark": 0, "source_batch": 0, "kind": "heartbeat"}])
    lake.ledger(0, [])
    (lake.file.parent / "arrivals").mkdir(exist_ok=True)
    transcripts = Path(__file__).parents[1] / "transcripts"
    (tmp_path / "some").mkdir()
    shutil.copy(transcripts / "an_empty_batch_is_a_batch.yaml", tmp_path / "some")
    names = {"FILE": str(lake.file), "FOLDER": str(tmp_path / "some")}
    command = [sys.executable, "-c", WITHOUT_SPARK, *(names.get(word, word) for word in verb)]
    before = processor_seconds()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        first = process.stderr.readline().decode()
        process.kill()
    assert first.split()[0] in ("starting", "reading", "checking", "transcript"), first
    assert processor_seconds() - before < A_MOMENT


def processor_seconds() -> float:
    """What processes that ended have used, by the processor's time: the clock knows other tests too."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
