"""Whatever is sent as a schema gets an answer, soon: a schema, or an error that says what is wrong."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latecomer.schemas.avro import (
    Schema,
    SchemaError,
    incompatibilities,
    normalized,
    parse_schema,
    schema_of,
    self_contained,
)
from latecomer.schemas.mistakes import DEEPEST_TYPE

SOON = 120.0  # seconds: of a processor that may be lent to others; what is not bounded would take hours

TEXTS = [
    ('{"type":"array","items":' * 100_000, "has 2400000 characters"),
    ('{"type":"array","items":' * 40_000, "is nested too deeply"),
    ("[" * 100_000, "is nested too deeply"),
    ('{"type":"array","items":' * 299 + '"int"' + "}" * 299, "is nested too deeply"),
    (" " * 1_000_001, "has 1000001 characters"),
    ("[" + "0," * 250_000 + "0]", "holds too many values"),
    ('{"type":"int","x":' + "9" * 100_000 + "}", "holds a number that is too long"),
    ('{"type":"int","x":1.' + "9" * 100_000 + "}", "holds a number that is too long"),
    ('{"type":"int","x":1e999}', "is no finite number"),
    ('{"type":"int","x":NaN}', "holds NaN, which is no JSON"),
    ('{"type":"int","type":"long"}', "has the key type twice"),
    ('{"type":"int","x":[{"y":{"z":1,"z":1}}]}', "has the key z twice"),
    ('{"type":"int","doc":"\\ud800"}', "half of a surrogate pair"),
    ('{"type":"int"', "is not JSON"),
    ('"int" 5', "is not JSON"),
    ("", "is not JSON"),
    ('"' + '\\"' * 400_000, "is not JSON"),
    ("\x00", "is not JSON"),
    ('"' + "a" * 900_000 + '"', "there is no such type so far"),
    ('{"type":"enum","name":"' + "a" * 100_000 + '","symbols":[]}', "is no name"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), TEXTS, ids=[message for _, message in TEXTS])
def test_a_text_that_goes_too_far_is_refused(text: str, message: str) -> None:
    begun = time.thread_time()
    with pytest.raises(SchemaError, match=message) as outcome:
        parse_schema(text)
    assert time.thread_time() - begun < SOON
    assert len(str(outcome.value)) < 1000


def test_a_key_that_stands_twice_is_told_with_its_place() -> None:
    with pytest.raises(SchemaError, match=r"x\[0\]\.y: has the key z twice"):
        parse_schema('{"type":"int","x":[{"y":{"z":1,"z":1}}]}')


def test_python_values_that_are_no_json_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    shared: Any = 1
    for _ in range(250):
        shared = [shared, shared]
    for value in (
        endless,
        shared,
        {"type": "int", "x": {1: 2}},
        {"type": "int", "x": b""},
        float("nan"),
        ("int",),
    ):
        with pytest.raises(SchemaError):
            schema_of(value)


def nested(depth: int) -> Any:
    found: Any = "int"
    for _ in range(depth):
        found = {"type": "array", "items": found}
    return found


def test_the_deepest_schema_has_all_its_forms() -> None:
    schema = schema_of(nested(DEEPEST_TYPE))
    assert parse_schema(normalized(schema)) == schema
    assert self_contained(schema).count("array") == DEEPEST_TYPE
    assert incompatibilities(schema, schema) == []
    with pytest.raises(SchemaError, match="is nested too deeply"):
        schema_of(nested(DEEPEST_TYPE + 1))


def test_the_deepest_records_have_all_their_forms() -> None:
    found: Any = "int"
    for index in range(95):
        found = {"type": "record", "name": f"R{index}", "fields": [{"name": "f", "type": found}]}
    schema = parse_schema(json.dumps(found))
    assert parse_schema(normalized(schema)) == schema
    assert len(self_contained(schema)) > 1000


def referring(length: int) -> Schema:
    """Records of which each refers to the one before it, thirty maps deep."""
    schema = schema_of({"type": "record", "name": "R0", "fields": []})
    for index in range(1, length + 1):
        fields = [{"name": "f", "type": nested_in(f"R{index - 1}", 30)}]
        schema = schema_of(
            {"type": "record", "name": f"R{index}", "fields": fields}, {f"R{index - 1}": schema}
        )
    return schema


def test_references_do_not_lead_deeper() -> None:
    assert self_contained(referring(3)).count("map") == 90
    with pytest.raises(SchemaError, match="is nested too deeply"):
        referring(4)


def nested_in(found: Any, depth: int) -> Any:
    for _ in range(depth):
        found = {"type": "map", "values": found}
    return found


def chain(length: int, last: str) -> Schema:
    """Records of which each holds the one before it: flat as a text, deep for whoever goes through them."""
    first = {"type": "record", "name": "R0", "fields": [{"name": "f", "type": last}]}
    others = [
        {"type": "record", "name": f"R{index}", "fields": [{"name": "f", "type": f"R{index - 1}"}]}
        for index in range(1, length)
    ]
    fields = [{"name": f"f{index}", "type": each} for index, each in enumerate([first, *others])]
    return schema_of({"type": "record", "name": "All", "fields": list(fields)})


def test_a_long_chain_of_records_is_compared() -> None:
    begun = time.thread_time()
    assert incompatibilities(chain(5000, "long"), chain(5000, "int")) == []
    problems = incompatibilities(chain(5000, "int"), chain(5000, "long"))
    assert [str(problem.path[-1]) for problem in problems] == ["type"]
    assert time.thread_time() - begun < SOON


def unions(size: int) -> Schema:
    branches = [
        {
            "type": "record",
            "name": "R",
            "namespace": f"n{index}",
            "fields": [{"name": "f", "type": ["null", "R"]}],
        }
        for index in range(size)
    ]
    return schema_of(branches)


def test_what_takes_too_many_steps_to_compare_is_refused() -> None:
    begun = time.thread_time()
    with pytest.raises(SchemaError, match="takes too many steps to compare"):
        incompatibilities(unions(3000), unions(3000))
    assert time.thread_time() - begun < SOON


def test_a_default_with_many_branches_at_every_level_is_checked_soon() -> None:
    names = [f"R{index}" for index in range(12)]
    records = [
        {"type": "record", "name": name, "fields": [{"name": "f", "type": {"type": "array", "items": "int"}}]}
        for name in names
    ]
    outer: Any = records
    for level in range(6):
        inner, outer = outer, []
        for index in range(12):
            fields = [{"name": "f", "type": [each["name"] for each in inner] if index else inner}]
            outer.append({"type": "record", "name": f"L{level}x{index}", "fields": fields})
    value: Any = {"f": ["x"]}
    for _ in range(6):
        value = {"f": value}
    begun = time.thread_time()
    with pytest.raises(
        SchemaError, match=r"fields\[0\]\.default\.f\.f\.f\.f\.f\.f\.f\[0\]: does not fit its type"
    ):
        schema_of(
            {"type": "record", "name": "Ride", "fields": [{"name": "d", "type": outer, "default": value}]}
        )
    assert time.thread_time() - begun < SOON


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
    | st.sampled_from(["int", "record", "enum", "fixed", "array", "map"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["type", "name", "fields", "items", "values", "symbols", "size", "default", "aliases"]),
        inner,
        max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


def schema_or_error(read: Callable[[], Schema]) -> Schema | SchemaError:
    try:
        return read()
    except SchemaError as error:
        return error


@given(JSON)
def test_any_json_is_a_schema_or_an_error(value: Any) -> None:
    found = schema_or_error(lambda: schema_of(value))
    assert found.fix if isinstance(found, SchemaError) else parse_schema(normalized(found)) == found


@given(st.text(max_size=50))
def test_any_text_is_a_schema_or_an_error(text: str) -> None:
    found = schema_or_error(lambda: parse_schema(text))
    assert isinstance(found, Schema) or found.fix


def test_a_default_of_more_records_than_the_stack_has_room_for() -> None:
    value: Any = {"next": None}
    for _ in range(280):
        value = {"next": value}
    linked = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    fields = [{"name": "r", "type": linked}, {"name": "q", "type": "R", "default": value}]
    for strict in (True, False):
        with pytest.raises(SchemaError, match=r"fields\[1\].default: is nested too deeply"):
            schema_of({"type": "record", "name": "S", "fields": fields}, strict=strict)
