from __future__ import annotations

import json
import sys
import types
from decimal import Decimal

import pytest
from cli_kit import MINUTE, NOON, PIPELINE, Cli, Lake, pane

from latecomer.model.verdicts import END_OF_TIME


def test_results_in_json_have_one_object_a_row(lake: Lake, cli: Cli) -> None:
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="a", paise=5, payments=1)])
    said = cli("results", lake.file, "minute_totals", "--format", "json")
    assert said.status == 0
    assert json.loads(said.out) == [
        {
            "window_start": "2026-04-25T12:00:00Z",
            "window_end": "2026-04-25T12:01:00Z",
            "merchant": "a",
            "paise": 5,
            "payments": 1,
            "sequence": 0,
            "timing": "ON_TIME",
        }
    ]


def test_results_before_a_window_closes_point_to_the_open_ones(lake: Lake, cli: Cli) -> None:
    lake.partials("minute_totals", 0, [pane(0, None, merchant="a", paise=5, payments=1)])
    said = cli("results", lake.file, "minute_totals")
    assert said.out == "no windows have closed yet; --open shows those still open\n"
    assert "OPEN" in cli("results", lake.file, "minute_totals", "--open").out


def test_a_sketch_that_cannot_be_merged_is_a_note_on_stderr(lake: Lake, cli: Cli) -> None:
    for batch in range(2):
        lake.partials("everything", batch, [pane(0, None, tokens=1)])
    said = cli("results", lake.file, "everything", "--open", "--format", "json")
    assert json.loads(said.out)[0]["tokens"] is None
    assert "note: tokens: approx_count_distinct" in said.err


def test_panes_of_one_window_and_key(lake: Lake, cli: Cli) -> None:
    rows = [pane(0, 0, merchant="a=b", paise=5), pane(0, 0, merchant="c", paise=6), pane(1, 0, paise=7)]
    lake.panes("minute_totals", 0, rows)
    said = cli(
        "panes",
        lake.file,
        "minute_totals",
        "--window",
        "2026-04-25T12:00:10",
        "--key",
        "merchant=a=b",
        "-f",
        "csv",
    )
    assert [line.split(",")[3] for line in said.out.splitlines()] == ["paise", "5"]
    nulls = cli("panes", lake.file, "minute_totals", "--key", "merchant=", "-f", "json")
    assert [row["paise"] for row in json.loads(nulls.out)] == [7]
    nothing = cli("panes", lake.file, "minute_totals", "--key", "merchant=x").out
    assert nothing == "no pane matches; a window that is still open has none (latecomer results --open)\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--window", "yesterday"], "error: --window 'yesterday' is not a moment\n    fix: write ISO-8601"),
        (["--key", "merchant"], "error: --key 'merchant' is not column=value\n    fix: "),
        (["--key", "merchant=a", "--key", "merchant=b"], "error: --key 'merchant=b' names a column twice"),
        (
            ["--key", "merchnt=a"],
            "the output has no such key column (value: 'merchnt')\n    fix: did you mean",
        ),
    ],
)
def test_panes_wrongly_asked_for(lake: Lake, cli: Cli, options: list[str], told: str) -> None:
    said = cli("panes", lake.file, "minute_totals", *options)
    assert (said.status, said.out) == (2, "")
    assert told in said.err


def test_late_events_and_dead_letters(lake: Lake, cli: Cli) -> None:
    assert "no event has gone to the side output" in cli("late", lake.file, "minute_totals").out
    assert cli("dead-letters", lake.file).out == "there are no dead letters\n"
    lake.late("minute_totals", 0, [{"verdict": "too_late", "paise": 3, "event_time": NOON}])
    lake.dead_letters(0, [{"reason": "unreadable", "raw": "{broken"}])
    (late,) = json.loads(cli("late", lake.file, "minute_totals", "-f", "json").out)
    assert (late["verdict"], late["paise"], late["event_time"]) == ("too_late", 3, "2026-04-25T12:00:00Z")
    (dead,) = json.loads(cli("dead-letters", lake.file, "-f", "json").out)
    assert (dead["reason"], dead["raw"]) == ("unreadable", "{broken")


def test_bytes_that_are_not_text_are_shown_with_escapes(lake: Lake, cli: Cli) -> None:
    raw = b'{"note": "caf\xe9 \\n"}'
    dead = {
        "reason": "unreadable",
        "detail": "byte 0xE9",
        "raw": raw.decode(errors="replace"),
        "raw_bytes": raw,
    }
    plain = {"reason": "unreadable", "raw": "{broken", "position": 1}
    lake.dead_letters(0, [{**dead, "position": 0}, plain])
    shown = r'{"note": "caf\xe9 \\n"}'
    first, second = json.loads(cli("dead-letters", lake.file, "-f", "json").out)
    assert (first["raw_bytes"], first["raw"], first["detail"]) == (shown, dead["raw"], "byte 0xE9")
    assert (second["raw_bytes"], second["raw"], second["detail"]) == (None, "{broken", None)
    assert shown.replace('"', '""') in cli("dead-letters", lake.file, "-f", "csv").out
    table = cli("dead-letters", lake.file).out
    assert shown in table
    assert "byte 0xE9" in table
    assert "raw_bytes" not in table


def test_watermarks_from_the_first_to_the_end_of_time(lake: Lake, cli: Cli) -> None:
    lake.watermarks(0, [{"tick": 1, "at": NOON}, {"tick": 2, "at": NOON + MINUTE, "watermark": NOON}])
    lake.watermarks(1, [{"tick": 3, "at": NOON + MINUTE, "watermark": END_OF_TIME, "kind": "drain"}])
    rows = json.loads(cli("watermarks", lake.file, "-f", "json").out)
    assert [row["watermark"] for row in rows] == [
        None,
        "2026-04-25T12:00:00Z",
        "9999-12-31T23:59:59.999999Z",
    ]
    assert [row["lag"] for row in rows] == [None, 60, None]
    assert "carry" not in rows[0]
    table = cli("watermarks", lake.file).out
    assert "end of time" in table
    assert " 1m\n" in table


def test_the_ledger_as_totals_and_by_batch(lake: Lake, cli: Cli) -> None:
    for batch in range(2):
        lake.ledger(batch, [{"output": "minute_totals", "received": Decimal(3), "on_time": Decimal(3)}])
    (row,) = json.loads(cli("ledger", lake.file, "-f", "json").out)
    assert (row["received"], row["on_time"]) == (6, 6)
    assert cli("ledger", lake.file).out.splitlines()[1].split()[:4] == ["minute_totals", "events", "6", "6"]
    assert len(json.loads(cli("ledger", lake.file, "--by-batch", "-f", "json").out)) == 2


def test_the_ledgers_amounts_have_the_digits_of_its_measures(lake: Lake, cli: Cli) -> None:
    """By the pipeline, not by the amounts: whole ones are numbers, others text in every line."""
    amounts = {"received": Decimal(3), "on_time": Decimal(3)}
    lake.ledger(0, [{"output": "minute_totals", **amounts}])
    assert json.loads(cli("ledger", lake.file, "-f", "json").out)[0]["received"] == 3
    assert cli("ledger", lake.file, "-f", "csv").out.splitlines()[1].startswith("minute_totals,events,3,3,0,")
    lake.file.write_text(lake.file.read_text().replace("ledger: [paise]", "ledger: [paise, fee]"))
    fees = {"received": Decimal("600.25"), "on_time": Decimal("600.25")}
    lake.ledger(1, [{"output": "minute_totals", "unit": "fee", **fees}])
    rows = json.loads(cli("ledger", lake.file, "-f", "json").out)
    assert [row["received"] for row in rows] == ["3.00", "600.25"]
    cells = [line.split(",")[2] for line in cli("ledger", lake.file, "-f", "csv").out.splitlines()]
    assert cells == ["received", "3.00", "600.25"]


def test_a_decimal_column_has_one_json_type_in_every_row(lake: Lake, cli: Cli) -> None:
    fees = [Decimal("600.00"), Decimal("600.25"), None]
    rows = [pane(minute, 0, largest=fee, filled=1, total=600) for minute, fee in enumerate(fees)]
    lake.panes("everything", 0, rows)
    for verb in ("results", "panes"):
        found = json.loads(cli(verb, lake.file, "everything", "-f", "json").out)
        assert [row["largest"] for row in found] == ["600.00", "600.25", None]
        assert {type(row["total"]) for row in found} == {int}


@pytest.mark.parametrize("differences", [[], ["batch 1: the log has 4 events, the ledger says 3"]])
def test_the_ledger_is_checked(
    lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch, differences: list[str]
) -> None:
    checker = types.ModuleType("latecomer.ledger.check")
    monkeypatch.setattr(checker, "check_ledger", lambda pipeline, **_: differences, raising=False)
    monkeypatch.setitem(sys.modules, "latecomer.ledger.check", checker)
    for batch in range(2):
        lake.ledger(batch, [{"output": "minute_totals", "received": Decimal(3), "on_time": Decimal(3)}])
    said = cli("ledger", lake.file, "--check")
    if differences:
        assert (said.status, said.out.splitlines()[1].strip()) == (1, differences[0])
    else:
        told = "the ledger balances: 2 batches, 1 output, 1 unit, 6 events received\n"
        assert (said.status, said.out) == (0, told)


# Errors


def test_before_the_first_run(unrun: Lake, cli: Cli) -> None:
    for verb in (
        ["results", unrun.file, "minute_totals"],
        ["watermarks", unrun.file],
        ["ledger", unrun.file],
    ):
        said = cli(*verb)
        assert (said.status, said.out) == (1, "")
        assert said.err.startswith("error: there is no store at ")
        assert "run the pipeline first" in said.err
        assert "Traceback" not in said.err


def test_a_wrong_pipeline_file_exits_with_2(unrun: Lake, cli: Cli) -> None:
    unrun.file.write_text(PIPELINE.replace("late: retract", "late: sometimes"), encoding="utf-8")
    said = cli("results", unrun.file, "minute_totals")
    assert said.status == 2
    assert said.err.startswith(f"error: {unrun.file}:")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["results"], "error: Missing argument 'FILE'"),
        (["--bogus"], "error: No such option: --bogus"),
        (["frobnicate"], "error: No such command 'frobnicate'"),
        (["schema", "--format", "xml"], "error: No such option: --format"),
    ],
)
def test_wrong_usage_exits_with_2(cli: Cli, arguments: list[str], told: str) -> None:
    said = cli(*arguments)
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith(told)


def test_an_unknown_format_names_the_known_ones(lake: Lake, cli: Cli) -> None:
    said = cli("watermarks", lake.file, "--format", "xml")
    assert said.status == 2
    assert "'table', 'json', 'csv'" in said.err


@pytest.mark.parametrize("place", ["before", "after", "environment"])
def test_the_stack_trace_is_shown_on_demand(
    unrun: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    verb = ["watermarks", str(unrun.file)]
    if place == "environment":
        monkeypatch.setenv("LATECOMER_DEBUG", "1")
    said = cli(
        *(["--debug", *verb] if place == "before" else [*verb, "--debug"] if place == "after" else verb)
    )
    assert said.status == 1
    assert "Traceback" in said.err
    assert said.err.splitlines()[-1].startswith("error: there is no store")


def test_a_fault_of_ours_is_one_line(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object) -> None:
        raise RuntimeError("a wheel\ncame off")

    monkeypatch.setattr("latecomer.after.reading.reader.Reader.watermarks", broken)
    said = cli("watermarks", lake.file)
    assert said.status == 70
    assert said.err == "unexpected: RuntimeError: a wheel; run again with --debug\n"


def test_ctrl_c_is_quiet(lake: Lake, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("latecomer.after.reading.reader.Reader.watermarks", interrupted)
    said = cli("watermarks", lake.file)
    assert (said.status, said.out, said.err) == (130, "", "")


def test_help_and_version(cli: Cli) -> None:
    assert cli("--version").out.startswith("latecomer 0.")
    whole = cli("--help")
    assert whole.status == 0
    assert cli().out == whole.out
    for verb in (
        "run",
        "results",
        "panes",
        "late",
        "dead-letters",
        "watermarks",
        "ledger",
        "validate",
        "doctor",
    ):
        assert verb in whole.out
        assert cli(verb, "--help").status == 0
