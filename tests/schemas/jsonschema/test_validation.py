"""Records held against schemas: what is wrong is told with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jsonschema_kit import D2020
from latecomer.schemas.jsonschema import SchemaError, Validator, schema_of

Json = Any

FAULTS: list[tuple[Json, Json, list[str]]] = [
    ({"type": "integer"}, 1.5, ['the value: 1.5 is not of type "integer"']),
    ({"type": ["string", "null"]}, True, ['the value: true is not of types "null", "string"']),
    ({"enum": ["a", 1]}, "b", ['the value: "b" is not one of "a" or 1']),
    (
        {"minimum": 1, "multipleOf": 2},
        -1,
        ["the value: -1 is less than the minimum of 1", "the value: -1 is not a multiple of 2"],
    ),
    ({"exclusiveMaximum": 1}, 1, ["the value: 1 is greater than or equal to the maximum of 1"]),
    ({"minLength": 2}, "a", ['the value: "a" is shorter than 2 characters']),
    ({"pattern": "^a"}, "b", ['the value: "b" does not match "^a"']),
    ({"items": {"type": "null"}}, [None, 1], ['[1]: 1 is not of type "null"']),
    ({"uniqueItems": True}, [1, 1.0], ["the value: [1, 1.0] has non-unique elements"]),
    ({"contains": {"type": "null"}}, [1], ["the value: None of [1] are valid under the given schema"]),
    ({"required": ["a"]}, {}, ['the value: "a" is a required property']),
    ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}, ['a: "b" is a required property']),
    (
        {"properties": {"b": True}, "additionalProperties": False},
        {"a": 1},
        ["the value: Additional properties are not allowed ('a' was unexpected)"],
    ),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, ['the value: "ab" is longer than 1 character']),
    ({"dependencies": {"a": ["b"]}}, {"a": 1}, ['the value: "b" is a required property']),
    (
        {"anyOf": [{"type": "null"}]},
        1,
        ["the value: 1 is not valid under any of the schemas listed in the 'anyOf' keyword"],
    ),
    (
        {"oneOf": [{"minimum": 0}, {"minimum": 1}]},
        2,
        ["the value: 2 is valid under more than one of the schemas listed in the 'oneOf' keyword"],
    ),
    ({"not": {"type": "integer"}}, 1, ['the value: {"type":"integer"} is not allowed for 1']),
    ({"if": {"minimum": 1}, "then": {"maximum": 2}}, 3, ["the value: 3 is greater than the maximum of 2"]),
    ({"multipleOf": 0.01}, 0.07, []),  # as it is written
    ({"type": "integer"}, 1.0, []),
    ({"const": {"a": [1]}}, {"a": [1.0]}, []),
    ({"const": 1}, True, ["the value: 1 was expected"]),
    ({"format": "date"}, "no date", []),
]


@pytest.mark.parametrize(("schema", "value", "expected"), FAULTS)
def test_what_is_wrong_is_told_with_its_place(schema: Json, value: Json, expected: list[str]) -> None:
    assert [str(each) for each in Validator(schema_of(schema)).faults(json.dumps(value))] == expected


def test_a_recursive_schema_is_followed_as_far_as_the_value_goes() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "v": {"type": "integer"}}}
    faults = Validator(schema_of(tree)).faults('{"left": {"left": {"v": "x"}}}')
    assert [each.path for each in faults] == [("left", "left", "v")]


def test_what_no_keyword_looked_at() -> None:
    schema = {
        "$schema": D2020,
        "anyOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": True}}],
        "unevaluatedProperties": False,
    }
    validator = Validator(schema_of(schema))
    assert validator.faults('{"a": 1, "b": 2}') == []
    (fault,) = validator.faults('{"a": "x", "b": 2}')
    assert "Unevaluated properties are not allowed ('a' was unexpected)" in str(fault)


def test_a_pattern_that_is_not_run_is_refused_before_any_value() -> None:
    schema = schema_of({"properties": {"a": {"pattern": "^(?!x)"}}})
    with pytest.raises(SchemaError, match=r"has a pattern that is not run here: .* look-around"):
        Validator(schema)


@pytest.mark.parametrize("draft", ["2020-12/schema", "2019-09/schema"])
def test_an_if_alone_has_looked_at_what_it_names(draft: str) -> None:
    """Cases of the JSON Schema Test Suite that had been judged wrong."""
    about = {"$schema": f"https://json-schema.org/draft/{draft}"}
    asked = {"properties": {"a": {"const": 1}}, "required": ["a"]}
    named = Validator(schema_of({**about, "if": asked, "unevaluatedProperties": False}))
    assert not named.faults('{"a": 1}')
    assert named.faults('{"a": 2}')
    first = "prefixItems" if draft.startswith("2020") else "items"
    listed = Validator(schema_of({**about, "if": {first: [{"const": "a"}]}, "unevaluatedItems": False}))
    assert not listed.faults('["a"]')
    assert listed.faults('["b"]')


def test_ifs_within_thens_have_looked_at_what_they_contain() -> None:
    inner = {"if": {"contains": {"const": "b"}}, "then": {"if": {"contains": {"const": "c"}}}}
    about = {"$schema": D2020, "unevaluatedItems": False}
    checked = Validator(schema_of({**about, "if": {"contains": {"const": "a"}}, "then": inner}))
    assert not checked.faults(json.dumps(list("caccba")))
    assert checked.faults(json.dumps(list("cacac")))


def test_numbers_are_held_as_they_are_written() -> None:
    cents = Validator(schema_of({"items": {"multipleOf": 0.01, "maximum": 9007199254740992}}))
    for good in ("0.07", "1e2", "9007199254740992.00", "1234567890123456.78", "1" + "0" * 15):
        assert cents.allows(f"[{good}]"), good
    for bad in (
        "0.075",
        "1e-3",
        "9007199254740992.01",
        "1234567890123456.789",
        "9007199254740993",
        "9" * 5000,
    ):
        assert not cents.allows(f"[{bad}]"), bad


def test_a_long_value_is_cut_in_what_is_told() -> None:
    (fault,) = Validator(schema_of({"properties": {"a": {"type": "integer"}}})).faults(
        json.dumps({"a": "x" * 10**6})
    )
    assert len(str(fault)) < 200
    assert str(fault).endswith('… is not of type "integer"')


def test_a_whole_number_of_any_length_has_its_fault_told() -> None:
    (fault,) = Validator(schema_of({"maximum": 5})).faults("9" * 5000)
    assert "too long to be shown" in str(fault)


def test_schemas_are_found_by_the_names_they_are_referred_to_with() -> None:
    money = schema_of({"type": "object", "properties": {"paise": {"$ref": "#/definitions/whole"}}, **WHOLE})
    bill = schema_of({"properties": {"sum": {"$ref": "money.json"}}}, {"money.json": money})
    ride = schema_of(
        {
            "$id": "https://example.com/ride.json",
            "properties": {"bill": {"$ref": "bill.json"}, "tip": {"$ref": "m"}},
        },
        {"bill.json": bill, "m": money},
    )
    checked = Validator(ride)
    assert checked.allows('{"bill": {"sum": {"paise": 1}}, "tip": {"paise": 2}}')
    assert [
        str(each) for each in checked.faults('{"bill": {"sum": {"paise": "1"}}, "tip": {"paise": 2.5}}')
    ] == [
        'bill.sum.paise: "1" is not of type "integer"',
        'tip.paise: 2.5 is not of type "integer"',
    ]


WHOLE = {"definitions": {"whole": {"type": "integer"}}}


def test_two_schemas_of_one_name_are_refused() -> None:
    inner = schema_of({"properties": {"a": {"$ref": "x.json"}}}, {"x.json": schema_of({"type": "null"})})
    outer = {"properties": {"a": {"$ref": "x.json"}, "b": {"$ref": "inner.json"}}}
    whole = schema_of(outer, {"x.json": schema_of({"type": "string"}), "inner.json": inner})
    with pytest.raises(SchemaError, match="refers to two schemas by one name"):
        Validator(whole)


def test_a_dynamic_reference_leads_where_its_referrer_says() -> None:
    """It was refused before the library followed it."""
    tree = {
        "$schema": D2020,
        "$id": "https://example.com/strict-tree",
        "$dynamicAnchor": "node",
        "$ref": "tree",
        "unevaluatedProperties": False,
        "$defs": {
            "tree": {
                "$id": "tree",
                "$dynamicAnchor": "node",
                "properties": {"data": True, "children": {"items": {"$dynamicRef": "#node"}}},
            }
        },
    }
    checked = Validator(schema_of(tree))
    assert checked.allows('{"children": [{"data": 1}]}')
    assert not checked.allows('{"children": [{"daat": 1}]}')
