"""The demo's own figures: what it prints of the tower in Lucknow is what it writes and what comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.cli.stories import bookmyshow, diwali
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run


def rows(folder: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(folder.iterdir()):
        yield from map(json.loads, file.read_text(encoding="utf-8").splitlines())


def test_lucknow_sends_1_824_payments_of_half_a_minute_at_once(tmp_path: Path) -> None:
    """Stamped 19:30:14 to 19:30:44, sent at 19:47:22; and nothing of the tower in between."""
    file, payments = diwali.write_scenario(tmp_path)
    files = sorted((file.parent / "arrivals").iterdir())
    written = [line for each in files for line in each.read_text(encoding="utf-8").splitlines()]
    assert len(written) == payments == 301_967
    flushed = datetime.fromisoformat("2026-11-08T14:17:22Z")
    silent = [
        row
        for row in (json.loads(line) for line in written if "lucknow" in line)
        if row["tower"] == "lucknow"
        and diwali.SILENT_FROM <= datetime.fromisoformat(row["event_time"]) < diwali.SILENT_UNTIL
    ]
    assert len(silent) == 1_824
    for row in silent:
        assert "2026-11-08T14:00:14" <= row["event_time"] < "2026-11-08T14:00:45"
        assert flushed <= datetime.fromisoformat(row["arrival_time"]) <= flushed + timedelta(seconds=1)


@pytest.mark.long
def test_of_the_final_140_000_views_were_buffered(tmp_path: Path) -> None:
    """Seen while the edge was down, from 19:32 to 19:54 IST; 131,000 come that evening, 9,000 the next day."""
    bookmyshow.write_scenario(tmp_path)
    since, until, flush = "2024-05-26T14:02:00", "2024-05-26T14:24:00", "2024-05-26T14:24:05"
    came = [
        sum(
            since <= row["event_time"] < until and row["arrival_time"] >= flush
            for row in rows(tmp_path / folder)
        )
        for folder in ("arrivals", "next_morning")
    ]
    prompt = came[0] - 131_000  # a few were on their way when the first wave came
    assert 0 <= prompt < 50
    assert sum(came) - prompt == 140_000


@pytest.mark.long
def test_each_policy_says_what_became_of_the_1_824(spark: SparkSession, tmp_path: Path) -> None:
    file, payments = diwali.write_scenario(tmp_path)
    pipeline = load_pipeline(file)
    run(pipeline, drain=True, spark=spark, file=file)
    reader = Reader(pipeline)
    aside = [
        row
        for row in reader.late("cfo_report").to_pylist()
        if row["source_partition"] == "lucknow" and row["window_start"] == diwali.CLOSED_MINUTE
    ]
    assert len([row for row in aside if row["arrival_time"] >= diwali.SILENT_UNTIL]) == 1_824
    towers = reader.panes("alerts", window=diwali.CLOSED_MINUTE).to_pylist()
    of_lucknow = [
        pane["payments"] for pane in towers if pane["tower"] == "lucknow" and pane["op"] == "insert"
    ]
    assert of_lucknow[-1] - of_lucknow[-2] == 1_824
    for entry in reader.ledger_totals().to_pylist():
        if entry["unit"] == "events":
            assert entry["received"] == payments
