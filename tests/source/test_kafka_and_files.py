"""A topic and a folder in one pipeline, followed together."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.store.store import open_store
from sink.feeding_kit import eventually
from source.fates_kit import by_the_ledger, by_the_oracle
from source.kafka_source_kit import iso
from spark_kit import running_beside

PATIENT = {"every": "200ms", "max_future": None}


def both(folder: Path, broker: Client, topic: str, most: int = 100_000, files: int = 1000) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "shop",
            "base": folder,
            "store": "store",
            "sources": {
                "app": {
                    "kafka": {"servers": broker.servers, "topics": [topic], "max_rows_per_batch": most},
                    "schema": {"at": "string", "paise": "bigint"},
                    "watermark": {"delay": "1s", "idle_after": "4s", **PATIENT},
                },
                "pos": {
                    "files": {"path": "pos", "max_files_per_batch": files},
                    "schema": {"t": "string", "amount": "bigint"},
                    "columns": {"at": "t", "paise": "amount"},
                    "watermark": {"delay": "2s", "idle_after": "4s", **PATIENT},
                },
            },
            "event": {"time": "at"},
            "outputs": {
                "seconds": {
                    "window": {"tumbling": "1s"},
                    "by": ["source"],
                    "aggregates": {"n": "count(*)", "paise": "sum(paise)"},
                }
            },
        }
    )


def now(behind: float = 0.0) -> str:
    return iso(datetime.now(UTC) - timedelta(seconds=behind))


def deliver(folder: Path, name: str, *amounts: int) -> None:
    lines = [json.dumps({"t": now(), "amount": amount}) for amount in amounts]
    (folder / "pos").mkdir(exist_ok=True)
    (folder / "pos" / f".{name}").write_text("\n".join(lines) + "\n")
    (folder / "pos" / f".{name}").rename(folder / "pos" / f"{name}.json")


def counted(pipeline: Pipeline) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in Reader(pipeline).results("seconds").to_pylist():
        found[row["source"]] = found.get(row["source"], 0) + row["n"]
    return found


@pytest.mark.long
def test_a_topic_and_a_folder_are_followed_together(
    spark: SparkSession, kafka: Client, tmp_path: Path
) -> None:
    topic = kafka.create_topic(partitions=2, message_timestamp_type="LogAppendTime")
    pipeline = both(tmp_path, kafka, topic)
    kafka.produce(topic, [{"at": now(), "paise": 1} for _ in range(5)])
    deliver(tmp_path, "a", 10, 20)
    run(pipeline, once=True, spark=spark)
    named = json.loads(
        open_store(pipeline)
        .watermarks.query("select carry from t where carry is not null order by batch limit 1")["carry"][0]
        .as_py()
    )["named"]
    assert named == {f"app/{topic}/0": False, f"app/{topic}/1": False, "pos": False}

    with running_beside(pipeline, spark):
        for nth in range(3):
            kafka.produce(topic, [{"at": now(), "paise": 1} for _ in range(4)])
            deliver(tmp_path, f"b{nth}", 10)
            time.sleep(1)
        # Both are silent: the watermark follows the clock, and everything is told.
        eventually(lambda: counted(pipeline) == {"app": 17, "pos": 5}, 60)
        # One of them alone goes on: the other is idle, and holds nobody.
        for _ in range(12):
            kafka.produce(topic, [{"at": now(), "paise": 1}])
            time.sleep(0.5)
        eventually(lambda: counted(pipeline)["app"] > 17, 60)
    run(pipeline, drain=True, spark=spark)
    assert counted(pipeline) == {"app": 29, "pos": 5}
    assert by_the_ledger(pipeline, "seconds") == {"on_time": 34}
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, changes={"sources.app.watermark.delay": "1s"}, spark=spark).equal
    assert sum(by_the_oracle(pipeline, "seconds").values()) == 34


@pytest.mark.long
def test_what_waits_in_both_is_read_in_the_order_of_arrival(
    spark: SparkSession, kafka: Client, tmp_path: Path
) -> None:
    """The clocks are the broker's and the files'. One partition is read far ahead of the other: its rows wait."""
    topic = kafka.create_topic(partitions=2, message_timestamp_type="LogAppendTime")
    pipeline = both(tmp_path, kafka, topic, most=6, files=1)
    for nth in range(6):
        kafka.produce(topic, [{"at": now(), "paise": 1} for _ in range(6)], partition=int(nth > 3))
        deliver(tmp_path, f"b{nth}", 10, 10)
        time.sleep(0.3)
    steps = []
    run(pipeline, once=True, spark=spark, watch=lambda report: steps.append(report.out_of_step))
    assert len(steps) > 3
    assert set(steps) == {None}
    spans = open_store(pipeline).events.query(
        "select batch, min(arrival_time) as first, max(arrival_time) as last, count(*) as n from t group by batch "
        "order by batch"
    )
    rows = spans.to_pylist()
    assert sum(row["n"] for row in rows) == 48
    assert all(one["last"] <= other["first"] for one, other in pairwise(rows))
    run(pipeline, drain=True, spark=spark)
    assert by_the_ledger(pipeline, "seconds") == {"on_time": 48} == by_the_oracle(pipeline, "seconds")
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, changes={"sources.app.watermark.delay": "1s"}, spark=spark).equal
