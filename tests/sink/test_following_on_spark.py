"""A pipeline whose file gets a column, a wider type and another definition: its sinks follow, and no number changes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from latecomer import load_pipeline, run
from latecomer.after.rebuild import rebuilding
from latecomer.model.durations import to_micros
from sink.sink_kit import rows_of_delta, rows_of_sqlite

NOON = datetime(2026, 4, 25, 12, tzinfo=UTC)
PIPELINE = """\
name: rides
store: store
source:
  files: {{path: in, order_by: arrived}}
  schema: {{at: timestamp, arrived: timestamp, fare_cents: {kind}{more}}}
event: {{time: at}}
watermark: {{delay: 10s}}
outputs:
  totals:
    window: {{tumbling: 1m}}
    aggregates: {{{aggregates}, least: min(fare_cents)}}
    {columns}
    sinks: [{{delta: totals}}]
    late_to: [{{sqlite: late.db}}]
"""
BEFORE = {"kind": "int", "more": "", "aggregates": "fare: sum(fare_cents)", "columns": ""}
AFTER = {
    "kind": "bigint",
    "more": ", pricing: {base: bigint, tax: bigint}",
    "aggregates": "fare: sum(paid)",
    "columns": "columns: {paid: 'coalesce(pricing.base + pricing.tax, fare_cents)'}",
}


def write(folder: Path, number: int, *rows: tuple[int, dict[str, Any]]) -> None:
    """A file of events: the second of each, and what it holds. They come in their order."""
    lines = []
    for nth, (second, values) in enumerate(rows):
        came = NOON + timedelta(seconds=1000 * (number + 1) + nth)
        at = NOON + timedelta(seconds=second)
        lines.append(json.dumps({"at": at.isoformat(), "arrived": came.isoformat(), **values}) + "\n")
    (folder / "in" / f"{number}.json").write_text("".join(lines), encoding="utf-8")


def totals(folder: Path) -> list[tuple[Any, ...]]:
    rows = rows_of_delta(folder / "totals")
    return sorted((row["window_start"], int(row["fare"]), row["least"], row["sequence"]) for row in rows)


@pytest.mark.long
def test_sinks_follow_the_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.format(**BEFORE), encoding="utf-8")
    write(tmp_path, 0, (5, {"fare_cents": 900}), (80, {"fare_cents": 50}), (6, {"fare_cents": 7}))
    run(load_pipeline(file), once=True, spark=spark)
    first = [(NOON, 900, 900, 0)]
    assert totals(tmp_path) == first
    file.write_text(PIPELINE.format(**AFTER), encoding="utf-8")
    rebuilding.apply(load_pipeline(file), "totals", since=to_micros(NOON + timedelta(minutes=1)), spark=spark)
    assert totals(tmp_path) == first
    large = {"fare_cents": 2**40, "pricing": {"base": 2**40 - 1, "tax": 1}}
    write(tmp_path, 1, (90, large), (7, {"pricing": {"base": 3, "tax": 1}}), (140, large), (141, large))
    run(load_pipeline(file), once=True, spark=spark)
    assert totals(tmp_path) == [*first, (NOON + timedelta(minutes=1), 50 + 2**40, 50, 0)]
    kinds = {field.name: str(field.type) for field in DeltaTable(str(tmp_path / "totals")).schema().fields}
    assert "long" in kinds["least"]
    late = rows_of_sqlite(tmp_path / "late.db", "totals_late")
    assert [(row["fare_cents"], row["pricing.base"], row["paid"]) for row in late] == [
        (7, None, None),
        (None, 3, 4),
    ]
