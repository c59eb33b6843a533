"""Messages of Avro in the run without Spark, until every run is Spark's."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kafka_kit import Client
from latecomer.after.reading.reader import Reader
from latecomer.decode.columns import SCHEMA_ID
from latecomer.errors import SchemaOutage
from latecomer.fast import VARIABLE, Declined
from latecomer.model.avro import parse_schema
from latecomer.running import run
from registry.registry_kit import beside
from source.avro_source_kit import FIRST, THIRD, avro_pipeline, framed, payment, record
from source.kafka_source_kit import logged, totals
from source.test_avro_values import decoder

# What a decoder knows


def test_an_id_that_is_not_known_is_asked_for(tmp_path: Path) -> None:
    """Its schema is waited for; one that cannot be used is left to Spark, which tells what is wrong."""
    kind = record([{"name": "n", "type": "long"}])
    by = decoder(tmp_path, kind, {7: kind})
    columns = {"n": "bigint"}
    both = [framed(7, kind, {"n": 1}), framed(8, kind, {"n": 2}), framed(7, kind, {"n": 3})]
    for _ in range(2):
        with pytest.raises(SchemaOutage, match="schema 8 cannot be had"):
            by.load(both, columns)
    by.schemas.known[8] = parse_schema(record([{"name": "n", "type": "int"}]))
    assert by.load(both, columns).to_pylist() == [
        {"n": 1, SCHEMA_ID: 7},
        {"n": 2, SCHEMA_ID: 8},
        {"n": 3, SCHEMA_ID: 7},
    ]
    by.schemas.known[9] = "schema 9 is of the type JSON, not AVRO"
    with pytest.raises(Declined, match="cannot be decoded"):
        by.load([framed(9, kind, {"n": 1})], columns)


FARE = [
    {"name": "base", "type": {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}},
    {"name": "surge", "type": ["null", "double"], "default": None},
]
OLD = [*FIRST, {"name": "pricing", "type": {"type": "record", "name": "Fare", "fields": FARE[:1]}}]
NEW = [*THIRD, {"name": "pricing", "type": ["null", {"type": "record", "name": "Fare", "fields": FARE}]}]


@pytest.mark.long
@pytest.mark.usefixtures("avro_jars")
def test_both_ways_leave_the_same_log(
    spark: SparkSession, kafka: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of writers with another unit, another name, records within, and a dead letter in one batch of three."""
    topic = kafka.create_topic(partitions=2)
    with beside(tmp_path / "registry.db") as registry:
        one, two = (registry.asking.register(f"s{nth}", record(each)) for nth, each in enumerate((OLD, NEW)))
        rows = [
            framed(one, record(OLD), payment(nth, amount=nth, pricing={"base": Decimal(nth)}))
            if nth % 3
            else framed(
                *(two, record(NEW)),
                payment(
                    nth,
                    paise=nth,
                    shop=None if nth % 2 else "é",
                    note="",
                    pricing=None if nth % 4 == 0 else {"base": Decimal("1.25"), "surge": nth / 4},
                ),
            )
            for nth in range(60)
        ]
        rows[50] = rows[50][:-1]
        for nth, row in enumerate(rows):
            kafka.produce(topic, [row], partition=nth % 2)
        avro = {"registry": registry.url, "subject": "s1"}
        logs = {}
        for way in ("on", "off"):
            monkeypatch.setenv(VARIABLE, way)
            (tmp_path / way).mkdir()
            pipeline = avro_pipeline(tmp_path / way, kafka, topic, avro, kafka={"max_rows_per_batch": 20})
            report = run(pipeline, drain=True, spark=spark)
            names = ["txn", "paise", "shop", "note", "pricing.base", "pricing.surge"]
            more = ["event_time", "schema_id", "origin", "position", "batch", "source_partition"]
            letters = Reader(pipeline).dead_letters().select(["raw_bytes", "reason", "detail"]).to_pylist()
            logs[way] = logged(pipeline, *names, *more), letters, totals(pipeline)
            assert report.paths["log"].startswith("0 of" if way == "off" else "5 of 6 steps without Spark")
    assert len(logs["on"][0]) == 59
    assert logs["on"] == logs["off"]
