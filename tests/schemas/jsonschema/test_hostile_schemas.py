"""Whatever is sent as a schema or a value gets an answer, soon."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples_kit import drawn
from latecomer.schemas.jsonschema import (
    Schema,
    SchemaError,
    Validator,
    changes,
    parse_schema,
    schema_of,
)
from latecomer.schemas.jsonschema.validation import NotJson
from latecomer.schemas.mistakes import DEEPEST_TYPE

SOON = 120.0  # seconds: of a processor that may be lent to others; what is not bounded would take hours
INT = {"type": "integer"}
UNEVALUATED: Any = {"$schema": "https://json-schema.org/draft/2020-12/schema", "unevaluatedProperties": False}
for _ in range(20):
    UNEVALUATED = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "allOf": [UNEVALUATED],
        "unevaluatedProperties": False,
    }


def answer(reader: Any, writer: Any) -> list[Any] | SchemaError:
    """Of a comparison, within the time that is allowed."""
    begun = time.thread_time()
    try:
        return changes(schema_of(reader), schema_of(writer))
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
    ('{"minimum":1e999}', "is no finite number"),
    ('{"title":"\\ud800"}', "half of a surrogate pair"),
    ("", "is not JSON"),
]


@pytest.mark.parametrize(("text", "message"), TEXTS, ids=[message for _, message in TEXTS])
def test_a_text_that_goes_too_far_is_refused(text: str, message: str) -> None:
    begun = time.thread_time()
    with pytest.raises(SchemaError, match=message) as outcome:
        parse_schema(text)
    assert time.thread_time() - begun < SOON
    assert len(str(outcome.value)) < 1000


def test_messages_stay_short() -> None:
    name = "a" * 100_000
    with pytest.raises(SchemaError) as outcome:
        schema_of({"properties": {name: {"type": "strng"}}})
    assert len(str(outcome.value)) < 1000
    found = changes(schema_of({"properties": {name: INT}, "required": [name]}), schema_of({"type": "object"}))
    assert all(len(str(each)) < 1000 for each in found)


def nested(depth: int, inner: Any) -> Any:
    for _ in range(depth):
        inner = {"items": inner}
    return inner


def test_the_deepest_schema_is_compared_and_used() -> None:
    schema = schema_of(nested(DEEPEST_TYPE, INT))
    assert changes(schema, schema_of(nested(DEEPEST_TYPE, INT))) == []
    assert [len(each.path) for each in changes(schema, schema_of(nested(DEEPEST_TYPE, {})))]
    value = "[" * DEEPEST_TYPE + '"x"' + "]" * DEEPEST_TYPE
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
    assert [len(each.path) for each in found] == [2 * 1499]


def test_a_long_chain_of_references_to_one_value_is_refused() -> None:
    definitions = {f"d{index}": {"$ref": f"#/definitions/d{index + 1}"} for index in range(3000)} | {
        "d3000": INT
    }
    with pytest.raises(SchemaError, match="is nested too deeply"):
        schema_of({"definitions": definitions, "$ref": "#/definitions/d0"})


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


BOTH = [{"type": "array", "items": {"$ref": "#"}}] * 2
TWICE = {f"d{nth}": {"allOf": [{"$ref": f"#/definitions/d{nth + 1}"}] * 2} for nth in range(40)}


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/definitions/d0", "definitions": {**TWICE, "d40": {"type": "integer"}}},
        {"allOf": [{"pattern": "a{0,1000}a{0,1000}b"}] * 10},
        UNEVALUATED,
    ],
    ids=["references", "patterns", "unevaluated"],
)
def test_a_schema_by_which_a_value_takes_too_many_steps_is_refused(schema: Any) -> None:
    """The library would work for years on the first."""
    begun = time.thread_time()
    with pytest.raises(SchemaError, match="rules for one value"):
        Validator(schema_of(schema))
    assert time.thread_time() - begun < SOON


@pytest.mark.parametrize(
    "schema",
    [{"anyOf": BOTH}, {"items": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}],
    ids=["branches", "recursion"],
)
def test_a_record_for_which_the_work_doubles_with_each_level_is_invalid(schema: Any) -> None:
    checked = Validator(schema_of(schema))
    begun = time.thread_time()
    assert checked.faults("[" * 10 + "1" + "]" * 10) == [] or "anyOf" in schema
    (fault,) = checked.faults("[" * 40 + "1" + "]" * 40)
    assert "is nested too deeply to be checked, 40 levels and not at most 1" in str(fault)
    assert time.thread_time() - begun < SOON


def test_a_large_record_of_a_costly_schema_is_invalid() -> None:
    checked = Validator(schema_of({"items": {"pattern": "a{0,1000}a{0,1000}b"}}))
    assert checked.allows('["aab"]')
    begun = time.thread_time()
    assert [str(each) for each in checked.faults('["' + "a" * 100_000 + '"]')] == [
        "the value: takes too many steps to check"
    ]
    assert time.thread_time() - begun < SOON


def test_a_large_record_of_a_plain_schema_is_checked() -> None:
    rides = {
        "type": "array",
        "items": {"type": "object", "required": ["id"], "properties": {"id": {"minimum": 0}}},
    }
    checked = Validator(schema_of(rides))
    assert checked.allows(json.dumps([{"id": nth} for nth in range(100_000)]))
    assert not checked.allows(json.dumps([{"id": nth} for nth in range(-1, 100_000)]))


def test_a_record_that_is_too_deep_is_invalid_even_where_it_must_not_fit() -> None:
    for schema in (
        {"items": {"$ref": "#"}},
        {"not": {"items": {"items": {"$ref": "#"}}}},
        {"const": 1},
        True,
    ):
        checked = Validator(schema_of(schema))
        (fault,) = checked.faults("[" * 151 + "]" * 151)
        assert "nested too deeply" in str(fault)
        checked.faults("[" * 150 + "]" * 150)


@pytest.mark.parametrize("word", ["allOf", "anyOf", "oneOf"])
def test_the_deepest_record_does_not_fill_the_stack(word: str) -> None:
    """With ten times as many levels the library ends the process."""
    inner: Any = {"$ref": "#"}
    for _ in range(DEEPEST_TYPE - 3):
        inner = {word: [inner]}
    checked = Validator(schema_of({"items": inner}))
    with ThreadPoolExecutor(1) as thread:  # its stack is no larger than a task's
        assert thread.submit(checked.allows, "[" * 150 + "]" * 150).result()


def test_no_pattern_keeps_a_validator_busy() -> None:
    validator = Validator(schema_of({"pattern": "^(a+)+$", "patternProperties": {"(a|a)*b": INT}}))
    begun = time.thread_time()
    assert validator.faults(json.dumps("a" * 100_000 + "!"))
    assert validator.faults(json.dumps({"a" * 100_000 + "b": "x"}))
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
    assert parse_schema(found.text) == found
    assert changes(found, schema_of({})) is not None
    with suppress(SchemaError, NotJson):
        Validator(found).faults(json.dumps(other))


@pytest.mark.drawn
@drawn(100)
@given(st.text(max_size=50))
def test_any_text_is_a_schema_or_an_error(text: str) -> None:
    found = schema_or_error(lambda: parse_schema(text))
    assert isinstance(found, Schema) or found.fix


def test_a_deep_constant_of_a_draft_that_has_none_is_an_error_when_compared() -> None:
    draft = '"$schema": "http://json-schema.org/draft-04/schema#"'
    old, new = (parse_schema(f'{{{draft}, "const": {"[" * depth}{"]" * depth}}}') for depth in (150, 140))
    with pytest.raises(SchemaError, match="const: is nested too deeply"):
        changes(new, old)


def test_a_loop_is_refused_where_its_schema_was_read_twice() -> None:
    loop = {"$ref": "#/odd/not"}
    with pytest.raises(SchemaError, match="refers to itself without end"):
        parse_schema(json.dumps({"odd": {"not": loop}, "allOf": [{"$ref": "#/odd"}, loop]}))


@pytest.mark.parametrize("more", [0, 1])
def test_too_long_a_chain_of_dynamic_references_is_refused(more: int) -> None:
    chain = {str(nth): {"$dynamicRef": f"#/$defs/{nth + 1}"} for nth in range(200)}
    last = {"200": {"$ref": "#/$defs/201"} if more else {}, "201": {}}
    with pytest.raises(SchemaError, match="nested too deeply"):
        parse_schema(
            json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": chain | last})
        )
