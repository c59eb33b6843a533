"""Messages of Protobuf with a real broker and a real registry, written by Confluent's own serializer."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.schemas.protobuf import parse_schema
from latecomer.schemas.protobuf.reading import message_of
from latecomer.source.decode import retrying
from schemas.registry.registry_kit import Server, fresh
from source.kafka_source_kit import NOON, awaited, logged, payments_from, totals
from spark_kit import running_beside

FIELDS = "string txn = 1; google.protobuf.Timestamp at = 2; int64 paise = 3;"
MONEY = 'syntax = "proto3"; package pay; message Fee { uint64 paise = 1; optional string why = 2; }'


def text_of(more: str = "", fields: str = FIELDS) -> str:
    return (
        'syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto"; '
        f"message Other {{ int32 no = 1; }} message Payment {{ {fields} {more} }}"
    )


def maker(more: str = "", fields: str = FIELDS, name: str = "Payment") -> Any:
    return GetMessageClass(message_of(parse_schema(text_of(more, fields)), name))


def writer(registry: Server, topic: str, kind: Any) -> Callable[..., bytes]:
    """Writes messages as Confluent's own serializer does, which registers its schema with the first."""
    serializer = ProtobufSerializer(kind, SchemaRegistryClient({"url": registry.url}))
    place = SerializationContext(topic, MessageField.VALUE)

    def written(nth: int, **more: Any) -> bytes:
        message = kind(txn=f"t{nth}", paise=nth, **more)
        message.at.FromDatetime(NOON + timedelta(seconds=nth))
        return serializer(message, place) or b""

    return written


def pipeline_of(
    folder: Path, kafka: Client, topic: str, registry: Server, source: Any = None, **more: Any
) -> Pipeline:
    format_of = {"registry": registry.url, "subject": f"{topic}-value", "message": "Payment", **more}
    written = {"kafka": {"servers": kafka.servers, "topics": [topic]}, "format": {"protobuf": format_of}}
    return payments_from(folder, {**written, **(source or {})})


def test_what_confluents_serializer_writes_is_read_end_to_end(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    """Two writers; what cannot be decoded keeps its bytes, and says why."""
    topic = kafka.create_topic()
    first = writer(registry, topic, maker())
    second = writer(registry, topic, maker("repeated string tags = 4; uint64 fee = 5;"))
    kafka.produce(topic, [first(nth) for nth in range(3)])
    second(3)
    pipeline = pipeline_of(tmp_path, kafka, topic, registry)
    kafka.produce(topic, [second(3, tags=["a", "b"], fee=2**64 - 1)])
    run(pipeline, once=True, spark=spark)
    good = first(4)
    other = writer_of_other(registry, topic)
    bad = [good[:-1], good[:5], b"\x01" + good[1:], other]
    kafka.produce(topic, [good, *bad])
    run(pipeline, drain=True, spark=spark)
    one, two = (int(registry.asking.get(f"/subjects/{topic}-value/versions/{nth}")["id"]) for nth in (1, 2))
    assert logged(pipeline, "txn", "paise", "tags", "fee", "schema_id") == [
        *((f"t{nth}", nth, [], Decimal(0), one) for nth in range(3)),
        ("t3", 3, ["a", "b"], Decimal(2**64 - 1), two),
        ("t4", 4, [], Decimal(0), one),
    ]
    assert totals(pipeline) == (5, sum(range(5)))
    letters = Reader(pipeline).dead_letters().to_pylist()
    assert [each["raw_bytes"] or each["raw"].encode() for each in letters] == bad
    assert {each["reason"] for each in letters} == {"unreadable"}
    details = [each["detail"] for each in letters]
    assert "bytes are no whole message Payment" in details[0]
    assert "has no message where byte 5" in details[1]
    assert "Confluent's framing begins with 0x00" in details[2]
    assert "has the message Other there, and Payment is read" in details[3]
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal


def writer_of_other(registry: Server, topic: str) -> bytes:
    kind = maker(name="Other")
    place = SerializationContext(topic, MessageField.VALUE)
    return ProtobufSerializer(kind, SchemaRegistryClient({"url": registry.url}))(kind(no=1), place) or b""


def test_what_a_schema_imports_is_asked_of_the_registry(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    topic, money = kafka.create_topic(), fresh("money")
    registry.asking.register(money, MONEY, schemaType="PROTOBUF")
    text = 'syntax = "proto3"; import "pay/fee.proto"; import "google/protobuf/timestamp.proto"; message Payment { '
    text += f"{FIELDS} pay.Fee fee = 4; map<string, pay.Fee> others = 5; }}"
    reference = {"name": "pay/fee.proto", "subject": money, "version": 1}
    number = registry.asking.register(f"{topic}-value", text, schemaType="PROTOBUF", references=[reference])
    kind = GetMessageClass(message_of(parse_schema(text, {"pay/fee.proto": parse_schema(MONEY)}), None))
    message = kind(txn="t0", paise=7)
    message.at.FromDatetime(NOON)
    message.fee.paise = 5
    message.others["x"].why = "late"
    kafka.produce(topic, [b"\0" + number.to_bytes(4, "big") + b"\0" + message.SerializeToString()])
    pipeline = pipeline_of(tmp_path, kafka, topic, registry)
    run(pipeline, once=True, spark=spark)
    assert logged(pipeline, "txn", "fee.paise", "fee.why", "others") == [
        ("t0", Decimal(5), None, [("x", {"paise": Decimal(0), "why": "late"})])
    ]


def test_a_batch_waits_for_a_schema_that_the_registry_does_not_know(
    spark: SparkSession,
    kafka: Client,
    registry: Server,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "LONGEST_WAIT", 0.5)
    topic = kafka.create_topic()
    first = writer(registry, topic, maker())
    kafka.produce(topic, [first(0)])
    pipeline = pipeline_of(tmp_path, kafka, topic, registry)
    run(pipeline, once=True, spark=spark)
    message = first(1)
    number = int.from_bytes(message[1:5], "big") + 90_000
    kafka.produce(topic, [b"\0" + number.to_bytes(4, "big") + message[5:]])
    with running_beside(pipeline, spark):
        awaited(lambda: f"does not know schema {number} yet; register it" in caplog.text)
        assert len(logged(pipeline, "txn")) == 1, "the batch is not in the log"
        name = fresh("imported")
        registry.asking("PUT", f"/mode/{name}", {"mode": "IMPORT"})
        text = text_of("int32 later = 9;")
        assert registry.asking.register(name, text, schemaType="PROTOBUF", id=number, version=1) == number
        awaited(lambda: len(logged(pipeline, "txn")) == 2)
    assert logged(pipeline, "txn", "schema_id")[1] == ("t1", number)


def test_fields_that_are_no_columns_are_kept_and_become_columns_with_a_later_version(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    topic = kafka.create_topic()
    first, second = (writer(registry, topic, maker(more)) for more in ("", "string note = 4;"))
    kafka.produce(topic, [first(0), second(1, note="é")])
    pipeline = pipeline_of(tmp_path, kafka, topic, registry, version=1)
    run(pipeline, once=True, spark=spark)
    kept = logged(pipeline, "txn", "unknown_fields")
    assert [(txn, text and json.loads(text)) for txn, text in kept] == [("t0", None), ("t1", {"note": "é"})]
    later = pipeline_of(tmp_path, kafka, topic, registry, version=2)
    kafka.produce(topic, [second(2, note="x")])
    run(later, once=True, spark=spark)
    assert logged(later, "txn", "note") == [("t0", None), ("t1", "é"), ("t2", "x")]


def test_files_of_messages_have_their_lengths_before_them(
    spark: SparkSession, registry: Server, tmp_path: Path
) -> None:
    topic = fresh("files").removesuffix("-value")
    first = writer(registry, topic, maker())
    messages = [first(nth) for nth in range(3)]
    (tmp_path / "in").mkdir()
    sized = b"".join(len(each).to_bytes(4, "big") + each for each in messages)
    (tmp_path / "in" / "a.bin").write_bytes(sized + (99).to_bytes(4, "big") + b"torn")
    written = {
        "registry": registry.url,
        "subject": f"{topic}-value",
        "message": "Payment",
        "messages": "sized",
    }
    pipeline = payments_from(
        tmp_path, {"files": {"path": str(tmp_path / "in"), "format": {"protobuf": written}}}
    )
    run(pipeline, once=True, spark=spark)
    assert logged(pipeline, "txn", "paise") == [(f"t{nth}", nth) for nth in range(3)]
    assert Reader(pipeline).dead_letters().num_rows == 1
