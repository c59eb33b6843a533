"""Values held against schemas: what is wrong is told with its place. The library judges elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from jsonschema_kit import D2020
from latecomer.model.jsonschema import SchemaError, Validator, schema_of

Json = Any

FAULTS: list[tuple[Json, Json, list[str]]] = [
    ({"type": "integer"}, 1.5, ["the value: is 1.5, which is number and not integer"]),
    ({"type": ["string", "null"]}, True, ["the value: is true, which is boolean and not null or string"]),
    ({"enum": ["a", 1]}, "b", ['the value: is "b", and not "a" or 1']),
    (
        {"minimum": 1, "multipleOf": 2},
        -1,
        ["the value: is -1, below 1", "the value: is -1, no multiple of 2"],
    ),
    ({"exclusiveMaximum": 1}, 1, ["the value: is 1, not below 1"]),
    ({"minLength": 2}, "a", ["the value: has 1 characters, fewer than 2"]),
    ({"pattern": "^a"}, "b", ['the value: does not fit the pattern "^a" (value: "b")']),
    ({"items": {"type": "null"}}, [None, 1], ["[1]: is 1, which is integer and not null"]),
    ({"uniqueItems": True}, [1, 1.0], ["the value: has an item twice"]),
    (
        {"contains": {"type": "null"}},
        [1],
        ["the value: has 0 items of the kind it must contain, not at least 1"],
    ),
    ({"required": ["a"]}, {}, ['the value: has no "a"']),
    ({"properties": {"a": {"required": ["b"]}}}, {"a": {}}, ['a: has no "b"']),
    ({"additionalProperties": False}, {"a": 1}, ["a: is a property that may not be there"]),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, ["ab: has a name that is not allowed"]),
    ({"dependencies": {"a": ["b"]}}, {"a": 1}, ['the value: has "a" and no "b"']),
    ({"anyOf": [{"type": "null"}]}, 1, ["the value: fits no branch of anyOf"]),
    (
        {"oneOf": [{"minimum": 0}, {"minimum": 1}]},
        2,
        ["the value: must fit one branch of oneOf, and fits 0 and 1"],
    ),
    ({"not": {"type": "integer"}}, 1, ["the value: fits what it must not"]),
    ({"if": {"minimum": 1}, "then": {"maximum": 2}}, 3, ["the value: is 3, above 2"]),
    ({"multipleOf": 0.01}, 0.07, []),  # as it is written
    ({"type": "integer"}, 1.0, []),
    ({"const": {"a": [1]}}, {"a": [1.0]}, []),
    ({"const": 1}, True, ["the value: is true, and not 1"]),
    ({"format": "date"}, "no date", []),
]


@pytest.mark.parametrize(("schema", "value", "expected"), FAULTS)
def test_what_is_wrong_is_told_with_its_place(schema: Json, value: Json, expected: list[str]) -> None:
    assert [str(each) for each in Validator(schema_of(schema)).faults(value)] == expected


def test_a_recursive_schema_is_followed_as_far_as_the_value_goes() -> None:
    tree = {"type": "object", "properties": {"left": {"$ref": "#"}, "v": {"type": "integer"}}}
    faults = Validator(schema_of(tree)).faults({"left": {"left": {"v": "x"}}})
    assert [each.path for each in faults] == [("left", "left", "v")]


def test_what_no_keyword_looked_at() -> None:
    schema = {
        "$schema": D2020,
        "anyOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": True}}],
        "unevaluatedProperties": False,
    }
    validator = Validator(schema_of(schema))
    assert validator.faults({"a": 1, "b": 2}) == []
    assert [str(each) for each in validator.faults({"a": "x", "b": 2})] == ["a: may not be there"]


def test_a_pattern_that_is_not_run_is_refused_before_any_value() -> None:
    schema = schema_of({"properties": {"a": {"pattern": "^(?!x)"}}})
    with pytest.raises(SchemaError, match=r"has a pattern that is not run here: look-around or flags"):
        Validator(schema)


@pytest.mark.parametrize("draft", ["2020-12/schema", "2019-09/schema"])
def test_an_if_alone_has_looked_at_what_it_names(draft: str) -> None:
    """Cases of the JSON Schema Test Suite that had been judged wrong."""
    about = {"$schema": f"https://json-schema.org/draft/{draft}"}
    asked = {"properties": {"a": {"const": 1}}, "required": ["a"]}
    named = Validator(schema_of({**about, "if": asked, "unevaluatedProperties": False}))
    assert not named.faults({"a": 1})
    assert named.faults({"a": 2})
    first = "prefixItems" if draft.startswith("2020") else "items"
    listed = Validator(schema_of({**about, "if": {first: [{"const": "a"}]}, "unevaluatedItems": False}))
    assert not listed.faults(["a"])
    assert listed.faults(["b"])


def test_ifs_within_thens_have_looked_at_what_they_contain() -> None:
    inner = {"if": {"contains": {"const": "b"}}, "then": {"if": {"contains": {"const": "c"}}}}
    about = {"$schema": D2020, "unevaluatedItems": False}
    checked = Validator(schema_of({**about, "if": {"contains": {"const": "a"}}, "then": inner}))
    assert not checked.faults(list("caccba"))
    assert checked.faults(list("cacac"))
