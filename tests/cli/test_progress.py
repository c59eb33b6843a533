from __future__ import annotations

import csv
import io
import json
from decimal import Decimal
from typing import Any

import pytest

from cli.cli_kit import MINUTE, NOON
from latecomer.cli.options import Format
from latecomer.cli.reporting import reporting
from latecomer.cli.run_output import (
    Totals,
    as_json,
    as_line,
    out_of_step_in_words,
    print_summary,
    progress,
)
from latecomer.config.sources import Files
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.running import RunReport
from latecomer.log.filling import FilledColumns
from latecomer.log.readable import Received
from latecomer.model.durations import shown_duration
from latecomer.model.ledger import Entry
from latecomer.model.timeline import OutOfStep
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME, Fate
from latecomer.store.unknown_fields import UnknownSeen
from latecomer.testing import ManualClock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report(batch: int = 0, **changes: Any) -> BatchReport:
    fates = {Fate.ON_TIME: Decimal(7), Fate.LATE_ACCEPTED: Decimal(2), Fate.DEAD_LETTER: Decimal(1)}
    entries = [
        Entry(batch, "totals", "events", Decimal(10), fates),
        Entry(batch, "totals", "paise", Decimal("99.5"), {Fate.ON_TIME: Decimal("99.5")}),
    ]
    outcome: dict[str, Any] = {
        "batch": batch,
        "kind": "data",
        "received": Received(rows=10, events=9, duplicates=0, dead_letters=1),
        "seconds": 0.5,
        "watermark": NOON,
        "newest_arrival": NOON + MINUTE,
        "entries": entries,
        "published_at": NOON + 5 * MINUTE,
    }
    return BatchReport(**{**outcome, **changes})


def test_a_batch_as_a_line() -> None:
    assert as_line(report(3)) == (
        "batch 3: 10 rows in 0.5 s (20 rows/s), watermark 2026-04-25T12:00:00Z (5m behind the wall clock, 1m behind "
        "the newest arrival), 1 dead letter; totals: 2 late accepted"
    )
    ahead = as_line(report(published_at=NOON - MINUTE))
    assert "(1m ahead of the wall clock, 1m behind the newest arrival)" in ahead


def test_a_batch_before_the_first_watermark_and_after_the_last() -> None:
    first = report(watermark=BEGIN_OF_TIME, newest_arrival=BEGIN_OF_TIME)
    assert "watermark none yet," in as_line(first)
    assert (as_json(first)["watermark"], as_json(first)["lag_seconds"]) == (None, None)
    assert as_json(first)["arrival_lag_seconds"] is None
    last = report(kind="drain", watermark=END_OF_TIME, seconds=0.0, received=Received(0, 0, 0, 0), entries=[])
    assert as_line(last) == "batch 0 (drain): 0 rows in 0.0 s (0 rows/s), watermark end of time"
    assert as_json(last)["watermark"] == "9999-12-31T23:59:59.999999Z"


def test_batches_as_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    tell = progress(Format.JSON, Totals())
    tell(report(0))
    tell(report(1))
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["batch"] for row in rows] == [0, 1]
    assert (rows[0]["lag_seconds"], rows[0]["arrival_lag_seconds"]) == (300, 60)
    assert rows[0]["published_at"] == "2026-04-25T12:05:00Z"
    assert rows[0]["outputs"]["totals"]["late_accepted"] == 2


def test_batches_as_csv(capsys: pytest.CaptureFixture[str]) -> None:
    tell = progress(Format.CSV, Totals())
    tell(report(0))
    tell(report(1, kind="drain", entries=[]))
    data, drain = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (data["output"], data["on_time"], data["received"]) == ("totals", "7", "10")
    assert (drain["kind"], drain["output"]) == ("drain", "")


def test_away_from_a_terminal_progress_is_a_line_a_batch_on_stderr(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with reporting():
        progress(Format.TABLE, Totals())(report())
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("batch 0: 10 rows")


def test_while_a_source_stands_still_the_lag_that_is_shown_goes_on() -> None:
    clock = ManualClock("12:05")
    with reporting() as display:
        display.stream = Terminal()
        progress(Format.TABLE, Totals(), lambda: clock.now)(report())
        shown = []
        for later in ("0s", "10m", "2h"):
            clock.advance(later)
            shown.append((display.watermark(), display.status()))
    watermark = "watermark 2026-04-25T12:00:00Z ({} behind the wall clock, 1m behind the newest arrival)"
    assert [at for at, _ in shown] == [watermark.format(lag) for lag in ("5m", "15m", "2h 15m")]
    assert all(at in status for at, status in shown)


def test_the_summary_adds_up_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    totals = Totals()
    for batch in range(2):
        totals.add(report(batch))
    print_summary(totals, RunReport(2, NOON, NOON + MINUTE, {}))
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["2", "20", "18", "1.0", "20", "2026-04-25T12:00:00Z"]
    assert lines[4].split() == ["totals", "20", "14", "4", "0", "0", "0", "0", "0", "2"]


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (
            RunReport(0, BEGIN_OF_TIME, BEGIN_OF_TIME, {}),
            ["nothing new: no batch has been read yet", "0 0 0 0.0 0 none yet"],
        ),
        (
            RunReport(7, NOON, NOON, {}),
            ["nothing new: 7 batches are complete", "0 0 0 0.0 0 2026-04-25T12:00:00Z"],
        ),
        (
            RunReport(1, END_OF_TIME, NOON, {"by_hour": 50.04}),
            [
                "output by_hour is new: it was computed from the log in 50.0 s",
                "nothing new: 1 batch is complete",
                "the input was drained: every window is closed",
                "0 0 0 0.0 0 drained",
            ],
        ),
        (
            RunReport(
                1, NOON, NOON, {}, unknown=UnknownSeen(2, ("n", "o")), filled=FilledColumns(("tip",), 3, 1)
            ),
            [
                "column tip is new: 3 past events have a value from what was kept; in 1 it is not of the column's type",
                "2 events have fields that are no columns (n, o), kept as text in the log",
                "nothing new: 1 batch is complete",
                "0 0 0 0.0 0 2026-04-25T12:00:00Z",
            ],
        ),
    ],
)
def test_a_run_without_a_batch_says_where_the_store_stands(
    left: RunReport, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_summary(Totals(), left)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert [line for line in lines if not line.startswith("batches")] == said


def test_a_batch_read_out_of_step_is_warned_of_with_what_to_set() -> None:
    files = Files(path="in", max_files_per_batch=1)
    assert out_of_step_in_words(report(3), files) is None
    late = report(3, out_of_step=OutOfStep(9, 26 * 60 * MINUTE))
    said = out_of_step_in_words(late, files) or ""
    assert said.startswith(
        "warning: batch 3 has 9 events that arrived up to 1d 2h before others that had been read already "
        "(in the whole batch: totals: 2 late accepted). Files are read by modification time, then by path."
    )
    assert "source.files.max_files_per_batch: 1" in said
    assert "source.files.order_by" in said
    assert "order_by" not in (out_of_step_in_words(late, Files(path="in", order_by="seen")) or "")
    assert as_json(late)["out_of_step"] == 9
    punctual = report(3, out_of_step=OutOfStep(9, MINUTE), entries=[])
    assert "none of them is late" in (out_of_step_in_words(punctual, files) or "")
    assert "Let the source hand in rows in the order in which they came" in (
        out_of_step_in_words(late, None) or ""
    )


def test_the_warning_names_events_that_were_delivered_again_where_ids_are_forgotten() -> None:
    late = report(3, out_of_step=OutOfStep(9, MINUTE))
    assert "delivered again" not in (out_of_step_in_words(late, None) or "")
    said = out_of_step_in_words(late, None, ids=True) or ""
    assert (
        "Or they were delivered again: an id is remembered for the longest window and its allowed_lateness"
        in said
    )
    assert "set a longer allowed_lateness, which remembers ids longer. Later batches" in said


def test_what_is_still_to_be_read_is_told_with_the_time_it_takes() -> None:
    behind = report(3, unread=3_000_000)
    speed = round(behind.received.rows / behind.seconds)
    assert f"3,000,000 rows still to read (about {shown_duration(3_000_000_000_000 // speed)})" in as_line(
        behind
    )
    assert as_json(behind)["unread"] == 3_000_000
    assert "still to read" not in as_line(report(3, unread=0))
    assert as_json(report(3))["unread"] is None
