"""What a rebuild tells each sink: tables hold the rebuilt number, change streams add up to it."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from latecomer import load_pipeline, run
from latecomer.after.reading.reader import Reader
from latecomer.after.rebuild import rebuilding
from latecomer.after.serving.correcting import correct
from latecomer.sink.keeper import SinkKeeper
from latecomer.store.store import open_store

NOON = datetime(2026, 11, 8, 12, tzinfo=UTC)
PIPELINE = """\
name: shop
store: ./store
source:
  files: {path: arrivals, order_by: arrival_time}
  schema: {event_time: string, arrival_time: string, key: string}
event: {time: event_time}
watermark: {delay: 10s}
outputs:
  sales:
    window: {tumbling: 1m}
    by: [key]
    aggregates: {many: count(*)}
    late: side_output
    sinks: [{delta: delta}, {sqlite: sales.db}, {jsonl: jsonl}, {parquet: parquet}]
    late_to: [{jsonl: late}]
"""
SALES = [
    ("a", 5, 5),
    ("a", 20, 20),
    ("b", 30, 30),
    ("a", 65, 65),
    ("a", 200, 200),  # closes the first minutes
    ("a", 40, 205),  # late for a number that was told
    ("c", 50, 206),  # late, and the only one of its key
    ("a", 400, 400),
]
"""Key, second of the event, second of its arrival."""
LOG = {("a", 0): 3, ("b", 0): 1, ("c", 0): 1, ("a", 1): 1, ("a", 3): 1, ("a", 6): 1}
Rows = Iterable[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sinks of a pipeline whose first minutes were rebuilt."""
    folder = tmp_path_factory.mktemp("shop")
    (folder / "arrivals").mkdir()
    with open(folder / "arrivals" / "0.json", "w", encoding="utf-8") as lines:
        for key, happened, arrived in SALES:
            row = {"event_time": _at(happened), "arrival_time": _at(arrived), "key": key}
            lines.write(json.dumps(row) + "\n")
    file = folder / "shop.yaml"
    file.write_text(PIPELINE, encoding="utf-8")
    run(load_pipeline(file), drain=True, spark=spark)
    assert rebuilding.apply(load_pipeline(file), "sales", spark=spark).batch is not None
    return folder


def test_tables_hold_what_stands(folder: Path) -> None:
    delta = DeltaTable(str(folder / "delta")).to_pyarrow_table().to_pylist()
    with closing(sqlite3.connect(folder / "sales.db")) as database:
        database.row_factory = sqlite3.Row
        sqlite = [dict(row) for row in database.execute("select * from sales")]
    for rows in (delta, sqlite):
        assert {_place(row): row["many"] for row in rows} == LOG
        assert {_place(row): row["sequence"] for row in rows if row["timing"] == "CORRECTION"} == {
            ("a", 0): 1,
            ("c", 0): 0,
        }


def test_a_rebuild_was_published_when_it_was_and_not_before(folder: Path) -> None:
    reader = Reader(load_pipeline(folder / "shop.yaml"))
    panes = reader.panes("sales").to_pylist()
    (rebuilt,) = {row["published_at"] for row in panes if row["timing"] == "CORRECTION"}
    assert rebuilt > max(row["published_at"] for row in panes if row["timing"] != "CORRECTION")
    known = {
        moment: {_place(row): row["many"] for row in reader.results("sales", as_of=moment).to_pylist()}
        for moment in (rebuilt - timedelta(microseconds=1), rebuilt)
    }
    before = {**LOG, ("a", 0): 2}
    del before["c", 0]
    assert list(known.values()) == [before, LOG]
    outcome = DeltaTable(str(folder / "delta")).to_pyarrow_table().to_pylist()
    assert {row["published_at"] for row in outcome if row["timing"] == "CORRECTION"} == {rebuilt}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_change_streams_add_up_to_what_stands(folder: Path, kind: str) -> None:
    """These take no updates: a number that is replaced has to be taken back."""
    added: Counter[tuple[str, int]] = Counter()
    for row in _changes(folder / kind):
        added[_place(row)] += row["many"] if row["op"] == "insert" else -row["many"]
    assert dict(added) == LOG


def test_late_rows_stay_as_they_are(folder: Path) -> None:
    """A rebuild takes late events into numbers, and so does a correction: they were late all the same."""
    late = [("a", 0, 0), ("c", 0, 0)]
    assert [(*_place(row), row["batch"]) for row in _changes(folder / "late")] == late
    pipeline = load_pipeline(folder / "shop.yaml")
    correct(Reader(pipeline), "sales")
    keeper = SinkKeeper(open_store(pipeline))
    keeper.start(Reader(pipeline).batches() - 1)
    keeper.finish()
    keeper.close()
    assert [(*_place(row), row["batch"]) for row in _changes(folder / "late")] == late


def _changes(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for file in sorted(folder.glob("batch-*")):
        if file.suffix == ".jsonl":
            rows += map(json.loads, file.read_text(encoding="utf-8").splitlines())
        else:
            rows += pq.read_table(file).to_pylist()
    return rows


def _place(row: dict[str, Any]) -> tuple[str, int]:
    start = row["window_start"]
    moment = datetime.fromisoformat(start) if isinstance(start, str) else start
    return row["key"], (moment - NOON) // timedelta(minutes=1)


def _at(second: int) -> str:
    return (NOON + timedelta(seconds=second)).isoformat()
