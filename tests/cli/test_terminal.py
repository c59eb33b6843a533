"""Text from events, files and stores is shown on a terminal and never obeyed; in a pipe it stays as it is."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cli_kit import PIPELINE, VERBS, Cli, Lake, pane, rows_of, words
from latecomer.cli.terminal import csv_cell, escape_formulas, harmless_lines
from latecomer.errors.harmless import harmless

ORDERS = ["\x1b]0;title\x07", "\x9b6n", "\x1bPq", "\u202e", "\u2066", "\u200f", "\x7f", "\x08"]
EVIL = "boo" + "".join(ORDERS) + "[red]!"
"""What a terminal would obey, and markup of Rich's. Its own orders begin otherwise."""
HOSTILE_COLUMN = "mer\x1b]0;x\x07\u202echant"

LOOP = """
import json, sys
from latecomer.cli import main
for words in json.loads(sys.argv[1]):
    print("===", flush=True)
    try:
        main(words)
    except SystemExit as ended:
        print("status", ended.code, flush=True)
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Lake:
    """A store in which every text is hostile, the names of columns and files too."""
    file = tmp_path / "pipeline.yaml"
    quoted = json.dumps(HOSTILE_COLUMN)
    text = PIPELINE.replace("merchant", quoted).replace(f"min({quoted})", "min(payer)")
    file.write_text(text, encoding="utf-8")
    lake = Lake(file)
    lake.store.pin()
    key = {HOSTILE_COLUMN: EVIL}
    lake.panes("minute_totals", 0, [pane(0, 0, paise=5, payments=1, **key)])
    lake.partials("minute_totals", 0, [pane(1, 0, paise=5, payments=1, **key)])
    lake.late(
        "minute_totals", 0, [{"window_start": 0, "window_end": 1, "verdict": "LATE", "origin": EVIL, **key}]
    )
    lake.watermarks(0, [{"tick": 0, "at": 0, "watermark": 0, "held_by": EVIL}])
    lake.dead_letters(0, [{"reason": "unreadable", "raw": EVIL, "origin": f"in/{EVIL}.json", "detail": EVIL}])
    lake.ledger(0, [{"output": "minute_totals", "unit": "events"}])
    events = lake.store.events
    counted = [{"batch": 0, "event_time": 0, "producer": EVIL, "producer_seq": number} for number in "13"]
    events.append(0, rows_of(events.schema, counted))
    other = io.StringIO()
    csv.writer(other).writerows(
        [["window_start", HOSTILE_COLUMN, "paise"], ["2026-04-25T12:00:00Z", EVIL + "other", "5"]]
    )
    (tmp_path / "other.csv").write_text(other.getvalue(), encoding="utf-8")
    return lake


def on_a_terminal(commands: list[list[str]]) -> list[str]:
    """What each command shows, with a terminal for standard output and standard error."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", LOOP, json.dumps(commands)]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env={**os.environ, "COLUMNS": "400"}):
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    parts = shown.decode().split("===")[1:]
    assert len(parts) == len(commands), shown.decode()
    return parts


def obeyed(shown: str) -> list[str]:
    return [order for order in ORDERS if order in shown]


PRINTING = ("results", "nowcast", "watermarks", "panes", "late", "dead-letters", "reconcile", "open", "gaps")


def test_no_verb_hands_the_terminal_what_data_brings(hostile: Lake) -> None:
    asked = {name: words(hostile, verb) for name, verb in VERBS.items()}
    for name in PRINTING:
        asked[f"{name} json"] = [*asked[name], "--format", "json"]
        asked[f"{name} csv"] = [*asked[name], "--format", "csv"]
    asked |= {
        "a key in an error": ["results", str(hostile.file), "minute_totals", "--key", f"{EVIL}={EVIL}"],
        "a key that is not there": [
            *("explain", str(hostile.file), "minute_totals", "--window", "2026-04-25T12:00Z"),
            *("--key", f"{HOSTILE_COLUMN}={EVIL}?"),
        ],
        "an output": ["results", str(hostile.file), EVIL],
        "a file": ["validate", EVIL.replace("\x08", "")],
        "an option": ["results", str(hostile.file), f"--{EVIL}"],
        "a verb": [EVIL],
        "a trace": ["results", EVIL, "x", "--debug"],
        "progress": ["--debug", "results", str(hostile.file), EVIL],
    }
    shown = dict(zip(asked, on_a_terminal(list(asked.values())), strict=True))
    assert {name: found for name, text in shown.items() if (found := obeyed(text))} == {}
    for name in PRINTING:
        for form in ("", " json", " csv"):
            assert "boo\\" in shown[name + form], (name, form, shown[name + form])
    assert "mer\\x1b]0;x\\x07\\u202echant" in shown["validate"]
    assert "[red]!" in shown["results"]


def test_in_a_pipe_json_and_csv_keep_every_character(hostile: Lake, cli: Cli) -> None:
    rows = json.loads(cli("results", hostile.file, "minute_totals", "--format", "json").out)
    assert rows[0][HOSTILE_COLUMN] == EVIL
    text = cli("results", hostile.file, "minute_totals", "--format", "csv").out
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert row[HOSTILE_COLUMN] == EVIL


def test_json_on_a_terminal_is_still_json(hostile: Lake) -> None:
    verb = ["--quiet", "results", str(hostile.file), "minute_totals", "--format", "json"]
    (shown,) = on_a_terminal([verb])
    assert json.loads(shown.partition("status")[0])[0][HOSTILE_COLUMN] == EVIL


def test_help_is_drawn_as_before() -> None:
    (shown,) = on_a_terminal([["results", "--help"]])
    assert "\\u001b" not in shown
    assert "How to print rows." in shown


@given(
    st.text(alphabet=st.sampled_from([*map(chr, range(0xA0)), "\u2028", "\u202a", "\u2069", "a", "é", "😀"]))
)
def test_what_is_shown_holds_no_order(text: str) -> None:
    assert harmless(text).isprintable()
    for lines in (harmless_lines(text), harmless(text, lines=True)):
        assert all(line.replace("\t", "").isprintable() for line in lines.split("\n"))
        assert lines.count("\n") == text.count("\n")


FORMULAS = [
    "=1+2",
    "+cmd",
    "-cmd|'/c calc'!A0",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "=HYPERLINK('x')",
    "\uff1d1",
    "-1-1",
]
PLAIN = ["a=1", "-5", "-5.25", "+3e10", ".5", "-.5", "", "'=1", "12:00", None, 5, True]


def test_formulas_are_escaped_on_request_and_numbers_are_not(hostile: Lake, cli: Cli) -> None:
    escape_formulas(True)
    assert [csv_cell(each) for each in FORMULAS] == [f"'{each}" for each in FORMULAS]
    assert [csv_cell(each) for each in PLAIN] == PLAIN
    escape_formulas(False)
    assert [csv_cell(each) for each in FORMULAS] == FORMULAS


@pytest.mark.parametrize("asked", [True, False])
def test_every_csv_can_be_opened_in_a_spreadsheet(asked: bool, lake: Lake, cli: Cli) -> None:
    lake.panes("minute_totals", 0, [pane(0, 0, merchant="=cmd()", paise=-5, payments=1)])
    option = ["--escape-formulas"] if asked else []
    said = cli("results", lake.file, "minute_totals", "--format", "csv", *option)
    (row,) = csv.DictReader(io.StringIO(said.out))
    assert (row["merchant"], row["paise"]) == ("'=cmd()" if asked else "=cmd()", "-5")
