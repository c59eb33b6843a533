"""What holds of every schema."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from avro_kit import broken, changed, places, schemas
from latecomer.schemas.avro import (
    SchemaError,
    incompatibilities,
    normalized,
    parse_schema,
    schema_of,
    self_contained,
)
from latecomer.schemas.levels import Level, breaches


@given(schemas())
def test_a_schema_reads_itself(schema: Any) -> None:
    """But for a field whose alias is another field's name or alias: it would stand for both of them."""
    problems = incompatibilities(schema_of(schema), schema_of(copy.deepcopy(schema)))
    if not any(map(names_one_twice, records_in(schema))):
        assert problems == []


def records_in(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if "fields" in schema:
            yield schema
        for value in schema.values():
            yield from records_in(value)
    elif isinstance(schema, list):
        for each in schema:
            yield from records_in(each)


def names_one_twice(record: dict[str, Any]) -> bool:
    names = [name for field in record["fields"] for name in {field["name"], *field.get("aliases", [])}]
    return len(names) != len(set(names))


@given(schemas())
def test_the_normalized_form_is_the_same_schema(schema: Any) -> None:
    found = schema_of(schema)
    assert parse_schema(normalized(found)) == found
    assert hash(parse_schema(normalized(found))) == hash(found)


@given(schemas())
def test_a_form_of_a_form_is_the_form(schema: Any) -> None:
    found = schema_of(schema)
    assert normalized(parse_schema(normalized(found))) == normalized(found)


def shuffled(value: Any) -> Any:
    """The same JSON with the keys of every object the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(value)}
    return [shuffled(each) for each in value] if isinstance(value, list) else value


@given(schemas(), st.sampled_from((None, 1, 4)))
def test_layout_is_of_no_importance(schema: Any, indent: int | None) -> None:
    other = parse_schema(json.dumps(shuffled(schema), indent=indent))
    assert other == schema_of(schema)
    assert normalized(other) == normalized(schema_of(schema))


def stripped(schema: Any) -> Any:
    """A schema without docs, aliases, defaults and all else that data does not need."""
    holder = {"root": copy.deepcopy(schema)}
    for inside, key in list(places(holder["root"])):
        if isinstance(inside.get(key) if isinstance(inside, dict) else inside[key], dict):
            for name in ("doc", "aliases", "default", "x-owner", "logicalType"):
                inside[key].pop(name, None)
            for field in inside[key].get("fields", []):
                for name in ("doc", "aliases", "default", "order"):
                    field.pop(name, None)
    return holder["root"]


@given(schemas().flatmap(lambda schema: st.tuples(st.just(schema), changed(schema))))
def test_full_is_backward_and_forward(pair: tuple[Any, Any]) -> None:
    new, versions = schema_of(pair[0]), {1: schema_of(pair[1])}
    backward, forward, full = (
        breaches(incompatibilities, new, versions, level)
        for level in (Level.BACKWARD, Level.FORWARD, Level.FULL)
    )
    assert full == backward + forward
    reads_old, old_reads = incompatibilities(new, versions[1]), incompatibilities(versions[1], new)
    assert [each.text.partition(": ")[2] for each in full] == [str(each) for each in (*reads_old, *old_reads)]


# What other registries hold


@given(schemas())
def test_what_the_specification_allows_is_the_same_to_all(schema: Any) -> None:
    assert schema_of(schema, strict=False) == schema_of(schema)


@given(broken())
def test_what_it_forbids_is_refused_or_has_a_form_of_its_own(schema: Any) -> None:
    try:
        found = schema_of(schema, strict=False)
    except SchemaError:
        return
    assert parse_schema(normalized(found), strict=False) == found
    assert parse_schema(self_contained(found), strict=False) == found
