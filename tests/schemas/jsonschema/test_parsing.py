"""JSON Schemas of five drafts: what is read, and what is refused with path, value and fix."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsonschema_kit import D4, D6, D7, D2019, D2020
from latecomer.schemas.jsonschema import SchemaError, Validator, parse_schema, schema_of
from latecomer.schemas.jsonschema.keywords import Draft

Json = Any
INT = {"type": "integer"}


def is_valid(schema: Json, value: Json, references: Json = None) -> bool:
    known = {name: schema_of(each) for name, each in (references or {}).items()}
    return Validator(schema_of(schema, known)).allows(json.dumps(value))


def test_a_schema_that_names_no_draft_is_of_draft_07() -> None:
    assert schema_of({}).draft == schema_of(True).draft == Draft.DRAFT_07


@pytest.mark.parametrize("name", [D4, D6, D7, D2019, D2020])
def test_the_draft_is_told_by_its_address(name: str) -> None:
    for each in (name, name.rstrip("#"), name.replace("https:", "http:")):
        assert schema_of({"$schema": each}).draft is schema_of({"$schema": name}).draft


BY_DRAFT: list[tuple[str, Json, Json, str]] = [
    # (what, schema, value, the drafts in which the value is not valid)
    ("const", {"const": 1}, 2, "6 7 2019 2020"),
    ("contains", {"contains": INT}, [], "6 7 2019 2020"),
    ("propertyNames", {"propertyNames": {"maxLength": 1}}, {"ab": 1}, "6 7 2019 2020"),
    ("if", {"if": {}, "then": INT}, "a", "7 2019 2020"),
    ("dependencies", {"dependencies": {"a": ["b"]}}, {"a": 1}, "4 6 7"),
    ("dependentRequired", {"dependentRequired": {"a": ["b"]}}, {"a": 1}, "2019 2020"),
    ("dependentSchemas", {"dependentSchemas": {"a": INT}}, {"a": 1}, "2019 2020"),
    ("minContains", {"contains": INT, "minContains": 2}, [1], "2019 2020"),
    ("prefixItems", {"prefixItems": [INT]}, ["a"], "2020"),
    ("additionalItems", {"items": [{}], "additionalItems": INT}, ["a", "a"], "4 6 7 2019"),
    ("additionalItems alone", {"additionalItems": INT}, ["a"], ""),
    ("beside $ref", {"$ref": "#/definitions/x", "definitions": {"x": {}}, "minimum": 1}, 0, "2019 2020"),
    ("unevaluatedItems", {"unevaluatedItems": False}, [1], "2019 2020"),
]
NAMES = {"4": D4, "6": D6, "7": D7, "2019": D2019, "2020": D2020}


@pytest.mark.parametrize(
    ("schema", "value", "drafts"), [each[1:] for each in BY_DRAFT], ids=[each[0] for each in BY_DRAFT]
)
def test_a_keyword_means_what_its_draft_says(schema: Json, value: Json, drafts: str) -> None:
    read = {
        short: draft
        for short, draft in NAMES.items()
        if not (short == "2020" and isinstance(schema.get("items"), list))
    }
    refusing = [short for short, draft in read.items() if not is_valid({**schema, "$schema": draft}, value)]
    assert refusing == drafts.split()


REFERENCES: list[tuple[str, Json]] = [
    ("a place", {"definitions": {"x": INT}, "properties": {"a": {"$ref": "#/definitions/x"}}}),
    (
        "a name with signs",
        {"definitions": {"a/b ~%": INT}, "properties": {"a": {"$ref": "#/definitions/a~1b%20~0%25"}}},
    ),
    ("a place in a list", {"items": [INT], "properties": {"a": {"$ref": "#/items/0"}}}),
    (
        "where no keyword has schemas",
        {"components": {"x": INT}, "properties": {"a": {"$ref": "#/components/x"}}},
    ),
    (
        "an anchor",
        {
            "$schema": D2019,
            "$defs": {"x": {"$anchor": "here", **INT}},
            "properties": {"a": {"$ref": "#here"}},
        },
    ),
    (
        "an anchor of old",
        {"definitions": {"x": {"$id": "#here", **INT}}, "properties": {"a": {"$ref": "#here"}}},
    ),
    (
        "an anchor of draft-04",
        {"$schema": D4, "definitions": {"x": {"id": "#here", **INT}}, "properties": {"a": {"$ref": "#here"}}},
    ),
    (
        "an address",
        {
            "$id": "https://x.org/a.json",
            "definitions": {"x": {"$id": "b.json", **INT}},
            "properties": {"a": {"$ref": "b.json"}},
        },
    ),
    (
        "a place in an address",
        {
            "definitions": {"x": {"$id": "b.json", "definitions": {"y": INT}}},
            "properties": {"a": {"$ref": "b.json#/definitions/y"}},
        },
    ),
    (
        "its own address",
        {
            "$id": "https://x.org/a.json",
            "definitions": {"x": INT},
            "properties": {"a": {"$ref": "https://x.org/a.json#/definitions/x"}},
        },
    ),
    (
        "a dynamic one that can mean one place",
        {
            "$schema": D2020,
            "$defs": {"x": {"$dynamicAnchor": "here", **INT}},
            "properties": {"a": {"$dynamicRef": "#here"}},
        },
    ),
    (
        "over several steps",
        {
            "definitions": {"x": {"$ref": "#/definitions/y"}, "y": INT},
            "properties": {"a": {"$ref": "#/definitions/x"}},
        },
    ),
]


@pytest.mark.parametrize("schema", [each[1] for each in REFERENCES], ids=[each[0] for each in REFERENCES])
def test_references_lead_within_a_schema(schema: Json) -> None:
    assert is_valid(schema, {"a": 1})
    assert not is_valid(schema, {"a": "x"})


@pytest.mark.parametrize(
    ("name", "base", "other"),
    [
        ("common.json#/definitions/x", None, {"definitions": {"x": INT}}),
        ("common.json#/definitions/x", "https://x.org/ride.json", {"definitions": {"x": INT}}),
        (
            "https://x.org/common.json#here",
            None,
            {"$id": "https://x.org/common.json", "definitions": {"x": {"$id": "#here", **INT}}},
        ),
        ("common.json", "https://x.org/ride.json", {"$id": "https://x.org/common.json", **INT}),
    ],
)
def test_references_lead_to_schemas_that_are_handed_in(name: str, base: str | None, other: Json) -> None:
    schema = {"properties": {"a": {"$ref": name}}, **({"$id": base} if base else {})}
    handed_in = {"common.json": other}
    assert is_valid(schema, {"a": 1}, handed_in)
    assert not is_valid(schema, {"a": "x"}, handed_in)


def test_a_schema_that_is_handed_in_stays_as_it_is() -> None:
    other = schema_of({"components": {"x": INT}, "bad": {"type": "strng"}})
    for place in ("#/components/x", "#/bad"):
        with pytest.raises(SchemaError, match="leads nowhere"):
            schema_of({"$ref": f"other.json{place}"}, {"other.json": other})


def test_recursion() -> None:
    for ref in ({"$ref": "#"}, {"$schema": D2019, "$recursiveRef": "#"}):
        tree = {
            "$schema": ref.get("$schema", D7),
            "type": "object",
            "additionalProperties": {k: v for k, v in ref.items() if k != "$schema"},
        }
        assert is_valid(tree, {"a": {"b": {}}})
        assert not is_valid(tree, {"a": {"b": 1}})


REFUSED: list[tuple[Json, str]] = [
    (1, r"the schema: is no schema (value: 1); write an object, or true or false"),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "$schema: is no draft that is known here"),
    ({"$schema": 4}, "$schema: is no draft that is known here"),
    ({"properties": {"a": {"$schema": D4}}}, "properties.a.$schema: differs from that of the whole"),
    ({"type": "strng"}, 'type: is no type (value: "strng"); did you mean string?'),
    ({"type": []}, "type: is an empty list"),
    ({"type": ["null", "null"]}, "type: names a type twice"),
    ({"enum": "a"}, "enum: is no list"),
    ({"minimum": "1"}, 'minimum: is no number (value: "1"); write a number'),
    ({"minimum": True}, "minimum: is no number"),
    ({"exclusiveMinimum": True}, "exclusiveMinimum: is no number"),
    ({"$schema": D4, "minimum": 1, "exclusiveMinimum": 1}, "exclusiveMinimum: is neither true nor false"),
    ({"$schema": D4, "exclusiveMinimum": True}, "the schema: has exclusiveMinimum and no minimum"),
    ({"multipleOf": 0}, "multipleOf: is not above 0"),
    ({"minLength": -1}, "minLength: is no count"),
    ({"maxItems": 1.5}, "maxItems: is no count"),
    ({"pattern": "("}, "pattern: is no regular expression: missing ), unterminated subpattern at position 0"),
    ({"patternProperties": {"[": {}}}, "patternProperties.[: is no regular expression"),
    ({"uniqueItems": 1}, "uniqueItems: is neither true nor false"),
    ({"required": True}, "required: is no list"),
    ({"required": [1]}, "required[0]: is no text"),
    ({"properties": []}, "properties: is no object"),
    ({"properties": {"a": 1}}, "properties.a: is no schema"),
    ({"anyOf": []}, "anyOf: is an empty list"),
    ({"anyOf": {}}, "anyOf: is no list"),
    ({"items": 1}, "items: is no schema"),
    (
        {"$schema": D2020, "items": [{}]},
        "items: is a list (value: [{}]); write prefixItems: so it is in 2020-12",
    ),
    ({"$schema": D4, "not": True}, "not: is no schema in draft-04"),
    ({"$ref": 1}, "$ref: is no text"),
    ({"$ref": "#/definitions/x"}, "$ref: leads nowhere"),
    ({"$ref": "#/definitions/0", "definitions": [1]}, "definitions: is no object"),
    ({"$ref": "#/x/1", "x": [1]}, "$ref: leads nowhere"),
    ({"$ref": "#/title", "title": "a"}, "title: is no schema"),
    ({"$ref": "https://x.org/a.json"}, "nothing is fetched"),
    ({"$ref": "file:///etc/passwd"}, "nothing is fetched"),
    ({"$ref": "http://[x#a"}, "$ref: is no address"),
    ({"$id": "http://[x#"}, "$id: is no address"),
    ({"$ref": "#"}, "the schema: refers to itself without end"),
    ({"allOf": [{"$ref": "#"}]}, "refers to itself without end"),
    ({"not": {"$ref": "#"}}, "refers to itself without end"),
    (
        {"definitions": {"a": {"$ref": "#/definitions/b"}, "b": {"anyOf": [{"$ref": "#/definitions/a"}]}}},
        "refers to itself without end",
    ),
    (
        {"definitions": {"a": {"$id": "x"}, "b": {"$id": "x"}}},
        "definitions.b.$id: is the address of another schema here",
    ),
    (
        {"$schema": D2020, "$defs": {"a": {"$anchor": "x"}, "b": {"$anchor": "x"}}},
        "$defs.b: has the anchor x, which is there already",
    ),
    ({"$schema": D2020, "$id": "a#b"}, "$id: has a fragment"),
]


@pytest.mark.parametrize(("schema", "expected"), REFUSED)
def test_what_is_wrong_is_told_with_its_place_and_a_fix(schema: Json, expected: str) -> None:
    with pytest.raises(SchemaError) as found:
        schema_of(schema)
    assert expected in str(found.value)
    assert found.value.fix


def test_the_normalized_form_keeps_all_but_the_layout() -> None:
    schema = parse_schema(
        '{ "title": "é",\n "type": "object", "properties": {"b": true, "a": {"x-owner": [1.50]}}}'
    )
    assert schema.text == '{"properties":{"a":{"x-owner":[1.5]},"b":true},"title":"é","type":"object"}'
    for other in ('{"title": "e"}', '{"type": ["object"]}', '{"type": "object"}'):
        assert parse_schema(other).text != schema.text


def test_schemas_are_equal_with_equal_references() -> None:
    one, other = schema_of(INT), schema_of({"type": "string"})
    ref = {"$ref": "x"}
    assert schema_of(ref, {"x": one}) == schema_of(ref, {"x": schema_of(INT)})
    assert schema_of(ref, {"x": one}) != schema_of(ref, {"x": other})
