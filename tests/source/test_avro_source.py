"""Messages in Confluent's framing, with a real broker and a real registry: old and new writers in one batch."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from avro_data import leading_to_each_other
from kafka_kit import Client
from latecomer.after.letters.choosing import Choice
from latecomer.after.letters.replaying import replay_letters
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import RegistryOutage
from latecomer.source.decode import retrying
from latecomer.source.decode.framing import HEAD_SIZE
from latecomer.source.fixes import Fix
from schemas.registry.registry_kit import Server, beside, environment, fresh, serving
from source.avro_source_kit import FIRST, SECOND, THIRD, avro_pipeline, framed, payment, record
from source.kafka_source_kit import awaited, logged, totals
from spark_kit import running_beside


def writer(registry: Server, topic: str, fields: list[dict[str, Any]]) -> Callable[[dict[str, Any]], bytes]:
    """Writes payments as Confluent's own serializer does, which registers its schema with the first."""
    serializer = AvroSerializer(SchemaRegistryClient({"url": registry.url}), record(fields))
    place = SerializationContext(topic, MessageField.VALUE)
    return lambda row: serializer(row, place) or b""


def test_writers_of_several_schemas_are_read_as_one(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    """The oldest writer comes again after the newest was deployed; what cannot be decoded keeps its bytes."""
    topic = kafka.create_topic()
    subject = f"{topic}-value"
    first, second, third = (writer(registry, topic, fields) for fields in (FIRST, SECOND, THIRD))
    avro = {"registry": registry.url, "subject": subject, "version": 2}
    pipeline = avro_pipeline(tmp_path, kafka, topic, avro)
    kafka.produce(topic, [first(payment(nth, amount=nth)) for nth in range(3)])
    kafka.produce(topic, [second(payment(3, paise=3, shop="chai"))])
    kafka.produce(topic, [third(payment(4, paise=4, shop="dosa", note="x"))])
    run(pipeline, once=True, spark=spark)
    late, more = first(payment(5, amount=5)), second(payment(6, paise=6, shop="idli"))
    bad = [b"\x01" + late[1:], late[:-1], b"\0\0", b'{"txn": "t9"}']
    kafka.produce(topic, [third(payment(7, paise=7, shop="vada", note="x")), late, more, *bad])
    run(pipeline, drain=True, spark=spark)
    ids = (registry.asking.get(f"/subjects/{subject}/versions/{nth}")["id"] for nth in (1, 2, 3))
    one, two, three = map(int, ids)
    assert logged(pipeline, "txn", "paise", "shop", "schema_id") == [
        *((f"t{nth}", nth, "none", one) for nth in range(3)),
        ("t3", 3, "chai", two),
        ("t4", 4, "dosa", three),
        ("t7", 7, "vada", three),
        ("t5", 5, "none", one),
        ("t6", 6, "idli", two),
    ]
    assert totals(pipeline) == (8, sum(range(8)))
    letters = Reader(pipeline).dead_letters().to_pylist()
    assert [each["raw_bytes"] or each["raw"].encode() for each in letters] == bad
    assert {each["reason"] for each in letters} == {"unreadable"}
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal


def test_a_batch_waits_for_a_schema_that_cannot_be_had(
    spark: SparkSession,
    kafka: Client,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An id that is not known yet and a registry that is killed make no dead letters; known ids need no registry."""
    monkeypatch.setattr(retrying, "LONGEST_WAIT", 0.5)
    topic, subject, database = kafka.create_topic(), fresh("payments"), tmp_path / "registry.db"
    with serving(database) as registry:
        one = registry.asking.register(subject, record(SECOND))
        port = registry.asking.port
        pipeline = avro_pipeline(tmp_path, kafka, topic, {"registry": registry.url, "subject": subject})
        kafka.produce(topic, [framed(one, record(SECOND), payment(0, paise=0, shop="chai"))])
        run(pipeline, once=True, spark=spark)
        not_yet = framed(one + 1, record(THIRD), payment(1, paise=1, shop="chai", note=""))
        kafka.produce(topic, [not_yet, framed(one, record(SECOND), payment(2, paise=2, shop="chai"))])
        with running_beside(pipeline, spark):
            awaited(lambda: f"does not know schema {one + 1} yet; register it" in caplog.text)
            assert len(logged(pipeline, "txn")) == 1, "the batch is not in the log"
            registry.kill()
            awaited(lambda: f"the registry {registry.url} does not answer" in caplog.text)
            assert len(logged(pipeline, "txn")) == 1, "the batch waits on"
        assert len(logged(pipeline, "txn")) == 1, "a stop ends the wait"
    caplog.clear()
    with running_beside(pipeline, spark):
        awaited(
            lambda: (
                f"schema {one + 1} cannot be had: the registry {registry.url} does not answer" in caplog.text
            )
        )
        with beside(database, port=port) as again:
            assert again.asking.register(subject, record(THIRD)) == one + 1
            awaited(lambda: len(logged(pipeline, "txn")) == 3)
    kafka.produce(topic, [framed(one + 1, record(THIRD), payment(3, paise=3, shop="dosa", note=""))])
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "paise", "schema_id") == [
        ("t0", 0, one),
        ("t1", 1, one + 1),
        ("t2", 2, one),
        ("t3", 3, one + 1),
    ]
    assert Reader(pipeline).dead_letters().num_rows == 0
    assert check_ledger(pipeline, spark) == []


@pytest.mark.long
def test_a_later_version_of_the_subject_brings_its_columns(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    """It is named in the file, on the same store; past events have what was kept of them."""
    topic = kafka.create_topic()
    second, third = (writer(registry, topic, fields) for fields in (SECOND, THIRD))
    messages = [second(payment(0, paise=1, shop="chai")), third(payment(1, paise=2, shop="dosa", note="x"))]
    kafka.produce(topic, messages)
    for version in (1, 2):
        avro = {"registry": registry.url, "subject": f"{topic}-value", "version": version}
        source = {"kafka": {"servers": kafka.servers, "topics": [topic]}, "format": {"avro": avro}}
        kept = {**source, "unknown_fields": "keep"}
        pipeline = avro_pipeline(tmp_path, kafka, topic, avro, source=kept)
        run(pipeline, once=True, spark=spark)
    assert logged(pipeline, "txn", "shop", "note") == [("t0", "chai", None), ("t1", "dosa", "x")]
    assert check_ledger(pipeline, spark) == []


@pytest.mark.long
def test_a_message_that_is_too_deep_is_a_dead_letter(
    spark: SparkSession,
    kafka: Client,
    registry: Server,
    tmp_path: Path,
) -> None:
    """A payment that holds payments, far more of them than a stack has room for, holds nobody up."""
    topic, subject = kafka.create_topic(), fresh("payments")
    one = registry.asking.register(subject, record([*SECOND, {"name": "more", "type": ["null", "Payment"]}]))
    messages = []
    for nth, times in enumerate((0, 3, 60, 20_000, 1)):
        first = framed(one, record(SECOND), payment(nth, paise=nth, shop="chai"))
        messages.append(first + (b"\x02" + first[HEAD_SIZE:]) * times + b"\0")
    pipeline = avro_pipeline(tmp_path, kafka, topic, {"registry": registry.url, "subject": subject})
    kafka.produce(topic, messages)
    run(pipeline, once=True, spark=spark)
    assert logged(pipeline, "txn") == ["t0", "t1", "t2", "t4"]
    (letter,) = Reader(pipeline).dead_letters().to_pylist()
    assert (letter["raw_bytes"] or letter["raw"].encode()) == messages[3]
    assert letter["reason"] == "unreadable"
    assert letter["detail"] == f"it has more than 100 records of schema {one} in one another"
    assert check_ledger(pipeline, spark) == []


@pytest.mark.long
def test_a_message_that_is_too_deep_for_a_large_schema_is_a_dead_letter(
    spark: SparkSession,
    kafka: Client,
    registry: Server,
    tmp_path: Path,
) -> None:
    """Its records lead to one another, and are too many to be written out for each depth."""
    topic, subject = kafka.create_topic(), fresh("payments")
    schema = leading_to_each_other(60, **{field["name"]: field["type"] for field in SECOND})
    one = registry.asking.register(subject, json.dumps(schema))
    messages = []
    for nth, times in enumerate((0, 3, 60, 99, 100, 8_000, 1)):
        first = framed(one, record(SECOND), payment(nth, paise=nth, shop="chai"))
        messages.append(first + (b"\x02" + first[HEAD_SIZE:]) * times + bytes(60 + 59 * times))
    cut = messages[1][:-7]
    kafka.produce(topic, [*messages, cut])
    pipeline = avro_pipeline(tmp_path, kafka, topic, {"registry": registry.url, "subject": subject})
    run(pipeline, once=True, spark=spark)
    assert logged(pipeline, "txn") == ["t0", "t1", "t2", "t3", "t6"]
    letters = Reader(pipeline).dead_letters().to_pylist()
    assert [each["raw_bytes"] or each["raw"].encode() for each in letters] == [*messages[4:6], cut]
    assert {each["reason"] for each in letters} == {"unreadable"}
    deep = f"it has more than 100 records of schema {one} in one another"
    short = f"the {len(cut) - HEAD_SIZE} bytes after its id are no whole record of schema {one}"
    assert [each["detail"] for each in letters] == [deep, deep, short]
    assert check_ledger(pipeline, spark) == []


def test_a_poison_id_may_be_a_dead_letter_and_be_replayed(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    topic, subject = kafka.create_topic(), fresh("payments")
    one = registry.asking.register(subject, record(SECOND))
    avro = {"registry": registry.url, "subject": subject, "unknown_id": "dead_letter"}
    pipeline = avro_pipeline(tmp_path, kafka, topic, avro)
    two = one + 1
    kafka.produce(
        topic,
        [
            framed(one, record(SECOND), payment(0, paise=1, shop="chai")),
            framed(two, record(THIRD), payment(1, paise=2, shop="dosa", note="")),
            framed(900, record(THIRD), payment(2, paise=4, shop="idli", note="")),
            framed(two, record(THIRD), payment(3, paise=8, shop=None, note="")),
        ],
    )
    run(pipeline, once=True, spark=spark)
    letters = Reader(pipeline).dead_letters().to_pylist()
    assert [each["detail"] for each in letters] == [
        f"the registry does not know schema {number}" for number in (two, 900, two)
    ]
    assert registry.asking.register(subject, record(THIRD)) == two
    replayed = replay_letters(pipeline, Choice(), Fix(), spark=spark)
    assert (replayed.picked, replayed.events) == (3, 1)
    assert logged(pipeline, "txn", "paise", "schema_id") == [("t0", 1, one), ("t1", 2, two)]
    still = {each["position"]: each["detail"] for each in replayed.still_dead.to_pylist()}
    assert still[2] == "the registry does not know schema 900"
    assert "null is written, and string is read" in still[3]
    assert replay_letters(pipeline, Choice(), Fix(), spark=spark).batch is None, "nothing new comes of it"
    assert check_ledger(pipeline, spark) == []


@pytest.mark.long
def test_the_command_line_brings_what_it_needs(kafka: Client, registry: Server, tmp_path: Path) -> None:
    """A session of latecomer's own, and what reads the store afterwards."""
    topic = kafka.create_topic()
    second = writer(registry, topic, SECOND)
    kafka.produce(topic, [second(payment(nth, paise=nth, shop="chai")) for nth in range(5)])
    file = tmp_path / "payments.yaml"
    file.write_text(
        f"""
name: payments
store: store
source:
  kafka: {{servers: "{kafka.servers}", topics: [{topic}]}}
  format: {{avro: {{registry: "{registry.url}", subject: {topic}-value}}}}
event: {{time: at, id: txn}}
watermark: {{delay: 1m}}
outputs: {{minutes: {{window: {{tumbling: 1m}}, by: [shop], aggregates: {{paise: sum(paise)}}}}}}
"""
    )

    def call(*arguments: str) -> str:
        command = [sys.executable, "-m", "latecomer", *arguments]
        ended = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    call("run", str(file), "--drain")
    assert '"paise": 10' in call("results", str(file), "minutes", "-f", "json")
    window = ("--window", "2026-04-25T12:00Z", "--key", "shop=chai")
    assert "5 events" in call("explain", str(file), "minutes", *window)
    assert "balances" in call("ledger", str(file), "--check")


def test_a_first_run_that_is_stopped_while_it_waits_for_the_registry_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The columns cannot be had, so nothing has begun: no Spark, no store."""
    pipeline = avro_pipeline(
        tmp_path, Client("127.0.0.1:1"), "t", {"registry": "http://127.0.0.1:1", "subject": "s"}
    )
    stop = threading.Event()
    stopped = threading.Thread(target=lambda: (awaited(lambda: "the run waits" in caplog.text), stop.set()))
    stopped.start()
    with pytest.raises(RegistryOutage, match=r"the registry http://127\.0\.0\.1:1 does not answer"):
        run(pipeline, stop=stop)
    stopped.join()
    assert "the run waits: the registry http://127.0.0.1:1 does not answer" in caplog.text
    assert not (tmp_path / "store" / "pipeline.json").exists()


@pytest.mark.long
def test_a_first_run_waits_for_the_registry(
    spark: SparkSession, kafka: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, subject, database = kafka.create_topic(), fresh("payments"), tmp_path / "registry.db"
    with beside(database) as registry:
        one, port = registry.asking.register(subject, record(SECOND)), registry.asking.port
    pipeline = avro_pipeline(tmp_path, kafka, topic, {"registry": registry.url, "subject": subject})
    kafka.produce(topic, [framed(one, record(SECOND), payment(0, paise=5, shop="chai"))])
    with running_beside(pipeline, spark):
        awaited(lambda: f"the run waits: the registry {registry.url} does not answer" in caplog.text)
        with beside(database, port=port):
            awaited(lambda: (tmp_path / "store" / "pipeline.json").exists())
            awaited(lambda: logged(pipeline, "txn", "schema_id") == [("t0", one)])
    run(pipeline, drain=True, spark=spark)
    assert totals(pipeline) == (1, 5)
