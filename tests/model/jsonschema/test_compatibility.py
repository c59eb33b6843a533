"""Whether one schema reads what another wrote: an example for every rule, both ways, with a value that shows it."""

from __future__ import annotations

from typing import Any

import pytest

from jsonschema_kit import D4, D7, D2019, D2020, judge
from latecomer.model.jsonschema import Rule, incompatibilities, schema_of

Json = Any


def rules(reader: Json, writer: Json) -> list[Rule]:
    return [each.rule for each in incompatibilities(schema_of(reader), schema_of(writer))]


def told(reader: Json, writer: Json) -> list[str]:
    return [str(each) for each in incompatibilities(schema_of(reader), schema_of(writer))]


def obj(properties: Json | None = None, *required: str, **others: Json) -> Json:
    found = {"type": "object", "properties": properties or {}, **others}
    return {**found, "required": list(required)} if required else found


def closed(properties: Json | None = None, *required: str, **others: Json) -> Json:
    return obj(properties, *required, additionalProperties=False, **others)


INT, NUM, STR, NULL, BOOL = ({"type": each} for each in ("integer", "number", "string", "null", "boolean"))
CARD = closed({"kind": {"const": "card"}, "number": STR}, "kind", "number")
CASH = closed({"kind": {"const": "cash"}}, "kind")
GIFT = closed({"kind": {"const": "gift"}, "code": STR}, "kind")
LIST = {"definitions": {"l": obj({"next": {"$ref": "#/definitions/l"}, "v": INT})}, "$ref": "#/definitions/l"}
LONGER = {
    "definitions": {"l": obj({"next": {"$ref": "#/definitions/l"}, "v": NUM})},
    "$ref": "#/definitions/l",
}

NARROWED: list[tuple[str, Json, Json, Rule, Json]] = [
    # (what, narrower schema, wider schema, the rule when the narrower reads the wider, a value that shows it);
    # the other way round each pair is compatible.
    ("another type", INT, {"type": ["integer", "null"]}, Rule.TYPE_NARROWED, None),
    ("integer of number", INT, NUM, Rule.TYPE_NARROWED, 1.5),
    ("nothing", False, STR, Rule.TYPE_CHANGED, "a"),
    ("of anything", STR, {}, Rule.TYPE_NARROWED, 1),
    ("fewer values", {"enum": ["a"]}, {"enum": ["a", "b"]}, Rule.ENUM_ARRAY_NARROWED, "b"),
    ("const of enum", {"const": "a"}, {"enum": ["a", "b"]}, Rule.ENUM_ARRAY_NARROWED, "b"),
    ("values of a type", {"enum": ["a"]}, STR, Rule.ENUM_ARRAY_CHANGED, "b"),
    ("minimum", {**INT, "minimum": 1}, INT, Rule.MINIMUM_ADDED, 0),
    ("larger minimum", {"minimum": 2}, {"minimum": 1}, Rule.MINIMUM_INCREASED, 1),
    ("exclusive", {"exclusiveMinimum": 1}, {"minimum": 1}, Rule.EXCLUSIVE_MINIMUM_INCREASED, 1),
    ("exclusive new", {"exclusiveMinimum": 1}, {}, Rule.EXCLUSIVE_MINIMUM_ADDED, 1),
    ("maximum", {"maximum": 1}, {}, Rule.MAXIMUM_ADDED, 2),
    ("smaller maximum", {"maximum": 1}, {"maximum": 2}, Rule.MAXIMUM_DECREASED, 2),
    ("exclusive maximum", {"exclusiveMaximum": 2}, {"maximum": 2}, Rule.EXCLUSIVE_MAXIMUM_DECREASED, 2),
    ("exclusive maximum new", {"exclusiveMaximum": 2}, {}, Rule.EXCLUSIVE_MAXIMUM_ADDED, 2),
    ("multiples", {"multipleOf": 2}, {}, Rule.MULTIPLE_OF_ADDED, 3),
    ("fewer multiples", {"multipleOf": 4}, {"multipleOf": 2}, Rule.MULTIPLE_OF_CHANGED, 2),
    ("longer texts", {"minLength": 2}, {"minLength": 1}, Rule.MIN_LENGTH_INCREASED, "a"),
    ("no empty texts", {"minLength": 1}, {}, Rule.MIN_LENGTH_ADDED, ""),
    ("shorter texts", {"maxLength": 1}, {"maxLength": 2}, Rule.MAX_LENGTH_DECREASED, "ab"),
    ("short texts", {"maxLength": 1}, {}, Rule.MAX_LENGTH_ADDED, "ab"),
    ("pattern", {"pattern": "^a"}, {}, Rule.PATTERN_ADDED, "b"),
    ("more items", {"minItems": 2}, {"minItems": 1}, Rule.MIN_ITEMS_INCREASED, [1]),
    ("some items", {"minItems": 1}, {}, Rule.MIN_ITEMS_ADDED, []),
    ("fewer items", {"maxItems": 1}, {"maxItems": 2}, Rule.MAX_ITEMS_DECREASED, [1, 2]),
    ("few items", {"maxItems": 1}, {}, Rule.MAX_ITEMS_ADDED, [1, 2]),
    ("unique", {"uniqueItems": True}, {}, Rule.UNIQUE_ITEMS_ADDED, [1, 1]),
    ("items", {"items": INT}, {"items": NUM}, Rule.TYPE_NARROWED, [1.5]),
    ("items of anything", {"items": INT}, {}, Rule.ADDITIONAL_ITEMS_NARROWED, ["a"]),
    ("an item", {"items": [INT]}, {}, Rule.ITEM_ADDED_TO_OPEN_CONTENT_MODEL, ["a"]),
    (
        "item removed",
        {"items": [INT], "additionalItems": False},
        {"items": [INT, INT], "additionalItems": False},
        Rule.ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL,
        [1, 2],
    ),
    (
        "closed list",
        {"items": [INT], "additionalItems": False},
        {"items": [INT]},
        Rule.ADDITIONAL_ITEMS_REMOVED,
        [1, 2],
    ),
    ("contains", {"contains": INT}, {}, Rule.CONTAINS_CHANGED, []),
    ("required", obj({"a": INT}, "a"), obj({"a": INT}), Rule.REQUIRED_ATTRIBUTE_ADDED, {}),
    ("required, not described", obj({}, "a"), obj(), Rule.REQUIRED_ATTRIBUTE_ADDED, {}),
    (
        "required with default",
        obj({"a": {**INT, "default": 1}}, "a"),
        obj({"a": {**INT, "default": 1}}),
        Rule.REQUIRED_ATTRIBUTE_ADDED,
        {},
    ),
    ("described in the open", obj({"a": INT}), obj(), Rule.PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL, {"a": "b"}),
    (
        "removed from a closed one",
        closed(),
        closed({"a": INT}),
        Rule.PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL,
        {"a": 1},
    ),
    ("closed", closed(), obj(), Rule.ADDITIONAL_PROPERTIES_REMOVED, {"a": 1}),
    (
        "others of a type",
        obj(additionalProperties=INT),
        obj(),
        Rule.ADDITIONAL_PROPERTIES_NARROWED,
        {"a": ""},
    ),
    (
        "others of a smaller type",
        obj(additionalProperties=INT),
        obj(additionalProperties=NUM),
        Rule.TYPE_NARROWED,
        {"a": 1.5},
    ),
    (
        "within",
        obj({"a": obj({"b": INT})}),
        obj({"a": obj({"b": NUM})}),
        Rule.TYPE_NARROWED,
        {"a": {"b": 1.5}},
    ),
    ("minProperties", {"minProperties": 2}, {"minProperties": 1}, Rule.MIN_PROPERTIES_INCREASED, {"a": 1}),
    ("minProperties new", {"minProperties": 1}, {}, Rule.MIN_PROPERTIES_ADDED, {}),
    ("maxProperties", {"maxProperties": 0}, {"maxProperties": 1}, Rule.MAX_PROPERTIES_DECREASED, {"a": 1}),
    ("maxProperties new", {"maxProperties": 0}, {}, Rule.MAX_PROPERTIES_ADDED, {"a": 1}),
    ("names", {"propertyNames": {"maxLength": 1}}, {}, Rule.MAX_LENGTH_ADDED, {"ab": 1}),
    (
        "properties by pattern",
        {"patternProperties": {"^x": INT}},
        {},
        Rule.PATTERN_PROPERTY_ADDED,
        {"x1": "a"},
    ),
    (
        "properties by pattern, described",
        {"patternProperties": {"^x": INT}},
        {"patternProperties": {"^x": NUM}},
        Rule.TYPE_NARROWED,
        {"x1": 1.5},
    ),
    ("dependency", {"dependencies": {"a": ["b"]}}, {}, Rule.DEPENDENCY_ARRAY_ADDED, {"a": 1}),
    (
        "more dependencies",
        {"dependencies": {"a": ["b", "c"]}},
        {"dependencies": {"a": ["b"]}},
        Rule.DEPENDENCY_ARRAY_EXTENDED,
        {"a": 1, "b": 1},
    ),
    (
        "dependent schema",
        {"dependencies": {"a": obj({}, "b")}},
        {},
        Rule.REQUIRED_ATTRIBUTE_ADDED,
        {"a": 1},
    ),
    ("fewer branches", {"anyOf": [STR, NULL]}, {"anyOf": [STR, NULL, INT]}, Rule.SUM_TYPE_NARROWED, 1),
    ("a narrower branch", {"anyOf": [INT, NULL]}, {"anyOf": [NUM, NULL]}, Rule.SUM_TYPE_NARROWED, 1.5),
    (
        "fewer kinds",
        {"oneOf": [CARD, CASH]},
        {"oneOf": [CARD, CASH, GIFT]},
        Rule.SUM_TYPE_NARROWED,
        {"kind": "gift"},
    ),
    ("more to fit", {"allOf": [INT, {"minimum": 1}]}, {"allOf": [INT]}, Rule.MINIMUM_ADDED, 0),
    ("not", {"not": STR}, {}, Rule.NOT_TYPE_EXTENDED, "a"),
    ("not more", {"not": {"type": ["string", "null"]}}, {"not": STR}, Rule.NOT_TYPE_EXTENDED, None),
    (
        "then",
        {"if": INT, "then": {"minimum": 1}},
        {"if": INT, "then": {"minimum": 0}},
        Rule.MINIMUM_INCREASED,
        0,
    ),
    (
        "else",
        {"if": INT, "else": STR},
        {"if": INT, "else": {"type": ["string", "null"]}},
        Rule.TYPE_NARROWED,
        None,
    ),
    ("within a recursion", LIST, LONGER, Rule.TYPE_NARROWED, {"next": {"next": {"v": 1.5}}}),
]


@pytest.mark.parametrize(
    ("narrower", "wider", "rule", "witness"),
    [each[1:] for each in NARROWED],
    ids=[each[0] for each in NARROWED],
)
def test_a_schema_that_takes_less_cannot_read_one_that_takes_more(
    narrower: Json, wider: Json, rule: Rule, witness: Json
) -> None:
    assert judge(wider).is_valid(witness)
    assert not judge(narrower).is_valid(witness)
    assert rules(narrower, wider) == [rule]
    assert told(wider, narrower) == []


SAME: list[tuple[str, Json, Json]] = [
    ("integers from 1", {**INT, "minimum": 1}, {**INT, "exclusiveMinimum": 0}),
    ("integers of 1", INT, {**NUM, "multipleOf": 1}),
    ("types and branches", {"type": ["string", "null"]}, {"anyOf": [STR, NULL]}),
    ("branches that exclude each other", {"oneOf": [STR, NULL]}, {"anyOf": [NULL, STR]}),
    ("const and enum", {"const": 1}, {"enum": [1.0]}),
    ("truth", BOOL, {"enum": [True, False]}),
    ("all of it", {"allOf": [INT, {"minimum": 1}]}, {**INT, "minimum": 1}),
    ("a reference", {"definitions": {"x": INT}, "$ref": "#/definitions/x"}, INT),
    (
        "references by other names",
        LIST,
        {
            "definitions": {"x": obj({"next": {"$ref": "#/definitions/x"}, "v": INT})},
            "$ref": "#/definitions/x",
        },
    ),
    ("not nothing", {"not": {"not": STR}}, {"not": {"not": STR}}),
    ("false and not anything", False, {"not": {}}),
    (
        "a closed list",
        {"type": "array", "items": [INT], "additionalItems": False},
        {"type": "array", "items": [INT], "maxItems": 1},
    ),
    ("the kinds in another order", {"oneOf": [CARD, CASH]}, {"oneOf": [CASH, CARD]}),
    ("kinds, any of them", {"oneOf": [CARD, CASH]}, {"anyOf": [CARD, CASH]}),
    (
        "draft-04's exclusive bounds",
        {"$schema": D4, "minimum": 1, "exclusiveMinimum": True},
        {"exclusiveMinimum": 1},
    ),
    (
        "prefixItems",
        {"$schema": D2020, "prefixItems": [INT], "items": STR},
        {"$schema": D7, "items": [INT], "additionalItems": STR},
    ),
    (
        "definitions",
        {"$schema": D2020, "$defs": {"x": INT}, "$ref": "#/$defs/x"},
        {"$ref": "#/definitions/y", "definitions": {"y": INT}},
    ),
    ("dependencies", {"$schema": D2019, "dependentRequired": {"a": ["b"]}}, {"dependencies": {"a": ["b"]}}),
    (
        "unevaluated, where all is here",
        {"$schema": D2020, **obj({"a": INT}), "unevaluatedProperties": False},
        closed({"a": INT}),
    ),
    ("titles and defaults", {**INT, "title": "a", "default": 1, "x": 2}, INT),
]


@pytest.mark.parametrize(("one", "other"), [each[1:] for each in SAME], ids=[each[0] for each in SAME])
def test_the_same_in_other_words_is_compatible_both_ways(one: Json, other: Json) -> None:
    assert told(one, other) == []
    assert told(other, one) == []


READS: list[tuple[str, Json, Json]] = [
    ("optional, where nothing else was allowed", closed({"a": INT, "b": STR}), closed({"a": INT})),
    ("described as anything", obj({"a": {}}), obj()),
    ("covered by additionalProperties", obj({"a": NUM}), obj(additionalProperties=INT)),
    ("removed from an open one", obj(), obj({"a": INT}, "a")),
    ("removed, and covered by others", obj(additionalProperties=NUM), closed({"a": INT})),
    ("removed, and was never there", closed(), closed({"a": False})),
    ("a branch more", {"anyOf": [STR, NULL, INT]}, {"anyOf": [STR, NULL]}),
    ("a branch for one schema", {"oneOf": [STR, NULL]}, STR),
    ("a kind more", {"oneOf": [CARD, CASH, GIFT]}, {"oneOf": [CARD, CASH]}),
    ("wider kinds", {"oneOf": [obj({"kind": {"const": "card"}}, "kind"), CASH]}, {"oneOf": [CARD, CASH]}),
    (
        "branches that overlap, and stay",
        {"oneOf": [{**INT, "minimum": 0}, {**INT, "multipleOf": 2}, STR]},
        {"oneOf": [{**INT, "minimum": 0}, {**INT, "multipleOf": 2}]},
    ),
    ("values by pattern", {"pattern": "^[ab]$"}, {"enum": ["a", "b"]}),
    ("values in a type", {**STR, "maxLength": 2}, {"enum": ["a", "bb"]}),
    ("values in branches", {"anyOf": [INT, {"const": "a"}]}, {"enum": [1, 2, "a"]}),
    ("names that can be counted", {"propertyNames": {"maxLength": 1}}, closed({"a": INT, "b": INT})),
    ("as many as there are", {**obj(), "maxProperties": 2}, closed({"a": INT, "b": INT})),
    ("a condition that never comes", {"if": STR, "then": {"minLength": 3}}, INT),
    ("not, by type", {"not": STR}, INT),
    ("not, by a required property", {"not": obj({"kind": {"const": "cash"}}, "kind")}, CARD),
    ("contains", {"contains": NUM}, {"contains": INT}),
    (
        "at most as many",
        {"$schema": D2019, "contains": INT, "minContains": 0, "maxContains": 2},
        {"$schema": D2019, "contains": NUM, "minContains": 0, "maxContains": 1},
    ),
    ("a dependency that holds anyhow", {"dependencies": {"a": ["b"]}}, obj({}, "b")),
    ("a dependency of what is not there", {"dependencies": {"c": ["b"]}}, closed({"a": INT})),
    ("anything reads", {}, {"not": {"pattern": "^(?=a)"}}),
    ("nothing is written", INT, False),
    ("a property of another pattern", {"patternProperties": {"^x": STR}}, closed({"a": INT})),
]


@pytest.mark.parametrize(("reader", "writer"), [each[1:] for each in READS], ids=[each[0] for each in READS])
def test_what_can_be_read(reader: Json, writer: Json) -> None:
    assert told(reader, writer) == []


OVERLAPPING: list[tuple[str, Json, Json, Rule, Json]] = [
    # compatible to Confluent's registry, and not so
    ("one of two that overlap", {"oneOf": [INT, NUM]}, INT, Rule.SUM_TYPE_NARROWED, 1),
    (
        "a branch more that overlaps",
        {"oneOf": [obj({"a": INT}), STR, obj({}, "b")]},
        {"oneOf": [obj({"a": INT}), STR]},
        Rule.SUM_TYPE_NARROWED,
        {"a": 1, "b": 1},
    ),
    ("not less by its words, more by its meaning", {"not": {}}, {"not": STR}, Rule.NOT_TYPE_EXTENDED, 1),
]


@pytest.mark.parametrize(
    ("reader", "writer", "rule", "witness"),
    [each[1:] for each in OVERLAPPING],
    ids=[each[0] for each in OVERLAPPING],
)
def test_what_confluent_takes_for_compatible_and_is_not(
    reader: Json, writer: Json, rule: Rule, witness: Json
) -> None:
    assert judge(writer).is_valid(witness)
    assert not judge(reader).is_valid(witness)
    assert rules(reader, writer) == [rule]


NOT_SHOWN: list[tuple[str, Json, Json, Rule]] = [
    ("another pattern", {"pattern": "^a"}, {"pattern": "^ab"}, Rule.PATTERN_CHANGED),
    ("a format", {"format": "date"}, {}, Rule.FORMAT_ADDED),
    ("another format", {"format": "date"}, {"format": "email"}, Rule.FORMAT_CHANGED),
    ("a format of values", {"format": "date"}, {**STR, "enum": ["2026-01-01"]}, Rule.FORMAT_ADDED),
    (
        "unevaluated",
        {"$schema": D2020, "allOf": [obj({"a": INT})], "unevaluatedProperties": False},
        closed({"a": INT}),
        Rule.UNEVALUATED_CHANGED,
    ),
    (
        "a condition in other words",
        {"if": {"required": ["a"]}, "then": {"required": ["b"]}},
        {"dependencies": {"a": ["c"]}},
        Rule.REQUIRED_ATTRIBUTE_ADDED,
    ),
]


@pytest.mark.parametrize(
    ("reader", "writer", "rule"), [each[1:] for each in NOT_SHOWN], ids=[each[0] for each in NOT_SHOWN]
)
def test_what_cannot_be_shown_is_refused(reader: Json, writer: Json, rule: Rule) -> None:
    assert rules(reader, writer) == [rule]
    assert told(reader, reader) == []


def test_a_double_no_does_not_go_round_in_a_circle() -> None:
    """What excludes `not STR` is a string; it does not exclude strings."""
    strings = {"not": {"not": STR}}
    assert rules({"not": STR}, strings) == [Rule.NOT_TYPE_EXTENDED]
    assert rules({"oneOf": [strings, STR]}, STR) == [Rule.SUM_TYPE_NARROWED]


def test_a_required_property_says_nothing_of_what_is_no_object() -> None:
    writer = {"required": ["a"], "dependencies": {"a": {"type": "object"}}}
    assert judge(writer).is_valid(1)
    assert rules({"type": "object"}, writer) == [Rule.TYPE_NARROWED]
    assert (
        rules(
            {"type": "object", "minProperties": 2}, {**writer, "dependencies": {"a": ["b"]}, "type": "object"}
        )
        == []
    )


SENTENCES: list[tuple[Json, Json, list[str]]] = [
    (
        closed({"tip": INT}, "tip"),
        closed({"tip": INT}),
        [
            'required: the property "tip" need not be written, and is required to read; no default is '
            "ever filled in (REQUIRED_ATTRIBUTE_ADDED); make it optional, or require it of the writer first"
        ],
    ),
    (
        obj({"ride": obj({"tip": INT})}),
        obj({"ride": obj({"fare": INT})}),
        [
            'properties.ride.properties.tip: anything may be written as "tip": the writer\'s schema is open and does '
            "not describe it (PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL); describe it as {}; a property can be added where "
            "the writer's schema has additionalProperties false"
        ],
    ),
    (
        {"anyOf": [{**STR, "maxLength": 3}, NULL]},
        {"type": ["string", "null"]},
        [
            "anyOf: string may be written, and no branch of the reader's anyOf can be shown to read it: "
            "anyOf[0].maxLength: any number of characters may be written, and at most 3 are read (MAX_LENGTH_ADDED); "
            "leave maxLength out (SUM_TYPE_NARROWED); keep the branch as the writer has it, or add one"
        ],
    ),
    (
        obj({"a": INT}),
        {"anyOf": [closed({"a": INT}), closed({"a": STR})]},
        [
            "properties.a.type: string may be written, and integer is read, in the writer's anyOf[1] (TYPE_CHANGED); "
            "read integer or string"
        ],
    ),
]


@pytest.mark.parametrize(("reader", "writer", "expected"), SENTENCES)
def test_a_problem_says_where_it_is_and_what_would_pass(
    reader: Json, writer: Json, expected: list[str]
) -> None:
    assert told(reader, writer) == expected


def test_every_problem_is_told_once() -> None:
    reader = obj(
        {"a": INT, "b": {"items": INT}, "c": {"$ref": "#/definitions/x"}}, definitions={"x": obj({"d": INT})}
    )
    writer = obj({"a": STR, "b": {"items": NUM}, "c": obj({"d": NUM})})
    found = incompatibilities(schema_of(reader), schema_of(writer))
    assert [each.location for each in found] == [
        "#/properties/a/type",
        "#/properties/b/items/type",
        "#/properties/c/properties/d/type",
    ]


def test_schemas_of_other_names_are_compared() -> None:
    narrow, wide = schema_of({"definitions": {"Id": INT}}), schema_of({"definitions": {"Id": NUM}})
    ride = obj({"id": {"$ref": "common.json#/definitions/Id"}})
    one, other = schema_of(ride, {"common.json": narrow}), schema_of(ride, {"common.json": wide})
    assert [each.location for each in incompatibilities(one, other)] == ["#/properties/id/type"]
    assert incompatibilities(other, one) == []
