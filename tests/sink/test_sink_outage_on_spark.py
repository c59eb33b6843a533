"""A pipeline that runs on, with three sinks of which one is down for a while."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.cli import main
from latecomer.config.load import load_pipeline
from sink.sink_kit import lines_of, rows_of_delta, rows_of_sqlite
from spark_kit import running_beside

PIPELINE = """\
name: three
store: ./store
source:
  files: {path: in, order_by: arrival_time}
  schema: {event_time: string, arrival_time: string, paise: bigint}
event: {time: event_time}
watermark: {delay: 0, on_idle: hold}
outputs:
  totals:
    window: {tumbling: 10s}
    aggregates: {paise: sum(paise), payments: count(*)}
    sinks: [{sqlite: results.db}, {delta: results}, {jsonl: changes}]
"""
START = datetime(2026, 11, 8, 14, 0, tzinfo=UTC)
PATIENCE = 120


def land(folder: Path, number: int) -> None:
    """Ten seconds of payments: with them the window before closes."""
    draft = folder / f".{number}.json"
    moments = [START + timedelta(seconds=10 * number + second) for second in range(10)]
    rows = [{"event_time": at.isoformat(), "arrival_time": at.isoformat(), "paise": 100} for at in moments]
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    draft.rename(folder / "in" / f"{number:04d}.json")


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def windows(rows: list[dict[str, Any]]) -> list[str]:
    """The windows that were published, each with what makes it right."""
    return sorted(f"{_text(row['window_start'])} {row['payments']} {int(row['paise'])}" for row in rows)


def _text(moment: Any) -> str:
    return str(moment if isinstance(moment, datetime) else datetime.fromisoformat(moment))


def published(numbers: int) -> list[str]:
    return [f"{START + timedelta(seconds=10 * number)} 10 1000" for number in range(numbers)]


def status(file: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["status", str(file), "--format", "json"])
    return {row["sink"]: row for row in json.loads(capsys.readouterr().out)}


@pytest.mark.parametrize(
    ("seconds", "pace"),
    [(3, 1), pytest.param(300, 5, marks=pytest.mark.long)],
    ids=["shortly", "five minutes"],
)
def test_the_others_keep_their_pace(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    pace: float,
) -> None:
    monkeypatch.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.2)
    (tmp_path / "in").mkdir()
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    pipeline = load_pipeline(file)
    delta, jsonl = tmp_path / "results", tmp_path / "changes"

    def others_have(numbers: int) -> bool:
        return len(rows_of_delta(delta)) == numbers == len(lines_of(jsonl))

    with running_beside(pipeline, spark):
        for number in range(3):
            land(tmp_path, number)
        until(lambda: len(lines_of(jsonl)) == 2)  # then every sink is made
        until(lambda: others_have(2))
        until(lambda: len(rows_of_sqlite(tmp_path / "results.db", "totals")) == 2)
        with closing(sqlite3.connect(tmp_path / "results.db", isolation_level=None)) as held:
            held.execute("begin exclusive")
            landed, end = 3, time.monotonic() + seconds
            while time.monotonic() < end or landed < 6:
                next_at = time.monotonic() + pace
                land(tmp_path, landed)
                # Each batch is in the other sinks before the next one comes.
                until(lambda landed=landed: others_have(landed))
                landed += 1
                time.sleep(max(next_at - time.monotonic(), 0))
            shown = status(file, capsys)
            assert [shown[kind]["state"] for kind in ("delta", "jsonl")] == ["up to date", "up to date"]
            assert (shown["sqlite"]["state"], shown["sqlite"]["behind"]) == ("down", landed - 3)
            assert "another program held the database" in shown["sqlite"]["reason"]
            assert windows(lines_of(jsonl)) == published(landed - 1)
            held.execute("rollback")
        until(lambda: len(rows_of_sqlite(tmp_path / "results.db", "totals")) == landed - 1)
        until(lambda: status(file, capsys)["sqlite"]["state"] == "up to date")
    wanted = published(landed - 1)
    assert windows(Reader(pipeline).results("totals").to_pylist()) == wanted
    assert windows(rows_of_sqlite(tmp_path / "results.db", "totals")) == wanted
    assert windows(rows_of_delta(delta)) == wanted
    assert windows(lines_of(jsonl)) == wanted
