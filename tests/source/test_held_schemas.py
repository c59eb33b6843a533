"""Writers whose schemas a registry holds although the specification forbids them: each message becomes an event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.after.replay.replaying import replay
from latecomer.engine.running import run
from latecomer.errors import SourceError
from schemas.registry.registry_kit import Asking, Server
from source.avro_source_kit import MILLIS, SECOND, framed, payment, record
from source.kafka_source_kit import logged, payments_from
from source.test_message_files import SUBJECT, deliver, pipeline_on

MANY = 12
"""Messages that are read all at once; fewer are read one by one."""
WAY = {"type": "enum", "name": "Way", "symbols": ["CASH", "CARD"]}
FIELDS: list[dict[str, Any]] = [
    {"name": "txn", "type": "string"},
    {"name": "at", "type": MILLIS},
    {"name": "paise", "type": "long"},
    {"name": "shop", "type": "string"},
    {"name": "way", "type": WAY},
]


def odd_schemas() -> dict[str, dict[str, Any]]:
    """What is wrong → a schema whose data has the bytes of `FIELDS`."""
    first, *middle, last = FIELDS
    plain = {"type": "record", "name": "Payment", "namespace": "shop", "fields": FIELDS}
    return {
        "a default that does not fit": {
            **plain,
            "fields": [*(each | {"default": None} for each in (first, *middle)), last],
        },
        "an enum default that is no symbol": {
            **plain,
            "fields": [first, *middle, {**last, "type": {**WAY, "default": "CHEQUE"}, "default": "COIN"}],
        },
        "a namespace with a hyphen": {**plain, "namespace": "my-shop.payments"},
        "letters of any script": {**plain, "fields": [first, *middle, {**last, "name": "zahlungsweg_für"}]},
    }


def imported(ask: Asking, subject: str, schema: dict[str, Any], **more: Any) -> int:
    ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    return ask.register(subject, json.dumps(schema), **more)


def rows(number: int, start: int, count: int) -> list[bytes]:
    return [
        framed(number, record(FIELDS), payment(nth, paise=nth, shop="chai", way="CARD"))
        for nth in range(start, start + count)
    ]


@pytest.mark.parametrize("keeps", ["keep", "ignore"])
def test_every_message_of_such_a_writer_becomes_an_event(
    spark: SparkSession, registry: Server, tmp_path: Path, keeps: str
) -> None:
    """The columns follow from a schema without faults."""
    ids = [imported(registry.asking, SUBJECT, schema) for schema in odd_schemas().values()]
    coin = imported(registry.asking, "way", {**WAY, "namespace": "shop"})
    referring = {"type": "record", "name": "Payment", "namespace": "shop", "fields": FIELDS[:4]}
    referring["fields"] = [*FIELDS[:4], {"name": "way", "type": "shop.Way"}]
    references = [{"name": "types/way.avsc", "subject": "way", "version": 1}]
    ids.append(imported(registry.asking, SUBJECT, referring, references=references))
    registry.asking.register(SUBJECT, record(SECOND))
    assert coin not in ids
    options = {"registry": registry.url, "subject": SUBJECT, "messages": "joined"}
    pipeline = pipeline_on(tmp_path, "avro", options, source={"unknown_fields": keeps})
    messages = [each for nth, number in enumerate(ids) for each in rows(number, nth * MANY, MANY)]
    deliver(tmp_path, "a", b"".join(messages))
    run(pipeline, drain=True, spark=spark)
    deliver(tmp_path, "b", b"".join(rows(number, 1000 + number, 1)[0] for number in ids))
    run(pipeline, drain=True, spark=spark)
    assert Reader(pipeline).dead_letters().to_pylist() == []
    found = logged(pipeline, "txn", "paise", "shop", "schema_id")
    assert found[: len(messages)] == [
        (f"t{nth}", nth, "chai", ids[nth // MANY]) for nth in range(len(messages))
    ]
    assert found[len(messages) :] == [(f"t{1000 + number}", 1000 + number, "chai", number) for number in ids]
    assert replay(pipeline, spark=spark).equal


def test_a_schema_that_an_earlier_version_could_not_use_is_asked_for_again(
    spark: SparkSession, registry: Server, tmp_path: Path
) -> None:
    number = imported(registry.asking, SUBJECT, odd_schemas()["a namespace with a hyphen"])
    registry.asking.register(SUBJECT, record(SECOND))
    options = {"registry": registry.url, "subject": SUBJECT, "messages": "joined"}
    pipeline = pipeline_on(tmp_path, "avro", options)
    deliver(tmp_path, "a", rows(number, 0, 1)[0])
    run(pipeline, drain=True, spark=spark)
    (kept,) = (pipeline.store_path / "schemas").rglob(f"{number}.json")
    kept.write_text(json.dumps({"id": number, "problem": f"schema {number} cannot be used: …"}))
    deliver(tmp_path, "b", rows(number, 1, 1)[0])
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn") == ["t0", "t1"]


@pytest.mark.parametrize("name", list(odd_schemas()))
def test_the_columns_may_follow_from_such_a_schema(
    spark: SparkSession, registry: Server, tmp_path: Path, name: str
) -> None:
    number = imported(registry.asking, SUBJECT, odd_schemas()[name])
    options = {"registry": registry.url, "subject": SUBJECT, "messages": "joined"}
    pipeline = pipeline_on(tmp_path, "avro", options)
    deliver(tmp_path, "a", b"".join([*rows(number, 0, MANY)]))
    run(pipeline, drain=True, spark=spark)
    assert Reader(pipeline).dead_letters().to_pylist() == []
    assert [row[1] for row in logged(pipeline, "txn", "paise")] == list(range(MANY))


def test_a_default_that_does_not_fit_fills_no_column(
    spark: SparkSession, registry: Server, tmp_path: Path
) -> None:
    """What was written without the field is a dead letter that says so: no value is made up for it."""
    number = imported(registry.asking, SUBJECT, json.loads(record(FIELDS[:3])))
    bad = [*FIELDS[:3], {"name": "shop", "type": "string", "default": 7}]
    imported(registry.asking, SUBJECT, json.loads(record(bad)))
    options = {"registry": registry.url, "subject": SUBJECT, "messages": "joined"}
    pipeline = pipeline_on(tmp_path, "avro", options)
    deliver(tmp_path, "a", framed(number, record(FIELDS[:3]), payment(0, paise=0)))
    run(pipeline, drain=True, spark=spark)
    (letter,) = Reader(pipeline).dead_letters().to_pylist()
    assert "the field shop is read; it is not written, and it has no default" in letter["detail"]


def test_an_object_file_of_such_a_writer_is_read(spark: SparkSession, tmp_path: Path) -> None:
    plain = json.dumps(json.loads(record(FIELDS)))
    file = tmp_path / "in" / "a.avro"
    file.parent.mkdir()
    with file.open("wb") as out:
        written = [payment(nth, paise=nth, shop="chai", way="CARD") for nth in range(MANY)]
        fastavro.writer(out, fastavro.parse_schema(json.loads(plain)), written)
    # The schema in the head has the same length, so that only its letters change.
    changed = file.read_bytes().replace(b'"shop.Payment"', b'"sh-p.Payment"')
    assert changed != file.read_bytes()
    file.write_bytes(changed)
    source = {"files": {"path": "in/*.avro", "format": "avro"}}
    pipeline = payments_from(tmp_path, source)
    run(pipeline, drain=True, spark=spark)
    assert [row[1] for row in logged(pipeline, "txn", "paise")] == list(range(MANY))


def test_a_schema_file_of_ones_own_is_held_to_the_specification(
    spark: SparkSession, registry: Server, tmp_path: Path
) -> None:
    bad = odd_schemas()["a default that does not fit"]
    (tmp_path / "payments.avsc").write_text(json.dumps(bad))
    options = {"registry": registry.url, "schema_file": "payments.avsc", "messages": "joined"}
    pipeline = pipeline_on(tmp_path, "avro", options)
    deliver(tmp_path, "a", b"")
    with pytest.raises(SourceError, match="does not fit its type"):
        run(pipeline, drain=True, spark=spark)
