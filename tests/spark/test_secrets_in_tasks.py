"""Secrets where the work is done in tasks: what tasks are given, and what Spark writes down of them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from latecomer.config.kafka import KafkaTopics
from latecomer.config.models import Pipeline
from latecomer.engine.pipeline import Engine
from latecomer.errors import SourceError
from latecomer.source.choose import source_of
from latecomer.source.kafka.reader import KafkaReader
from latecomer.source.kafka.source import KafkaSource, TopicSplit
from latecomer.source.staging import Staging
from latecomer.spark.base import InProcess
from latecomer.spark.runner import SparkRunner
from latecomer.spark.when_needed import when_needed
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store
from source.kafka_source_kit import MINUTES, payments_from
from spark_kit import event_log

WORD, PLAIN, OF_A_SINK, OF_A_REGISTRY = (
    "open-sesame-31",
    "plain-barley-32",
    "locked-drawer-33",
    "spare-key-34",
)


def split_of(folder: Path, **options: str) -> TopicSplit:
    """What a task is given of a topic, on a broker that is not there."""
    topics = KafkaTopics(servers="127.0.0.1:1", topics=("payments",), options=options)
    settings = KafkaReader(topics=topics, base=folder).client_settings()
    return TopicSplit(("payments", 0), 0, 10, 0, settings)


def guarded(folder: Path) -> Pipeline:
    """A pipeline with a secret wherever there can be one."""
    sinks = [
        {"postgres": f"postgresql://ana:{OF_A_SINK}@127.0.0.1/books"},
        {"kafka": {"servers": "127.0.0.1:1", "options": {"sasl.password": "${env:WORD}"}}},
    ]
    kafka = {"servers": "127.0.0.1:1", "topics": ["payments"], "options": {"sasl.password": "${env:WORD}"}}
    registry = {"registry": "http://127.0.0.1:1", "token": OF_A_REGISTRY}
    source = {
        "kafka": kafka,
        "format": {"json": registry},
        "schema": {"at": "string", "txn": "string", "paise": "bigint"},
    }
    return payments_from(folder, source, outputs={"minutes": {**MINUTES, "sinks": sinks}})


def test_plans_that_tasks_share_hold_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of sinks and registries stay on the driver, however they are written."""
    monkeypatch.setenv("WORD", WORD)
    pipeline = guarded(tmp_path)
    engine = Engine(InProcess(when_needed(_no_spark)), Store(pipeline, source_columns(pipeline)))
    (source,) = engine.log.sources.values()
    assert WORD in repr(dict(source.reader.client_settings()))  # type: ignore[attr-defined]
    sent = cloudpickle.dumps((engine.log._plan(""), engine.firing._plan(engine.outputs)))
    assert b"payments" in sent
    for secret in (WORD, OF_A_SINK, OF_A_REGISTRY):
        assert secret.encode() not in sent


def _no_spark() -> SparkSession:
    raise AssertionError("nothing here needs Spark")


ELSEWHERE = """
import pickle, sys
split = pickle.load(sys.stdin.buffer)
from latecomer.errors.redacting import without_secrets
print(repr(split), without_secrets(" ".join([str(split.settings), *split.settings.values()])))
"""


def test_a_process_that_is_given_secrets_hides_them_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of Spark's has not read them itself: what a split holds of them is hidden there from the first."""
    monkeypatch.setenv("WORD", WORD)
    split = split_of(tmp_path, **{"sasl.password": PLAIN, "ssl.key.pem": "${env:WORD}"})
    said = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], input=pickle.dumps(split), capture_output=True, check=True
    ).stdout.decode()
    assert "payments" in said
    assert said.count("***") >= 2
    assert WORD not in said
    assert PLAIN not in said


def test_no_secret_of_a_task_is_in_the_event_log_or_left_in_a_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the client of a task refuses an option, and quotes what it was given."""
    monkeypatch.setenv("WORD", WORD)
    split = split_of(tmp_path, **{"client.dns.lookup": "${env:WORD}"})
    pipeline = guarded(tmp_path)
    source = source_of(pipeline, source_columns(pipeline).read_from(""))
    assert isinstance(source, KafkaSource)
    staging = Staging(lambda: spark, SparkRunner(spark), tmp_path / "staging")
    with event_log(spark, tmp_path) as log, pytest.raises(SourceError) as raised:
        staging.records(source, [split])
    assert "every executor" in str(raised.value)
    assert "client.dns.lookup" in str(raised.value)
    said = log.read_text(encoding="utf-8")
    assert '"spark.job.description":"records"' in said
    assert "SparkListenerTaskEnd" in said
    left = [path.read_bytes() for path in Path(spark.sparkContext._temp_dir).rglob("*") if path.is_file()]
    for text in (str(raised.value).encode(), said.encode(), *left):
        assert WORD.encode() not in text
