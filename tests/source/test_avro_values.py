"""Every type of Avro as columns: in messages of several writers, and in an object file."""

from __future__ import annotations

import json
import struct
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from latecomer.model.unknown_fields import known_fields
from latecomer.schemas.avro import reading
from latecomer.source.decode.avro_containers import AvroContainers
from latecomer.source.decode.base import FileSplit, SourceFile
from latecomer.source.decode.private_columns import CORRUPT, KEPT, SCHEMA_ID
from source.avro_source_kit import (
    MICROS,
    NOON,
    decoded,
    decoder,
    framed,
    object_file,
    payload,
    record,
)

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


def test_every_type() -> None:
    row = {name: value for name, (_, value, _) in EVERY.items()}
    (found,) = decoded(decoder(WRITTEN, {7: WRITTEN}), [framed(7, WRITTEN, row)])
    expected = {name: value for name, (_, _, value) in EVERY.items() if name != "tax"}
    assert (found.pop(CORRUPT), found.pop(SCHEMA_ID), found.pop("tax.rate")) == (None, 7, 0.18)
    assert found == expected


def test_each_writer_in_its_own_unit_and_what_cannot_be_read() -> None:
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
    by = decoder(reader, {1: reader, 2: older, 3: finer, 4: alien, 5: text})
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


def test_lists_of_each_writer() -> None:
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
    by = decoder(reader, {1: reader, 2: older, 3: finer})
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


def test_texts_anywhere_that_are_not_utf_8_and_decimals_of_many_digits() -> None:
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
    by = replace(decoder(reader, {1: writer, 2: crossed}), unknown_fields="keep")
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
    by = decoder(record([fields[-1]]), {3: rescaled})
    (scaled,) = decoded(by, [framed(3, rescaled, {"huge": Decimal(1)})])
    assert scaled[CORRUPT] is not None


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
    by, message = decoder(schema, {1: schema}), framed(1, schema, row)
    (found,) = decoded(by, [message])
    assert found == {"txn": "t1", **expected, CORRUPT: None, SCHEMA_ID: 1}
    file = tmp_path / "a.avro"
    file.write_bytes(object_file(schema, [message[5:]]))
    files = AvroContainers(by.reader, reading(by.reader).columns, "ignore")
    (there,) = (
        row for part in files.decode(FileSplit(SourceFile(file.as_uri(), 0, 0))) for row in part.to_pylist()
    )
    assert {each: there[each] for each in found if each in there} == {"txn": "t1", **expected, CORRUPT: None}


def test_two_types_of_one_short_name_in_records_that_hold_themselves() -> None:
    """They are named again at every depth."""
    reader = two_of_one_name("enum")
    described = json.loads(reader)
    described["fields"].append({"name": "more", "type": ["null", "a.b.Order"]})
    writer = json.dumps(described)
    row = {"txn": "t1", "one": "HIGH", "other": "MANY", "either": "LOW", "more": None}
    message = framed(1, writer, {**row, "more": row})
    (found,) = decoded(decoder(reader, {1: writer}), [message])
    assert found == {"txn": "t1", **TWO["enum"][2], "either": "LOW", CORRUPT: None, SCHEMA_ID: 1}


@pytest.mark.long
def test_fields_that_only_the_writer_has_are_kept() -> None:
    reader = record([{"name": "txn", "type": "string"}])
    more = [
        {"name": "tip", "type": ["null", "long"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "tax", "type": TAX},
        {"name": "fee", "type": DECIMAL},
    ]
    writer = record([{"name": "txn", "type": "string"}, *more])
    by = decoder(reader, {1: reader, 2: writer})
    row = {"txn": "b", "tip": None, "tags": ["x"], "tax": {"rate": 0.5}, "fee": Decimal("1.10")}
    messages = [
        framed(1, reader, {"txn": "a"}),
        framed(2, writer, row),
        framed(2, writer, {**row, "tip": 2**60}),
    ]
    by = replace(by, unknown_fields="keep")
    found = decoded(by, messages)
    assert [each["txn"] for each in found] == ["a", "b", "b"]
    assert [each[KEPT] for each in found] == [
        None,
        '{"tags":["x"],"tax":{"rate":0.5},"fee":1.10}',
        f'{{"tip":{2**60},"tags":["x"],"tax":{{"rate":0.5}},"fee":1.10}}',
    ]
    by = replace(by, unknown_fields="dead_letter")
    assert [each[CORRUPT] for each in decoded(by, messages)] == [None, *messages[1:]]
    assert by.unknown_names(messages[1], known_fields(["txn"])) == ["tip", "tags", "tax", "fee"]
