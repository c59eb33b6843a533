"""Every type of Avro as columns: messages and object files."""

from __future__ import annotations

import json
import pickle
import struct
import uuid
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.sql import SparkSession

from avro_data import leading_to_each_other, number, text
from latecomer.after.reading.reader import Reader
from latecomer.config.damage import DamagedFile
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.model.unknown_fields import known_fields
from latecomer.schemas.avro import parse_schema, reading
from latecomer.source.decode.avro import AvroRecords
from latecomer.source.decode.avro_containers import AvroContainers
from latecomer.source.decode.avro_messages import AvroMessages
from latecomer.source.decode.base import FileSplit
from latecomer.source.decode.columns import CORRUPT, KEPT, SCHEMA_ID
from latecomer.source.decode.files import SourceFile
from source.avro_source_kit import FIRST, MICROS, NOON, SECOND, THIRD, framed, payload, payment, record
from source.kafka_source_kit import logged

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
TAX = {"type": "record", "name": "Tax", "fields": [{"name": "rate", "type": "double"}]}
EVERY: dict[str, tuple[Any, Any, Any]] = {
    # field: type, what is written, what the column holds
    "flag": ("boolean", True, True),
    "small": ("int", -7, -7),
    "large": ("long", 1 << 40, 1 << 40),
    "half": ("float", 0.5, 0.5),
    "whole": ("double", 1e300, 1e300),
    "raw": ("bytes", b"\xff\0", b"\xff\0"),
    "text": ("string", "चाय", "चाय"),
    "maybe": (["null", "string"], None, None),
    "day": ({"type": "int", "logicalType": "date"}, date(1500, 3, 1), date(1500, 3, 1)),
    "at": (MICROS, NOON, NOON),
    "nano": (
        {"type": "long", "logicalType": "timestamp-nanos"},
        -1,
        datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
    ),
    "local": (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        datetime(2026, 4, 25, 12),
        datetime(2026, 4, 25, 12),
    ),
    "clock": ({"type": "int", "logicalType": "time-millis"}, time(0, 0, 1), 1000),
    "paise": (DECIMAL, Decimal("-12.34"), Decimal("-12.34")),
    "uid": ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=1), str(uuid.UUID(int=1))),
    "fixed_uid": (
        {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"},
        uuid.UUID(int=2).bytes,
        str(uuid.UUID(int=2)),
    ),
    "kind": ({"type": "enum", "name": "Kind", "symbols": ["CASH", "CARD"]}, "CARD", "CARD"),
    "list": ({"type": "array", "items": "int"}, [1, 2], [1, 2]),
    "map": ({"type": "map", "values": "long"}, {"a": 1}, [("a", 1)]),
    "mixed": (
        {"type": "array", "items": ["null", "int", "string"]},
        [1, "x"],
        '[{"member0":1},{"member1":"x"}]',
    ),
    "either": (["null", "int", "string"], "x", "x"),
    "tax": (["null", TAX], {"rate": 0.18}, None),
}
WRITTEN = record([{"name": name, "type": kind} for name, (kind, _, _) in EVERY.items()])


def pipeline_for(folder: Path, source: dict[str, Any]) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "payments",
            "base": folder,
            "store": str(folder / "store"),
            "source": source,
            "event": {"time": "at", "id": "txn"},
            "watermark": {"delay": "1m", "max_future": None},
            "outputs": {"minutes": {"window": {"tumbling": "1m"}, "aggregates": {"payments": "count(*)"}}},
        }
    )


def decoder(folder: Path, reader: str, writers: dict[int, str]) -> AvroRecords:
    avro = {"registry": "http://127.0.0.1:1", "schema_file": "a.avsc"}
    kafka = {"kafka": {"servers": "127.0.0.1:1", "topics": ["t"]}, "format": {"avro": avro}}
    made = AvroRecords(pipeline_for(folder, kafka))
    made.reader = parse_schema(reader)
    made.schemas.known.update({number: parse_schema(text) for number, text in writers.items()})
    return made


def decoded(by: AvroRecords, messages: list[bytes]) -> list[dict[str, Any]]:
    """As a task does it."""
    task: AvroMessages = pickle.loads(pickle.dumps(by.in_tasks()))
    return task.decode(messages, reading(by.reader).columns).to_pylist()


def test_every_type(tmp_path: Path) -> None:
    row = {name: value for name, (_, value, _) in EVERY.items()}
    (found,) = decoded(decoder(tmp_path, WRITTEN, {7: WRITTEN}), [framed(7, WRITTEN, row)])
    expected = {name: value for name, (_, _, value) in EVERY.items() if name != "tax"}
    assert (found.pop(CORRUPT), found.pop(SCHEMA_ID), found.pop("tax.rate")) == (None, 7, 0.18)
    assert found == expected


def test_each_writer_in_its_own_unit_and_what_cannot_be_read(tmp_path: Path) -> None:
    """Also a record of nothing but nulls."""
    wide = {**DECIMAL, "scale": 4, "precision": 12}
    reader = record([{"name": "at", "type": ["null", MICROS]}, {"name": "paise", "type": ["null", wide]}])
    other = {"type": "long", "logicalType": "timestamp-millis"}
    older = record([{"name": "at", "type": ["null", other]}, {"name": "paise", "type": ["null", DECIMAL]}])
    finer = record([{"name": "at", "type": "null"}, {"name": "paise", "type": {**DECIMAL, "scale": 6}}])
    alien = record([{"name": "at", "type": "string"}, {"name": "paise", "type": wide}])
    text = record(
        [{"name": "at", "type": "null"}, {"name": "paise", "type": "null"}, {"name": "x", "type": "string"}]
    )
    by = decoder(tmp_path, reader, {1: reader, 2: older, 3: finer, 4: alien, 5: text})
    huge = payload(record([{"name": "n", "type": "long"}]), {"n": 2**31 - 20})
    messages = [
        framed(1, reader, {"at": NOON, "paise": Decimal("1.2345")}),
        framed(2, older, {"at": NOON, "paise": Decimal("1.23")}),
        framed(1, reader, {"at": None, "paise": None}),
        framed(3, finer, {"at": None, "paise": Decimal("0.123400")}),
        framed(3, finer, {"at": None, "paise": Decimal("0.123456")}),
        framed(4, alien, {"at": "x", "paise": Decimal(1)}),
        struct.pack(">bI", 0, 5) + huge,
        struct.pack(">bI", 0, 1),
    ]
    found = decoded(by, messages)
    assert [(row["at"], row["paise"]) for row in found[:4]] == [
        (NOON, Decimal("1.2345")),
        (NOON, Decimal("1.2300")),
        (None, None),
        (None, Decimal("0.1234")),
    ]
    assert [row[CORRUPT] is not None for row in found] == [False] * 4 + [True] * 4
    said = [by.mistake(message) for message in messages[4:]]
    assert said[0] == f"the {len(messages[4]) - 5} bytes after its id are no whole record of schema 3"
    assert "what schema 4 wrote cannot be read as the pipeline's schema" in said[1]
    assert said[3] == "the 0 bytes after its id are no whole record of schema 1"


def test_lists_of_each_writer(tmp_path: Path) -> None:
    """Objects in lists have the reader's names, units and scales, whoever wrote them."""

    def items(*fields: dict[str, Any]) -> str:
        item = json.loads(record(list(fields))) | {"name": "Item"}
        kinds = {
            "items": {"type": "array", "items": ["null", item]},
            "by_day": {"type": "map", "values": "long"},
        }
        return record([{"name": name, "type": kind} for name, kind in kinds.items()])

    nanos = {"type": "long", "logicalType": "timestamp-nanos"}
    sku, price = {"name": "sku", "type": "string"}, {"name": "price", "type": DECIMAL}
    reader = items(
        {**sku, "aliases": ["article"]}, price, {"name": "at", "type": ["null", MICROS], "default": None}
    )
    older = items({"name": "article", "type": "string"}, {**price, "type": {**DECIMAL, "scale": 4}})
    finer = items(sku, price, {"name": "at", "type": nanos})
    by = decoder(tmp_path, reader, {1: reader, 2: older, 3: finer})
    days = {"by_day": {"mon": 1}}
    found = decoded(
        by,
        [
            framed(1, reader, {"items": [{"sku": "a", "price": Decimal("1.50"), "at": NOON}, None], **days}),
            framed(2, older, {"items": [{"article": "b", "price": Decimal("2.5000")}], **days}),
            framed(2, older, {"items": [{"article": "b", "price": Decimal("2.5001")}], **days}),
            framed(3, finer, {"items": [{"sku": "c", "price": Decimal(3), "at": 1_001_999}], **days}),
        ],
    )
    assert reading(by.reader).columns == {
        "items": "array<struct<sku:string,price:decimal(10,2),at:timestamp>>",
        "by_day": "map<string,bigint>",
    }
    assert [row[CORRUPT] is not None for row in found] == [False, False, True, False]
    assert [found[nth]["items"] for nth in (0, 1, 3)] == [
        [{"sku": "a", "price": Decimal("1.50"), "at": NOON}, None],
        [{"sku": "b", "price": Decimal("2.50"), "at": None}],
        [{"sku": "c", "price": Decimal("3.00"), "at": datetime(1970, 1, 1, 0, 0, 0, 1001, UTC)}],
    ]
    assert found[0]["by_day"] == [("mon", 1)]
    bad = framed(1, reader, {"items": [{"sku": "bad!", "price": Decimal(0), "at": None}], **days})
    (broken,) = decoded(by, [bad.replace(b"bad!", b"b\xffd!")])
    assert broken[CORRUPT] is not None


def test_texts_anywhere_that_are_not_utf_8_and_decimals_of_many_digits(tmp_path: Path) -> None:
    """They are dead letters wherever they are: in unions, in what becomes JSON text, in fields that are kept."""
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "s", "type": "string"}]}
    other = {"type": "record", "name": "Other", "fields": [{"name": "b", "type": "bytes"}]}
    many = {"type": "array", "items": "string"}
    kinds: dict[str, Any] = {
        "one": ["null", "int", "string", many],
        "two": ["null", inner, other],
        "three": {"type": "array", "items": ["null", "int", "string"]},
        "paise": ["null", DECIMAL],
        "huge": ["null", {**DECIMAL, "precision": 40}],
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    reader, writer = record(fields), record([*fields, {"name": "more", "type": "string"}])
    swapped = {**kinds, "paise": kinds["huge"], "huge": kinds["paise"]}
    crossed = record([{"name": name, "type": kind} for name, kind in swapped.items()])
    rescaled = record([{"name": "huge", "type": {**DECIMAL, "scale": 3}}])
    by = decoder(tmp_path, reader, {1: writer, 2: crossed})
    kept = by.pipeline.source.model_copy(update={"unknown_fields": "keep"})
    by.pipeline = by.pipeline.model_copy(update={"source": kept})
    row: dict[str, Any] = {"one": "ab-1", "two": ("shop.Inner", {"s": "ab-2"}), "three": ["ab-3", 1]}
    nothing = {"paise": None, "huge": None}
    whole = framed(1, writer, {**row, **nothing, "more": "ab-4"})
    messages = [
        whole,
        *(whole.replace(b"ab-%d" % nth, b"a\xff-%d" % nth) for nth in range(1, 5)),
        framed(1, writer, {**row, **nothing, "one": ["a, b", "c"], "more": "\ufffd"}),
        framed(2, crossed, {**row, **nothing}),
        framed(2, crossed, {**row, **nothing, "paise": Decimal(1)}),
        framed(2, crossed, {**row, **nothing, "huge": Decimal("1.25")}),
    ]
    rows = decoded(by, messages)
    found = [each for each in rows if each[CORRUPT] is None]
    assert [each["one"] for each in found] == ["ab-1", '["a, b","c"]', "ab-1", "ab-1"]
    assert found[0]["two"] == '{"s":"ab-2"}'
    assert found[0]["three"] == '[{"member1":"ab-3"},{"member0":1}]'
    assert [each["huge"] for each in found] == [None, None, None, b"}"]
    dead = [each[CORRUPT] for each in rows if each[CORRUPT] is not None]
    assert dead == [*messages[1:5], messages[7]]
    by = decoder(tmp_path, record([fields[-1]]), {3: rescaled})
    (scaled,) = decoded(by, [framed(3, rescaled, {"huge": Decimal(1)})])
    assert scaled[CORRUPT] is not None


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


@pytest.mark.parametrize("length", [2**31 - 20, 100 << 20, -3, 1])
def test_lengths_that_are_not_true_cost_no_memory(tmp_path: Path, length: int) -> None:
    reader = record(
        [
            {"name": "x", "type": ["null", "string"], "default": None},
            {"name": "list", "type": ["null", {"type": "array", "items": "null"}], "default": None},
        ]
    )
    text, many = (record([field]) for field in json.loads(reader)["fields"])
    by = decoder(tmp_path, reader, {1: text, 2: many})
    said = payload(
        record([{"name": "branch", "type": "int"}, {"name": "n", "type": "long"}]), {"branch": 1, "n": length}
    )
    found = decoded(by, [struct.pack(">bI", 0, number) + said for number in (1, 2)])
    assert all(row[CORRUPT] is not None for row in found)


def holding_itself(kind: Any) -> str:
    return record(
        [{"name": "txn", "type": "string"}, {"name": "at", "type": MICROS}, {"name": "more", "type": kind}]
    )


def deep(times: int, before: bytes, innermost: bytes = b"\0", after: bytes = b"") -> bytes:
    """A payment in a payment, so many times."""
    one = payload(record([{"name": "txn", "type": "string"}, {"name": "at", "type": MICROS}]), payment(times))
    return (one + before) * times + one + innermost + after * times


def object_file(schema: str, rows: list[bytes]) -> bytes:
    body, sync = b"".join(rows), bytes(range(1, 17))
    head = {"avro.schema": schema.encode(), "avro.codec": b"null"}
    meta = number(len(head)) + b"".join(text(key.encode()) + text(each) for key, each in head.items())
    block = number(len(rows)) + number(len(body)) + body
    return b"Obj\x01" + meta + b"\0" + sync + block + sync


@pytest.mark.parametrize("size", [2**62, 2**63 - 1])
def test_a_block_that_claims_to_be_larger_than_any_file_is_damage(tmp_path: Path, size: int) -> None:
    schema = record([{"name": "txn", "type": "string"}])
    file = tmp_path / "a.avro"
    file.write_bytes(
        object_file(schema, []).replace(b"\0\0" + bytes(range(1, 17)), b"") + number(1) + number(size)
    )
    found = SourceFile(f"file://{file}", 0, file.stat().st_size)
    by = AvroContainers(parse_schema(schema), {"txn": "string"})
    (split,) = by.splits(found, 1)
    with pytest.raises(DamagedFile, match=f"says that it has {size} bytes"):
        list(by.decode(split))


def test_records_that_are_deep_in_one_another_are_dead_letters(tmp_path: Path) -> None:
    """They would cost a stack that has an end. Others of the batch are read."""
    reader = record([{"name": "txn", "type": "string"}])
    line = {"type": "record", "name": "Line", "fields": [{"name": "whole", "type": ["null", "shop.Payment"]}]}
    writers = {
        1: holding_itself(["null", "shop.Payment"]),
        2: holding_itself({"type": "array", "items": "shop.Payment"}),
        3: holding_itself({"type": "map", "values": line}),
    }
    before = {1: b"\x02", 2: b"\x02", 3: b"\x02\x02k\x02"}
    after = {1: b"", 2: b"\0", 3: b"\0"}
    by = decoder(tmp_path, reader, writers)
    kept = by.pipeline.source.model_copy(update={"unknown_fields": "keep"})
    by.pipeline = by.pipeline.model_copy(update={"source": kept})
    messages = [
        struct.pack(">bI", 0, number) + deep(times, before[number], after=after[number])
        for number in writers
        for times in (0, 3, 49, 100, 20_000)
    ]
    found = decoded(by, messages)
    assert sorted(each["txn"] for each in found if each["txn"]) == sorted(["t0", "t3", "t49"] * 3)
    told = {each[CORRUPT] for each in found} - {None}
    assert told == {*messages[3::5], *messages[4::5]}
    assert by.mistake(messages[4]) == "it has more than 100 records of schema 1 in one another"
    assert (
        by.mistake(messages[1][:-3])
        == f"the {len(messages[1]) - 8} bytes after its id are no whole record of schema 1"
    )


def test_data_of_a_schema_that_is_too_large_to_be_written_out_is_checked(tmp_path: Path) -> None:
    """Together with that of others."""
    reader, large = (json.dumps(leading_to_each_other(count, txn="string")) for count in (1, 60))
    by, other = decoder(tmp_path, reader, {1: reader}), framed(1, reader, {"txn": "a", "to0": None})
    by.schemas.known[2] = parse_schema(large)
    messages = [
        struct.pack(">bI", 0, 2) + b"\x02" + (b"%d" % nth) + b"\x02\x02x" * times + bytes(60 + 59 * times)
        for nth, times in enumerate((0, 3, 99, 100, 20_000))
    ]
    hidden = messages[1][:8] + number(2**40)
    found = decoded(by, [*messages, other, hidden])
    assert [each["txn"] for each in found] == ["0", "1", "2", None, None, "a", None]
    assert [each[CORRUPT] for each in found] == [*[None] * 3, *messages[3:], None, hidden]
    told = "the 5 bytes after its id are no whole record of schema 2"
    deep = "it has more than 100 records of schema 2 in one another"
    assert [by.mistake(each) for each in (*messages[3:], hidden[:10])] == [deep, deep, told]


def two_of_one_name(kind: str) -> str:
    """A schema with two types of one short name: one has a namespace, and the other none."""
    first: dict[str, Any] = {"name": "a.b.Money", "type": kind}
    second: dict[str, Any] = {"name": "Money", "namespace": "", "type": kind}
    if kind == "record":
        first["fields"] = [{"name": "paise", "type": "long"}]
        second["fields"] = [{"name": "rupees", "type": "string"}]
    elif kind == "enum":
        first["symbols"], second["symbols"] = ["LOW", "HIGH"], ["FEW", "MANY"]
    else:
        first["size"], second["size"] = 2, 3
    fields = [
        {"name": "txn", "type": "string"},
        {"name": "one", "type": first},
        {"name": "other", "type": second},
        {"name": "either", "type": ["null", "a.b.Money"]},
    ]
    return json.dumps({"type": "record", "name": "Order", "namespace": "a.b", "fields": fields})


TWO: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    # what is written as one and the other, and the columns
    "record": ({"paise": 7}, {"rupees": "₹8"}, {"one.paise": 7, "other.rupees": "₹8", "either.paise": 7}),
    "enum": ("HIGH", "MANY", {"one": "HIGH", "other": "MANY", "either": "HIGH"}),
    "fixed": (b"ab", b"cde", {"one": b"ab", "other": b"cde", "either": b"ab"}),
}


@pytest.mark.parametrize("kind", TWO)
def test_two_types_of_one_short_name(kind: str, tmp_path: Path) -> None:
    """In messages, and in files."""
    schema, (one, other, expected) = two_of_one_name(kind), TWO[kind]
    row = {"txn": "t1", "one": one, "other": other, "either": one}
    by, message = decoder(tmp_path, schema, {1: schema}), framed(1, schema, row)
    (found,) = decoded(by, [message])
    assert found == {"txn": "t1", **expected, CORRUPT: None, SCHEMA_ID: 1}
    file = tmp_path / "a.avro"
    file.write_bytes(object_file(schema, [message[5:]]))
    files = AvroContainers(by.reader, reading(by.reader).columns, "ignore")
    (there,) = (
        row for part in files.decode(FileSplit(SourceFile(file.as_uri(), 0, 0))) for row in part.to_pylist()
    )
    assert {each: there[each] for each in found if each in there} == {"txn": "t1", **expected, CORRUPT: None}


def test_two_types_of_one_short_name_in_records_that_hold_themselves(tmp_path: Path) -> None:
    """They are named again at every depth."""
    reader = two_of_one_name("enum")
    described = json.loads(reader)
    described["fields"].append({"name": "more", "type": ["null", "a.b.Order"]})
    writer = json.dumps(described)
    row = {"txn": "t1", "one": "HIGH", "other": "MANY", "either": "LOW", "more": None}
    message = framed(1, writer, {**row, "more": row})
    (found,) = decoded(decoder(tmp_path, reader, {1: writer}), [message])
    assert found == {"txn": "t1", **TWO["enum"][2], "either": "LOW", CORRUPT: None, SCHEMA_ID: 1}


@pytest.mark.long
def test_a_file_with_records_that_are_deep_in_one_another_is_a_dead_letter(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()
    writer = holding_itself(["null", "shop.Payment"])
    for name, times in (("a", (0, 3)), ("b", (1, 20_000)), ("c", (2,))):
        (tmp_path / "in" / f"{name}.avro").write_bytes(
            object_file(writer, [deep(each, b"\x02") for each in times])
        )
    pipeline = pipeline_for(tmp_path, {"files": {"path": "in/*.avro", "format": "avro"}})
    run(pipeline, once=True, spark=spark)
    assert sorted(logged(pipeline, "txn")) == ["t0", "t2", "t3"]
    (letter,) = Reader(pipeline).dead_letters().to_pylist()
    assert letter["origin"].endswith("in/b.avro")
    assert "too many records in one another" in letter["raw"]


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
def test_fields_that_only_the_writer_has_are_kept(tmp_path: Path) -> None:
    reader = record([{"name": "txn", "type": "string"}])
    more = [
        {"name": "tip", "type": ["null", "long"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "tax", "type": TAX},
        {"name": "fee", "type": DECIMAL},
    ]
    writer = record([{"name": "txn", "type": "string"}, *more])
    by = decoder(tmp_path, reader, {1: reader, 2: writer})
    row = {"txn": "b", "tip": None, "tags": ["x"], "tax": {"rate": 0.5}, "fee": Decimal("1.10")}
    messages = [
        framed(1, reader, {"txn": "a"}),
        framed(2, writer, row),
        framed(2, writer, {**row, "tip": 2**60}),
    ]
    kept = by.pipeline.source.model_copy(update={"unknown_fields": "keep"})
    by.pipeline = by.pipeline.model_copy(update={"source": kept})
    found = decoded(by, messages)
    assert [each["txn"] for each in found] == ["a", "b", "b"]
    assert [each[KEPT] for each in found] == [
        None,
        '{"tags":["x"],"tax":{"rate":0.5},"fee":1.10}',
        f'{{"tip":{2**60},"tags":["x"],"tax":{{"rate":0.5}},"fee":1.10}}',
    ]
    refused = by.pipeline.source.model_copy(update={"unknown_fields": "dead_letter"})
    by.pipeline = by.pipeline.model_copy(update={"source": refused})
    assert [each[CORRUPT] for each in decoded(by, messages)] == [None, *messages[1:]]
    assert by.unknown_names(messages[1], known_fields(["txn"])) == ["tip", "tags", "tax", "fee"]


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
