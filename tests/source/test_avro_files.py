"""Object files of Avro as a source: each has its schema with it."""

from __future__ import annotations

import json
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from source.avro_source_kit import (
    FIRST,
    MICROS,
    NOON,
    SECOND,
    THIRD,
    payment,
    pipeline_for,
    record,
)
from source.kafka_source_kit import logged


def test_object_files_have_their_schemas_with_them(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "payment.avsc").write_text(record(THIRD))
    for nth, (fields, more) in enumerate(
        [
            (FIRST, {"amount": 1}),
            (THIRD, {"paise": 2, "shop": "dosa", "note": ""}),
            (SECOND, {"paise": 4, "shop": "x"}),
        ]
    ):
        with open(folder / f"{nth}.avro", "wb") as opened:
            rows = [payment(10 * nth + each, **more) for each in range(2)]
            fastavro.writer(opened, json.loads(record(fields)), rows, codec="deflate" if nth else "null")
    (folder / "3.avro").write_bytes((folder / "0.avro").read_bytes()[:-20])
    (folder / "4.avro").write_bytes(b"no Avro at all")
    with open(folder / "5.avro", "wb") as opened:
        fastavro.writer(opened, json.loads(record([{"name": "txn", "type": "string"}])), [{"txn": "a"}])
    files = {"path": "in", "format": {"avro": {"schema_file": "payment.avsc"}}}
    pipeline = pipeline_for(tmp_path, {"files": files})
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "paise", "shop") == [
        *(("t0", 1, None), ("t1", 1, None), ("t10", 2, "dosa"), ("t11", 2, "dosa")),
        *(("t20", 4, "x"), ("t21", 4, "x")),
    ]
    assert {
        value - timedelta(seconds=int(txn[1:])) for txn, value in logged(pipeline, "txn", "event_time")
    } == {NOON}
    letters = {each["origin"][-6:]: each["raw"] for each in Reader(pipeline).dead_letters().to_pylist()}
    assert set(letters) == {"3.avro", "4.avro", "5.avro"}
    assert "does not begin as an Avro object file does" in letters["4.avro"]
    assert "the field at is read; it is not written" in letters["5.avro"]
    assert check_ledger(pipeline, spark) == []


def test_rows_of_object_files_that_would_lose_something_are_dead_letters(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Digits after the point, digits before it, in a list; bytes that are no text, in what becomes JSON text."""
    (tmp_path / "in").mkdir()

    def schema(scale: int) -> str:
        paise = {"type": "bytes", "logicalType": "decimal", "precision": 8 + scale, "scale": scale}
        mixed = {"type": "array", "items": ["null", "int", "string"]}
        kinds = {"txn": "string", "at": MICROS, "paise": paise, "parts": {"type": "array", "items": paise}}
        more = {"mixed": mixed, **({"tip": "long"} if scale == 4 else {})}
        return record([{"name": name, "type": kind} for name, kind in {**kinds, **more}.items()])

    (tmp_path / "payment.avsc").write_text(schema(2).replace('"precision": 10', '"precision": 6'))
    rows: list[dict[str, Any]] = [
        {"paise": Decimal("1.25"), "parts": [Decimal("0.5")], "mixed": [1]},
        {"paise": Decimal("1.2501"), "parts": [], "mixed": []},
        {"paise": Decimal("12345"), "parts": [], "mixed": []},
        {"paise": Decimal(1), "parts": [Decimal(1), Decimal("0.001")], "mixed": []},
        {"paise": Decimal(1), "parts": [], "mixed": ["ab-1"]},
    ]
    with open(tmp_path / "in" / "0.avro", "wb") as opened:
        written = [{**payment(nth), **row, "tip": nth} for nth, row in enumerate(rows)]
        fastavro.writer(opened, json.loads(schema(4)), written)
    file = tmp_path / "in" / "0.avro"
    file.write_bytes(file.read_bytes().replace(b"ab-1", b"a\xff-1"))
    files = {"path": "in", "format": {"avro": {"schema_file": "payment.avsc"}}}
    pipeline = pipeline_for(tmp_path, {"files": files, "unknown_fields": "keep"})
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "paise", "parts", "unknown_fields") == [
        ("t0", Decimal("1.25"), [Decimal("0.50")], '{"tip":0}')
    ]
    letters = Reader(pipeline).dead_letters().to_pylist()
    assert [each["raw"].partition('"tip":')[2] for each in letters] == ["1}", "2}", "3}", "4}"]
    assert [each["detail"] for each in letters[:3]] == [
        "column paise: 1.2501 is not a decimal(6,2)",
        "column paise: 12345.0000 is not a decimal(6,2)",
        "column parts[1]: 0.0010 is not a decimal(6,2)",
    ]
    assert "is not utf-8" in letters[3]["detail"]
    assert b"a\xff-1" in letters[3]["raw_bytes"]
    assert check_ledger(pipeline, spark) == []


@pytest.mark.long
def test_objects_in_lists_get_fields_and_wider_types(spark: SparkSession, tmp_path: Path) -> None:
    """The schema of the columns gets a newer version, and events of the older one are read on."""
    (tmp_path / "in").mkdir()

    def version(*fields: dict[str, Any]) -> str:
        item = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}, *fields]}
        return record([*FIRST, {"name": "items", "type": {"type": "array", "items": item}}])

    older = version({"name": "qty", "type": "int"})
    color = {"name": "color", "type": ["null", "string"], "default": None}
    newer = version({"name": "qty", "type": "long"}, color)

    def written(name: str, schema: str, txn: int, **item: Any) -> None:
        with open(tmp_path / "in" / name, "wb") as opened:
            items = [{"sku": name, **item}]
            fastavro.writer(opened, json.loads(schema), [payment(txn, amount=1, items=items)])

    files = {"path": "in", "format": {"avro": {"schema_file": "payment.avsc"}}}
    written("a.avro", older, 0, qty=1)
    for schema, rows in (
        (older, []),
        (newer, [("b.avro", newer, 1, 2**40, {"color": "red"}), ("c.avro", older, 2, 3, {})]),
    ):
        (tmp_path / "payment.avsc").write_text(schema)
        for name, writer, txn, qty, more in rows:
            written(name, writer, txn, qty=qty, **more)
        pipeline = pipeline_for(tmp_path, {"files": files})
        run(pipeline, once=True, spark=spark)
    assert logged(pipeline, "txn", "items") == [
        ("t0", [{"sku": "a.avro", "qty": 1, "color": None}]),
        ("t1", [{"sku": "b.avro", "qty": 2**40, "color": "red"}]),
        ("t2", [{"sku": "c.avro", "qty": 3, "color": None}]),
    ]
    assert check_ledger(pipeline, spark) == []


@pytest.mark.long
def test_a_later_schema_fills_its_new_column_for_past_events(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    fields = json.loads(record(THIRD))["fields"]
    (tmp_path / "payment.avsc").write_text(record([field for field in fields if field["name"] != "shop"]))
    with open(tmp_path / "in" / "0.avro", "wb") as opened:
        fastavro.writer(opened, json.loads(record(THIRD)), [payment(1, paise=2, shop="dosa", note="")])
    files = {"path": "in", "format": {"avro": {"schema_file": "payment.avsc"}}}
    source = {"files": files, "unknown_fields": "keep"}
    run(pipeline_for(tmp_path, source), once=True, spark=spark)
    (tmp_path / "payment.avsc").write_text(record(THIRD))
    wider = pipeline_for(tmp_path, source)
    run(wider, drain=True, spark=spark)
    assert logged(wider, "txn", "shop", "unknown_fields") == [("t1", "dosa", '{"shop":"dosa"}')]
