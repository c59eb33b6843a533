"""Side output and dead letters of a real run: one sink down in between, the process killed in between."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from faults.faults_kit import run_and_die, write_pipeline
from latecomer.after.reading.reader import Reader
from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.engine.running import run
from latecomer.errors import SinkError
from latecomer.sink.keeper import sink_status
from latecomer.store.store import open_store
from sink.row_kit import found_in, of_reader, wanted_in
from spark_kit import quick_start

PIPELINE = """\
name: aside
store: ./store
source:
  files: {path: in, order_by: arrival_time, max_files_per_batch: 1}
event: {time: event_time, id: txn, partition: tower}
watermark: {delay: 10s}
outputs:
  totals:
    window: {sliding: 1m, every: 30s}
    by: [merchant]
    aggregates: {paise: sum(paise)}
    late_to: [{jsonl: late_lines}, {sqlite: both.db}]
dead_letters_to: [{jsonl: dead_lines}, {sqlite: both.db}]
"""


def require_same(pipeline: Pipeline, *kinds: str) -> None:
    (counted,) = [row for row in Reader(pipeline).ledger_totals().to_pylist() if row["unit"] == "assignments"]
    for which, fate in (("late", "side_output"), ("dead", "dead_letter")):
        rows = of_reader(pipeline, which)
        assert rows.num_rows == counted[fate] > 0
        for kind in kinds:
            assert found_in(pipeline.base, which, kind) == wanted_in(rows, kind), (which, kind)


@pytest.mark.long
def test_nothing_is_lost_or_doubled(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, environment = write_pipeline(tmp_path), quick_start()
    file.write_text(PIPELINE, encoding="utf-8")
    pipeline = load_pipeline(file)
    assert run_and_die(file, "totals.late.committed@1", environment) == -signal.SIGKILL

    with closing(sqlite3.connect(file.parent / "both.db", isolation_level=None)) as other:
        other.execute("begin exclusive")
        with monkeypatch.context() as impatient:
            impatient.setattr("latecomer.sink.database_file.BUSY_SECONDS", 0.2)
            impatient.setattr("latecomer.sink.worker.LAST_SECONDS", 0.2)
            with pytest.raises(SinkError, match=r"sqlite sink .*both\.db.*Nothing is lost"):
                run(pipeline, drain=True, spark=spark)
        # It held nobody: the run has come to its end, and so have the other sinks.
        require_same(pipeline, "jsonl")
        shown = {
            (row["stream"], row["sink"]): row["state"]
            for row in sink_status(open_store(pipeline)).to_pylist()
        }
        assert shown["late", "jsonl"] == shown["dead_letters", "jsonl"] == "up to date"
        assert shown["late", "sqlite"] == shown["dead_letters", "sqlite"] == "down"
        other.execute("rollback")

    # A sink that was taken away is filled again, and the process dies on the way.
    shutil.rmtree(file.parent / "late_lines")
    assert run_and_die(file, "sink.jsonl.written@2", environment) == -signal.SIGKILL
    run(pipeline, drain=True, spark=spark)
    require_same(pipeline, "jsonl", "sqlite")
    assert {row["state"] for row in sink_status(open_store(pipeline)).to_pylist()} == {"up to date"}
