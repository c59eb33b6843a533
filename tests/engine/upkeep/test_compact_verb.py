"""`latecomer compact` and what `latecomer ledger` says after it."""

from __future__ import annotations

import json

import pytest

from cli.cli_kit import Cli
from engine.upkeep.upkeep_kit import RETENTION, Days, on_disk
from latecomer.engine.upkeep.compacting import Report, TableUpkeep


def test_it_says_what_it_did(days: Days, cli: Cli) -> None:
    said = cli("compact", days.file)
    assert said.status == 0
    assert "outputs/totals/panes" in said.out
    assert said.err == "note: 84 files were merged into 8\n"
    again = cli("compact", days.file)
    assert (again.out, again.err) == ("nothing to do: the store is in shape\n", "")


def test_the_note_adds_up_what_the_table_shows() -> None:
    """Tables that are left as they are count in neither."""
    merged, left = (
        TableUpkeep("events", files=5, files_after=1),
        TableUpkeep("ledger", files=3, files_after=3),
    )
    report = Report({each.table: each for each in (merged, left)})
    assert report.rows["files"].to_pylist() == [5]
    assert (report.total("files"), report.total("files_after")) == (5, 1)


def test_a_dry_run_says_what_it_would_do(days: Days, cli: Cli) -> None:
    days.file.write_text(days.file.read_text() + RETENTION)
    before = on_disk(days.store)
    said = cli("compact", days.file, "--dry-run", "--format", "json")
    rows = {row["table"]: row for row in json.loads(said.out)}
    assert rows["events"]["rows_removed"] == 18
    assert "would be merged into" in said.err
    assert "28 rows would be removed by retention" in said.err
    assert on_disk(days.store) == before


def test_the_ledger_shows_what_was_removed(days: Days, cli: Cli) -> None:
    assert cli("ledger", days.file).err == ""
    assert cli("ledger", days.file, "--removals").out == "retention has removed nothing\n"
    days.file.write_text(days.file.read_text() + RETENTION)
    cli("compact", days.file)
    said = cli("ledger", days.file)
    assert (
        "note: retention has removed 18 rows of batches 0 to 2 from events, event times up to "
        "2026-04-25T16:00:00Z\n"
    ) in said.err
    assert "note: retention has removed 7 rows of batches 0 to 6 from dead_letters\n" in said.err
    rows = json.loads(cli("ledger", days.file, "--removals", "--format", "json").out)
    assert [(row["table"], row["unit"], row["amount"]) for row in rows] == [
        ("dead_letters", "events", 7),
        ("dead_letters", "paise", 49),
        ("duplicates", "events", 3),
        ("duplicates", "paise", 300),
        ("events", "events", 18),
        ("events", "paise", 1845),
    ]


@pytest.mark.parametrize(
    ("keep", "reason"),
    [
        ("soon", "is not a duration"),
        ("5m", "is too short"),
        ("-7d", "is too short"),
        ("7", "is not a duration"),
    ],
)
def test_a_time_to_keep_that_cannot_be(days: Days, cli: Cli, keep: str, reason: str) -> None:
    said = cli("compact", days.file, f"--keep={keep}")
    assert said.status == 2
    assert f"keep: {reason}" in said.err
    assert f"(value: '{keep}')" in said.err
    assert "fix:" in said.err


def test_validate_says_what_will_be_removed(days: Days, cli: Cli) -> None:
    days.file.write_text(days.file.read_text() + RETENTION)
    said = cli("validate", days.file).out
    assert (
        "retention  upkeep removes events that are 2d behind the watermark and side output and dead "
        "letters that came 1d ago"
    ) in said
