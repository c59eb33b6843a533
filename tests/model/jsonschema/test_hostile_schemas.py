"""Whatever is sent as a schema or a value gets an answer, soon."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.model.jsonschema import (
    Schema,
    SchemaError,
    Validator,
    incompatibilities,
    normalized,
    parse_schema,
    schema_of,
)
from latecomer.model.schemas.mistakes import DEEPEST_TYPE

SOON = 120.0  # seconds: of a processor that may be lent to others; what is not bounded would take hours
INT = {"type": "integer"}


def answer(reader: Any, writer: Any) -> list[Any] | SchemaError:
    """Of a comparison, within the time that is allowed."""
    begun = time.thread_time()
    try:
        return incompatibilities(schema_of(reader), schema_of(writer))
    except SchemaError as error:
        return error
    finally:
        assert time.thread_time() - begun < SOON


TEXTS = [
    ('{"items":' * 200_000, "has 1800000 characters"),
    ('{"items":' * 100_000, "is nested too deeply"),
    ('{"items":' * 150 + "{}" + "}" * 150, "is nested too deeply"),
    ('{"enum":[' + "[" * 150 + "]" * 150 + "]}", "is nested too deeply"),
    ('{"enum":[' + "0," * 250_000 + "0]}", "holds too many values"),
    ('{"type":"string","type":"null"}', "has the key type twice"),
    ('{"minimum":' + "9" * 100_000 + "}", "holds a number that is too long"),
    ('{"minimum":1e999}', "is beyond all numbers"),
    ('{"title":"\\ud800"}', "half of a surrogate pair"),
    ("", "is not JSON"),
]


@pytest.mark.parametrize(("text", "message"), TEXTS, ids=[message for _, message in TEXTS])
def test_a_text_that_goes_too_far_is_refused(text: str, message: str) -> None:
    begun = time.thread_time()
    with pytest.raises(SchemaError, match=message) as told:
        parse_schema(text)
    assert time.thread_time() - begun < SOON
    assert len(str(told.value)) < 1000


def test_messages_stay_short() -> None:
    name = "a" * 100_000
    with pytest.raises(SchemaError) as told:
        schema_of({"properties": {name: {"type": "strng"}}})
    assert len(str(told.value)) < 1000
    found = incompatibilities(
        schema_of({"properties": {name: INT}, "required": [name]}), schema_of({"type": "object"})
    )
    assert all(len(str(each)) < 1000 for each in found)


def nested(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {"items": inner}
    return inner


def test_the_deepest_schema_is_compared_and_used() -> None:
    schema = schema_of(nested(DEEPEST_TYPE, INT))
    assert incompatibilities(schema, schema_of(nested(DEEPEST_TYPE, INT))) == []
    assert [len(each.path) for each in incompatibilities(schema, schema_of(nested(DEEPEST_TYPE, {})))]
    value: Any = "x"
    for _ in range(DEEPEST_TYPE):
        value = [value]
    assert [len(each.path) for each in Validator(schema).faults(value)] == [DEEPEST_TYPE]


def test_a_long_chain_of_definitions_is_compared() -> None:
    def chain(last: Any) -> Any:
        names = [f"d{index}" for index in range(1500)]
        inner = {
            name: {"properties": {"f": {"$ref": f"#/definitions/{after}"}}} for name, after in pairwise(names)
        }
        return {"definitions": {**inner, names[-1]: last}, "$ref": "#/definitions/d0"}

    assert answer(chain({"type": "number"}), chain(INT)) == []
    found = answer(chain(INT), chain({"type": "number"}))
    assert isinstance(found, list)
    assert [len(each.path) for each in found] == [2 * 1499 + 1]


def test_a_long_chain_of_references_to_one_value_is_refused() -> None:
    definitions = {f"d{index}": {"$ref": f"#/definitions/d{index + 1}"} for index in range(3000)} | {
        "d3000": INT
    }
    with pytest.raises(SchemaError, match="is nested too deeply"):
        schema_of({"definitions": definitions, "$ref": "#/definitions/d0"})


def branches(count: int, size: int) -> Any:
    """So many anyOf beside each other, so large each."""
    return {
        "allOf": [
            {"anyOf": [{"required": [f"p{index}x{branch}"]} for branch in range(size)]}
            for index in range(count)
        ]
    }


def test_what_takes_too_many_steps_to_compare_is_refused() -> None:
    found = answer(branches(10, 5), {**branches(10, 5), "title": "x", "maxProperties": 100})
    assert isinstance(found, SchemaError | list)
    found = answer({"required": ["z"]}, branches(10, 5))
    assert isinstance(found, SchemaError)
    assert "takes too many steps to compare" in str(found)


EXPENSIVE: list[tuple[str, Any, Any]] = [
    ("many values", {"enum": list(range(4_000))}, {"enum": list(range(4_001))}),
    (
        "many values of lists",
        {"enum": [[each] * 10 for each in range(3000)]},
        {"items": INT, "enum": [[each] * 10 for each in range(3001)]},
    ),
    (
        "many properties",
        {"properties": {f"p{each}": INT for each in range(3_000)}},
        {"properties": {f"p{each}": INT for each in range(3_001)}},
    ),
    (
        "many patterns",
        {"patternProperties": {f"(a+)+{each}": INT for each in range(300)}},
        {"properties": {"a" * each: INT for each in range(300)}},
    ),
    ("many items", {"items": [INT] * 5_000}, {"items": [{"type": "number"}] * 5_000}),
    (
        "many branches",
        {"oneOf": [{"required": [f"p{each}"]} for each in range(300)]},
        {"oneOf": [{"required": [f"p{each}"]} for each in range(301)]},
    ),
    (
        "many of all",
        {"allOf": [{"minimum": each} for each in range(2_000)]},
        {"allOf": [{"minimum": each} for each in range(1, 2_000)]},
    ),
    ("not not not", nested_not := {"not": {"not": {"not": {"not": {"not": INT}}}}}, {"not": nested_not}),
    (
        "two trees",
        {"anyOf": [{"items": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}, {"type": "null"}]},
        {"anyOf": [{"additionalProperties": {"$ref": "#"}}, {"items": {"$ref": "#"}}, {"type": "null"}]},
    ),
    (
        "conditions",
        {
            "allOf": [
                {"if": {"required": [f"p{each}"]}, "then": {"minProperties": each}} for each in range(30)
            ]
        },
        {
            "allOf": [
                {"if": {"required": [f"p{each}"]}, "then": {"minProperties": each + 1}} for each in range(30)
            ]
        },
    ),
    (
        "dependencies in a row",
        {"dependencies": {f"p{each}": [f"p{each + 1}"] for each in range(3000)}},
        {"dependencies": {f"p{each}": [f"p{each + 1}"] for each in range(3001)}},
    ),
]


SLOW = ("many branches", "many values of lists")


@pytest.mark.parametrize(
    ("reader", "writer"),
    [pytest.param(*each[1:], marks=pytest.mark.long if each[0] in SLOW else ()) for each in EXPENSIVE],
    ids=[each[0] for each in EXPENSIVE],
)
def test_large_schemas_get_an_answer_soon(reader: Any, writer: Any) -> None:
    for one, other in ((reader, writer), (writer, reader)):
        found = answer(one, other)
        assert isinstance(found, list) or "takes too many steps" in str(found)


def test_a_value_that_takes_too_many_steps_is_invalid() -> None:
    tree = {"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "array", "items": {"$ref": "#"}}]}
    value: Any = 1
    for _ in range(40):
        value = [value]
    begun = time.thread_time()
    faults = Validator(schema_of(tree)).faults(value)
    assert [str(each) for each in faults] == ["the value: takes too many steps to check"]
    assert time.thread_time() - begun < SOON


def test_a_value_that_is_too_deep_is_invalid_even_where_it_must_not_fit() -> None:
    value: Any = 1
    for _ in range(290):
        value = [value]
    for schema in (
        {"items": {"$ref": "#"}},
        {
            "not": {"properties": {"a": {"items": {}}}, "items": {"items": {"$ref": "#/definitions/x"}}},
            "definitions": {"x": {"items": {"$ref": "#/definitions/x"}}},
        },
        {"uniqueItems": True},
        {"const": 1},
    ):
        faults = Validator(schema_of(schema)).faults([value])
        assert [str(each) for each in faults if "nested too deeply" in str(each)]


def test_no_pattern_keeps_a_validator_busy() -> None:
    validator = Validator(schema_of({"pattern": "^(a+)+$", "patternProperties": {"(a|a)*b": INT}}))
    begun = time.thread_time()
    assert validator.faults("a" * 100_000 + "!")
    assert validator.faults({"a" * 100_000 + "b": "x"})
    assert time.thread_time() - begun < SOON


WORDS = (
    "type",
    "properties",
    "items",
    "$ref",
    "$id",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "enum",
    "required",
    "minimum",
    "additionalProperties",
    "patternProperties",
    "if",
    "then",
    "definitions",
    "$schema",
    "pattern",
    "dependencies",
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=5)
    | st.sampled_from(
        [
            "string",
            "object",
            "#",
            "#/definitions/a",
            "#/items",
            "(a",
            "http://json-schema.org/draft-04/schema#",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from((*WORDS, "a", "")), inner, max_size=5)
    ),
    max_leaves=20,
)


def schema_or_error(read: Callable[[], Schema]) -> Schema | SchemaError:
    try:
        return read()
    except SchemaError as error:
        return error


@pytest.mark.drawn
@drawn(200)
@given(JSON, JSON)
def test_any_json_is_a_schema_or_an_error(value: Any, other: Any) -> None:
    found = schema_or_error(lambda: schema_of(value))
    if isinstance(found, SchemaError):
        assert found.fix
        return
    assert parse_schema(normalized(found)) == found
    assert incompatibilities(found, schema_of({})) is not None
    Validator(found).faults(other)


@pytest.mark.drawn
@drawn(100)
@given(st.text(max_size=50))
def test_any_text_is_a_schema_or_an_error(text: str) -> None:
    found = schema_or_error(lambda: parse_schema(text))
    assert isinstance(found, Schema) or found.fix
