from __future__ import annotations

import json

import pytest

from cli.cli_kit import MINUTE, NOON, Cli, Lake, pane


def late(minute: int, paise: int, merchant: str = "a") -> dict[str, object]:
    start = NOON + minute * MINUTE
    window = {"window_start": start, "window_end": start + MINUTE}
    return {**window, "verdict": "too_late", "paise": paise, "merchant": merchant}


@pytest.fixture
def filled(lake: Lake) -> Lake:
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5, payments=1)])
    lake.late("minute_totals", 1, [late(0, 7), late(0, 1)])
    lake.late("minute_totals", 2, [late(3, 4)])
    return lake


def test_correct_prints_what_it_added_and_then_nothing(filled: Lake, cli: Cli) -> None:
    said = cli("correct", filled.file, "minute_totals", "--format", "json")
    assert said.status == 0
    first, second = json.loads(said.out)
    when = first.pop("corrected_at")
    assert when == second["corrected_at"]
    assert first == {
        "window_start": "2026-04-25T12:00:00Z",
        "window_end": "2026-04-25T12:01:00Z",
        "merchant": "a",
        "paise": 8,
        "payments": 2,
        "late_events": 2,
        "first_batch": 1,
        "last_batch": 1,
    }
    assert said.err == "note: corrected 3 late events of batches 1 to 2\n"
    again = cli("correct", filled.file, "minute_totals")
    assert (again.status, again.err) == (0, "")
    assert again.out == "nothing to correct: no new event in the side output of minute_totals\n"


def test_correct_all_by_day_prints_every_correction(filled: Lake, cli: Cli) -> None:
    cli("correct", filled.file, "minute_totals")
    said = cli("correct", filled.file, "minute_totals", "--all", "--by", "day", "-f", "csv")
    header, row = said.out.splitlines()
    assert header.startswith(
        "window_start,window_end,merchant,paise,payments,late_events,first_batch,last_batch"
    )
    assert row.startswith("2026-04-25T00:00:00Z,2026-04-26T00:00:00Z,a,12,3,3,1,2,")


def test_correct_within_a_range(filled: Lake, cli: Cli) -> None:
    said = cli("correct", filled.file, "minute_totals", "--since", "2026-04-25T12:02Z", "-f", "json")
    assert [row["paise"] for row in json.loads(said.out)] == [4]
    rest = cli("correct", filled.file, "minute_totals", "--until", "2026-04-25T17:40+05:30", "-f", "json")
    assert [row["paise"] for row in json.loads(rest.out)] == [8]


def test_results_served_and_preferred(filled: Lake, cli: Cli) -> None:
    cli("correct", filled.file, "minute_totals")
    rows = json.loads(cli("results", filled.file, "minute_totals", "--serving", "-f", "json").out)
    columns = ("paise", "paise_base", "paise_correction", "origin")
    assert [[row[name] for name in columns] for row in rows] == [
        [13, 5, 8, "corrected"],
        [4, 0, 4, "corrected"],
    ]
    live = json.loads(cli("results", filled.file, "minute_totals", "--prefer", "live", "-f", "json").out)
    assert [(row["paise"], row["origin"]) for row in live] == [(5, "live")]
    plain = json.loads(cli("results", filled.file, "minute_totals", "-f", "json").out)
    assert [row["paise"] for row in plain] == [5]


def test_a_serving_view_is_printed(filled: Lake, cli: Cli) -> None:
    said = cli("serving", filled.file, "minute_totals", "--sql", "postgres", "--table", "finance.minutes")
    assert (said.status, said.err) == (0, "")
    assert 'create table if not exists "finance"."minutes_corrections" (' in said.out
    assert 'create or replace view "minute_totals_serving" as\nselect "window_start"' in said.out


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        (["correct", "minute_totals", "--since", "noon"], "--since 'noon' is not a moment"),
        (
            ["correct", "minute_totals", "--since", "2026-04-25", "--until", "2026-04-25T00:00Z"],
            "--until '2026-04-25T00:00Z' is not after --since 2026-04-25",
        ),
        (["correct", "minute_totls"], "(value: 'minute_totls')\n    fix: did you mean minute_totals?"),
        (["correct", "minute_totals", "--by", "week"], "'week' is not one of"),
        (
            ["results", "minute_totals", "--serving", "--open"],
            "error: --open cannot be asked together with --serving",
        ),
        (["results", "minute_totals", "--serving", "--prefer", "live"], "--prefer 'live' cannot be asked"),
        (
            ["results", "minute_totals", "--prefer", "live", "--as-of", "2026-04-25"],
            "--as-of '2026-04-25' cannot be asked together with --prefer",
        ),
        (["serving", "minute_totals"], "Missing option '--sql'"),
        (["serving", "minute_totals", "--sql", "oracle"], "'oracle' is not one of"),
        (["serving", "minute_totals", "--sql", "duckdb", "--table", "x"], "no meaning with --sql duckdb"),
        (["serving", "minute_totals", "--sql", "duckdb", "--view", "a."], "--view 'a.' is not a name"),
    ],
)
def test_corrections_wrongly_asked_for(filled: Lake, cli: Cli, words: list[str], outcome: str) -> None:
    verb, output, *options = words
    said = cli(verb, filled.file, output, *options)
    assert (said.status, said.out) == (2, "")
    assert outcome in said.err


@pytest.mark.parametrize("words", [["correct"], ["results", "--serving"], ["serving", "--sql", "spark"]])
def test_corrections_of_a_pipeline_that_never_ran(unrun: Lake, cli: Cli, words: list[str]) -> None:
    verb, *options = words
    said = cli(verb, unrun.file, "minute_totals", *options)
    assert (said.status, said.out) == (1, "")
    assert "run the pipeline first" in said.err
