"""A whole run with Kafka sinks for everything: killed in a transaction, and what the topics hold afterwards."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from faults.faults_kit import run_and_die, write_pipeline
from kafka_kit import Client
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run
from latecomer.sink.keeper import sink_status
from latecomer.store.store import open_store
from sink.sink_kit import lines_of, rows_of_sqlite
from spark_kit import quick_start


def test_topics_hold_what_the_other_sinks_hold(spark: SparkSession, kafka: Client, tmp_path: Path) -> None:
    names = {name: kafka.new_name() for name in ("totals", "alerts", "late", "dead")}

    def to(name: str, more: str = "") -> str:
        return f"{{kafka: {{servers: '{kafka.servers}', topic: {names[name]}, partitions: 1{more}}}}}"

    file = write_pipeline(tmp_path)
    text = file.read_text(encoding="utf-8")
    text = text.replace("{delta: results}", to("totals", ", compacted: true"))
    text = text.replace("{parquet: changes}", to("alerts"))
    text += (
        f"    late_to: [{to('late')}, {{jsonl: late}}]\ndead_letters_to: [{to('dead')}, {{jsonl: dead}}]\n"
    )
    file.write_text(text, encoding="utf-8")

    assert run_and_die(file, "sink.kafka.written@1", quick_start()) == -signal.SIGKILL
    pipeline = load_pipeline(file)
    run(pipeline, drain=True, spark=spark)

    assert changes(kafka, names["alerts"]) == lines_of(tmp_path / "alerts")
    assert changes(kafka, names["late"]) == lines_of(tmp_path / "late")
    assert changes(kafka, names["dead"]) == lines_of(tmp_path / "dead") != []
    standing = {record.key: record.value for record in kafka.consume(names["totals"])}
    found = [json.loads(value) for value in standing.values() if value is not None]
    assert sorted(map(place, found)) == sorted(map(place, rows_of_sqlite(tmp_path / "results.db", "totals")))
    assert {row["state"] for row in sink_status(open_store(pipeline)).to_pylist()} == {"up to date"}


def changes(kafka: Client, topic: str) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"") for record in kafka.consume(topic)]


def place(row: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("window_start", "merchant", "sequence", "paise", "payments"))
