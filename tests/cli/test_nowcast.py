"""`latecomer results --nowcast`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from cli.cli_kit import Cli, Lake
from observe.nowcast.nowcast_kit import Story, tell


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return tell(tmp_path_factory.mktemp("nowcast") / "busy", Story(minutes=60), 59.5, files=2)


def test_rows_and_what_is_to_be_said_of_them(busy: Lake, cli: Cli) -> None:
    said = cli("results", busy.file, "minute_totals", "--nowcast")
    assert said.status == 0
    heads = said.out.splitlines()[0].split()
    assert heads[2:9] == ["merchant", "paise", "payments", "sequence", "timing", "age", "complete"]
    assert heads[9:12] == ["paise_estimate", "paise_low", "paise_high"]
    assert "note: nowcast with intervals of 90 %, from " in said.err
    assert "note: calibration of payments: " in said.err


def test_json_and_csv_have_the_same_rows(busy: Lake, cli: Cli) -> None:
    asked = ("results", busy.file, "minute_totals", "--nowcast", "--key", "merchant=amul")
    rows = json.loads(cli(*asked, "--format", "json").out)
    lines = list(csv.DictReader(io.StringIO(cli(*asked, "--format", "csv").out)))
    assert [row["merchant"] for row in rows] == ["amul"] * len(lines)
    assert [str(row["payments_estimate"]) for row in rows] == [line["payments_estimate"] for line in lines]
    assert rows[0]["age"] == 30.0
    (one,) = json.loads(cli(*asked, "--window", "2026-04-25T12:59:10Z", "--format", "json").out)
    assert one == rows[0]


@pytest.mark.parametrize(
    ("option", "value"),
    [("--serving", None), ("--prefer", "live"), ("--as-of", "2026-04-25"), ("--as-of-arrival", "2026-04-25")],
)
def test_it_is_asked_alone(busy: Lake, cli: Cli, option: str, value: str | None) -> None:
    said = cli("results", busy.file, "minute_totals", "--nowcast", option, *([value] if value else []))
    assert said.status == 2
    assert f"{option} " in said.err
    assert "cannot be asked together with --nowcast" in said.err


def test_a_refusal_names_its_reason_and_shows_the_numbers(tmp_path: Path, cli: Cli) -> None:
    lake = tell(tmp_path / "short", Story(minutes=10), 9.5, files=2)
    said = cli("results", lake.file, "minute_totals", "--nowcast")
    assert said.status == 0
    assert "note: no nowcast: " in said.err
    assert "and 30 are needed" in said.err
    assert "OPEN" in said.out
