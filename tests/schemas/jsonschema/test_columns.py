"""The columns of records that fit a JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.schemas.jsonschema import SchemaError, columns_of, schema_of
from latecomer.schemas.jsonschema.object_columns import MOST_FIELDS

ITEM = {"type": "object", "properties": {"sku": {"type": "string"}, "n": {"type": "integer"}}}


def columns(**properties: Any) -> dict[str, str]:
    return columns_of(schema_of({"$defs": {"item": ITEM}, "type": "object", "properties": properties}))


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string", "format": "date-time"}, "string"),
        ({"type": ["integer", "null"]}, "bigint"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "number"}, "double"),
        ({"type": "number", "multipleOf": 0.01}, "decimal(18,2)"),
        ({"type": "number", "multipleOf": 5}, "double"),
        ({"enum": ["CASH", "CARD", None]}, "string"),
        ({"const": 7}, "bigint"),
        ({"enum": ["CASH", 1]}, "string"),
        ({"type": ["string", "integer"]}, "string"),
        ({}, "string"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "bigint"),
        ({"oneOf": [{"type": "string", "minLength": 2}, {"type": "string", "const": ""}]}, "string"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "string"),
        ({"allOf": [{"type": "number"}, {"multipleOf": 0.001}]}, "decimal(18,3)"),
        ({"type": "array", "items": {"type": ["string", "null"]}}, "array<string>"),
        ({"type": "array", "items": {"$ref": "#/$defs/item"}}, "array<struct<sku:string,n:bigint>>"),
        ({"type": "array", "items": {"type": ["string", "integer"]}}, "string"),
        ({"type": "array", "items": {}}, "string"),
        ({"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "string"}}, "string"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "map<string,bigint>"),
        ({"type": "object"}, "string"),
        ({"oneOf": [ITEM, {"type": "object", "properties": {"id": {"type": "string"}}}]}, "string"),
    ],
    ids=str,
)
def test_types_of_columns(schema: Any, kind: str) -> None:
    assert columns(a=schema) == {"a": kind}


def test_fields_of_objects_are_columns() -> None:
    both = {"allOf": [{"$ref": "#/$defs/item"}, {"properties": {"tax": {"type": "number"}}}]}
    found = columns(item={"oneOf": [{"type": "null"}, both]}, nothing={"type": "null"}, never=False)
    assert found == {"item.sku": "string", "item.n": "bigint", "item.tax": "double"}


def test_an_object_that_leads_back_to_itself_is_text() -> None:
    node: Any = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}
    tree = {"type": "array", "items": {"$ref": "#/$defs/node"}}
    schema = {"$defs": {"node": node}, "properties": {"list": {"$ref": "#/$defs/node"}, "tree": tree}}
    assert columns_of(schema_of(schema)) == {"list.v": "bigint", "list.next": "string", "tree": "string"}


def test_what_has_no_columns_or_too_many_is_refused() -> None:
    for schema in ({"type": "string"}, {}, {"type": "array", "items": ITEM}):
        with pytest.raises(SchemaError, match="has no property that could be a column"):
            columns_of(schema_of(schema))
    kinds: dict[str, Any] = {
        f"d{nth}": {
            "type": "object",
            "properties": {f"p{each}": {"$ref": f"#/$defs/d{nth + 1}"} for each in range(20)},
        }
        for nth in range(6)
    }
    kinds["d6"] = {"type": "integer"}
    with pytest.raises(SchemaError, match=f"has more than {MOST_FIELDS} fields"):
        columns_of(schema_of({"$defs": kinds, "$ref": "#/$defs/d0"}))
