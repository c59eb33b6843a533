"""A pipeline that runs into a real Postgres: panes, side output and dead letters; server and process killed in turn."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import latecomer
from faults.faults_kit import publication_times, run_and_die, without_clock, write_pipeline
from latecomer.after.reading.reader import Reader
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run
from latecomer.errors import PipelineError, SinkError
from postgres_kit import PASSWORD, Postgres, required_binaries, running
from sink.sink_kit import TARGET
from spark_kit import quick_start

PIPELINE = """\
name: killed
store: ./store
source:
  files: {{path: in, order_by: arrival_time, max_files_per_batch: 1}}
event: {{time: event_time, id: txn, partition: tower}}
watermark: {{delay: 10s}}
outputs:
  totals:
    window: {{tumbling: 1m}}
    by: [merchant]
    aggregates: {{paise: sum(paise), payments: count(*), spread: stddev(paise), often: "top_k(tower, 2)"}}
    allowed_lateness: 90s
    late: retract
    sinks: [{sink}]
    late_to: [{sink}]
dead_letters_to: [{sink}]
"""


def pipeline_into(folder: Path, schema: str) -> Path:
    file = write_pipeline(folder)
    sink = f"{{postgres: {{target: '${{env:{TARGET}}}', schema: {schema}}}}}"
    file.write_text(PIPELINE.format(sink=sink), encoding="utf-8")
    return file


def everything(server: Postgres, schema: str, file: Path) -> dict[str, list[str]]:
    tables = ("totals", "totals_late", "dead_letters", "latecomer_progress")
    rows = {table: server.ask(f"select * from {schema}.{table}") for table in tables}
    rows["totals"] = without_clock(rows["totals"], publication_times(load_pipeline(file)))
    return {
        table: sorted(str(row).replace(str(file.parent), "") for row in found)
        for table, found in rows.items()
    }


def in_words(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str]:
    """Rows as text: a moment is the same in every zone object."""
    return sorted(str([str(row[name]) for name in names]) for row in rows)


@pytest.mark.long
def test_server_and_process_are_killed_in_turn(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(required_binaries()) as server:
        monkeypatch.setenv(TARGET, server.url_with_password)
        undisturbed = pipeline_into(tmp_path / "undisturbed", "undisturbed")
        run(load_pipeline(undisturbed), drain=True, spark=spark)
        reader = Reader(load_pipeline(undisturbed))
        results = reader.results("totals").to_pylist()
        found = server.ask("select * from undisturbed.totals")
        names = ("window_start", "merchant", "paise", "payments", "spread", "often", "sequence", "timing")
        assert in_words(found, names) == in_words(results, names)
        for rows, table in (
            (reader.late("totals"), "totals_late"),
            (reader.dead_letters().drop_columns(["output"]), "dead_letters"),
        ):
            held = server.ask(f"select * from undisturbed.{table}")
            assert rows.num_rows > 0
            assert in_words(held, rows.column_names) == in_words(rows.to_pylist(), rows.column_names)

        # The process dies in the middle of a batch's transaction; then the server, in the middle of the next one.
        disturbed, environment = pipeline_into(tmp_path / "disturbed", "disturbed"), quick_start()
        assert run_and_die(disturbed, "sink.postgres.copied@1", environment) == -signal.SIGKILL
        assert server.ask("select batch from disturbed.latecomer_progress where output = 'totals'") == [
            {"batch": 0}
        ]
        killed: list[str] = []

        def dies(name: str, batch: int) -> None:
            if (name, batch) == ("sink.postgres.written", 2) and not killed:
                killed.append(name)
                server.kill()
                threading.Timer(1.5, server.start).start()

        monkeypatch.setattr("latecomer.sink.database.failpoint", dies)
        run(load_pipeline(disturbed), drain=True, spark=spark)
        assert killed
        assert everything(server, "disturbed", disturbed) == everything(server, "undisturbed", undisturbed)
        texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert [text for text in texts if PASSWORD.encode() in text] == []
        assert [text for text in capfd.readouterr() if PASSWORD in text] == []


def test_what_is_wrong_is_told_before_spark_starts(
    postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_spark(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("latecomer.engine.running.build_session", no_spark)
    file = pipeline_into(tmp_path / "pipeline", "before_spark")
    monkeypatch.delenv(TARGET, raising=False)
    with pytest.raises(
        PipelineError, match=r"outputs\.totals\.sinks\[0\]\.target: the environment has no such variable"
    ):
        run(load_pipeline(file), file=file)
    monkeypatch.setenv(TARGET, postgres.url_with_password)
    postgres.ask("create schema before_spark")
    postgres.ask("create table before_spark.totals (window_start date)")
    with pytest.raises(
        SinkError, match=r"has other columns .*window_start date instead of timestamp with time zone"
    ):
        run(load_pipeline(file), file=file)


def test_base_and_correction_are_served_after_a_run(
    spark: SparkSession, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TARGET, postgres.url_with_password)
    file = pipeline_into(tmp_path / "pipeline", "served_after_a_run")
    text = file.read_text(encoding="utf-8").replace("late: retract", "late: side_output")
    text = text.replace("schema: served_after_a_run}", "schema: served_after_a_run, serving: true}", 1)
    file.write_text(text, encoding="utf-8")
    pipeline = load_pipeline(file)
    latecomer.run(pipeline, drain=True, spark=spark)
    view = "select window_start, merchant, paise, paise_base, paise_correction, late_events, origin "
    view += "from served_after_a_run.totals_serving"
    assert {row["origin"] for row in postgres.ask(view)} == {"live"}
    corrected = latecomer.correct(pipeline, "totals")
    assert corrected.num_rows > 0
    found, wanted = postgres.ask(view), latecomer.serve(pipeline, "totals")
    assert in_words(found, list(found[0])) == in_words(wanted.to_pylist(), list(found[0]))
    assert sum(row["late_events"] for row in found) == sum(corrected["late_events"].to_pylist())
