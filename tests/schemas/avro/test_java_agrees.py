"""Held against Avro's Java library, which is among Spark's jars: 150 pairs in `make test`, 1,000 in `make test-long`.

Where the two differ on purpose is listed here and in ADR 0042, with the reason.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession

from avro_data import DataMaker, number
from avro_judge import JavaAvro
from avro_kit import MISLEADING, broken, pairs
from examples_kit import usual
from latecomer.schemas.avro import (
    Schema,
    SchemaError,
    incompatibilities,
    normalized,
    parse_schema,
    schema_of,
)
from latecomer.schemas.avro.naming import simple_name
from latecomer.schemas.avro.types import Enum, Json, Record, TypeReference, Union, parts
from latecomer.schemas.mistakes import Incompatibility

few = settings(usual, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
many = settings(few, max_examples=1000, derandomize=False)

STRICTER = {
    "is no text": "Java passes over a doc or a namespace that is no text",
    "is no name": "Java takes a name that begins with a dot, any alias of a field, any namespace of an alias",
    "is none of the symbols": "Java passes over a default of an enum that is no text",
    "is no order": "Java takes an order in capital letters",
    "does not fit its type": "Java takes any text as the default of an enum, a fixed or bytes, and any number "
    "for a float or double; and a default of a union that its reader takes for another branch",
    "there is no such type so far": "Java takes a name that is defined after its use",
    "is defined already in this schema": "Java takes a second definition that is equal to the first",
    "holds a whole number that is too large": "Java keeps it at some places and fails at others",
}
"""What is refused here and read by Java: the message → why."""
STRICTER_BEGINNINGS = (
    "would be checked against",  # Java reads the schema, and overflows its stack when it needs the default
    "may be ",  # Java takes another type than the specification means
)


@pytest.fixture(scope="module")
def java(spark: SparkSession) -> JavaAvro:
    return JavaAvro(spark._jvm)


def records(schema: Schema) -> list[Record]:
    return [each for each in schema.names.values() if isinstance(each, Record)]


def may_stand_for_several(reader: Schema, writer: Schema) -> bool:
    """Whether a reader's field has two names that a writer's record has: Java fails with an exception, also where the
    field is in a branch that is not needed, or where its alias is its own name."""
    written = [{field.name for field in each.fields} for each in records(writer)]
    names = [(field.name, *field.aliases) for each in records(reader) for field in each.fields]
    return any(sum(name in each for name in several) > 1 for each in written for several in names)


def location(problem: Incompatibility) -> str:
    """The place as Java writes it: /fields/2/type."""
    return "/" + "/".join(map(str, problem.path))


def as_java_tells(problem: Incompatibility, outcome: frozenset[tuple[str, str]]) -> tuple[str, str]:
    """A missing field of an enum with a default is a TYPE_MISMATCH to Java: it compares the enum with the record."""
    found = (problem.rule, location(problem))
    if problem.rule == "READER_FIELD_MISSING_DEFAULT_VALUE" and found not in outcome:
        return "TYPE_MISMATCH", f"{location(problem)}/type"
    return found


def has_unions(schema: Schema) -> bool:
    trees = (schema.root, *schema.external)
    return any(isinstance(each, Union) for tree in trees for each in parts(tree))


def agree(java: JavaAvro, reader: Any, writer: Any) -> None:
    ours, theirs = (schema_of(reader), schema_of(writer)), (java.parse(reader), java.parse(writer))
    for one, other in zip(ours, theirs, strict=True):
        assert other is not None, "Java refuses it"
        same = java.parse(json.loads(normalized(one)))
        assert java.canonical_form(same) == java.canonical_form(other)
    found, verdict = incompatibilities(*ours), java.compare(*theirs)
    if verdict.found is None:
        assert "matches multiple fields" in verdict.exception
        assert may_stand_for_several(*ours)
        return
    assert bool(found) == bool(verdict.found)
    outcome = {as_java_tells(each, verdict.found) for each in found}
    if not has_unions(ours[0]) and not has_unions(ours[1]):
        own = {(each.rule, location(each)) for each in found}
        assert (
            own & outcome <= verdict.found <= outcome
        )  # two missing fields of one enum have one place in Java
    else:  # Java takes a record for readable while it looks into it, and loses the way to what it looked at in a union
        assert {rule for rule, _ in verdict.found} <= {rule for rule, _ in outcome}


@few
@given(pair=pairs())
def test_the_same_answer_and_form(java: JavaAvro, pair: tuple[Any, Any]) -> None:
    agree(java, *pair)


@pytest.mark.long
@many
@given(pair=pairs())
def test_the_same_answer_and_form_for_many(java: JavaAvro, pair: tuple[Any, Any]) -> None:
    agree(java, *pair)


# What is no schema


def refusal(schema: Any) -> SchemaError | None:
    try:
        schema_of(schema)
    except SchemaError as error:
        return error
    return None


def is_stricter(error: SchemaError) -> bool:
    return error.message in STRICTER or error.message.startswith(STRICTER_BEGINNINGS)


def refuse_alike(java: JavaAvro, schema: Any) -> None:
    error = refusal(schema)
    if error is None or not is_stricter(error):
        assert (java.parse(schema) is None) == (error is not None), error


@few
@given(schema=broken())
def test_what_is_no_schema_here_is_none_in_java(java: JavaAvro, schema: Any) -> None:
    refuse_alike(java, schema)


@pytest.mark.long
@many
@given(schema=broken())
def test_what_is_no_schema_here_is_none_in_java_for_many(java: JavaAvro, schema: Any) -> None:
    refuse_alike(java, schema)


def record(*fields: Any, **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Ride", "fields": [{"name": "f", **each} for each in fields], **others}


ID = {"type": "fixed", "name": "Id", "size": 2}
WAY = {"type": "enum", "name": "Way", "symbols": ["CASH"]}
DIFFERENT = [
    record(doc=5),
    record(namespace=5),
    {**ID, "name": ".Id"},
    record({"type": "int", "aliases": ["a b"]}),
    {**WAY, "default": 5},
    record({"type": "int", "order": "Ignore"}),
    record({"type": WAY, "default": "UPI"}),
    record({"type": ID, "default": "abc"}),
    record({"type": "bytes", "default": "€"}),
    record({"type": "double", "default": 10**400}),
    record({"type": "double", "default": "1.5"}),
    record({"type": ["long", "double"], "default": 1.5}),
    record({"type": [{"type": "map", "values": "int"}, "null"], "default": None}),
    record({"type": "Id"}, {"name": "g", "type": ID}),
    record({"type": ID}, {"name": "g", "type": ID}),
    record({"type": ["Ride", "boolean"], "default": True}),
    record({"type": {**ID, "name": "Ride", "namespace": ""}}, {"name": "g", "type": "Ride"}, namespace="a"),
]


@pytest.mark.parametrize("schema", DIFFERENT, ids=str)
def test_java_reads_what_is_refused_here_on_purpose(java: JavaAvro, schema: Any) -> None:
    assert java.parse(schema) is not None
    error = refusal(schema)
    assert error is not None
    assert is_stricter(error)


def test_java_takes_the_last_of_two_keys_and_goes_deeper(java: JavaAvro) -> None:
    deep = '{"type":"array","items":' * 150 + '"int"' + "}" * 150
    for text in ('{"type":"int","type":"long"}', deep, '/* a */ "int"'):
        assert java.parse_text(text) is not None
        with pytest.raises(SchemaError):
            parse_schema(text)


# Data


def aliases_are_clear(reader: Schema, writer: Schema) -> bool:
    """Java renames every type and field of the writer's that an alias names, also where the reader has one of that
    name."""
    aliases = [alias for each in reader.names.values() for alias in each.aliases]
    is_clear = len(aliases) == len(set(aliases)) and not set(aliases) & set(reader.names)
    for each in records(reader):
        names = [name for field in each.fields for name in (field.name, *field.aliases)]
        is_clear = is_clear and len(names) == len(set(names))
    return is_clear and not may_stand_for_several(reader, writer)


def names_are_clear(schema: Schema) -> bool:
    """To Java's checker `a.Ride` and `b.Ride` are one; its reader tells them apart by their namespaces."""
    return len({simple_name(name) for name in schema.names}) == len(schema.names)


def has_an_empty_list_in_a_union(reader: Schema) -> bool:
    """Java's fast reader cannot make that default: it asks the union for the type of its items."""
    fields = [field for each in records(reader) for field in each.fields if field.default is not None]
    return any(isinstance(field.type, Union) and field.default == Json.of([]) for field in fields)


def has_null_beside_an_enum(reader: Schema) -> bool:
    """Java's fast reader writes a default for the first branch of a union: `null` is no symbol of an enum."""

    def begins_with_an_enum(union: Union) -> bool:
        first = union.branches[0]
        return isinstance(reader.names[first.name] if isinstance(first, TypeReference) else first, Enum)

    fields = [field for each in records(reader) for field in each.fields if field.default == Json.of(None)]
    return any(isinstance(field.type, Union) and begins_with_an_enum(field.type) for field in fields)


def read_what_can_be_read(java: JavaAvro, reader: Any, writer: Any) -> None:
    ours = schema_of(reader), schema_of(writer)
    maker = DataMaker(ours[1], seed=7)
    if (
        has_an_empty_list_in_a_union(ours[0])
        or has_null_beside_an_enum(ours[0])
        or not aliases_are_clear(*ours)
        or not all(map(names_are_clear, ours))
    ):
        return
    if maker.is_possible() and not incompatibilities(*ours):
        data = b"".join(maker.datum() for _ in range(3))
        assert java.read(java.parse(reader), java.parse(writer), data, 3) == ""


@few
@given(pair=pairs())
def test_data_of_a_schema_that_can_be_read_is_read(java: JavaAvro, pair: tuple[Any, Any]) -> None:
    read_what_can_be_read(java, *pair)


@pytest.mark.long
@many
@given(pair=pairs())
def test_data_of_a_schema_that_can_be_read_is_read_for_many(java: JavaAvro, pair: tuple[Any, Any]) -> None:
    read_what_can_be_read(java, *pair)


def test_java_takes_a_pair_for_readable_that_it_cannot_read(java: JavaAvro) -> None:
    """It takes `n.A` for readable while it looks into it, keeps what follows from that, and comes back to it."""
    reader, writer = map(java.parse, MISLEADING)
    assert java.compare(reader, writer).found == frozenset()
    data = number(0) + number(1) + number(0)  # y holds an A that holds a Q
    assert java.read(writer, writer, data, 1) == ""
    assert java.read(reader, writer, data, 1) != ""
    assert incompatibilities(*map(schema_of, MISLEADING))
