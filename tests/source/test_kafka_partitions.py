"""Partitions of a topic that are silent, slow, behind or new: verdicts are what the oracle says of what was read."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.replay.replaying import replay
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.store.store import open_store
from source.fates_kit import by_the_ledger, by_the_oracle
from source.kafka_source_kit import iso, pipeline_on

WATERMARK = {"delay": "1s", "every": "200ms", "idle_after": "4s", "max_future": None}
OUTPUT = {"window": {"tumbling": "1s"}, "aggregates": {"payments": "count(*)"}, "allowed_lateness": "10s"}


def now(behind: float = 0.0) -> dict[str, Any]:
    return {"at": iso(datetime.now(UTC) - timedelta(seconds=behind))}


@pytest.mark.long
def test_silent_slow_behind_and_added(spark: SparkSession, kafka: Client, tmp_path: Path) -> None:
    topic = kafka.create_topic(partitions=4, message_timestamp_type="LogAppendTime")
    pipeline = pipeline_on(
        tmp_path,
        kafka,
        topic,
        max_rows_per_batch=12,
        schema={"at": "string"},
        event={"time": "at"},
        watermark=WATERMARK,
        outputs={"seconds": OUTPUT},
    )
    ahead, slow, backlog = 0, 1, 2  # the last partition never has a record
    kafka.produce(topic, [now(behind=60 - nth) for nth in range(40)], partition=backlog)
    kafka.produce(topic, [now()], partition=slow)
    for nth in range(3):
        kafka.produce(topic, [now() for _ in range(4)], partition=ahead)
        run(pipeline, once=True, spark=spark)
        time.sleep(0.5)
        if nth == 1:
            kafka.add_partitions(topic, 5)
            kafka.produce(topic, [now(behind=3)], partition=4)
    kafka.produce(topic, [now(behind=2)], partition=slow)
    time.sleep(4)
    kafka.produce(topic, [now() for _ in range(3)], partition=ahead)
    run(pipeline, drain=True, spark=spark)
    named = json.loads(
        open_store(pipeline)
        .watermarks.query("select carry from t where carry is not null order by batch limit 1")["carry"][0]
        .as_py()
    )["named"]
    assert named == {f"{topic}/{n}": n == backlog or named[f"{topic}/{n}"] for n in range(4)}
    assert named[f"{topic}/{backlog}"], "there was more of the backlog than the first batch read"
    assert by_the_ledger(pipeline, "seconds") == by_the_oracle(pipeline, "seconds")
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal
    anew = replay(pipeline, changes={"watermark.delay": "1s"}, spark=spark)
    assert anew.outputs["seconds"].results.rows.num_rows == 0, "the timeline computed anew says the same"
