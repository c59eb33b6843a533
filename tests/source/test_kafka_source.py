"""Topics of a real broker as a source: what is read, when it came, and what is gone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.replay.replaying import replay
from latecomer.errors import SourceError
from latecomer.ledger.check import check_ledger
from latecomer.running import run
from source.kafka_source_kit import payments, pipeline_on, totals


def test_a_topic_is_read_to_its_end_and_from_there_on(
    spark: SparkSession, kafka: Client, tmp_path: Path
) -> None:
    topic = kafka.create_topic(partitions=3)
    pipeline = pipeline_on(tmp_path, kafka, topic, max_rows_per_batch=100)
    kafka.produce(topic, ((row["txn"], row) for row in payments(0, 250)))
    report = run(pipeline, once=True, spark=spark)
    assert report.batches >= 3, "no batch has much more than its share"
    kafka.produce(topic, ((row["txn"], row) for row in payments(250, 50)))
    run(pipeline, drain=True, spark=spark)
    assert totals(pipeline) == (300, sum(range(300)))
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal


def test_offsets_that_are_gone_are_named(spark: SparkSession, kafka: Client, tmp_path: Path) -> None:
    topic = kafka.create_topic(partitions=2)
    pipeline = pipeline_on(tmp_path, kafka, topic)
    kafka.produce(topic, payments(0, 10), partition=1)
    run(pipeline, once=True, spark=spark)
    kafka.produce(topic, payments(10, 10), partition=1)
    kafka.delete_records(topic, before=15, partition=1)
    with pytest.raises(SourceError, match=rf"topic {topic}, partition 1: offsets 10 to 14 are gone"):
        run(pipeline, once=True, spark=spark)
    going_on = pipeline_on(tmp_path, kafka, topic, on_data_loss="continue")
    run(going_on, drain=True, spark=spark)
    assert totals(going_on) == (15, sum(range(10)) + sum(range(15, 20)))


def test_a_topic_that_was_made_again_is_refused(spark: SparkSession, kafka: Client, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    pipeline = pipeline_on(tmp_path, kafka, topic)
    kafka.produce(topic, payments(0, 5))
    run(pipeline, once=True, spark=spark)
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, payments(0, 9))
    with pytest.raises(SourceError, match=f"topic {topic} was deleted and made again"):
        run(pipeline, once=True, spark=spark)
