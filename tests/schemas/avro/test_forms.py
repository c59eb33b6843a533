"""Schemas as text: the canonical form, its fingerprints, the normalized form."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.schemas.avro import canonical_form, fingerprint, normalized, parse_schema, schema_of, sha256

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


def test_the_canonical_form_keeps_what_data_needs() -> None:
    assert canonical_form(schema_of(RIDE)) == (
        '{"name":"city.Ride","type":"record","fields":[{"name":"id","type":"string"},'
        '{"name":"fare","type":{"name":"pay.Fare","type":"fixed","size":4}},'
        '{"name":"way","type":{"name":"city.Way","type":"enum","symbols":["CASH"]}},'
        '{"name":"next","type":["null","city.Ride"]},{"name":"at","type":"int"},'
        '{"name":"all","type":{"type":"array","items":{"type":"map","values":"pay.Fare"}}}]}'
    )


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


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("null", 0x63DD24E7CC258F8A),
        ("int", 0x7275D51A3F395C8F),
        ({"type": "int", "logicalType": "date"}, 0x7275D51A3F395C8F),
    ],
)
def test_the_fingerprint_is_that_of_the_specification(schema: Any, expected: int) -> None:
    assert fingerprint(schema_of(schema)) == expected


def test_sha256_is_that_of_the_canonical_form() -> None:
    known = "3f2b87a9fe7cc9b13835598c3981cd45e3e355309e5090aa0933d7becb6fba45"  # printf '"int"' | sha256sum
    assert sha256(schema_of({"type": "int", "doc": "a number"})) == known


def test_types_of_other_schemas_are_written_out_in_the_canonical_form_alone() -> None:
    fare = schema_of({"type": "fixed", "name": "pay.Fare", "size": 4})
    schema = schema_of(["pay.Fare", {"type": "array", "items": "pay.Fare"}], {"pay.Fare": fare})
    assert normalized(schema) == '["pay.Fare",{"type":"array","items":"pay.Fare"}]'
    inner = '{"name":"pay.Fare","type":"fixed","size":4}'
    assert canonical_form(schema) == f'[{inner},{{"type":"array","items":"pay.Fare"}}]'
    assert parse_schema(normalized(schema), {"pay.Fare": fare}) == schema
