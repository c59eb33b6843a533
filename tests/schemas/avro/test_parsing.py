"""Schemas out of JSON: what is read, and what each mistake is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from latecomer.schemas.avro import SchemaError, incompatibilities, normalized, parse_schema, schema_of
from latecomer.schemas.avro.types import (
    Array,
    Enum,
    Field,
    Fixed,
    Json,
    Map,
    Primitive,
    Record,
    TypeReference,
    Union,
)


def record(*fields: Any, **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Ride", "fields": list(fields), **others}


def field(found: Any, **others: Any) -> dict[str, Any]:
    return {"name": "f", "type": found, **others}


CASH = {"type": "enum", "name": "Way", "symbols": ["CASH", "CARD"]}
ID = {"type": "fixed", "name": "Id", "size": 2}


def test_every_kind_is_read() -> None:
    schema = parse_schema(
        json.dumps(
            {
                "type": "record",
                "name": "Ride",
                "namespace": "city",
                "doc": "a ride",
                "aliases": ["Trip", "old.Trip"],
                "x-owner": "pay",
                "fields": [
                    {"name": "way", "type": {**CASH, "default": "CASH", "doc": "how"}, "default": "CARD"},
                    {"name": "id", "type": ID, "order": "descending", "aliases": ["key"], "doc": "which"},
                    {"name": "tags", "type": {"type": "array", "items": "Way"}},
                    {"name": "notes", "type": {"type": "map", "values": ["null", "string"]}},
                    {"name": "next", "type": ["null", "Ride"], "default": None},
                    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "unit": 1},
                ],
            }
        )
    )
    time = Primitive("long", (("logicalType", Json.of("timestamp-millis")),))
    way = Enum("city.Way", ("CASH", "CARD"), "CASH", doc="how")
    fields = (
        Field("way", way, Json.of("CARD")),
        Field("id", Fixed("city.Id", 2), order="descending", aliases=("key",), doc="which"),
        Field("tags", Array(TypeReference("city.Way"))),
        Field("notes", Map(Union((Primitive("null"), Primitive("string"))))),
        Field("next", Union((Primitive("null"), TypeReference("city.Ride"))), Json.of(None)),
        Field("at", time, properties=(("unit", Json.of(1)),)),
    )
    properties = (("x-owner", Json.of("pay")),)
    aliases = ("city.Trip", "old.Trip")
    assert schema.root == Record("city.Ride", fields, False, aliases, "a ride", properties)
    assert set(schema.names) == {"city.Ride", "city.Way", "city.Id"}


def test_an_error_is_a_record() -> None:
    root = schema_of({**record(), "type": "error"}).root
    assert isinstance(root, Record)
    assert root.is_error


@pytest.mark.parametrize(
    ("names", "full"),
    [
        ({"name": "Id"}, "city.Id"),
        ({"name": "Id", "namespace": "a.b"}, "a.b.Id"),
        ({"name": "Id", "namespace": ""}, "Id"),
        ({"name": "x.Id", "namespace": "a.b"}, "x.Id"),
        ({"name": "Id", "namespace": None}, "city.Id"),
    ],
)
def test_a_name_without_namespace_is_in_the_one_around_it(names: dict[str, Any], full: str) -> None:
    schema = schema_of(record(field({"type": "fixed", "size": 1, **names}), namespace="city"))
    assert full in schema.names


def test_a_mention_is_looked_for_in_the_namespace_around_it_and_then_without_one() -> None:
    one, other = {**ID, "namespace": ""}, {**ID, "namespace": "city"}
    fields = [{"name": "a", "type": one}, {"name": "b", "type": "Id"}]
    alone = schema_of(record(*fields, namespace="city")).root
    assert isinstance(alone, Record)
    assert alone.fields[1].type == TypeReference("Id")
    fields.insert(1, {"name": "c", "type": other})
    both = schema_of(record(*fields, namespace="city")).root
    assert isinstance(both, Record)
    assert both.fields[2].type == TypeReference("city.Id")


def test_records_may_hold_each_other() -> None:
    inner = {"type": "record", "name": "Stop", "fields": [field(["null", "Ride"])]}
    schema = schema_of(record(field({"type": "array", "items": inner})))
    assert set(schema.names) == {"Ride", "Stop"}


def test_a_reference_in_an_object_keeps_what_is_written_beside_it() -> None:
    found = schema_of(record(field(["null", {"type": "Ride", "x": 1}]))).root
    assert isinstance(found, Record)
    assert found.fields[0].type == Union((Primitive("null"), TypeReference("Ride", (("x", Json.of(1)),))))


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("null", None),
        ("boolean", False),
        ("int", -(2**31)),
        ("long", 2**63 - 1),
        ("float", 1),
        ("double", 1e300),
        ("double", "NaN"),
        ("float", "-Infinity"),
        ("string", "é"),
        ("bytes", "ÿ\x00"),
        (CASH, "CARD"),
        (ID, "ab"),
        ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "map", "values": "int"}, {"a": 1}),
        (["null", "int"], None),
        (["null", "int"], 3),
        (["int", "Ride"], 3),
        (["null", "int", "string"], "x"),
        (["null", {"type": "array", "items": "int"}], [1]),
        ({**record(field("int"), {"name": "g", "type": "int", "default": 1}), "name": "B"}, {"f": 2}),
        ({**record(), "name": "B"}, {"unknown": 1}),
    ],
)
def test_a_default_that_fits(kind: Any, default: Any) -> None:
    root = schema_of(record(field(kind, default=default))).root
    assert isinstance(root, Record)
    assert root.fields[0].default == Json.of(default)


def test_null_as_a_default_is_a_default() -> None:
    root = schema_of(record(field("null", default=None), {"name": "g", "type": "null"})).root
    assert isinstance(root, Record)
    assert [each.default for each in root.fields] == [Json("null", None), None]


WRONG: list[tuple[Any, str, str, str]] = [
    (5, "the schema", "is no schema", "write the name of a type"),
    (None, "the schema", "is no schema", "write the name"),
    ({}, "the schema", "has no type", '"type": "record"'),
    ({"type": {"type": "int"}}, "type", "is no name", "needs no object around it"),
    ({"type": ["int"]}, "type", "is no name", "name of a type"),
    ("strnig", "the schema", "there is no such type so far", "did you mean string?"),
    ({"type": "strnig"}, "type", "there is no such type so far", "did you mean string?"),
    (record(field("Later"), field({**ID, "name": "Later"})), "fields[0].type", "no such type so far", "before"),
    ({"type": "record", "fields": []}, "the schema", "has no name", 'write "name"'),
    ({"type": "record", "name": "R"}, "the schema", "has no fields", 'write "fields"'),
    ({"type": "record", "name": "R", "fields": {}}, "fields", "is no list", "list of fields"),
    (record("f"), "fields[0]", "is no field", "write an object"),
    (record({"type": "int"}), "fields[0]", "has no name", 'write "name"'),
    (record({"name": "f"}), "fields[0]", "has no type", 'write "type"'),
    (record(field("int"), field("int")), "fields[1].name", "is the name of an earlier field", "of its own"),
    (record({"name": "a-b", "type": "int"}), "fields[0].name", "is no name", "underscores"),
    (record({"name": "a.b", "type": "int"}), "fields[0].name", "is no name", "underscores"),
    (record({"name": "é", "type": "int"}), "fields[0].name", "is no name", "A to Z"),
    (record({"name": 5, "type": "int"}), "fields[0].name", "is no name", "underscores"),
    (record(field("int", order="up")), "fields[0].order", "is no order", "ascending, descending, ignore"),
    (record(field("int", order=["up"])), "fields[0].order", "is no order", "ascending"),
    (record(field("int", aliases="g")), "fields[0].aliases", "is no list", "list of texts"),
    (record(field("int", aliases=[5])), "fields[0].aliases[0]", "is no text", "in quotes"),
    (record(field("int", aliases=["a b"])), "fields[0].aliases[0]", "is no name", "underscores"),
    (record(field("int", doc=5)), "fields[0].doc", "is no text", "leave it out"),
    (record(doc=5), "doc", "is no text", "leave it out"),
    (record(namespace=5), "namespace", "is no text", "leave it out"),
    (record(namespace="a..b"), "namespace", "is no name", "between dots"),
    (record(aliases=["1.A"]), "aliases[0]", "is no name", "between dots"),
    (record(aliases=[".A"]), "aliases[0]", "is no name", "between dots"),
    ({**ID, "name": "A."}, "name", "is no name", "between dots"),
    ({**ID, "name": "int"}, "name", "is the name of a primitive type", "choose another"),
    (record(field({**ID, "name": "Ride"})), "fields[0].type.name", "is defined already in this schema", "alone"),
    (record({"name": "a", "type": ID}, field(ID)), "fields[1].type.name", "is defined already", "its name alone"),
    ({"type": "array"}, "the schema", "has no items", 'write "items"'),
    ({"type": "map"}, "the schema", "has no values", 'write "values"'),
    ({"type": "map", "values": {"type": "array", "items": 5}}, "values.items", "is no schema", "name of a type"),
    ({**ID, "size": -1}, "size", "is no number of bytes", "from 0"),
    ({**ID, "size": 2.0}, "size", "is no number of bytes", "whole number"),
    ({**ID, "size": True}, "size", "is no number of bytes", "whole number"),
    ({**ID, "size": 2**31}, "size", "is no number of bytes", "2147483639"),
    ({"type": "fixed", "name": "F"}, "the schema", "has no size", 'write "size"'),
    ({"type": "enum", "name": "E"}, "the schema", "has no symbols", 'write "symbols"'),
    ({"type": "enum", "name": "E", "symbols": "A"}, "symbols", "is no list", "list of texts"),
    ({"type": "enum", "name": "E", "symbols": [1]}, "symbols[0]", "is no text", "in quotes"),
    ({"type": "enum", "name": "E", "symbols": ["A", "a-b"]}, "symbols[1]", "is no name", "underscores"),
    ({"type": "enum", "name": "E", "symbols": ["A", "A"]}, "symbols[1]", "is there already", "once"),
    ({**CASH, "default": "CRAD"}, "default", "is none of the symbols", "did you mean CARD?"),
    ({**CASH, "default": None}, "default", "is none of the symbols", "CASH"),
    (["int", ["null"]], "[1]", "is a union directly within a union", "branches here"),
    (["int", {"type": "int", "logicalType": "date"}], "[1]", "is int a second time, after branch 0", "leave one"),
    ([{"type": "array", "items": "int"}] * 2, "[1]", "is array a second time", "named types"),
    ([ID, "Id"], "[1]", "is Id a second time", "leave one out"),
    ({"type": "int", "x": [2**63]}, "x", "whole number that is too large", "as text"),
    (
        record(field({**ID, "name": "Ride", "namespace": ""}), {"name": "g", "type": "Ride"}, namespace="a"),
        "fields[1].type",
        "may be a.Ride or the Ride that has no namespace",
        "write a.Ride",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "path", "message", "fix"), WRONG)
def test_a_mistake_is_told_with_its_place_and_a_fix(schema: Any, path: str, message: str, fix: str) -> None:
    with pytest.raises(SchemaError) as outcome:
        schema_of(schema)
    assert str(outcome.value).startswith(f"{path}: ")
    assert message in outcome.value.message
    assert fix in outcome.value.fix
    with pytest.raises(SchemaError, match=r".") as from_text:
        parse_schema(json.dumps(schema))
    assert str(from_text.value) == str(outcome.value)


DEFAULTS: list[tuple[Any, Any, str, str]] = [
    ("int", None, "", "a whole number of 32 bits"),
    ("int", 2**31, "", "32 bits"),
    ("int", True, "", "32 bits"),
    ("int", 1.0, "", "32 bits"),
    ("long", 2**63, "", "64 bits"),
    ("double", "1.5", "", "a number"),
    ("double", 10**400, "", "a number"),
    ("double", True, "", "a number"),
    (["double"], "NaN", "", "a number"),
    ("boolean", 0, "", "true or false"),
    ("null", 0, "", "null"),
    ("string", 0, "", "text"),
    ("bytes", "€", "", "up to ÿ"),
    (CASH, "UPI", "", "one of its symbols: CASH, CARD"),
    (ID, "abc", "", "text of 2 letters"),
    ({"type": "array", "items": "int"}, {}, "", "a list"),
    ({"type": "array", "items": "int"}, [1, "x"], "[1]", "32 bits"),
    ({"type": "map", "values": "int"}, [], "", "an object"),
    ({"type": "map", "values": {"type": "array", "items": "int"}}, {"a": [None]}, ".a[0]", "32 bits"),
    (["null", "int"], "x", "", "null or a whole number of 32 bits"),
    ([], 1, "", "no default: the union is empty"),
    ([CASH, "string"], "other", "", "put the branch that it fits before enum"),
    (["long", "double"], 1.5, "", "put the branch that it fits before long"),
    (["int", "long"], 2**40, "", "put the branch that it fits before int"),
    ([{"type": "map", "values": "int"}, "null"], None, "", "put the branch that it fits before map"),
    ([{"type": "array", "items": "int"}, "null"], None, "", "put the branch that it fits before array"),
    ({**record(field("int")), "name": "B"}, {}, "", "f, too: a field of B without a default"),
    ({**record(field("int")), "name": "B"}, {"f": "x"}, ".f", "32 bits"),
    ({**record(), "name": "B"}, 5, "", "an object with the fields of B"),
]


@pytest.mark.parametrize(("kind", "default", "place", "fix"), DEFAULTS)
def test_a_default_must_fit_its_type(kind: Any, default: Any, place: str, fix: str) -> None:
    with pytest.raises(SchemaError, match="does not fit its type") as outcome:
        schema_of(record(field(kind, default=default)))
    assert str(outcome.value).startswith(f"fields[0].default{place}: ")
    assert fix in outcome.value.fix


@pytest.mark.parametrize("default", [{"f": 1}, {}, None])
def test_a_default_is_not_held_against_a_record_whose_definition_has_not_ended(default: Any) -> None:
    with pytest.raises(
        SchemaError, match="would be checked against Ride, whose definition has not ended"
    ) as outcome:
        schema_of(record(field(["Ride", "null"], default=default)))
    assert "before Ride in the union" in outcome.value.fix


# Types of other schemas


def test_names_of_other_schemas_can_be_used() -> None:
    inner = schema_of(record(field("int"), name="Fare", namespace="pay"))
    middle = schema_of(record(field("pay.Fare"), name="Trip"), {"pay.Fare": inner})
    schema = schema_of({"type": "array", "items": "Trip"}, {"Trip": middle})
    assert [each.name for each in schema.external] == ["Trip", "pay.Fare"]
    assert set(schema.names) == {"Trip", "pay.Fare"}


def test_a_reference_that_is_not_used_is_of_no_importance() -> None:
    assert schema_of("int", {"Id": schema_of(ID)}) == schema_of("int")


def test_schemas_that_refer_to_different_types_differ() -> None:
    other = schema_of({**ID, "size": 3})
    assert schema_of(["Id"], {"Id": schema_of(ID)}) != schema_of(["Id"], {"Id": other})


@pytest.mark.parametrize(
    ("schema", "references", "message"),
    [
        ("Other", {"Other": ID}, "is not defined in the schema that it refers to"),
        (ID, {"Id": ID}, "is defined already in a schema that this one refers to"),
        (
            ["Id"],
            {"Id": ID, "Ride": record(field({**ID, "size": 3}))},
            "defines Id differently from another reference",
        ),
    ],
)
def test_references_must_be_right(schema: Any, references: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema_of(schema, {name: schema_of(each) for name, each in references.items()})


# What other registries hold


@pytest.mark.parametrize(("kind", "default"), [(kind, default) for kind, default, *_ in DEFAULTS])
def test_a_default_that_does_not_fit_is_kept_and_means_nothing(kind: Any, default: Any) -> None:
    written = record(field(kind, default=default))
    schema = schema_of(written, strict=False)
    assert schema == parse_schema(normalized(schema), strict=False)
    assert schema != schema_of(record(field(kind)), strict=False)
    (found,) = schema.root.fields
    assert found.default is None
    assert json.loads(normalized(schema))["fields"][0]["default"] == default
    (problem,) = incompatibilities(schema, schema_of(record()))
    assert problem.rule == "READER_FIELD_MISSING_DEFAULT_VALUE"
    assert not incompatibilities(schema_of(record()), schema)


def test_a_default_within_a_definition_that_has_not_ended_means_nothing() -> None:
    schema = schema_of(record(field(["Ride", "null"], default=None)), strict=False)
    assert schema.root.fields[0].default is None


@pytest.mark.parametrize("default", ["C", 5, None])
def test_a_default_of_an_enum_that_is_no_symbol_means_nothing(default: Any) -> None:
    enum = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
    schema = schema_of({**enum, "default": default}, strict=False)
    assert schema.root.default is None
    assert schema == parse_schema(normalized(schema), strict=False)
    assert schema != schema_of(enum)
    (problem,) = incompatibilities(schema, schema_of({**enum, "symbols": ["A", "Z"]}))
    assert problem.rule == "MISSING_ENUM_SYMBOLS"


@pytest.mark.parametrize(
    "schema",
    [
        record(field("int"), namespace="my-shop.orders"),
        record(field("int"), name="my-shop.orders.Ride"),
        record(field("int"), aliases=["my-shop.Trip"]),
        record(field({"type": "fixed", "name": "Id", "size": 1}), namespace="my shop"),
        record({"name": "straße", "type": "int", "aliases": ["street-name"]}, name="Größe"),
        {"type": "enum", "name": "E", "symbols": ["größer"]},
    ],
)
def test_names_by_the_rule_of_java(schema: Any) -> None:
    with pytest.raises(SchemaError, match="is no name"):
        schema_of(schema)
    found = schema_of(schema, strict=False)
    assert parse_schema(normalized(found), strict=False) == found
    assert not incompatibilities(found, found)


@pytest.mark.parametrize(
    "schema",
    [
        record(name="my-ride"),
        record(name="1st"),
        record(name=""),
        record(name=".Ride"),
        record(namespace="a..b"),
        record({"name": "my-field", "type": "int"}),
        record({"name": "a b", "type": "int"}),
    ],
)
def test_what_is_no_name_in_java_either(schema: Any) -> None:
    with pytest.raises(SchemaError, match="is no name"):
        schema_of(schema, strict=False)


def test_a_reference_may_have_any_name() -> None:
    schema = schema_of(["Id"], {"types/id.avsc": schema_of(ID)}, strict=False)
    assert schema == schema_of(["Id"], {"Id": schema_of(ID)})
