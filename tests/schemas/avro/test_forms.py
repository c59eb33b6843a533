"""Schemas as text: the normalized form."""

from __future__ import annotations

from latecomer.schemas.avro import normalized, parse_schema, schema_of, self_contained

RIDE = {
    "doc": "a ride",
    "fields": [
        {"doc": "which", "name": "id", "type": {"type": "string"}, "order": "ascending", "default": "x"},
        {"name": "fare", "type": {"namespace": "pay", "name": "Fare", "type": "fixed", "size": 4}},
        {"name": "way", "type": {"name": "Way", "type": "enum", "symbols": ["CASH"], "default": "CASH"}},
        {
            "name": "next",
            "type": ["null", "Ride"],
            "aliases": ["then"],
            "order": "ignore",
            "unit": {"b": 1, "a": 2},
        },
        {"name": "at", "type": {"logicalType": "date", "type": "int"}},
        {"name": "all", "type": {"items": {"values": "pay.Fare", "type": "map"}, "type": "array"}},
    ],
    "namespace": "city",
    "aliases": ["Trip"],
    "name": "Ride",
    "type": "error",
}


def test_the_normalized_form_keeps_all_but_the_layout() -> None:
    assert normalized(schema_of(RIDE)) == (
        '{"type":"error","name":"city.Ride","doc":"a ride","aliases":["city.Trip"],"fields":['
        '{"name":"id","type":"string","default":"x","doc":"which"},'
        '{"name":"fare","type":{"type":"fixed","name":"pay.Fare","size":4}},'
        '{"name":"way","type":{"type":"enum","name":"city.Way","symbols":["CASH"],"default":"CASH"}},'
        '{"name":"next","type":["null","city.Ride"],"order":"ignore","aliases":["then"],"unit":{"a":2,"b":1}},'
        '{"name":"at","type":{"type":"int","logicalType":"date"}},'
        '{"name":"all","type":{"type":"array","items":{"type":"map","values":"pay.Fare"}}}]}'
    )


def test_a_type_without_namespace_stays_without_one() -> None:
    inner = {"type": "fixed", "name": "Id", "namespace": "", "size": 1}
    schema = schema_of({"type": "record", "name": "a.Ride", "fields": [{"name": "f", "type": inner}]})
    assert '"name":"Id","namespace":""' in normalized(schema)
    assert parse_schema(normalized(schema)) == schema


def test_types_of_other_schemas_are_written_out_where_that_is_asked_for() -> None:
    fare = schema_of({"type": "fixed", "name": "pay.Fare", "size": 4})
    schema = schema_of(["pay.Fare", {"type": "array", "items": "pay.Fare"}], {"pay.Fare": fare})
    assert normalized(schema) == '["pay.Fare",{"type":"array","items":"pay.Fare"}]'
    inner = '{"type":"fixed","name":"pay.Fare","size":4}'
    assert self_contained(schema) == f'[{inner},{{"type":"array","items":"pay.Fare"}}]'
    assert parse_schema(normalized(schema), {"pay.Fare": fare}) == schema
