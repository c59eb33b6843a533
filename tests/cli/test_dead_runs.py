"""A run whose rows are dead letters says so: while it runs, at its end, and in its exit code."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from cli.cli_kit import Cli, Lake, calling
from latecomer import Reader
from latecomer.cli.run_output import dead_in_words
from latecomer.engine.pipeline import BatchReport
from latecomer.errors import PipelineError
from latecomer.log.readable import Received
from latecomer.model.dead_letters import REASONS

ROOT = Path(__file__).parents[2]
AT = "2026-11-08T14:00:00Z"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline over CSV with one column of money."""
    (tmp_path / "in").mkdir()
    written = {
        "name": "fares",
        "store": "store",
        "source": {
            "files": {"path": "in", "format": "csv", "delimiter": ";"},
            "schema": {"at": "string", "fare": "decimal(18,2)"},
        },
        "event": {"time": "at"},
        "watermark": {"delay": "10s"},
        "outputs": {"totals": {"window": {"tumbling": "1m"}, "aggregates": {"fares": "sum(fare)"}}},
    }
    file = tmp_path / "fares.yaml"
    file.write_text(yaml.safe_dump(written))
    return file


def put(file: Path, name: str, *fares: str) -> None:
    rows = [f"{AT};{fare}" for fare in fares]
    (file.parent / "in" / name).write_text("\n".join(["at;fare", *rows]) + "\n")


def test_a_run_of_nothing_but_dead_letters_says_so_everywhere(
    spark: SparkSession, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cli: Cli = calling(capsys)
    put(file, "a.csv", "100,59", "1,5", "2,5")
    done = cli("run", file, "--drain", "--max-dead", "50%")
    assert done.status == 3
    assert f"all 3 rows of batch 0 are dead letters; latecomer dead-letters {file} --by reason" in done.err
    assert f"3 dead letters by reason; latecomer dead-letters {file} shows each" in done.out
    assert re.search(r"unreadable +3 +column fare: \"1,5\" is not a decimal", done.out)
    assert "all 3 rows are dead letters; latecomer dead-letters" in cli("results", file, "totals").out
    assert "all 3 rows are dead letters" in cli("results", file, "totals", "--open").out
    (counted,) = json.loads(cli("dead-letters", file, "--by", "reason", "--format", "json").out)
    assert (counted["reason"], counted["dead_letters"]) == ("unreadable", 3)
    none = cli("dead-letters", "replay", file, "--where", "reason = 'too_long'")
    assert none.out == (
        f"3 dead letters, and --where is true for none: reason = 'too_long'; latecomer dead-letters {file} "
        "shows them\n"
    )
    # The next run has none of its own.
    again = cli("run", file, "--once", "--max-dead", "0")
    assert again.status == 0
    assert "dead letter" not in again.out


def test_a_share_of_a_batch(spark: SparkSession, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli: Cli = calling(capsys)
    put(file, "a.csv", "100,59", "1.5", "2.5", "3.5")
    done = cli("run", file, "--once", "--max-dead", "25%", "--format", "json")
    assert done.status == 0
    assert "warning" not in done.err
    assert f"1 dead letter (unreadable 1): latecomer dead-letters {file}" in done.err
    put(file, "b.csv", "100,59", "1.5", "2.5", "3.5")
    done = cli("run", file, "--once", "--max-dead", "0.2")
    assert done.status == 3
    assert "1 of 4 rows (25.0%) of batch 1 are dead letters" in done.err
    assert re.search(r"1 dead letter by reason(?s:.)*unreadable +1 ", done.out)
    assert cli("run", file, "--once", "--max-dead", "none").status == 2


def test_dead_letters_are_counted(lake: Lake, cli: Cli) -> None:
    lake.watermarks(1, [{"tick": 0, "at": 0, "watermark": 0, "source_batch": 0}])
    letter = {"raw": "{", "origin": "in/0.json", "detail": "not JSON"}
    lake.dead_letters(0, [{**letter, "reason": "unreadable", "position": nth} for nth in range(3)])
    lake.dead_letters(1, [{**letter, "reason": "no_event_time", "position": 9}])
    lake.ledger(1, [])
    found = Reader(lake.pipeline)
    assert found.dead_letters_by().to_pylist() == [
        {"reason": "unreadable", "dead_letters": 3, "example": "not JSON"},
        {"reason": "no_event_time", "dead_letters": 1, "example": "not JSON"},
    ]
    assert found.dead_letters_by("batch", since_batch=1)["dead_letters"].to_pylist() == [1]
    assert re.search(r"in/0.json +4 ", cli("dead-letters", lake.file, "--by", "origin").out)
    with pytest.raises(PipelineError, match="nothing to count dead letters by"):
        found.dead_letters_by("raw")


def test_every_reason_is_documented() -> None:
    page = (ROOT / "docs" / "dead-letters.md").read_text()
    table = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", page.partition("## Reasons")[2], re.MULTILINE))
    assert {reason: table.get(reason) for reason in REASONS} == dict(REASONS)


def test_every_reason_that_is_given_is_listed() -> None:
    envelope = (ROOT / "src/latecomer/log/envelope.py").read_text()
    given = set(re.findall(r'yield f?"([\w{}]+)",', envelope))
    moments = {"event_time", "arrival_time"}
    written = {each.replace("{what}", what) for each in given for what in moments}
    assert written
    assert written <= set(REASONS)


def test_one_row_is_no_rows(lake: Lake, cli: Cli) -> None:
    received = Received(rows=1, events=0, duplicates=0, dead_letters=1)
    report = BatchReport(7, "data", received, seconds=1.0, watermark=0, newest_arrival=0)
    said = dead_in_words(report, None, lake.file)
    assert said is not None
    assert said.startswith("warning: the only row of batch 7 is a dead letter; latecomer dead-letters")
    counted = {"received": Decimal(1), "dead_letter": Decimal(1)}
    lake.ledger(0, [{"output": "minute_totals", "unit": "events", **counted}])
    assert "no windows: the only row is a dead letter" in cli("results", lake.file, "minute_totals").out
