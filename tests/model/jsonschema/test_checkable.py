"""Which schemas become conditions in SQL, and the JSON of records as it is written."""

from __future__ import annotations

import re
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from latecomer.model.jsonschema import SchemaError, Validator, schema_of
from latecomer.model.jsonschema.checkable import MOST_NODES, require_checkable
from latecomer.model.jsonschema.patterns import compiled
from latecomer.model.jsonschema.plain_patterns import NotPlain, plain_pattern
from latecomer.model.jsonschema.records import NotJson, read_record
from latecomer.model.jsonschema.values import Rough

D2020 = "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"const": {"a": 1}}, "the schema: has enum or const with a list or an object, which is not checked"),
        ({"properties": {"a": {"minimum": 10**38}}}, "properties.a: has a number of more than 38 digits"),
        ({"items": {"maximum": 1e-39}}, "items: has a number of more than 38 digits"),
        ({"multipleOf": 10**18}, "has a multipleOf of more than 18 digits"),
        ({"uniqueItems": True}, "has uniqueItems of items that are not all of the type string"),
        ({"patternProperties": {"^a": {}}}, "has patternProperties"),
        ({"propertyNames": {"maxLength": 3}}, "has propertyNames"),
        (
            {"$schema": D2020, "allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False},
            "has unevaluatedProperties",
        ),
        ({"properties": {"a": {"$ref": "#"}}}, "properties.a.$ref: refers to itself"),
        ({"pattern": "(a|b)+"}, "has the pattern (a|b)+ with no ^ at its beginning"),
        ({"anyOf": [{"pattern": "^(a|b)+"}]}, "anyOf[0]: has the pattern ^(a|b)+ with (a|b)+ at character 2"),
    ],
    ids=str,
)
def test_a_rule_that_cannot_be_checked_is_named(schema: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(words)) as caught:
        require_checkable(schema_of(schema))
    assert "write validate: false to take only the ids" in str(caught.value)


def test_what_is_used_often_counts_often() -> None:
    """References to references double with every step."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for nth in range(1, 15):
        inner = {"$ref": f"#/definitions/d{nth - 1}"}
        definitions[f"d{nth}"] = {"properties": {"a": inner, "b": inner}}
    schema = {"definitions": definitions, "$ref": "#/definitions/d14"}
    with pytest.raises(SchemaError, match=f"more than {MOST_NODES} rules"):
        require_checkable(schema_of(schema))


def test_what_people_write_can_be_checked() -> None:
    require_checkable(
        schema_of(
            {
                "type": "object",
                "required": ["txn", "paise"],
                "additionalProperties": False,
                "definitions": {
                    "place": {"type": "object", "properties": {"pin": {"pattern": "^[1-9][0-9]{5}$"}}}
                },
                "properties": {
                    "txn": {"type": "string", "minLength": 1, "format": "uuid"},
                    "paise": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
                    "share": {"type": "number", "multipleOf": 0.01},
                    "currency": {"enum": ["INR", "USD", None]},
                    "from": {"$ref": "#/definitions/place"},
                    "to": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/place"}]},
                    "tags": {
                        "type": "array",
                        "items": {"type": "string"},
                        "uniqueItems": True,
                        "maxItems": 9,
                    },
                },
                "if": {"properties": {"currency": {"const": "USD"}}},
                "then": {"required": ["share"]},
            }
        )
    )


PLAIN = [
    *(
        "^",
        "^$",
        "^x",
        "^[A-Z]{3}$",
        "^[^@]+@[^@]+$",
        "^[0-9]{4}-[0-9]{2}$",
        r"^\d+$",
        r"^[\w-]*$",
        r"^\D+\d$",
    ),
    *(
        "^a?b?$",
        "^[a-z]+[0-9]*$",
        r"^a\.b$",
        "^[a-c]{1,2}x",
        "^[+-]?[0-9]{1,3}$",
        r"^[\]\[]$",
        "^ab*c",
        "^[a-]$",
    ),
    *(r"^[^\d]x$", "^a{0}b", "^[.]+$"),
]


@pytest.mark.parametrize("pattern", PLAIN)
def test_a_plain_pattern_means_the_same(pattern: str) -> None:
    """Python's patterns have possessive repetitions, too."""
    written = plain_pattern(pattern).replace(r"\z", r"\Z")
    ready = re.compile(re.sub(r"\\x\{([0-9a-f]+)\}", lambda each: f"\\U{int(each[1], 16):08x}", written))
    rng = Random(pattern)
    for _ in range(3000):
        text = "".join(rng.choices("aabbcxX019-@.+_[]\né😀", k=rng.randrange(8)))
        assert bool(ready.search(text)) == compiled(pattern).found_in(text), text


@pytest.mark.parametrize(
    "pattern",
    [
        "a",
        "^a*a",
        "^[a-z]+[a-c]",
        "^a+?b",
        "^(a)",
        r"^\p{L}",
        r"^\bx",
        "^.",
        "^a|b",
        r"^\1",
        "^[é]",
        "^a*b*a",
    ],
)
def test_other_patterns_are_not_run(pattern: str) -> None:
    with pytest.raises(NotPlain):
        plain_pattern(pattern)


def test_numbers_of_a_record_are_as_they_are_written() -> None:
    text = '{"a": 0.10, "b": 1e2, "c": %s, "d": 12345678901234567890, "e": 1e400}' % ("9" * 39)
    found = read_record(text)
    assert found == {
        "a": Decimal("0.10"),
        "b": 100.0,
        "c": 1e39,
        "d": 12345678901234567890,
        "e": float("inf"),
    }
    assert [type(found[each]) for each in "abcde"] == [Decimal, Rough, Rough, int, Rough]
    rules = {"properties": {"a": {"multipleOf": 0.01}, "b": {"type": "integer"}, "e": {"maximum": 5}}}
    told = [str(each) for each in Validator(schema_of(rules)).faults(found)]
    assert told == ["e: is Infinity, above 5"]


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\udc00"', '"\\ud800x\\udc00"', "NaN", "{", "[1] 2"])
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(NotJson):
        read_record(text)


def test_halves_that_are_beside_each_other_are_a_character() -> None:
    assert read_record('["\\ud83d\\ude00", "\\\\ud800"]') == ["😀", "\\ud800"]
