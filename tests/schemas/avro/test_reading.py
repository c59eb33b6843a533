"""Columns of a schema, and where they lie in what another schema wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latecomer.schemas.avro import Reading, SchemaError, reading, schema_of
from latecomer.schemas.avro.reading import MARK, MOST_COLUMNS


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def made(reader: dict[str, Any], writer: dict[str, Any] | None = None) -> Reading:
    return reading(schema_of(reader), None if writer is None else schema_of(writer))


def read_with(found: Reading) -> list[dict[str, Any]]:
    """The fields that are read, but for the mark."""
    *fields, mark = found.schema["fields"]
    assert mark == {"name": MARK, "type": "boolean", "default": True}
    schema_of(found.schema)  # it is a schema
    return [dict(each) for each in fields]


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "bigint"),
        ("float", "float"),
        ("double", "double"),
        ("bytes", "binary"),
        ("string", "string"),
        ({"type": "fixed", "name": "F", "size": 4}, "binary"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        (["null", "long"], "bigint"),
        (["int", "long"], "bigint"),
        (["null", "float", "double"], "double"),
        (["int", "string"], "string"),
        ({"type": "array", "items": ["null", "int"]}, "array<int>"),
        ({"type": "map", "values": {"type": "array", "items": ["int", "long"]}}, "map<string,array<bigint>>"),
        (
            {"type": "array", "items": logical("bytes", "decimal", precision=9, scale=2)},
            "array<decimal(9,2)>",
        ),
        ({"type": "array", "items": logical("long", "timestamp-millis")}, "array<timestamp>"),
        (
            {
                "type": "array",
                "items": record(field("sku", "string"), field("n", ["null", "int"]), name="Item"),
            },
            "array<struct<sku:string,n:int>>",
        ),
        ({"type": "array", "items": ["int", "string"]}, "string"),
        ({"type": "array", "items": logical("long", "timestamp-nanos")}, "string"),
        ({"type": "array", "items": logical("long", "local-timestamp-micros")}, "string"),
        ({"type": "map", "values": logical("int", "time-millis")}, "string"),
        (logical("int", "date"), "date"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "timestamp"),
        (logical("long", "local-timestamp-micros"), "timestamp_ntz"),
        (logical("int", "time-millis"), "int"),
        (logical("long", "time-micros"), "bigint"),
        (logical("string", "uuid"), "string"),
        (logical("bytes", "decimal", precision=18, scale=2), "decimal(18,2)"),
        (logical("bytes", "decimal", precision=40, scale=2), "binary"),
        ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, "string"),
    ],
    ids=str,
)
def test_types_of_columns(kind: Any, column: str) -> None:
    assert made(record(field("a", kind))).columns == {"a": column}


def test_fields_of_records_are_columns() -> None:
    price = record(
        field("base", "long"), field("tax", record(field("rate", "double"), name="Tax")), name="Price"
    )
    found = made(record(field("id", "string"), field("price", ["null", price], default=None)))
    assert found.columns == {"id": "string", "price.base": "bigint", "price.tax.rate": "double"}
    assert found.values["price.tax.rate"].path == ("price", "tax", "rate")


def test_fields_that_lead_back_are_left_out() -> None:
    node = record(
        field("id", "long"), field("next", ["null", "R"]), field("children", {"type": "array", "items": "R"})
    )
    found = made(node)
    assert found.columns == {"id": "bigint"}
    assert [each["name"] for each in read_with(found)] == ["id"]


def test_an_alias_takes_the_writers_name() -> None:
    """Also where it is the name of another field of the reader's, on which Java fails."""
    inner = record(field("b", "int"), name="Old")
    writer = record(field("amount", "int"), field("place", inner))
    reader = record(
        field("paise", "long", aliases=["amount"]),
        field(
            "shop",
            record(field("code", "long", aliases=["b"]), name="New", aliases=["Old"]),
            aliases=["place"],
        ),
    )
    found = made(reader, writer)
    assert found.columns == {"paise": "bigint", "shop.code": "bigint"}
    assert [value.path for value in found.values.values()] == [("amount",), ("place", "b")]
    assert [each["name"] for each in read_with(found)] == ["amount", "place"]
    assert found.schema["fields"][1]["type"]["name"] == "Old"


def test_a_field_that_is_not_written_keeps_its_default() -> None:
    found = made(record(field("a", "long"), field("b", "string", default="x")), record(field("a", "int")))
    assert read_with(found) == [
        {"name": "a", "type": "long"},
        {"name": "b", "type": "string", "default": "x"},
    ]


@pytest.mark.parametrize(
    ("read", "written", "kind", "given"),
    [
        (
            logical("long", "timestamp-micros"),
            logical("long", "timestamp-millis"),
            logical("long", "timestamp-millis"),
            "timestamp plain",
        ),
        (logical("long", "timestamp-micros"), logical("long", "timestamp-nanos"), "long", "timestamp nanos"),
        (logical("long", "timestamp-micros"), "long", logical("long", "timestamp-micros"), "timestamp plain"),
        (logical("long", "time-micros"), logical("int", "time-millis"), "int", "bigint millis_of_day"),
        (
            logical("bytes", "decimal", precision=10, scale=4),
            logical("bytes", "decimal", precision=8, scale=2),
            logical("bytes", "decimal", precision=8, scale=2),
            "decimal(8,2) plain",
        ),
    ],
    ids=["millis", "nanos", "plain", "time", "decimal"],
)
def test_units_and_scales_are_those_of_the_writer(read: Any, written: Any, kind: Any, given: str) -> None:
    """To Avro they are the same type: the numbers would be taken for others."""
    for wrap in (lambda each: each, lambda each: ["null", each]):
        found = made(record(field("a", wrap(read))), record(field("a", wrap(written))))
        value = found.values["a"]
        assert f"{value.kind} {value.delivered_as}" == given
        assert read_with(found)[0]["type"] == wrap(kind)


def test_a_name_that_would_mean_two_things_is_left_to_java() -> None:
    """One writer's record is read as two: then the reader's names and aliases stand."""
    writer = record(field("a", record(field("x", "int"), name="P")), field("b", "P"))
    reader = record(
        field("a", record(field("x", "long"), name="P")),
        field("b", record(field("x", "long"), name="Q", aliases=["P"])),
    )
    found = made(reader, writer)
    assert found.columns == {"a.x": "bigint", "b.x": "bigint"}
    assert found.schema["fields"][1]["type"] == {
        "type": "record",
        "name": "Q",
        "namespace": "",
        "aliases": ["P"],
        "fields": [{"name": "x", "type": "long"}],
    }


def test_a_type_that_is_used_often_is_written_once() -> None:
    money = record(field("paise", "long"), name="Money")
    found = made(record(field("net", money), field("gross", "Money")))
    assert found.columns == {"net.paise": "bigint", "gross.paise": "bigint"}
    assert found.schema["fields"][1]["type"] == "Money"


@pytest.mark.parametrize("kind", ["long", {"type": "array", "items": "int"}, record()], ids=str)
def test_what_has_no_columns_is_refused(kind: Any) -> None:
    with pytest.raises(SchemaError, match="record"):
        made(kind)


def test_schemas_that_unfold_to_too_much_are_refused_at_once() -> None:
    """Each record holds the next twice: two to the power of thirty columns."""
    nested: Any = "long"
    for depth in range(30):
        name = f"R{depth}"
        nested = record(field("a", nested), field("b", f"R{depth - 1}" if depth else "long"), name=name)
    assert len(json.dumps(nested)) < 10_000
    with pytest.raises(SchemaError, match=f"more than {MOST_COLUMNS} fields"):
        made(nested)


def test_fields_that_only_the_writer_has_are_read_beside_the_columns_where_asked_for() -> None:
    tax = record(field("rate", "double"), name="Tax")
    reader = record(field("id", "long"), field("shop", "string", aliases=["store"]), field("tax", tax))
    writer = record(
        field("id", "int"),
        field("store", "string"),
        field("tax", tax),
        field("ID", "long"),
        field("tip", ["null", "long"]),
        field("kind", {"type": "enum", "name": "Kind", "symbols": ["A"]}),
        field("again", "Tax"),
        field("self", ["null", "R"]),
    )
    found = reading(schema_of(reader), schema_of(writer), unknown=True)
    assert found.unknown == ("tip", "kind", "again")
    assert found.columns == made(reader, writer).columns
    assert [each["name"] for each in read_with(found)] == ["id", "store", "tax", "tip", "kind", "again"]
    assert made(reader, writer).unknown == ()
    assert reading(schema_of(reader), schema_of(reader), unknown=True).unknown == ()


def test_fields_of_the_writer_alone_are_read_where_a_name_would_have_two_definitions() -> None:
    one, other = (record(field("x", "long"), name=name) for name in ("P", "Z"))
    reader = record(field("a", one), field("b", other))
    writer = record(field("a", one), field("b", "P"), field("tip", "long"), field("more", "P"))
    found = reading(schema_of(reader), schema_of(writer), unknown=True)
    assert found.unknown == ("tip",)
    assert [each["name"] for each in read_with(found)] == ["a", "b", "tip"]
