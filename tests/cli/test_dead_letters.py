"""`latecomer dead-letters replay`: wrong input, nothing to do, and what is printed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession

from cli.cli_kit import Cli, Lake, pane
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run

LETTER = {"reason": "unreadable", "raw": "{broken", "origin": "in/0.json", "position": 4}


@pytest.fixture
def filled(lake: Lake) -> Lake:
    """A store with a dead letter."""
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5, payments=1)])
    lake.watermarks(0, [{"tick": 0, "at": 0, "watermark": 0, "source_batch": 0}])
    lake.dead_letters(0, [LETTER])
    lake.ledger(0, [])
    return lake


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fix", "format"], "--fix 'format' is not KEY=VALUE"),
        (["--fix", "unit=s", "--fix", "unit=ms"], "--fix 'unit=ms' gives unit twice"),
        (
            ["--fix", "formt=dd"],
            "formt: is no fix (value: 'dd')\n    fix: write one of format, unit, column:NAME",
        ),
        (
            ["--fix", "unit=hours"],
            "unit: is not a unit of time (value: 'hours')\n    fix: write one of s, ms, us, ns",
        ),
        (["--fix", "unit=s", "--fix", "format=dd"], "unit: cannot be beside format"),
        (["--fix", "format= "], "format: is empty"),
        (
            ["--fix", "column:paisa=1"],
            "column:paisa: is no column (value: 'paisa')\n    fix: did you mean paise?",
        ),
        (["--fix", "column:paise=paisa + 1"], "column:paise: there is no column paisa"),
        (["--fix", "column:paise=rand()"], "rand may not be called in a fix: it depends on chance"),
        (["--fix", "column:paise=reflect('java.lang.Runtime')"], "it calls Java methods"),
        (["--fix", "column:paise="], "column:paise: an empty expression"),
        (["--fix", "column:event_time=1", "--fix", "unit=s"], "column:event_time: is the event time"),
        (["--where", "resaon = 'x'"], "where: there is no column resaon"),
        (["--where", "(select 1)"], "where: holds select where a query begins"),
        (["--fix", "raw=paise"], "raw: there is no column paise"),
        (
            ["--fix", "text=nowhere.json"],
            "text: cannot be read: No such file or directory (value: 'nowhere.json')",
        ),
        (["--fix", "text=FOLDER/bad.json"], "text: is not JSON"),
        (["--fix", "text=FOLDER/short.json"], "text 1: does not name a dead letter"),
        (["--fix", "text=FOLDER/blank.json"], "text 1: is blank"),
        (["--fix", "text=FOLDER/twice.json"], "text 2: is a second one for the same letter"),
        (["--fix", "text=FOLDER/twice.json", "--fix", "raw=raw"], "is a second one for the same letter"),
        (["--fix", "text=FOLDER/good.json", "--fix", "raw=raw"], "raw: cannot be beside text"),
    ],
)
def test_wrong_input_is_refused_with_its_fix(filled: Lake, cli: Cli, options: list[str], said: str) -> None:
    folder = filled.file.parent
    text = {name: LETTER[name] for name in ("origin", "position")} | {"batch": 0, "raw": "{}"}
    written = {
        "bad": "{not json",
        "short": json.dumps({"batch": 0, "raw": "{}"}),
        "blank": json.dumps({**text, "raw": " "}),
        "twice": json.dumps([text, text]),
        "good": json.dumps(text),
    }
    for name, content in written.items():
        (folder / f"{name}.json").write_text(content)
    words = [word.replace("FOLDER", str(folder)) for word in options]
    outcome = cli("dead-letters", "replay", filled.file, *words)
    assert outcome.status == 2, outcome.err
    assert said in outcome.err
    assert "fix: " in outcome.err


def test_there_may_be_none(lake: Lake, cli: Cli) -> None:
    lake.panes("minute_totals", 0, [])
    lake.ledger(0, [])
    assert cli("dead-letters", "replay", lake.file).out == "there are no dead letters to replay\n"

    outcome = json.loads(cli("dead-letters", "replay", lake.file, "--dry-run", "-f", "json").out)
    assert outcome == {
        "dry_run": True,
        "picked": 0,
        "events": 0,
        "batch": None,
        "completed": None,
        "still_dead": [],
        "outputs": [],
    }
    assert cli("dead-letters", "show", lake.file).out == "there are no dead letters\n"


PIPELINE = {
    "name": "letters",
    "store": "store",
    "source": {
        "files": {"path": "in"},
        "schema": {"ts": "string", "shop": "string", "net amount": "bigint"},
    },
    "columns": {"at": "ts", "paise": "`net amount`"},
    "event": {"time": "at"},
    "watermark": {"delay": "10s", "max_future": "off"},
    "outputs": {
        "totals": {"window": {"tumbling": "1m"}, "aggregates": {"n": "count(*)", "paise": "sum(paise)"}}
    },
}


def test_what_is_printed(spark: SparkSession, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "letters.yaml"
    file.write_text(yaml.safe_dump(PIPELINE))
    (tmp_path / "in").mkdir()
    rows = [
        {"ts": "2026-11-08T14:00:00Z", "shop": "amul", "net amount": 5},
        {"ts": "8.11.2026 14:00", "shop": "amul", "net amount": 6},
        {"ts": "8.11.2026", "shop": "bata", "net amount": 7},
        {"ts": "2026-11-08T14:00:00Z", "shop": "bata", "net amount": "1,8"},
    ]
    (tmp_path / "in" / "0.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(load_pipeline(file), once=True, spark=spark)
    ask = (
        "dead-letters",
        "replay",
        file,
        "--fix",
        "format=d.M.yyyy HH:mm",
        "--where",
        "reason <> 'unreadable'",
    )

    wrong = cli("dead-letters", "replay", file, "--fix", "format=dd bb QQQQQQ")
    assert wrong.status == 2
    assert "format: Spark cannot use it" in wrong.err
    wrong = cli("dead-letters", "replay", file, "--where", "reason")
    assert "where: yields string, not boolean (value: 'reason')" in wrong.err
    wrong = cli("dead-letters", "replay", file, "--fix", "column:paise=paise between")
    assert "column:paise: Spark cannot use it" in wrong.err
    wrong = cli("dead-letters", "replay", file, "--fix", "column:paise=split(shop, 'a')")
    assert "column:paise: Spark cannot use it" in wrong.err
    assert "fix: make it a bigint" in wrong.err

    tried = cli(*ask, "--dry-run")
    assert tried.status == 0, tried.err
    assert tried.out.startswith("2 dead letters picked up: 1 would become an event, 1 would stay dead\n")
    assert "8.11.2026" in tried.out
    assert "taken in" not in tried.out
    lines = cli(*ask, "--dry-run", "-f", "csv").out.splitlines()
    assert [len(lines), lines[0]] == [2, "batch,origin,position,reason,detail,raw"]

    done = cli(*ask)
    assert done.out.startswith("2 dead letters picked up: 1 became an event, 1 stays dead\n")
    assert "taken in as batch 1\n" in done.out
    again = json.loads(cli(*ask, "-f", "json").out)
    assert (again["picked"], again["events"], again["batch"]) == (1, 0, None)
    other = [each.replace("format=d.M.", "format=dd.MM.") for each in map(str, ask)]
    again = cli(*other, "--dry-run")
    assert again.out.startswith("1 dead letter picked up: 0 would become events, 1 would stay dead\n")
    assert "stored" not in again.out
    done = cli(*other)
    assert done.out.endswith("\n\nno event was taken in; the new reasons are stored as batch 2\n")
    assert cli(*other).out.endswith("\n\nnothing was changed\n")
    shown = json.loads(cli("dead-letters", file, "-f", "json").out)
    said = "is not a time of the format dd.MM.yyyy HH:mm: it differs, or there is no such day or hour"
    assert shown[0]["detail"] == f'column ts: "8.11.2026" {said}'
    assert [(each["reason"], each["position"]) for each in shown] == [
        ("unreadable_event_time", 2),
        ("unreadable", 3),
    ]
    named = ("dead-letters", "replay", file, "--where", "reason = 'unreadable'", "-f", "json")
    fixed = json.loads(cli(*named, "--fix", "column:paise=replace(paise, ',', '')").out)
    assert (fixed["events"], fixed["outputs"][0]["on_time"], fixed["outputs"][0]["dead_letter"]) == (1, 1, -1)
    assert cli("ledger", file, "--check").status == 0
    life = cli("explain", file, "totals", "--window", "2026-11-08T14:00Z")
    assert "first_arrival_time" in life.out
    assert (
        "2 events were dead letters at first, and may be behind the watermark because they were" in life.out
    )


def test_events_that_an_output_cannot_compute_are_shown_with_the_command_that_takes_them_in(
    cli: Cli, filled: Lake
) -> None:
    letters = filled.tables("minute_totals").dead_letters
    detail = "column each: paise / per cannot be computed where paise is 5, per is 0"
    row = {
        "batch": 0,
        "reason": "failed",
        "raw": "{}",
        "origin": "in/0.json",
        "position": 1,
        "detail": detail,
    }
    when = {"event_time": datetime(2026, 4, 25, 14, 0, 7, tzinfo=UTC)}
    letters.append(0, pa.Table.from_pylist([{**row, **when}], letters.schema))
    shown = cli("dead-letters", filled.file)
    assert detail in shown.out
    command = f"latecomer rebuild apply {filled.file} minute_totals --from 2026-04-25T14:00:00Z takes it in"
    assert command in shown.out
    counted = json.loads(cli("dead-letters", filled.file, "--by", "output", "-f", "json").out)
    assert {each["output"]: each["dead_letters"] for each in counted} == {"minute_totals": 1, None: 1}
