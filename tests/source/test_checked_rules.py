"""Rules of JSON Schema that are checked for many records at once: what is taken so is valid, and sure to be."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.schemas.jsonschema import schema_of
from latecomer.source.decode.arrow_checked import RecordRules
from latecomer.source.decode.typed_columns import NotPlain
from source.checked_kit import COLUMNS


def listed(properties: dict[str, Any], **more: Any) -> RecordRules:
    return RecordRules.of(schema_of({"type": "object", "properties": properties, **more}), COLUMNS, "ignore")


@pytest.mark.parametrize(
    ("rules", "fine", "not_sure"),
    [
        ({"share": {"type": "number", "minimum": 0}}, ["0", "-0.0", "0.1"], ["-0.1", "-1e-300"]),
        ({"share": {"type": "number", "maximum": 5}}, ["4.9", "0"], ["5", "5.0000000000000000001", "6"]),
        ({"share": {"type": "number", "minimum": 0.1}}, ["0.2"], ["0.1", "0.09999999999999999999"]),
        (
            {"fee": {"type": "number", "minimum": 0.1, "multipleOf": 0.01}},
            ["0.1", "0.10", "7"],
            ["0.09", "0.105"],
        ),
        ({"paise": {"type": "integer", "exclusiveMinimum": 0}}, ["1"], ["0", "1.0"]),
        ({"paise": {"type": "integer", "minimum": 0.5, "multipleOf": 3}}, ["3", "6"], ["4", "0"]),
        ({"paise": {"enum": [5, 7.0]}}, ["5", "7"], ["6", "7.0"]),
        ({"shop": {"type": "string", "maxLength": 2}}, ['"é😀"', '"ab"'], ['"abc"', "1"]),
        ({"shop": {"type": ["string", "null"]}}, ['"a"', "null"], ["1"]),
        ({"shop": {"type": "string"}}, ['"a"'], ["null"]),
        ({"ok": {"const": True}}, ["true"], ["false"]),
    ],
)
def test_each_rule(rules: dict[str, Any], fine: list[str], not_sure: list[str]) -> None:
    (name,) = rules
    made = listed(rules)
    for value in fine:
        assert made.read([f'{{"{name}":{value}}}'.encode()]).num_rows == 1
    for value in not_sure:
        with pytest.raises(NotPlain):
            made.read([f'{{"{name}":{value}}}'.encode()])


def test_what_is_required_and_what_may_not_be_there() -> None:
    text = {"shop": {"type": "string"}}
    required = listed(text, required=["shop"])
    with pytest.raises(NotPlain):
        required.read([b'{"shop":"a"}', b"{}"])
    closed = listed(text, additionalProperties=False)
    assert closed.read([b'{"shop":"a"}', b"{}"]).column("shop").to_pylist() == ["a", None]
    for more in (b'{"shop":"a","paise":null}', b'{"pai\\u0073e":null}', b'{"other":1}', b'{"paise":1}'):
        with pytest.raises(NotPlain):
            closed.read([more])
    assert listed(text).read([b'{"shop":"a","other":1,"paise":5}']).column("paise").to_pylist() == [5]
    extra = listed({"other": {"type": "integer", "maximum": 3}})
    assert extra.read([b'{"other":3}']).column_names == list(COLUMNS)
    with pytest.raises(NotPlain):
        extra.read([b'{"other":4}'])


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"shop": {"pattern": "^a$"}}},
        {"properties": {"shop": {"type": "string", "not": {"const": "x"}}}},
        {"properties": {"paise": {"type": "string"}}},
        {"properties": {"at": {"type": "string", "maxLength": 20}}},
        {"properties": {"tags": {"type": "array"}}},
        {"properties": {"x": {"type": ["string", "integer"]}}},
        {"anyOf": [{"required": ["shop"]}]},
        {"minProperties": 1},
        {"required": ["x"]},
        {"additionalProperties": {"type": "string"}},
        {"properties": {"x": {}}, "additionalProperties": False},
        {"properties": {"share": {"type": "number", "multipleOf": 0.1}}},
        {"properties": {"share": {"type": "number", "maximum": 10**400}}},
    ],
)
def test_schemas_whose_records_are_looked_at_one_by_one(schema: dict[str, Any]) -> None:
    with pytest.raises(NotPlain):
        RecordRules.of(schema_of({"type": "object", **schema}), COLUMNS, "ignore")
