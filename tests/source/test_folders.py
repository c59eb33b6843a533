"""Folders below the source's: which files are found, what `day=2013-01-01` says, and which file a row is from."""

from __future__ import annotations

import threading
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from latecomer.config.paths import list_files
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.running import run
from latecomer.store.store import Store, open_store
from source.source_kit import (
    dead_letters,
    parquet_bytes,
    pipeline_in,
    rows_of,
    run_once,
    write_json,
    write_text,
)

AT = "2026-11-08T14:00:00Z"


def found(store: Store, *columns: str) -> list[tuple[Any, ...]]:
    listed = ", ".join(columns)
    return [tuple(row.values()) for row in rows_of(store.events, f"select {listed} from t order by txn")]


def test_a_folder_says_columns_for_the_files_in_it(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path, "a.json", [{"at": AT, "txn": "a", "day": "2013-12-31"}, {"at": AT, "txn": "b"}])
    write_json(
        tmp_path, "day=2013-01-01/a.json", [{"at": AT, "txn": "c"}, {"at": AT, "txn": "d", "city": "own"}]
    )
    write_json(tmp_path, "day=2013-01-01/city=S%C3%A3o Paulo%2Fx/a.json", [{"at": AT, "txn": "e"}])
    write_json(tmp_path, "day=__HIVE_DEFAULT_PARTITION__/a.json", [{"at": AT, "txn": "f"}])
    for ignored in ("plain/a.json", "_tmp/a.json", ".git/a.json", "day=2013-01-01/plain/a.json", "_SUCCESS"):
        write_json(tmp_path, ignored, [{"at": AT, "txn": ignored}])
    schema = {"at": "string", "txn": "string", "day": "date", "city": "string"}
    outputs = {"daily": {"window": {"tumbling": "1m"}, "by": ["day"], "aggregates": {"n": "count(*)"}}}
    pipeline = pipeline_in(tmp_path, schema=schema, outputs=outputs, event={"partition": "city"})
    assert len(list_files(pipeline.source_path)) == 4
    reports: list[BatchReport] = []
    stop = threading.Event()

    def follow(report: BatchReport) -> None:
        """Folders that come while the pipeline runs are found."""
        reports.append(report)
        if len(reports) == 1:
            write_json(tmp_path, "day=2013-01-02/a.json", [{"at": AT, "txn": "g"}], 1)
            write_json(tmp_path, "day=soon/a.json", [{"at": AT, "txn": "h"}], 1)
        elif sum(each.received.rows for each in reports) >= 8:
            stop.set()

    run(pipeline, spark=spark, watch=follow, stop=stop)
    store = open_store(pipeline)
    first, second = date(2013, 1, 1), date(2013, 1, 2)
    assert found(store, "txn", "day", "source_partition", "origin") == [
        ("a", date(2013, 12, 31), None, "a.json"),
        ("b", None, None, "a.json"),
        ("c", first, None, "day=2013-01-01/a.json"),
        ("d", first, "own", "day=2013-01-01/a.json"),
        ("e", first, "São Paulo/x", "day=2013-01-01/city=S%25C3%25A3o%20Paulo%252Fx/a.json"),
        ("f", None, None, "day=__HIVE_DEFAULT_PARTITION__/a.json"),
        ("g", second, None, "day=2013-01-02/a.json"),
    ]
    [(reason, raw, _, _)] = dead_letters(store)
    assert (reason, raw) == ("unreadable_file", "its folder says day=soon, and day is date")


def test_a_pattern_reaches_any_depth_and_folders_may_look_like_patterns(
    spark: SparkSession, tmp_path: Path
) -> None:
    odd = tmp_path / "od[d] {x}" / "it's"
    csv = {"format": "csv", "header": False, "path": "in/**/*.csv"}
    write_text(odd, "day=7/month=01/b.csv", f"{AT},b\n", 1)
    write_text(odd, "a.csv", f"7,01,{AT},a\n")
    write_text(odd, "plain/day=8/month=10/c.csv", f"{AT},c\n", 2)
    write_text(odd, "a.txt", "not asked for\n")
    schema = {"day": "bigint", "month": "string", "at": "string", "txn": "string"}
    pipeline = pipeline_in(odd, files=csv, schema=schema).model_copy(update={"store": str(tmp_path / "odd")})
    store = run_once(pipeline, spark)
    folder = f"file://{tmp_path}/od%5Bd%5D%20%7Bx%7D/it's/in"
    assert found(store, "txn", "day", "month", "origin") == [
        ("a", 7, "01", f"{folder}/a.csv"),
        ("b", 7, "01", f"{folder}/day=7/month=01/b.csv"),
        ("c", 8, "10", f"{folder}/plain/day=8/month=10/c.csv"),
    ]
    assert dead_letters(store) == []

    moments = pa.array([1_794_146_400_000_000], pa.timestamp("us", "UTC"))
    for day in (1, 2):
        content = parquet_bytes(at=moments, txn=pa.array([f"p{day}"]))
        write_text(tmp_path, f"day=2013-01-0{day}/a.parquet", content, day)
    renamed = pipeline_in(tmp_path, files={"format": "parquet"}, columns={"on_day": "day"})
    store = run_once(renamed, spark)
    assert found(store, "txn", "on_day") == [("p1", date(2013, 1, 1)), ("p2", date(2013, 1, 2))]
