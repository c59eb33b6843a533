"""The example in docs/strategies.md, run as it stands there."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer import Reader, load_pipeline, run

DOCUMENT = Path(__file__).parents[2] / "docs" / "strategies.md"
START = datetime(2026, 4, 25, 8, 55, tzinfo=UTC)


def block(language: str) -> str:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text("utf-8"), re.S | re.M)
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "my_rules.py").write_text(block("python"), encoding="utf-8")
    (tmp_path / "trucks.yaml").write_text(block("yaml"), encoding="utf-8")
    yield tmp_path
    sys.modules.pop("my_rules", None)


def arrive(folder: Path, name: str, minutes: range) -> None:
    """One truck, a recording a minute, received as it is made."""
    (folder / "arrivals").mkdir(exist_ok=True)
    with open(folder / "arrivals" / name, "w", encoding="utf-8") as lines:
        for minute in minutes:
            at = (START + timedelta(minutes=minute)).isoformat()
            lines.write(json.dumps({"recorded": at, "received": at, "truck": "7", "litres": 1}) + "\n")


def test_the_example_runs_and_its_state_survives_a_restart(spark: SparkSession, folder: Path) -> None:
    arrive(folder, "1.json", range(60))
    pipeline = load_pipeline(folder / "trucks.yaml")
    run(pipeline, once=True, spark=spark)
    arrive(folder, "2.json", range(60, 90))
    run(load_pipeline(folder / "trucks.yaml"), once=True, spark=spark)
    rows = Reader(pipeline).watermarks().to_pylist()
    lags = {row["at"]: row["at"] - row["watermark"] for row in rows if row["watermark"] is not None}
    # A watermark is that of the tick before, a minute earlier.
    assert lags[START + timedelta(minutes=59)] == timedelta(minutes=21)  # 9:54, in the morning
    assert lags[START + timedelta(minutes=65)] == timedelta(minutes=21)  # 10:00, judged by 9:59
    # The patience of the day is shorter, so the watermark catches up at once, and never went back.
    assert lags[START + timedelta(minutes=66)] == timedelta(minutes=1, seconds=30)
    marks = [row["watermark"] for row in rows if row["watermark"] is not None]
    assert marks == sorted(marks)
