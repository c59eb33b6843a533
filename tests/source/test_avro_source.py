"""Messages in Confluent's framing, with a real broker and a real registry: old and new writers in one batch."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.ledger.check import check_ledger
from latecomer.running import run
from source.avro_source_kit import FIRST, SECOND, THIRD, avro_pipeline, framed, payment, record
from source.kafka_source_kit import logged, totals

sys.path.insert(0, str(Path(__file__).parents[1] / "registry"))

from registry_kit import Server, beside, fresh

pytestmark = pytest.mark.usefixtures("avro_jars")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Server]:
    pytest.importorskip("fastapi")
    with beside(tmp_path / "registry.db") as running:
        yield running


def test_writers_of_several_schemas_are_read_as_one(
    spark: SparkSession, kafka: Client, registry: Server, tmp_path: Path
) -> None:
    """The oldest writer comes again after the newest was deployed; what cannot be decoded keeps its bytes."""
    topic, subject = kafka.create_topic(), fresh("payments")
    one, two = (registry.asking.register(subject, record(fields)) for fields in (FIRST, SECOND))
    pipeline = avro_pipeline(tmp_path, kafka, topic, {"registry": registry.url, "subject": subject})
    kafka.produce(topic, [framed(one, record(FIRST), payment(nth, amount=nth)) for nth in range(3)])
    kafka.produce(topic, [framed(two, record(SECOND), payment(3, paise=3, shop="chai"))])
    run(pipeline, once=True, spark=spark)
    three = registry.asking.register(subject, record(THIRD))
    late = framed(one, record(FIRST), payment(5, amount=5))
    bad = [b"\x01" + late[1:], late[:-1], b"\0\0", b'{"txn": "t9"}']
    kafka.produce(topic, [framed(three, record(THIRD), payment(4, paise=4, shop=None, note="x")), late, *bad])
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "paise", "shop", "schema_id") == [
        *((f"t{nth}", nth, "none", one) for nth in range(3)),
        ("t3", 3, "chai", two),
        ("t4", 4, "none", three),
        ("t5", 5, "none", one),
    ]
    assert totals(pipeline) == (6, sum(range(6)))
    letters = Reader(pipeline).dead_letters().to_pylist()
    assert [each["raw_bytes"] or each["raw"].encode() for each in letters] == bad
    assert {each["reason"] for each in letters} == {"unreadable"}
    assert check_ledger(pipeline, spark) == []
    assert replay(pipeline, spark=spark).equal
