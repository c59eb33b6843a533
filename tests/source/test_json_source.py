"""JSON whose records name their JSON Schema, with a real broker and a real registry."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.letters.choosing import Choice
from latecomer.after.letters.replaying import replay_letters
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import SourceError
from latecomer.source.decode import retrying
from latecomer.source.fixes import Fix
from latecomer.store.source_columns import source_columns
from latecomer.store.store import Store
from schemas.registry.registry_kit import Server, beside, fresh
from source import avro_source_kit as avro_kit
from source.kafka_source_kit import SCHEMA, awaited, logged, payments, payments_from, totals
from spark_kit import running_beside

pytestmark = pytest.mark.usefixtures("kafka_jars")

AT = {"at": {"type": "string", "format": "date-time"}}
FIRST = {
    "type": "object",
    "required": ["txn", "at"],
    "properties": {
        **AT,
        "txn": {"type": "string", "minLength": 2},
        "paise": {"type": "integer", "minimum": 0},
    },
}
SECOND = {
    **FIRST,
    "properties": {**FIRST["properties"], "shop": {"enum": ["chai", "dosa"]}},  # type: ignore[dict-item]
    "additionalProperties": False,
}


def json_pipeline(
    folder: Path, broker: Client, topic: str, options: Mapping[str, Any], **more: Any
) -> Pipeline:
    kafka = {"servers": broker.servers, "topics": [topic]}
    source = {"kafka": kafka, "format": {"json": dict(options)}, "schema": SCHEMA, **more}
    return payments_from(folder, source)


def test_columns_follow_from_a_subject(registry: Server, tmp_path: Path) -> None:
    """The version that is the latest when the store is made decides; then no registry is asked."""
    subject = fresh("payments")
    money = {"type": "number", "multipleOf": 0.01}
    properties = {"at": {"type": "string"}, "txn": {"type": "string"}, "rupees": money}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}

    def pipeline(**options: Any) -> Pipeline:
        made = {
            "name": "payments",
            "base": tmp_path,
            "store": "store",
            "source": {
                "kafka": {"servers": "127.0.0.1:1", "topics": ["t"], "metadata": {"nth": "offset"}},
                "format": {"json": {"registry": registry.url, "subject": subject, **options}},
            },
            "event": {"time": "at", "id": "txn"},
            "watermark": {"delay": "1m"},
            "outputs": {"n": {"window": {"tumbling": "1m"}, "aggregates": {"rupees": "sum(rupees)"}}},
        }
        return Pipeline.model_validate(made)

    with pytest.raises(SourceError, match=f"has no subject {subject}"):
        source_columns(pipeline())
    registry.asking.register(subject, json.dumps(schema), schemaType="JSON")
    found = source_columns(pipeline())
    assert found == {"nth": "bigint", "at": "string", "txn": "string", "rupees": "decimal(18,2)"}
    with pytest.raises(SourceError, match="has no version 2"):
        source_columns(pipeline(version=2))
    Store(pipeline(), found).pin()
    gone = "http://127.0.0.1:1"
    assert source_columns(pipeline(registry=gone)) == found
    other = fresh("avro")
    registry.asking.register(other, '{"type": "string"}')
    with pytest.raises(SourceError, match="has a schema of the type AVRO; name one with a JSON Schema"):
        source_columns(pipeline(subject=other).model_copy(update={"store": "another"}))


def registered(registry: Server, schema: Mapping[str, Any], **more: Any) -> int:
    return registry.asking.register(fresh("payments"), json.dumps(schema), schemaType="JSON", **more)


def framed(number: int, row: Any) -> bytes:
    text = row if isinstance(row, str) else json.dumps(row)
    return struct.pack(">bI", 0, number) + text.encode()


def payment(nth: int, **more: Any) -> dict[str, Any]:
    return {**payments(nth, 1)[0], **more}


def letters_of(pipeline: Pipeline) -> list[tuple[str, str, bytes]]:
    found = Reader(pipeline).dead_letters().to_pylist()
    return [(each["reason"], each["detail"], each["raw_bytes"] or each["raw"].encode()) for each in found]


def test_each_record_is_checked_by_the_schema_that_it_names(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    """What breaks a rule is a dead letter with rule, place and bytes; an old writer's rules are not the new one's."""
    topic = kafka.create_topic()
    one, two = registered(registry, FIRST), registered(registry, SECOND)
    pipeline = json_pipeline(tmp_path, kafka, topic, {"registry": registry.url})
    bad = [
        (
            framed(one, payment(3, paise=-1)),
            "invalid",
            f"schema {one} does not allow it: paise: -1 is less than the minimum of 0",
        ),
        (
            framed(two, payment(4, tip=1)),
            "invalid",
            "Additional properties are not allowed ('tip' was unexpected)",
        ),
        (framed(two, payment(5, shop="idli")), "invalid", 'shop: "idli" is not one of "chai" or "dosa"'),
        (framed(one, {"txn": "t"}), "invalid", '"at" is a required property'),
        (framed(one, json.dumps(payment(6)) + " x"), "unreadable", "not JSON: Extra data at character"),
        (framed(one, payment(7))[:-1], "unreadable", "not JSON: "),
        (
            framed(one, payment(8, paise=2**70)),
            "unreadable",
            "column paise: 1180591620717411303424 is not a bigint",
        ),
        (framed(one, payment(9))[5:], "unreadable", "its first byte is 0x7B"),
        (framed(one, payment(9))[:9] + b"\xff", "unreadable", "byte 0xFF at 9 is not utf-8"),
    ]
    good = [framed(one, payment(0, tip=1)), framed(two, payment(1, shop="chai"))]
    kafka.produce(topic, good)
    run(pipeline, once=True, spark=spark)
    kafka.produce(topic, [each for each, _, _ in bad])
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "paise", "schema_id") == [("t0", 0, one), ("t1", 1, two)]
    found = letters_of(pipeline)
    assert [(reason, raw) for reason, _, raw in found] == [(reason, raw) for raw, reason, _ in bad]
    for (_, detail, _), (_, _, words) in zip(found, bad, strict=True):
        assert words in detail


@pytest.mark.long
def test_a_batch_waits_for_a_schema_and_a_restart_needs_no_registry(
    spark: SparkSession,
    kafka: Client,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrying, "LONGEST_WAIT", 0.5)
    topic, database = kafka.create_topic(), tmp_path / "registry.db"
    with beside(database) as registry:
        port, url = registry.asking.port, registry.url
    pipeline = json_pipeline(tmp_path, kafka, topic, {"registry": url})
    kafka.produce(topic, [framed(1, payment(0)), framed(2, payment(1, paise=-1))])
    with running_beside(pipeline, spark):
        awaited(lambda: f"schema 1 cannot be had: the registry {url} does not answer" in caplog.text)
        with beside(database, port=port) as registry:
            assert registered(registry, FIRST) == 1
            awaited(lambda: f"the registry {url} does not know schema 2 yet; register it" in caplog.text)
            assert Reader(pipeline).dead_letters().num_rows == 0
            assert logged(pipeline, "txn") == []
            assert registered(registry, {**FIRST, "properties": {}}) == 2
            awaited(lambda: len(logged(pipeline, "txn")) == 2)
    kafka.produce(
        topic, [framed(1, payment(2)), framed(1, payment(3, paise=-1)), framed(2, payment(4, paise=-1))]
    )
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "schema_id") == [("t0", 1), ("t1", 2), ("t2", 1), ("t4", 2)]
    assert [
        (reason, "paise: -1 is less than the minimum of 0" in detail)
        for reason, detail, _ in letters_of(pipeline)
    ] == [("invalid", True)]
    assert totals(pipeline) == (4, 0 - 1 + 2 - 1)
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal


@pytest.mark.long
def test_ids_in_a_header(spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path) -> None:
    """As four bytes, five, or a number. A dead letter keeps the id, so that it can be replayed."""
    topic, one = kafka.create_topic(), registered(registry, FIRST)
    options = {"registry": registry.url, "id_header": "schema", "unknown_id": "dead_letter"}
    pipeline = json_pipeline(tmp_path, kafka, topic, options)
    four = struct.pack(">I", one)
    spelled = [four, b"\0" + four, str(one).encode(), f"000{one}".encode()]
    for nth, value in enumerate(spelled):
        kafka.produce(topic, [payment(nth)], headers=[("schema", b"old"), ("schema", value), ("x", b"1")])
    kafka.produce(topic, [payment(4, paise=-1)], headers=[("schema", str(one).encode())])
    kafka.produce(topic, [payment(5)], headers=[("schema", b"9000")])
    guid = b"\x01" + bytes(16)
    for nth, headers in enumerate([[("schema", guid)], [("schema", b"0")], [("other", b"1")], None]):
        kafka.produce(topic, [payment(6 + nth)], **({"headers": headers} if headers else {}))
    run(pipeline, once=True, spark=spark)
    assert logged(pipeline, "txn", "schema_id") == [(f"t{nth}", one) for nth in range(4)]
    found = letters_of(pipeline)
    assert found[0][0] == "invalid"
    assert found[0][2] == framed(one, payment(4, paise=-1))
    assert found[1][1] == "the registry does not know schema 9000"
    assert {each[1] for each in found[2:]} == {
        "it has no header schema with the id of its schema: four bytes, or a decimal number"
    }
    assert [each[2] for each in found[2:]] == [json.dumps(payment(nth)).encode() for nth in range(6, 10)]
    replayed = replay_letters(pipeline, Choice(), Fix(), spark=spark)
    assert (replayed.picked, replayed.events) == (6, 0)
    assert (
        "paise: -1 is less than the minimum of 0"
        in {each["position"]: each["detail"] for each in replayed.still_dead.to_pylist()}[4]
    )


@pytest.mark.long
def test_a_letter_is_taken_in_once_its_schema_is_known(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    topic, one = kafka.create_topic(), registered(registry, FIRST)
    options = {"registry": registry.url, "unknown_id": "dead_letter"}
    pipeline = json_pipeline(tmp_path, kafka, topic, options, unknown_fields="keep")
    kafka.produce(topic, [framed(one, payment(0, tip=1.10)), framed(one + 1, payment(1, paise=-1))])
    run(pipeline, once=True, spark=spark)
    assert logged(pipeline, "txn", "unknown_fields") == [("t0", '{"tip": 1.1}')]
    assert registered(registry, {"type": "object"}) == one + 1
    assert replay_letters(pipeline, Choice(), Fix(), spark=spark).events == 1
    assert logged(pipeline, "txn", "paise", "schema_id") == [("t0", 0, one), ("t1", -1, one + 1)]
    assert check_ledger(pipeline, spark) == []


@pytest.mark.long
def test_a_rule_that_cannot_be_checked_stops_the_run_unless_only_the_id_is_wanted(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    topic = kafka.create_topic()
    one = registered(registry, {**FIRST, "propertyNames": {"pattern": "^(?=[a-z])"}})
    kafka.produce(topic, [framed(one, payment(0)), framed(one + 7, payment(1, paise=-1))])
    words = rf"records of schema {one} cannot be checked: .*look-around.* validate: false"
    options = {"registry": registry.url, "unknown_id": "dead_letter"}
    with pytest.raises(SourceError, match=words):
        run(json_pipeline(tmp_path, kafka, topic, options), once=True, spark=spark)
    pipeline = json_pipeline(tmp_path, kafka, topic, {"validate": False})
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "schema_id") == [("t0", one), ("t1", one + 7)]
    assert letters_of(pipeline) == []


@pytest.mark.long
def test_confluents_serializer_writes_what_is_read(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    """References of a schema are kept with it."""
    topic = kafka.create_topic()
    place = registry.asking.register(
        "place-value", json.dumps({"type": "object", "required": ["pin"]}), schemaType="JSON"
    )
    assert place
    schema = {
        **FIRST,
        "title": "payment",
        "properties": {**FIRST["properties"], "to": {"$ref": "place.json"}},
    }  # type: ignore[dict-item]
    reference = {"name": "place.json", "subject": "place-value", "version": 1}
    one = registered(registry, schema, references=[reference])
    client = SchemaRegistryClient({"url": registry.url})
    serializer = JSONSerializer(json.dumps({**SECOND, "title": "payment"}), client)
    written = serializer(payment(0, shop="chai"), SerializationContext(topic, MessageField.VALUE))
    assert written is not None
    kafka.produce(topic, [written, framed(one, payment(1, to={})), framed(one, payment(2, to={"pin": 1}))])
    pipeline = json_pipeline(tmp_path, kafka, topic, {"registry": registry.url})
    run(pipeline, drain=True, spark=spark)
    assert [txn for txn, *_ in logged(pipeline, "txn", "paise")] == ["t0", "t2"]
    assert [detail for _, detail, _ in letters_of(pipeline)] == [
        f'schema {one} does not allow it: to: "pin" is a required property'
    ]


@pytest.mark.long
def test_avro_and_json_of_one_registry_beside_each_other(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    """An id means one schema; records of the other kind are dead letters in each source."""
    cards, upi, subject = kafka.create_topic(), kafka.create_topic(), fresh("cards")
    avro = registry.asking.register(subject, avro_kit.record(avro_kit.SECOND))
    one = registered(registry, FIRST)
    pipeline = Pipeline.model_validate(
        {
            "name": "payments",
            "base": tmp_path,
            "store": str(tmp_path / "store"),
            "sources": {
                "cards": {
                    "kafka": {"servers": kafka.servers, "topics": [cards]},
                    "format": {"avro": {"registry": registry.url, "subject": subject}},
                },
                "upi": {
                    "kafka": {"servers": kafka.servers, "topics": [upi]},
                    "format": {"json": {"registry": registry.url}},
                    "schema": {"at": "timestamp", "txn": "string", "paise": "bigint"},
                },
            },
            "event": {"time": "at", "id": ["source", "txn"]},
            "watermark": {"delay": "1m", "max_future": None},
            "outputs": {
                "minutes": {
                    "window": {"tumbling": "1m"},
                    "by": ["source"],
                    "aggregates": {"payments": "count(*)", "paise": "sum(paise)"},
                }
            },
        }
    )
    written = avro_kit.framed(
        avro, avro_kit.record(avro_kit.SECOND), avro_kit.payment(0, paise=5, shop="chai")
    )
    kafka.produce(cards, [written, framed(one, payment(1))])
    kafka.produce(upi, [framed(one, payment(0)), framed(one, payment(1, paise=7)), written])
    run(pipeline, once=True, spark=spark)
    assert sorted(logged(pipeline, "source", "txn", "paise", "schema_id")) == [
        ("cards", "t0", 5, avro),
        ("upi", "t0", 0, one),
        ("upi", "t1", 7, one),
    ]
    assert sorted(detail for _, detail, _ in letters_of(pipeline)) == sorted(
        [f"schema {one} is of the type JSON, not AVRO", f"schema {avro} is of the type AVRO, not JSON"]
    )
    kafka.produce(upi, [framed(one, payment(2, paise=-1)), framed(one, payment(3, paise=1))])
    kafka.produce(cards, [written[:-1]])
    run(pipeline, drain=True, spark=spark)
    assert sorted(reason for reason, _, _ in letters_of(pipeline)) == ["invalid", *["unreadable"] * 3]
    results = Reader(pipeline).results("minutes").to_pylist()
    assert {each["source"]: each["paise"] for each in results} == {"cards": 5, "upi": 8}
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal


@pytest.mark.long
def test_records_are_read_as_the_columns_of_a_subject(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    topic, subject = kafka.create_topic(), fresh("carts")
    item = {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}}
    properties = {
        "at": {"type": "string"},
        "txn": {"type": "string"},
        "paise": {"type": "integer"},
        "items": {"type": "array", "items": item},
        "fees": {"type": "object", "additionalProperties": {"type": "number", "multipleOf": 0.01}},
    }
    schema = {"type": "object", "properties": properties}
    number = registry.asking.register(subject, json.dumps(schema), schemaType="JSON")
    carts = [
        payment(nth, items=[{"sku": "a", "n": nth, "color": "red"}], fees={"vat": 1.25}) for nth in range(3)
    ]
    kafka.produce(topic, [framed(number, each) for each in (*carts, payment(3, items=["a"]))])
    options = {"registry": registry.url, "subject": subject}
    pipeline = json_pipeline(tmp_path, kafka, topic, options, schema=None, unknown_fields="keep")
    run(pipeline, once=True, spark=spark)
    store = Store(pipeline, source_columns(pipeline))
    rows = store.events.query(
        "select items, fees, unknown_fields, schema_id from t order by event_time"
    ).to_pylist()
    assert [(row["items"], row["fees"], row["schema_id"]) for row in rows] == [
        ([{"sku": "a", "n": nth}], [("vat", Decimal("1.25"))], number) for nth in range(3)
    ]
    assert all('"color": "red"' in row["unknown_fields"] for row in rows)
    assert [reason for reason, *_ in letters_of(pipeline)] == ["invalid"]
