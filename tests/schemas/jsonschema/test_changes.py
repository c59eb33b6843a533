"""Confluent's verdicts on changes to JSON Schemas: strict and lenient, by the names that it gives to changes."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.schemas.jsonschema import SchemaError, changes, schema_of
from latecomer.schemas.jsonschema.compatibility import LENIENT
from latecomer.schemas.jsonschema.rules import RULES

RECENT = "https://json-schema.org/draft/2020-12/schema"
TEXT, NUMBER, WHOLE, FLAG = ({"type": each} for each in ("string", "number", "integer", "boolean"))


def found(old: Any, new: Any, *, lenient: bool = False) -> list[str]:
    """The rules that a change from one schema to another breaks, where it is to be read by the new one."""
    return [str(each.rule) for each in changes(schema_of(new), schema_of(old), lenient=lenient)]


def closed(*required: str, **properties: Any) -> dict[str, Any]:
    return {**opened(*required, **properties), "additionalProperties": False}


def opened(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def partly(additional: Any, *required: str, **properties: Any) -> dict[str, Any]:
    return {**opened(*required, **properties), "additionalProperties": additional}


def prefixed(*patterns: tuple[str, Any], **properties: Any) -> dict[str, Any]:
    return {**closed(**properties), "patternProperties": dict(patterns)}


def listed(*items: Any, more: Any = None) -> dict[str, Any]:
    return {"type": "array", "items": list(items), **({} if more is None else {"additionalItems": more})}


PLAIN: list[tuple[Any, Any, list[str]]] = [
    # types
    (TEXT, TEXT, []),
    (TEXT, {}, []),
    (TEXT, True, []),
    (False, TEXT, []),
    ({}, TEXT, ["TYPE_CHANGED"]),
    ({}, {"properties": {}}, ["TYPE_CHANGED"]),
    ({"properties": {}}, {}, []),
    (TEXT, NUMBER, ["TYPE_CHANGED"]),
    (NUMBER, WHOLE, ["TYPE_NARROWED"]),
    (WHOLE, NUMBER, []),
    ({"type": "string", "connect.type": "bytes"}, {"type": "number", "connect.type": "bytes"}, []),
    ({"title": "a", "default": 3, **NUMBER}, {"title": "b", "description": "c", **NUMBER}, []),
    # limits
    ({**TEXT, "maxLength": 9}, {**TEXT, "maxLength": 7}, ["MAX_LENGTH_DECREASED"]),
    ({**TEXT, "maxLength": 7}, {**TEXT, "maxLength": 9}, []),
    ({**TEXT, "maxLength": 7}, TEXT, []),
    (TEXT, {**TEXT, "maxLength": 7}, ["MAX_LENGTH_ADDED"]),
    ({**TEXT, "minLength": 2}, {**TEXT, "minLength": 3}, ["MIN_LENGTH_INCREASED"]),
    (TEXT, {**TEXT, "minLength": 0}, ["MIN_LENGTH_ADDED"]),  # though it says nothing
    ({**NUMBER, "maximum": 5}, {**NUMBER, "maximum": 4.5}, ["MAXIMUM_DECREASED"]),
    ({**NUMBER, "minimum": 5}, {**NUMBER, "minimum": 5.0}, []),
    (NUMBER, {**NUMBER, "minimum": 5}, ["MINIMUM_ADDED"]),
    ({**NUMBER, "exclusiveMaximum": 5}, {**NUMBER, "exclusiveMaximum": 4}, ["EXCLUSIVE_MAXIMUM_DECREASED"]),
    ({**NUMBER, "exclusiveMinimum": 5}, {**NUMBER, "exclusiveMinimum": 6}, ["EXCLUSIVE_MINIMUM_INCREASED"]),
    (
        {**WHOLE, "exclusiveMinimum": 0},
        {**WHOLE, "minimum": 1},
        ["MINIMUM_ADDED"],
    ),  # the same, in other words
    ({**NUMBER, "multipleOf": 12}, {**NUMBER, "multipleOf": 3}, []),
    ({**NUMBER, "multipleOf": 3}, {**NUMBER, "multipleOf": 12}, ["MULTIPLE_OF_EXPANDED"]),
    ({**NUMBER, "multipleOf": 3}, {**NUMBER, "multipleOf": 5}, ["MULTIPLE_OF_CHANGED"]),
    ({**NUMBER, "multipleOf": 0.1}, {**NUMBER, "multipleOf": 0.01}, []),
    (NUMBER, {**NUMBER, "multipleOf": 5}, ["MULTIPLE_OF_ADDED"]),
    ({**TEXT, "pattern": "^a"}, TEXT, []),
    ({**TEXT, "pattern": "^a"}, {**TEXT, "pattern": "a"}, ["PATTERN_CHANGED"]),
    (TEXT, {**TEXT, "pattern": "^a"}, ["PATTERN_ADDED"]),
    (TEXT, {**TEXT, "format": "date"}, []),
    # values
    ({"enum": ["a"]}, {"enum": ["b", "a"]}, []),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, ["ENUM_ARRAY_NARROWED"]),
    ({"enum": ["a", "b"]}, {"enum": ["a", "c"]}, ["ENUM_ARRAY_CHANGED"]),
    ({"const": 1}, {"const": 2}, ["ENUM_ARRAY_CHANGED"]),
    ({"const": 1}, {"enum": [1]}, ["TYPE_CHANGED"]),
    ({**TEXT, "enum": ["a"]}, TEXT, []),
    (TEXT, {**TEXT, "enum": ["a"]}, ["TYPE_CHANGED"]),
    ({**TEXT, "enum": ["a"]}, {**TEXT, "enum": ["a", "b"]}, []),
    ({**TEXT, "enum": ["a"]}, {**TEXT, "enum": ["b"]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]),
    # not, if
    ({"not": NUMBER}, {"not": WHOLE}, []),
    ({"not": WHOLE}, {"not": NUMBER}, ["NOT_TYPE_EXTENDED"]),
    ({"if": TEXT, "then": {"minLength": 1}}, {"if": TEXT, "then": {"minLength": 5}}, []),
    # objects
    (opened(a=TEXT), opened(), []),
    (opened(a=TEXT), opened(a=NUMBER), ["TYPE_CHANGED"]),
    (opened(a=TEXT), opened("a", a=TEXT), ["REQUIRED_ATTRIBUTE_ADDED"]),
    (opened(a=TEXT), opened("a", a={**TEXT, "default": "-"}), []),
    (opened("a", a=TEXT), opened(a=TEXT), []),
    (opened("a", a=TEXT), opened("b", a=TEXT), []),  # b is described by neither
    (opened(), opened(a=TEXT), ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (opened(), opened("a", a=TEXT), ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (
        opened(),
        opened("a", a={**TEXT, "default": "-"}),
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL"],
    ),
    (opened(), opened(a={}), []),
    (closed(), closed(a=TEXT), []),
    (closed(), closed("a", a=TEXT), ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
    (closed(), closed("a", a={**TEXT, "default": "-"}), []),
    (closed(a=TEXT), closed(), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (closed(a=False), closed(), []),
    (partly(TEXT), partly(TEXT, a=TEXT), []),
    (
        partly(TEXT),
        partly(TEXT, a=NUMBER),
        ["PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED"],
    ),
    (partly(TEXT), partly(TEXT, "a", a=TEXT), ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
    (closed(a=WHOLE), partly(NUMBER), []),
    (
        closed(a=TEXT),
        partly(NUMBER),
        ["PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED"],
    ),
    (prefixed(("^i_", WHOLE)), prefixed(("^i_", WHOLE), i_1=NUMBER), []),
    (closed(i_1=WHOLE), prefixed(("^s_", TEXT), ("^i_", NUMBER)), []),
    (closed(), opened(), []),
    (opened(), closed(), ["ADDITIONAL_PROPERTIES_REMOVED"]),
    (opened(), partly(TEXT), ["ADDITIONAL_PROPERTIES_NARROWED"]),
    (partly(TEXT), opened(), []),
    (partly(TEXT), partly(NUMBER), ["TYPE_CHANGED"]),
    ({"minProperties": 1}, {"minProperties": 2}, ["MIN_PROPERTIES_INCREASED"]),
    ({"maxProperties": 2}, {"maxProperties": 1}, ["MAX_PROPERTIES_DECREASED"]),
    ({"propertyNames": TEXT}, {"propertyNames": {"maxLength": 3}}, []),  # not looked at
    ({"dependencies": {"a": ["b"]}}, {"dependencies": {"b": ["a"]}}, ["DEPENDENCY_ARRAY_ADDED"]),
    ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["b", "c"]}}, ["DEPENDENCY_ARRAY_EXTENDED"]),
    ({"dependencies": {"a": ["b", "c"]}}, {"dependencies": {"a": ["b"]}}, []),
    ({"dependencies": {"a": ["b"]}}, {"dependencies": {"a": ["c"]}}, ["DEPENDENCY_ARRAY_CHANGED"]),
    ({"dependencies": {"a": TEXT}}, {"dependencies": {"b": TEXT}}, ["DEPENDENCY_SCHEMA_ADDED"]),
    ({"dependencies": {"a": TEXT}}, {"dependencies": {"a": NUMBER}}, ["TYPE_CHANGED"]),
    # arrays
    ({"type": "array"}, {"type": "array", "items": TEXT}, ["SCHEMA_ADDED"]),
    ({"type": "array", "items": TEXT}, {"type": "array"}, []),
    ({"items": TEXT}, {"items": NUMBER}, ["TYPE_CHANGED"]),
    (listed(TEXT, NUMBER), {"type": "array"}, []),
    (listed(TEXT), listed(TEXT, NUMBER), ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (listed(TEXT), listed(TEXT, True), []),
    (listed(TEXT, more=False), listed(TEXT, NUMBER, more=False), []),
    (listed(TEXT, NUMBER, more=False), listed(TEXT, more=False), ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (listed(TEXT, NUMBER, more=False), listed(TEXT, more=NUMBER), []),
    (listed(TEXT, more=NUMBER), listed(TEXT, NUMBER), []),
    (
        listed(TEXT, more=TEXT),
        listed(TEXT, NUMBER, more=TEXT),
        ["ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED"],
    ),
    (
        listed(TEXT, NUMBER, more=TEXT),
        listed(TEXT, more=TEXT),
        ["ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL", "TYPE_CHANGED"],
    ),
    (listed(TEXT), listed(TEXT, more=False), ["ADDITIONAL_ITEMS_REMOVED"]),
    (listed(TEXT), listed(TEXT, more=TEXT), ["ADDITIONAL_ITEMS_NARROWED"]),
    (
        {"additionalItems": True},
        {"additionalItems": False},
        ["ADDITIONAL_ITEMS_REMOVED"],
    ),  # though it says nothing
    ({"additionalItems": TEXT}, {"additionalItems": NUMBER}, ["TYPE_CHANGED"]),
    ({"maxItems": 2}, {"maxItems": 1}, ["MAX_ITEMS_DECREASED"]),
    ({"minItems": 1}, {"minItems": 2}, ["MIN_ITEMS_INCREASED"]),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED"]),
    ({"contains": TEXT}, {"contains": NUMBER}, []),  # not looked at
    # several at once
    ({"type": ["object"]}, {"type": ["object", "array"]}, []),
    ({"type": ["string", "null"]}, TEXT, ["TYPE_CHANGED"]),
    (TEXT, {"type": ["string", "null"]}, []),
    ({"type": ["integer", "null"]}, {"type": ["number", "null"]}, []),
    ({"type": ["integer", "number"]}, {"type": ["number"]}, ["SUM_TYPE_NARROWED"]),
    ({"oneOf": [TEXT]}, {"oneOf": [NUMBER]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"]),
    ({"oneOf": [TEXT]}, {"oneOf": [NUMBER, TEXT]}, []),
    ({"oneOf": [TEXT, NUMBER]}, {"oneOf": [TEXT]}, ["SUM_TYPE_NARROWED"]),
    ({**TEXT, "maxLength": 3}, {"oneOf": [NUMBER, TEXT]}, []),
    (TEXT, {"allOf": [TEXT]}, []),
    (TEXT, {"allOf": [TEXT, {"maxLength": 3}]}, ["TYPE_CHANGED"]),
    ({"allOf": [TEXT, {"maxLength": 3}]}, TEXT, []),
    ({"allOf": [TEXT]}, {"allOf": [{"enum": ["a"]}, TEXT]}, ["PRODUCT_TYPE_EXTENDED"]),
    ({"allOf": [{"enum": ["a"]}, TEXT]}, {"allOf": [TEXT]}, []),
    ({"allOf": [TEXT, TEXT]}, {"allOf": [TEXT]}, []),
    ({"oneOf": [TEXT]}, {"anyOf": [TEXT, NUMBER]}, []),
    ({"allOf": [TEXT, {"maxLength": 3}]}, {"anyOf": [TEXT]}, []),
    ({"anyOf": [TEXT]}, {"oneOf": [TEXT, NUMBER]}, []),
    ({"anyOf": [TEXT, NUMBER]}, {"oneOf": [TEXT, NUMBER]}, ["COMBINED_TYPE_CHANGED"]),
    ({"oneOf": [TEXT]}, {"allOf": [TEXT]}, []),
    ({"oneOf": [TEXT, WHOLE]}, {"allOf": [TEXT]}, ["COMBINED_TYPE_CHANGED"]),
    ({"oneOf": [TEXT]}, {"allOf": [TEXT, NUMBER]}, ["COMBINED_TYPE_CHANGED"]),
    # the first fits both, so that the second must have the one that is left
    ({"anyOf": [WHOLE, NUMBER]}, {"anyOf": [NUMBER, {**WHOLE, "title": "w"}]}, []),
]


@pytest.mark.parametrize(("old", "new", "rules"), PLAIN)
def test_what_strict_refuses(old: Any, new: Any, rules: list[str]) -> None:
    assert found(old, new) == rules
    # Below a property it is the same, at its place.
    outcome = changes(schema_of(opened(below=new)), schema_of(opened(below=old)))
    assert [str(each.rule) for each in outcome] == rules
    assert all(each.path[:2] == ("properties", "below") for each in outcome)


def recent(schema: Any) -> Any:
    return {"$schema": RECENT, **schema}


@pytest.mark.parametrize(
    ("old", "new", "rules"),
    [
        (closed(a=TEXT), closed(a=TEXT, b=TEXT), []),
        ({"items": False}, {"items": TEXT}, ["SCHEMA_ADDED"]),
        ({"prefixItems": [TEXT]}, {"prefixItems": [TEXT, NUMBER]}, ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"]),
        ({"prefixItems": [TEXT], "items": NUMBER}, {"prefixItems": [TEXT, NUMBER]}, []),
        ({"prefixItems": [TEXT]}, {"prefixItems": [TEXT], "items": False}, ["ADDITIONAL_ITEMS_REMOVED"]),
        (opened(), {**opened(), "unevaluatedProperties": False}, ["UNEVALUATED_PROPERTIES_REMOVED"]),
        (opened(), {**opened(), "unevaluatedProperties": TEXT}, ["UNEVALUATED_PROPERTIES_NARROWED"]),
        ({**opened(), "unevaluatedProperties": False}, opened(), []),
        (
            {**opened(), "unevaluatedProperties": False},
            {**opened(a=TEXT), "unevaluatedProperties": False},
            [],
        ),
        ({"unevaluatedItems": TEXT}, {"unevaluatedItems": False}, ["UNEVALUATED_ITEMS_REMOVED"]),
        ({"unevaluatedItems": TEXT}, {"unevaluatedItems": NUMBER}, ["TYPE_CHANGED"]),
        (
            {"contains": TEXT, "maxContains": 3},
            {"contains": TEXT, "maxContains": 2},
            ["MAX_CONTAINS_DECREASED"],
        ),
        ({"contains": TEXT}, {"contains": TEXT, "minContains": 2}, ["MIN_CONTAINS_ADDED"]),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"dependentRequired": {"a": ["b", "c"]}},
            ["DEPENDENCY_ARRAY_EXTENDED"],
        ),
        ({}, {"format": "date"}, []),
        # A reference beside other keywords is one of two schemas that must fit.
        ({"$defs": {"t": TEXT}, "$ref": "#/$defs/t"}, TEXT, []),
        (
            {"$defs": {"t": TEXT}, "$ref": "#/$defs/t"},
            {"$defs": {"t": TEXT}, "$ref": "#/$defs/t", "maxLength": 3},
            ["TYPE_CHANGED"],
        ),
    ],
)
def test_what_strict_refuses_in_later_drafts(old: Any, new: Any, rules: list[str]) -> None:
    assert found(recent(old), recent(new)) == rules


@pytest.mark.parametrize(
    ("old", "new", "strict", "lenient"),
    [
        # added to an open schema: optional, with a default, required
        (opened(), opened(a=TEXT), False, True),
        (opened(), opened("a", a={**TEXT, "default": "-"}), False, True),
        (opened(), opened("a", a=TEXT), False, False),
        # added to a closed one
        (closed(), closed(a=TEXT), True, True),
        (closed(), closed("a", a={**TEXT, "default": "-"}), True, True),
        (closed(), closed("a", a=TEXT), False, False),
        # removed
        (opened(a=TEXT), opened(), True, True),
        (closed(a=TEXT), closed(), False, True),
        (closed("a", a=TEXT), closed(), False, True),
        # closing
        (opened(), closed(), False, True),
        (opened(), partly(TEXT), False, True),
        # what no policy takes
        (opened(a=TEXT), opened(a=NUMBER), False, False),
        (listed(TEXT), listed(TEXT, more=False), False, False),
        # below a combination the policy is the same
        (
            {"allOf": [opened(), {"minProperties": 1}]},
            {"allOf": [opened(a=TEXT), {"minProperties": 1}]},
            False,
            True,
        ),
    ],
)
def test_lenient_supposes_that_readers_pass_over_what_they_do_not_know(
    old: Any, new: Any, strict: bool, lenient: bool
) -> None:
    assert (not found(old, new), not found(old, new, lenient=True)) == (strict, lenient)


def tree(leaf: Any, *more: str) -> dict[str, Any]:
    node = {
        "type": "object",
        "properties": {"leaf": leaf, "next": {"$ref": "#/definitions/t"}},
        "required": [*more],
    }
    return {"definitions": {"t": node}, "$ref": "#/definitions/t"}


def test_a_schema_that_leads_back_to_itself() -> None:
    assert found(tree(TEXT), tree(TEXT)) == []
    assert found(tree(WHOLE), tree(NUMBER)) == []
    assert found(tree(TEXT), tree(NUMBER)) == ["TYPE_CHANGED"]


def union(first: str, second: str) -> dict[str, Any]:
    """Two schemas whose difference is seen only after a way round."""

    def node(leaf: str, to: str) -> dict[str, Any]:
        below = {"oneOf": [{"$ref": f"#/definitions/{to}"}]}
        return {"type": "object", "properties": {"leaf": {"type": leaf}, "to": below}}

    nodes = {"a": node(first, "c"), "b": node(second, "c"), "c": node("integer", "a")}
    both = [{"$ref": "#/definitions/a"}, {"$ref": "#/definitions/b"}]
    return {"definitions": nodes, "properties": {"root": {"oneOf": both}}}


def test_what_is_found_after_a_way_round_counts() -> None:
    assert found(union("integer", "boolean"), union("integer", "boolean")) == []
    assert "COMBINED_TYPE_SUBSCHEMAS_CHANGED" in found(
        union("integer", "boolean"), union("boolean", "number")
    )


def test_a_long_chain_of_references_is_no_matter_of_a_stack() -> None:
    def chain(last: Any, length: int = 1500) -> Any:
        nodes = {str(i): {"properties": {"n": {"$ref": f"#/definitions/{i + 1}"}}} for i in range(length)}
        return {"definitions": {**nodes, str(length): last}, "$ref": "#/definitions/0"}

    assert found(chain(TEXT), chain(TEXT)) == []
    assert found(chain(TEXT), chain(NUMBER)) == ["TYPE_CHANGED"]


def test_many_branches_take_few_steps() -> None:
    """Each pair of them is looked at, and the whole only once more for all that do not fit."""

    def branches(count: int, last: Any = TEXT) -> Any:
        return [opened(**{f"p{index}": WHOLE}) for index in range(count)] + [last]

    assert found({"oneOf": branches(60)}, {"oneOf": branches(60)}) == []
    assert found({"oneOf": branches(60)}, {"oneOf": branches(60, NUMBER)}) == [
        "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
    ]
    assert found(TEXT, {"anyOf": branches(2000)}) == []
    assert found(TEXT, {"anyOf": branches(2000, NUMBER)}) == ["TYPE_CHANGED"]


def test_what_would_take_too_long_is_refused() -> None:
    many = [{"enum": [index]} for index in range(1000)]
    with pytest.raises(SchemaError, match="too many steps to compare"):
        found({"oneOf": many}, {"oneOf": [*many, TEXT]})


def test_a_problem_says_where_what_and_what_would_pass() -> None:
    old = closed(fare={**NUMBER, "maximum": 900}, note=TEXT)
    new = closed("note", fare={**NUMBER, "maximum": 800}, note=TEXT)
    assert [str(each) for each in changes(schema_of(new), schema_of(old))] == [
        "required.note: the property note may be left out by the writer, and is required by the reader "
        "(REQUIRED_ATTRIBUTE_ADDED); do not require it, or give it a default",
        "properties.fare.maximum: it is 900 for the writer, and 800 for the reader (MAXIMUM_DECREASED); "
        "read with 900 or more",
    ]


@pytest.mark.parametrize(
    ("old", "new", "verdicts"),
    [
        (opened(), opened(a=TEXT), "no yes"),
        (opened(), opened("a", a={**TEXT, "default": "-"}), "no yes"),
        (closed(a=TEXT), closed(), "no yes"),
        (opened(), closed(), "no yes"),
        (closed(a=TEXT), closed("a", a={**TEXT, "default": "-"}), "yes yes"),
        (opened("a", a=TEXT), opened("b", a=TEXT), "yes yes"),
        ({"oneOf": [NUMBER]}, {"oneOf": [NUMBER, WHOLE]}, "yes yes"),
        (TEXT, {**TEXT, "format": "date"}, "yes yes"),
        ({"type": "array", "contains": NUMBER}, {"type": "array", "contains": WHOLE}, "yes yes"),
        ({"propertyNames": {}}, {"propertyNames": {"maxLength": 3}}, "yes yes"),
        ({"patternProperties": {"^a": NUMBER}}, {"patternProperties": {"^a": WHOLE}}, "yes yes"),
        ({"if": TEXT, "then": {"minLength": 1}}, {"if": TEXT, "then": {"minLength": 5}}, "yes yes"),
        (TEXT, {**TEXT, "minLength": 0}, "no no"),
        ({**WHOLE, "exclusiveMinimum": 0}, {**WHOLE, "minimum": 1}, "no no"),
        ({"const": 1}, {"enum": [1, 2]}, "no no"),
        ({"enum": ["a"]}, TEXT, "no no"),
    ],
)
def test_where_the_policies_differ(old: Any, new: Any, verdicts: str) -> None:
    """As docs/registry.md lists them."""
    outcome = [found(old, new), found(old, new, lenient=True)]
    assert " ".join("no" if each else "yes" for each in outcome) == verdicts


def test_lenient_takes_rules_that_there_are() -> None:
    assert RULES.keys() >= LENIENT
