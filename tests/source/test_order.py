"""The order in which files are read: by modification time, then by path; and what is read out of step."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.running import run
from latecomer.store.store import open_store
from source.source_kit import ledger_lines, pipeline_in, rows_of, write_json

HOURS = 24


def daily(day: int) -> list[dict[str, Any]]:
    """An event an hour; it arrives as it happens."""
    return [{"at": f"2013-01-{day:02d}T{hour:02d}:00:00Z"} for hour in range(HOURS)]


def test_files_of_one_millisecond_are_read_by_path_and_a_straggler_is_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    outputs = {
        "hourly": {"window": {"tumbling": "1h"}, "aggregates": {"n": "count(*)"}, "late": "drop"},
    }
    one = pipeline_in(tmp_path, files={"order_by": "at", "max_files_per_batch": 1}, outputs=outputs)
    for day in (5, 2, 7, 4, 3, 6):  # the folder lists them in whatever order they were made
        write_json(tmp_path, f"day-{day}.json", daily(day))
    reports: list[BatchReport] = []
    stop = threading.Event()

    def two_batches(report: BatchReport) -> None:
        reports.append(report)
        if report.batch == 1:
            stop.set()

    run(one, once=True, spark=spark, watch=two_batches, stop=stop)
    # The run was stopped amid what Spark handed over. The rest is cut as it was begun.
    three = pipeline_in(tmp_path, files={"order_by": "at", "max_files_per_batch": 3}, outputs=outputs)
    run(three, once=True, spark=spark, watch=reports.append)
    store = open_store(three)
    read = "select batch, max(origin) as origin, count(*) as n from t group by batch order by batch"
    assert rows_of(store.events, read) == [
        {"batch": batch, "origin": f"day-{batch + 2}.json", "n": HOURS} for batch in range(6)
    ]
    assert all(line["on_time"] == HOURS for line in ledger_lines(store, "hourly").values())
    assert [report.out_of_step for report in reports] == [None] * 6
    assert rows_of(store.watermarks, "select distinct arrival_by from t") == [{"arrival_by": "column"}]

    write_json(tmp_path, "day-1.json", daily(1))
    write_json(tmp_path, "day-8.json", daily(8))
    run(three, once=True, spark=spark, watch=reports.append)
    late = reports[-1].out_of_step
    assert late is not None
    assert len(reports) == 7
    assert (late.events, late.by) == (HOURS, (6 * 24 + 23) * 3_600_000_000)
    assert ledger_lines(store, "hourly")[6, "events"]["dropped"] == HOURS


def test_without_a_column_that_says_it_rows_came_with_their_file(spark: SparkSession, tmp_path: Path) -> None:
    write_json(tmp_path, "good.json", daily(1))
    write_json(tmp_path, "unreadable.json.gz", daily(2))  # it is no gzip
    pipeline = pipeline_in(tmp_path)
    run(pipeline, once=True, spark=spark)
    store = open_store(pipeline)
    assert rows_of(store.dead_letters, "select reason from t") == [{"reason": "unreadable_file"}]
    assert rows_of(store.watermarks, "select distinct arrival_by from t") == [{"arrival_by": "file"}]
