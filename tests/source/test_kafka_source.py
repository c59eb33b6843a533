"""Topics of a real broker as a source: what is read, when it came, and what is gone."""

from __future__ import annotations

import json
import re
import time
import uuid
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import SourceError
from latecomer.source.choose import source_of
from latecomer.source.kafka.reader import PATIENCE, KafkaReader
from latecomer.source.polled import Polled
from latecomer.store import failpoints
from latecomer.store.answers import SourceAnswers
from latecomer.store.pins import PINS
from latecomer.store.source_columns import source_columns
from source.kafka_source_kit import NOON, SCHEMA, logged, payments, pipeline_on, totals


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


def test_many_partitions_cost_neither_time_nor_files(
    spark: SparkSession, kafka: Client, tmp_path: Path
) -> None:
    """A fetch that waits for more would take a tenth of a second a partition."""
    partitions, seconds = 64, list[float]()
    topic = kafka.create_topic(partitions=partitions)
    pipeline = pipeline_on(tmp_path, kafka, topic)
    for begin in (0, 300):
        kafka.produce(topic, ((row["txn"], row) for row in payments(begin, 300)))
        run(pipeline, once=True, spark=spark, watch=lambda report: seconds.append(report.seconds))
    assert len(set(logged(pipeline, "origin"))) > partitions / 2
    assert len(logged(pipeline, "origin")) == 600
    assert min(seconds) < 0.1 * partitions
    assert len(list((tmp_path / "store" / "events").rglob("*.parquet"))) < partitions / 2


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


def test_what_goes_between_answer_and_reading_is_named_or_in_the_ledger(
    spark: SparkSession, kafka: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic()
    pipeline = pipeline_on(tmp_path, kafka, topic)
    kafka.produce(topic, payments(0, 10))
    with monkeypatch.context() as patched:
        patched.setattr(Polled, "slice_of", lambda *_: None)
        run(pipeline, once=True, spark=spark)
    kafka.delete_records(topic, before=4)
    with pytest.raises(SourceError, match=rf"topic {topic}, partition 0: offsets 0 to 3 are gone"):
        run(pipeline, once=True, spark=spark)
    going_on = pipeline_on(tmp_path, kafka, topic, on_data_loss="continue")
    run(going_on, drain=True, spark=spark)
    assert totals(going_on) == (6, sum(range(4, 10)))
    assert list(SourceAnswers(tmp_path / "store").lost()) == [(f"{topic}/0", 0, 4)]


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


def test_a_producers_clock_is_no_arrival(spark: SparkSession, kafka: Client, tmp_path: Path) -> None:
    """A wrong clock under CreateTime moves nothing; under LogAppendTime the broker's clock is the arrival."""
    wrong = 86_400_000  # the second of January 1970
    for stamped, by_broker in (("CreateTime", False), ("LogAppendTime", True)):
        topic = kafka.create_topic(message_timestamp_type=stamped, retention_ms="-1")
        pipeline = pipeline_on(tmp_path / stamped, kafka, topic)
        began = time.time()
        kafka.produce(topic, payments(0, 3), timestamp=wrong)
        produced = time.time()
        time.sleep(1.5)
        run(pipeline, drain=True, spark=spark)
        arrivals = {row.timestamp() for row in logged(pipeline, "arrival_time")}
        assert all(began - 1 < at < time.time() + 1 for at in arrivals)
        assert all(at <= produced + 0.1 for at in arrivals) == by_broker
        assert clocks_of(pipeline) == ["broker" if by_broker else "read"]


def test_what_said_when_rows_came_is_on_the_timeline(
    spark: SparkSession, kafka: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of topics with different clocks, and where a run dies once the batch is logged."""
    stamped = kafka.create_topic(message_timestamp_type="LogAppendTime")
    plain = kafka.create_topic()
    pipeline = pipeline_on(tmp_path, kafka, stamped, plain)
    kafka.produce(stamped, payments(0, 3))
    run(pipeline, once=True, spark=spark)
    kafka.produce(stamped, payments(3, 3))
    kafka.produce(plain, payments(6, 3))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as deadly:
        deadly.setattr(failpoints.os, "kill", die)
        deadly.setenv(failpoints.VARIABLE, "events.committed@1")
        with pytest.raises(KeyboardInterrupt):
            run(pipeline, once=True, spark=spark)
    run(pipeline, once=True, spark=spark)
    run(pipeline_on(tmp_path, kafka, stamped, plain, arrival="read"), drain=True, spark=spark)
    kafka.produce(stamped, payments(9, 3))
    run(pipeline_on(tmp_path, kafka, stamped, plain, arrival="read"), once=True, spark=spark)
    assert clocks_of(pipeline) == ["broker", "broker, read", None, "read"]


def clocks_of(pipeline: Pipeline) -> list[str | None]:
    """What the timeline says of each batch; a drain is not told where nothing else follows."""
    rows = {row["batch"]: row["arrival_by"] for row in Reader(pipeline).watermarks().to_pylist()}
    said = list(rows.values())
    return said[:-1] if said[-1] is None else said


def test_arrival_by_the_broker_needs_a_topic_that_says_so(kafka: Client, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    with pytest.raises(SourceError, match=f"topic {topic} has CreateTime.*write arrival: read"):
        source_of(pipeline_on(tmp_path, kafka, topic, arrival="broker"), SCHEMA).require()
    stamped = kafka.create_topic(message_timestamp_type="LogAppendTime")
    source_of(pipeline_on(tmp_path, kafka, stamped, arrival="broker"), SCHEMA).require()


def test_what_kafka_says_of_a_record_may_be_a_column(
    spark: SparkSession, kafka: Client, tmp_path: Path
) -> None:
    topic = kafka.create_topic(partitions=2, retention_ms="-1")
    said = {"shop": "key", "more": "headers", "sent": "timestamp", "stamp": "timestamp_type", "nth": "offset"}
    kinds = {"shop": "string", "more": "string", "sent": "timestamp", "stamp": "string", "nth": "bigint"}
    pipeline = pipeline_on(tmp_path, kafka, topic, metadata=said, schema={**SCHEMA, **kinds})
    kafka.produce(
        topic,
        [("chai", payments(0, 1)[0]), ("dosa", None)],
        partition=1,
        timestamp=1_777_118_400_000,
        headers=[("trace", b"7")],
    )
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "shop", "more", "stamp", "nth", "source_partition", "origin", "position") == [
        ("chai", '[{"key":"trace","value":"7"}]', "CreateTime", 0, f"{topic}/1", f"{topic}/1", 0)
    ]
    (dead,) = Reader(pipeline).dead_letters().to_pylist()
    assert (dead["reason"], dead["position"], json.loads(dead["raw"])["shop"]) == ("tombstone", 1, "dosa")
    assert check_ledger(pipeline, spark) == []


@dataclass
class Forgetful:
    """A client that does not notice its first answers."""

    client: Any
    misses: int

    def list_offsets(self, wanted: dict[Any, Any], **options: Any) -> dict[Any, Future[Any]]:
        self.misses -= 1
        answers: dict[Any, Future[Any]] = self.client.list_offsets(wanted, **options)
        return dict.fromkeys(wanted, Future()) if self.misses >= 0 else answers


def test_offsets_are_asked_for_again_where_no_answer_comes(kafka: Client, tmp_path: Path) -> None:
    """The client looks for who leads a partition every three seconds, where it has not noticed that it knows."""
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, payments(0, 3), partition=1)
    broker = KafkaReader(topics=pipeline_on(tmp_path, kafka, topic).source.kafka, base=tmp_path)
    with broker.questions() as questions:
        forgetful = replace(questions, client=Forgetful(questions.client, 1))
        assert forgetful.begins([(topic, 0), (topic, 1)]) == {(topic, 0): 0, (topic, 1): 0}
    assert forgetful.client.misses < 0
    assert sum(PATIENCE[:2]) < 3


def test_a_time_without_a_zone_is_one_of_the_zone_that_is_declared(
    spark: SparkSession, kafka: Client, tmp_path: Path
) -> None:
    """As in files. What Kafka says of a record is a moment, and a store that was made before goes on as it was."""
    topic = kafka.create_topic()
    kafka.produce(topic, [{"at": "2026-04-25T17:30:00", "txn": "t0", "paise": 1}])
    event, schema = {"time": "at", "id": "txn", "zone": "Asia/Kolkata"}, {**SCHEMA, "at": "timestamp"}
    pipeline = pipeline_on(tmp_path, kafka, topic, event=event, schema=schema)
    run(pipeline, once=True, spark=spark)
    assert logged(pipeline, "event_time") == [NOON]
    assert source_columns(pipeline).read_from("")["at"] == "string"
    pins = tmp_path / "store" / PINS
    pins.write_text(re.sub('"at": ?"string"', '"at": "timestamp"', pins.read_text()))
    assert source_columns(pipeline).read_from("")["at"] == "timestamp"
    of_kafka = pipeline_on(
        tmp_path / "other", kafka, topic, metadata={"at": "timestamp"}, event=event, schema=schema
    )
    assert source_columns(of_kafka).read_from("")["at"] == "timestamp"


@pytest.mark.parametrize(
    ("start", "read"),
    [
        ("earliest", 6),
        pytest.param("latest", 0, marks=pytest.mark.long),
        pytest.param({"timestamp": "2026-04-25T12:00:00Z"}, 3, marks=pytest.mark.long),
        ({"offsets": {"TOPIC": {"0": 4}}}, 2),
    ],
    ids=["earliest", "latest", "timestamp", "offsets"],
)
def test_where_a_store_begins(
    spark: SparkSession, kafka: Client, tmp_path: Path, start: Any, read: int
) -> None:
    """What comes later is read wherever it began, also of a partition that is added."""
    topic = kafka.create_topic(retention_ms="-1")
    if "offsets" in start:
        start = {"offsets": {topic: start["offsets"]["TOPIC"]}}
    kafka.produce(topic, payments(0, 3), timestamp=1_777_118_399_999)
    kafka.produce(topic, payments(3, 3), timestamp=1_777_118_400_000)
    pipeline = pipeline_on(tmp_path, kafka, topic, start=start)
    run(pipeline, once=True, spark=spark)
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, payments(6, 4), partition=1)
    run(pipeline, drain=True, spark=spark)
    assert totals(pipeline)[0] == read + 4


def test_topics_by_pattern_and_those_that_come_later(
    spark: SparkSession, kafka: Client, tmp_path: Path
) -> None:
    family = f"shop{uuid.uuid4().hex[:8]}"
    pipeline = pipeline_on(tmp_path, kafka, pattern=rf"{family}\..*")
    run(pipeline, once=True, spark=spark)
    kafka.produce(kafka.create_topic(f"{family}.a"), payments(0, 3))
    run(pipeline, once=True, spark=spark)
    kafka.produce(kafka.create_topic(f"{family}.b"), payments(3, 4))
    kafka.produce(kafka.create_topic(f"not{family}.b"), payments(30, 4))
    kafka.delete_topic(f"{family}.a")
    run(pipeline, drain=True, spark=spark)
    assert totals(pipeline) == (7, sum(range(7)))
