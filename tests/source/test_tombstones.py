"""Records without a value that are skipped: they are counted, each once, and the ledger balances without them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from cli.cli_kit import calling
from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.store import failpoints
from source.kafka_source_kit import payments, pipeline_on, totals


class Died(BaseException):
    """Stands for the end of the process."""


def with_tombstones(first: int, count: int) -> list[tuple[str, object]]:
    """Payments, and after each third a tombstone; one cannot be read, one comes twice."""
    records: list[tuple[str, object]] = []
    for nth, row in enumerate(payments(first, count)):
        records += [(row["txn"], row), *([(row["txn"], None)] if nth % 3 == 2 else [])]
    return [*records, ("x", "{not json"), records[0]]


def written(pipeline: Pipeline, folder: Path) -> Path:
    file = folder / "pipeline.yaml"
    file.write_text(yaml.safe_dump(pipeline.model_dump(mode="json", by_alias=True, exclude_none=True)))
    return file


@pytest.mark.long
def test_tombstones_are_counted_once_wherever_a_run_ends(
    spark: SparkSession,
    kafka: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic = kafka.create_topic()
    pipeline = pipeline_on(tmp_path, kafka, topic, tombstones="skip")
    kafka.produce(topic, with_tombstones(0, 30))

    def die(*_: object) -> None:
        raise Died

    with monkeypatch.context() as deadly:
        deadly.setattr(failpoints.os, "kill", die)
        for nth, place in enumerate(
            ("events.written", "dead_letters.committed", "events.committed", "watermarks.committed")
        ):
            deadly.setenv(failpoints.VARIABLE, f"{place}@0")
            with pytest.raises(Died):
                run(pipeline, once=True, spark=spark)
            assert Reader(pipeline).tombstones() == (10 if nth >= 2 else 0)
    run(pipeline, once=True, spark=spark)
    assert Reader(pipeline).tombstones() == 10
    kafka.produce(topic, [("a", None), ("b", None)])
    run(pipeline, once=True, spark=spark)
    assert Reader(pipeline).tombstones() == 12
    kafka.produce(topic, with_tombstones(30, 30))
    run(pipeline, drain=True, spark=spark)
    assert Reader(pipeline).tombstones() == 22

    assert totals(pipeline) == (60, sum(range(60)))
    row = Reader(pipeline).ledger_totals().to_pylist()[0]
    assert [int(row[name]) for name in ("received", "on_time", "duplicate", "dead_letter")] == [64, 60, 2, 2]
    assert {each["reason"] for each in Reader(pipeline).dead_letters().to_pylist()} == {"unreadable"}
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal
    shown = calling(capsys)("ledger", str(written(pipeline, tmp_path)))
    assert "note: 22 tombstones were skipped: not among what was received" in shown.err


def test_what_becomes_of_tombstones_may_change_between_runs(
    spark: SparkSession, kafka: Client, tmp_path: Path
) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [("a", None), *((row["txn"], row) for row in payments(0, 2))])
    run(pipeline_on(tmp_path, kafka, topic, tombstones="skip"), once=True, spark=spark)
    kafka.produce(topic, [("b", None)])
    pipeline = pipeline_on(tmp_path, kafka, topic)
    run(pipeline, drain=True, spark=spark)
    assert Reader(pipeline).tombstones() == 1
    assert [row["reason"] for row in Reader(pipeline).dead_letters().to_pylist()] == ["tombstone"]
    assert check_ledger(pipeline, spark) == []
