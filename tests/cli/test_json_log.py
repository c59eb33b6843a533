"""`run --log json`: one JSON object a line on standard error, whatever a run says."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from cli.cli_kit import Cli
from latecomer.cli.reporting import JsonDisplay, reporting
from latecomer.cli.steps import current
from latecomer.errors.redacting import conceal
from shop_kit import arrive, shop

LOG = logging.getLogger("latecomer.tests")


def lines(err: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in err.splitlines()]
    for each in found:
        assert {"time", "level", "event"} <= each.keys()
    return found


def test_a_run(spark: SparkSession, tmp_path: Path, cli: Cli) -> None:
    shop(tmp_path)
    arrive(tmp_path, "0.json", range(10))
    said = cli("run", tmp_path / "pipeline.yaml", "--once", "--log", "json")
    assert said.status == 0
    found = lines(said.err)
    (batch,) = [each for each in found if each["event"] == "batch"]
    assert (batch["batch"], batch["rows"], batch["level"]) == (0, 10, "info")
    assert batch["outputs"]["totals"]["received"] == 10
    assert {"reading batch 0", "waiting for the sinks"} <= {
        each["message"] for each in found if each["event"] == "step"
    }
    assert found[-1]["event"] == "message"
    assert found[-1]["message"].startswith("Spark ran ")
    assert "rows/s" in said.out, "the summary stays where it was"


def test_an_error_of_the_file_is_one_line_too(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: x\n", encoding="utf-8")
    said = cli("run", file, "--log=json")
    assert said.status == 2
    (error,) = [each for each in lines(said.err) if each["level"] == "error"]
    assert "outputs" in error["message"]


def test_wrong_usage_is_one_line_too(cli: Cli) -> None:
    said = cli("run", "--log", "json", "--nonsense")
    assert said.status == 2
    assert lines(said.err)[-1]["level"] == "error"


def test_another_form_is_refused(cli: Cli, tmp_path: Path) -> None:
    said = cli("run", tmp_path, "--log", "xml")
    assert said.status == 2
    assert "'xml' is not one of 'text', 'json'" in said.err


def test_warnings_have_what_programs_want(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(as_json=True):
        LOG.warning(
            "%s is down", "it", extra={"latecomer": {"event": "sink_down", "sink": "outputs.a.sinks.0"}}
        )
        LOG.info("reading batch %d", 1)
        LOG.info("reading batch %d", 2)
        print("warning: a line\nwith another", file=sys.stderr)
    down, step, plain = lines(capsys.readouterr().err)
    assert (down["level"], down["event"], down["sink"], down["message"]) == (
        "warning",
        "sink_down",
        "outputs.a.sinks.0",
        "it is down",
    )
    assert step["message"] == "reading batch 1"
    assert (plain["level"], plain["message"]) == ("warning", "a line\nwith another")


def test_quiet_leaves_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(quiet=True, as_json=True):
        LOG.info("reading")
        LOG.warning("few")
    (said,) = lines(capsys.readouterr().err)
    assert said["message"] == "few"


def test_no_secret_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    conceal("hunter2hunter2")
    with reporting(as_json=True):
        LOG.warning("no answer from postgresql://ana:pw1234@db/books (hunter2hunter2)")
        display = current()
        assert isinstance(display, JsonDisplay)
        display.say("info", "batch", nested={"list": ["token=abcdef", "hunter2hunter2"]})
    err = capsys.readouterr().err
    assert not [secret for secret in ("pw1234", "hunter2", "abcdef") if secret in err]


def test_hostile_text_stays_in_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    with reporting(as_json=True):
        LOG.warning("a\nb\u2028c\x1b[2J")
    (said,) = lines(capsys.readouterr().err)
    assert said["message"] == "a\nb\u2028c\x1b[2J"
