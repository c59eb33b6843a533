"""`latecomer reconcile` and `latecomer certify`: what they print, and how they end."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest

from cli.cli_kit import MINUTE, NOON, Cli, Lake, pane

HEAD = "window_start,merchant,paise,payments"
START = "2026-04-25T12:0{}:00Z"


@pytest.fixture
def filled(lake: Lake) -> Lake:
    outcome = [(0, "amul", 10), (1, "amul", 7)]
    lake.panes("minute_totals", 0, [pane(m, 0, merchant=k, paise=p, payments=1) for m, k, p in outcome])
    lake.watermarks(0, [{"tick": 1, "at": NOON + 20 * MINUTE, "watermark": NOON + 10 * MINUTE}])
    lake.ledger(0, [{"output": "minute_totals"}])
    lake.late("minute_totals", 0, [late_event(1, "amul", 3)])
    return lake


def late_event(minute: int, merchant: str, paise: int) -> dict[str, object]:
    begin = NOON + minute * MINUTE
    window = {"window_start": begin, "window_end": begin + MINUTE, "verdict": "too_late"}
    return {**window, "event_time": begin, "merchant": merchant, "paise": paise, "origin": "f", "position": 0}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A system of record that has the late payment, too."""
    file = tmp_path / "record.csv"
    file.write_text(f"{HEAD}\n{START.format(0)},amul,10,1\n{START.format(1)},amul,10,2\n")
    return file


def test_equal_results_end_with_0(filled: Lake, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "same.csv"
    file.write_text(f"{HEAD}\n{START.format(0)},amul,10,1\n{START.format(1)},amul,7,1\n")
    said = cli("reconcile", filled.file, "minute_totals", "--against", file)
    assert said.status == 0
    assert said.out.splitlines()[0] == f"minute_totals against {file}: 2 equal"
    assert said.err == ""


def test_a_gap_ends_with_1_unless_it_is_explained_and_that_will_do(
    filled: Lake, cli: Cli, source: Path
) -> None:
    asked = ("reconcile", filled.file, "minute_totals", "--against", source)
    said = cli(*asked)
    assert said.status == 1
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0][-4:] == ["1", "equal,", "1", "different"]
    assert lines[1] == [
        "aggregate", "results", "source", "gap", "percent",
        "side_output", "dropped", "not_closed", "dead_letter", "unexplained",
    ]  # fmt: skip
    assert lines[2] == ["paise", "17", "20", "3", "15", "3", "0", "0", "0", "0"]
    assert "the gap is explained" in said.out
    assert cli(*asked, "--explained-ok").status == 0
    assert cli(*asked, "--tolerance", "3").status == 0
    assert cli(*asked, "--tolerance", "1%").status == 1
    source.write_text(source.read_text().replace("amul,10,2", "amul,11,2"))
    said = cli(*asked, "--explained-ok")
    assert said.status == 1
    assert "the gap is not explained" in said.out


def test_a_table_shows_amounts_with_the_digits_of_their_columns(
    filled: Lake, cli: Cli, tmp_path: Path
) -> None:
    filled.panes("everything", 0, [pane(0, 0, total=10, filled=1, largest=Decimal("36769.80"))])
    file = tmp_path / "record.csv"
    file.write_text(f"window_start,total,filled,largest\n{START.format(0)},10.5,1,36769.90\n")
    said = cli("reconcile", filled.file, "everything", "--against", file)
    assert said.out.splitlines()[-1].split()[3:] == ["10", "10.5", "1", "1", "36769.80", "36769.90"]
    totals = [line.split()[1:4] for line in said.out.splitlines() if line.startswith(("total", "filled"))]
    assert totals == [["10", "10.5", "0.5"], ["1", "1", "0"]]


def test_rows_do_not_deny_a_gap_that_is_explained_in_total(filled: Lake, cli: Cli, source: Path) -> None:
    filled.dead_letters(0, [{"raw": '{"paise": 1}', "reason": "no_event_time"}])
    source.write_text(source.read_text().replace("amul,10,2", "amul,11,3"))
    said = cli("reconcile", filled.file, "minute_totals", "--against", source, "--explained-ok")
    assert said.status == 0
    assert "the gap is explained in total (where explained is empty, by amounts whose windows are" in said.out
    assert "false" not in said.out


def test_json_tells_everything_and_csv_the_differences(filled: Lake, cli: Cli, source: Path) -> None:
    asked = ("reconcile", filled.file, "minute_totals", "--against", source, "--format")
    outcome = json.loads(cli(*asked, "json").out)
    assert (outcome["equal"], outcome["explained"], outcome["notes"]) == (False, True, [])
    assert outcome["counts"] == {"equal": 1, "different": 1, "missing": 0, "extra": 0}
    assert outcome["totals"][0] == {
        "aggregate": "paise", "results": 17, "source": 20, "gap": 3, "percent": "15.0000",
        "side_output": 3, "dropped": 0, "not_closed": 0, "dead_letter": 0, "unexplained": 0,
    }  # fmt: skip
    difference = {
        "window_start": START.format(1), "merchant": "amul", "change": "different", "explained": True,
        "paise": 7, "paise_source": 10, "payments": 1, "payments_source": 2,
    }  # fmt: skip
    assert outcome["differences"] == [difference]
    lines = cli(*asked, "csv").out.splitlines()
    assert lines == [",".join(difference), f"{START.format(1)},amul,different,true,7,10,1,2"]


def test_a_range_and_other_names(filled: Lake, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "record.csv"
    file.write_text(f"ts,shop,sum\n{START.format(0)},amul,10\n{START.format(5)},amul,10\n")
    names = ("--map", "ts=window_start", "--map", "shop=merchant", "--map", "sum=paise")
    said = cli(
        "reconcile", filled.file, "minute_totals", "--against", file, *names, "--to", START.format(1)
    )  # fmt: skip
    assert said.status == 0
    assert said.err == "note: not compared: payments (the source does not have it)\n"


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        (("--map", "ts"), "--map 'ts' is not THEIRS=OURS"),
        (("--map", "a=paise", "--map", "b=paise"), "names a column twice"),
        (("--tolerance", "much"), "tolerance: is not a tolerance (value: 'much')"),
        (("--from", "noon"), "--from 'noon' is not a moment"),
        (("--from", START.format(2), "--to", START.format(1)), "is not after --from"),
        (("--query", "select 1"), "query: is for databases alone"),
        (("--format", "xml"), "--format"),
    ],
)
def test_wrong_usage_ends_with_2(
    filled: Lake, cli: Cli, source: Path, options: tuple[str, ...], outcome: str
) -> None:
    said = cli("reconcile", filled.file, "minute_totals", "--against", source, *options)
    assert said.status == 2
    assert outcome in said.err
    assert said.out == ""


def test_against_must_be_said(filled: Lake, cli: Cli) -> None:
    said = cli("reconcile", filled.file, "minute_totals")
    assert said.status == 2
    assert "--against" in said.err


def test_a_certificate_comes_only_with_agreement(
    filled: Lake, cli: Cli, source: Path, tmp_path: Path
) -> None:
    file = tmp_path / "cert.json"
    asked = ("reconcile", filled.file, "minute_totals", "--against", source, "--certificate", file)
    assert "no certificate was written" in cli(*asked).err
    assert not file.exists()
    assert cli(*asked, "--explained-ok").status == 0
    assert json.loads(file.read_text())["rows"] == 2


def test_a_certificate_that_cannot_be_written_names_its_option(
    filled: Lake, cli: Cli, tmp_path: Path
) -> None:
    same, file = tmp_path / "same.csv", tmp_path / "gone" / "c.json"
    same.write_text(f"{HEAD}\n{START.format(0)},amul,10,1\n{START.format(1)},amul,7,1\n")
    said = cli("reconcile", filled.file, "minute_totals", "--against", same, "--certificate", file)
    assert said.status == 2
    assert f"--certificate '{file}' cannot be written" in said.err


def test_certify_prints_and_writes_the_same(filled: Lake, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "cert.json"
    said = cli("certify", filled.file, "minute_totals", "--to", file)
    assert said.status == 0
    written = json.loads(file.read_text())
    assert f"sha256      {written['sha256']}" in said.out
    assert json.loads(cli("certify", filled.file, "minute_totals", "--format", "json").out) == written
    lines = cli("certify", filled.file, "minute_totals", "--format", "csv").out.splitlines()
    assert f"sha256,{written['sha256']}" in lines
    earlier = cli("certify", filled.file, "minute_totals", "--at", START.format(1), "--format", "json")
    assert json.loads(earlier.out)["rows"] == 1


@pytest.mark.parametrize(
    ("options", "outcome"),
    [
        (("--at", "noon"), "--at 'noon' is not a moment"),
        (("--at", "2027-01-01"), "at: is after the watermark"),
        (("--to", "/nowhere/cert.json"), "cannot be written: No such file or directory"),
        (("--check", "gone.json"), "check: cannot be read"),
        (("--check", "gone.json", "--at", START.format(1)), "cannot go with --check"),
    ],
)
def test_wrong_usage_of_certify_ends_with_2(
    filled: Lake, cli: Cli, options: tuple[str, ...], outcome: str
) -> None:
    said = cli("certify", filled.file, "minute_totals", *options)
    assert said.status == 2
    assert outcome in said.err
