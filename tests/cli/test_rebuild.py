"""`latecomer rebuild` as far as it needs no Spark: wrong input, schedules, and the list."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from cli.cli_kit import NOON, Cli, Lake
from latecomer.cli.rebuild import _watch
from latecomer.log.progress import LogProgress
from latecomer.store.rebuilds import RebuildRecord, Rebuilds, changed_sums

SCHEDULE = "schedule:\n  minute_totals: {every: 15m, last: 4h}\n  by_shop: {cron: '30 3 * * *', last: 2d}\n"


def record(output: str = "minute_totals", through: int = 3) -> RebuildRecord:
    counts = {"new": 1, "changed": 2, "withdrawn": 0, "windows": 2, "keys": 1}
    return RebuildRecord(
        output, NOON, NOON + 60, through, NOON, NOON, NOON, None, {"assignments": "3"}, counts
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--from is missing"),
        (["--from", "yesterday"], "--from 'yesterday' is not a moment"),
        (["--from", "2026-04-26", "--to", "2026-04-25"], "is not after --from 2026-04-26"),
        (["--last", "4 fortnights"], "--last '4 fortnights' is not a duration"),
        (["--last", "0s"], "--last '0s' is no time at all"),
        (["--last", "4h", "--to", "2026-04-25"], "--last '4h' is a range of its own"),
    ],
)
@pytest.mark.parametrize("verb", ["plan", "apply"])
def test_a_range_that_makes_no_sense_is_refused(
    lake: Lake, cli: Cli, verb: str, options: list[str], said: str
) -> None:
    outcome = cli("rebuild", verb, lake.file, "minute_totals", *options)
    assert outcome.status == 2
    assert said in outcome.err
    assert "fix: " in outcome.err


def test_a_plan_has_its_own_range(lake: Lake, cli: Cli) -> None:
    outcome = cli("rebuild", "apply", lake.file, "minute_totals", "--plan", "abc", "--from", "2026-04-25")
    assert outcome.status == 2
    assert "--plan 'abc' has its own range" in outcome.err


@pytest.mark.parametrize("words", [("plan", "--last", "4h"), ("list",)])
def test_an_output_that_is_not_there(lake: Lake, cli: Cli, words: tuple[str, ...]) -> None:
    verb, *options = words
    outcome = cli("rebuild", verb, lake.file, "minute_total", *options)
    assert outcome.status == 2
    assert "the pipeline has no such output (value: 'minute_total')" in outcome.err
    assert "minute_totals" in outcome.err


def test_a_store_that_is_not_there(lake: Lake, cli: Cli) -> None:
    outcome = cli("rebuild", "plan", lake.file, "minute_totals", "--from", "2026-04-25")
    assert outcome.status == 1
    assert "run the pipeline first" in outcome.err


def test_sums_of_a_plan_have_the_digits_of_their_columns() -> None:
    sums = {
        "paise": (1000, 1600),
        "fee": ("36769.80", "36770.00"),
        "new": (None, "2.50"),
        "km": (1.5, 1.25),
    }
    assert [list(row.values()) for row in changed_sums(replace(record(), sums=sums))] == [
        ["paise", "1000", "1600", "+600"],
        ["fee", "36769.80", "36770.00", "+0.20"],
        ["new", "0.00", "2.50", "+2.50"],
        ["km", "1.5", "1.25", "-0.25"],
    ]


def test_the_list_tells_plans_and_what_became_of_them(lake: Lake, cli: Cli) -> None:
    lake.panes("minute_totals", 0, [])
    rebuilds = Rebuilds(lake.pipeline.store_path, "minute_totals")
    planned, published = (rebuilds.keep(rebuilds.draft(), record(through=through)) for through in (3, 5))
    published.accept(6)
    rows = json.loads(cli("rebuild", "list", lake.file, "minute_totals", "-f", "json").out)
    assert {row["plan"]: (row["state"], row["batch"]) for row in rows} == {
        planned.id: ("planned", None),
        published.id: ("published", 6),
    }
    assert {(row["from"], row["changed"]) for row in rows} == {("2026-04-25T12:00:00Z", 2)}
    assert {(row["windows"], row["seconds"]) for row in rows} == {(None, None)}  # of an earlier version


def test_the_list_tells_how_long_and_how_much(lake: Lake, cli: Cli) -> None:
    lake.panes("minute_totals", 0, [])
    rebuilds = Rebuilds(lake.pipeline.store_path, "minute_totals")
    found = record(through=3)
    found = replace(found, counts={**found.counts, "computed": 60}, seconds=12.5)
    kept = rebuilds.keep(rebuilds.draft(), found)
    kept.accept(6)
    kept.tidy(1.25)
    (row,) = json.loads(cli("rebuild", "list", lake.file, "minute_totals", "-f", "json").out)
    assert (row["windows"], row["windows_changed"], row["seconds"]) == (60, found.counts["windows"], 13.75)
    (kept.folder / "took").write_text("long")
    assert "is not a number of seconds; remove it" in cli("rebuild", "list", lake.file, "minute_totals").err


def test_no_rebuild_yet(lake: Lake, cli: Cli) -> None:
    lake.panes("minute_totals", 0, [])
    outcome = cli("rebuild", "list", lake.file, "minute_totals")
    assert outcome.out == "output minute_totals has not been rebuilt, and no rebuild is planned\n"


def test_the_schedule_is_printed_for_cron(lake: Lake, cli: Cli) -> None:
    lake.file.write_text(lake.file.read_text(encoding="utf-8") + SCHEDULE, encoding="utf-8")
    often, nightly = cli("rebuild", "schedule", lake.file).out.splitlines()
    folder = Path(lake.file).resolve().parent
    assert often.startswith(f"*/15 * * * * cd {folder} && ")
    assert often.endswith(f"latecomer rebuild apply {lake.file.name} minute_totals --last 4h")
    assert nightly.startswith("30 3 * * * ")
    assert nightly.endswith(f"latecomer rebuild apply {lake.file.name} by_shop --last 2d")


def test_a_file_without_a_schedule(lake: Lake, cli: Cli) -> None:
    outcome = cli("rebuild", "schedule", lake.file)
    assert outcome.status == 2
    assert "has no schedule section" in outcome.err


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("minute_total: {every: 1h, last: 4h}", "schedule.minute_total: the pipeline has no such output"),
        ("minute_totals: {every: 7m, last: 4h}", "every 7m cannot be written for cron"),
        ("minute_totals: {last: 4h}", "either `every` or `cron`"),
        ("minute_totals: {cron: often, last: 4h}", "the five fields of a crontab line"),
        ("minute_totals: {every: 1h}", "schedule.minute_totals.last"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(lake: Lake, cli: Cli, schedule: str, said: str) -> None:
    text = lake.file.read_text(encoding="utf-8")
    lake.file.write_text(f"{text}schedule:\n  {schedule}\n", encoding="utf-8")
    outcome = cli("validate", lake.file)
    assert outcome.status == 2
    assert said in outcome.err


def test_validate_warns_of_a_schedule_that_leaves_windows_out(lake: Lake, cli: Cli) -> None:
    text = lake.file.read_text(encoding="utf-8")
    lake.file.write_text(
        f"{text}schedule:\n  minute_totals: {{cron: '0 2 * * *', last: 4h}}\n", encoding="utf-8"
    )
    said = cli("validate", lake.file)
    assert "schedule.minute_totals.last: is shorter than the longest pause between two runs (1d)" in said.err
    assert "fix: write last: 1d or more" in said.err
    lake.file.write_text(
        f"{text}schedule:\n  minute_totals: {{cron: '0 2 * * *', last: 1d}}\n", encoding="utf-8"
    )
    assert "pause" not in cli("validate", lake.file).err


def test_nothing_is_said_of_how_fast_the_log_is_read_before_any_of_it_is(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It had said "0 % of 300,000 rows, 0 rows/s"."""
    with caplog.at_level("INFO", "latecomer"):
        for share in (0.0, 0.5, 0.99):
            _watch(LogProgress(300_000, share, 10.0))
    assert caplog.messages == [
        "reading the log: 300,000 rows",
        "reading the log: 50 % of 300,000 rows, 15,000 rows/s, 10 s left",
        "computing what changes, from 300,000 rows of the log",
    ]
