"""Whether one schema reads what another wrote: an example for every rule, with what people are told."""

from __future__ import annotations

from typing import Any

import pytest

from avro_kit import MISLEADING
from latecomer.schemas.avro import incompatibilities, schema_of
from latecomer.schemas.avro.types import PRIMITIVES
from latecomer.schemas.mistakes import Incompatibility


def record(*fields: Any, **others: Any) -> dict[str, Any]:
    return {"type": "record", "name": "Ride", "fields": list(fields), **others}


def field(found: Any, name: str = "f", **others: Any) -> dict[str, Any]:
    return {"name": name, "type": found, **others}


def fixed(name: str, size: int, **others: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **others}


def enum(*symbols: str, **others: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "Way", "symbols": list(symbols), **others}


def outcome_of(reader: Any, writer: Any) -> list[str]:
    return [str(problem) for problem in incompatibilities(schema_of(reader), schema_of(writer))]


PROMOTED = {("int", to) for to in ("long", "float", "double")} | {("long", "float"), ("long", "double")}
PROMOTED |= {("float", "double"), ("string", "bytes"), ("bytes", "string")}


def location(problem: Incompatibility) -> str:
    return "/" + "/".join(map(str, problem.path))


@pytest.mark.parametrize("writer", PRIMITIVES)
@pytest.mark.parametrize("reader", PRIMITIVES)
def test_primitives_are_promoted_as_the_specification_says(reader: str, writer: str) -> None:
    found = incompatibilities(schema_of(reader), schema_of(writer))
    reads = reader == writer or (writer, reader) in PROMOTED
    assert [each.rule for each in found] == ([] if reads else ["TYPE_MISMATCH"])


READ: list[tuple[Any, Any]] = [
    (record(), record(field("int"))),
    (record(field("int", default=1)), record()),
    (record(field("int", default=1)), record(field("int"))),
    (record(field("null", default=None)), record()),
    (record(field("long")), record(field("int"))),
    (record(field("int", "b"), field("int", "a")), record(field("int", "a"), field("int", "b"))),
    (record(field("int", "new", aliases=["f"])), record(field("int"))),
    (record(name="Trip", aliases=["Ride"]), record()),
    (record(name="a.Trip", aliases=["b.Ride"]), record(name="b.Ride")),
    (record(name="a.Ride"), record(name="b.Ride")),
    ({**record(), "type": "error"}, record()),
    (enum("A", "B"), enum("B")),
    (enum("A", default="A"), enum("B", "C")),
    (fixed("Id", 4, aliases=["Key"]), fixed("Key", 4)),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
    ({"type": "map", "values": "long"}, {"type": "map", "values": "int"}),
    (["null", "int"], "int"),
    (["null", "long"], "int"),
    (["null", "string"], ["string"]),
    (["null", "string", "int"], ["string", "null"]),
    ("long", ["int", "long"]),
    ("int", []),
    ({"type": "int", "logicalType": "date"}, "int"),
    (record(field(["null", "Ride"])), record(field(["null", "Ride"]))),
    (record(field(["null", "Ride"]), field("long", "n")), record(field(["null", "Ride"]), field("int", "n"))),
]


@pytest.mark.parametrize(("reader", "writer"), READ)
def test_what_can_be_read(reader: Any, writer: Any) -> None:
    assert outcome_of(reader, writer) == []


NOT_READ: list[tuple[Any, Any, list[str]]] = [
    (
        "int",
        "string",
        ["the schema: string is written, and int is read (TYPE_MISMATCH); read string or bytes"],
    ),
    (
        record(),
        {"type": "map", "values": "int"},
        ["the schema: map is written, and record Ride is read (TYPE_MISMATCH); read map"],
    ),
    (
        record(name="Trip"),
        record(),
        [
            "name: record Ride is written, and record Trip is read (NAME_MISMATCH); "
            "keep the name Ride, or give the reader's record the alias Ride"
        ],
    ),
    (
        fixed("Id", 4),
        fixed("Id", 8),
        [
            "size: 8 bytes are written, and 4 are read (FIXED_SIZE_MISMATCH); "
            "keep the size 8, or add a field with the new type beside this one"
        ],
    ),
    (
        enum("A"),
        enum("A", "C", "B"),
        [
            "symbols: B, C may be written, and the reader's enum Way has no such symbol (MISSING_ENUM_SYMBOLS); "
            "keep the symbols that are written, or give the reader's enum a default"
        ],
    ),
    (
        record(field("int", "a"), field("int", "b")),
        record(field("int", "a"), field("int", "old")),
        [
            "fields[1]: the field b is read; it is not written, and it has no default "
            "(READER_FIELD_MISSING_DEFAULT_VALUE); "
            "give it a default, or an alias if it was written under another name: old"
        ],
    ),
    (
        record(field(enum("A", default="A"))),
        record(),
        [
            "fields[0]: the field f is read; it is not written, and it has no default "
            "(READER_FIELD_MISSING_DEFAULT_VALUE); give it a default"
        ],
    ),
    (
        ["null", "int"],
        "string",
        [
            "the schema: string is written, and no branch of the reader's union of null, int can read it "
            "(MISSING_UNION_BRANCH); add string to the reader's union"
        ],
    ),
    (
        record(field(["null", "string"])),
        record(field(["null", "string", "int"])),
        [
            "fields[0].type[2]: int is written, and no branch of the reader's union of null, string can read it "
            "(MISSING_UNION_BRANCH); add int to the reader's union"
        ],
    ),
    (
        record(field("string")),
        record(field(["null", "string"])),
        ["fields[0].type[0]: null is written, and string is read (TYPE_MISMATCH); read null"],
    ),
    (
        ["null", record(field("int"), field("int", "g"))],
        record(field("int")),
        [
            "the schema: record Ride is written, and no branch of the reader's union of null, record Ride can read "
            "it: [1].fields[1]: the field g is read; it is not written, and it has no default "
            "(READER_FIELD_MISSING_DEFAULT_VALUE); give it a default (MISSING_UNION_BRANCH); "
            "correct that, or keep the branch as the writer has it"
        ],
    ),
    (
        record(field("int", "new", aliases=["a", "b"])),
        record(field("int", "a"), field("int", "b")),
        [
            "fields[0].aliases: the field new stands for a and b, which are all written (NAME_MISMATCH); "
            "leave all but one name or alias out"
        ],
    ),
]


@pytest.mark.parametrize(("reader", "writer", "expected"), NOT_READ)
def test_what_cannot_be_read_is_told_with_its_place_its_rule_and_what_would_pass(
    reader: Any, writer: Any, expected: list[str]
) -> None:
    assert outcome_of(reader, writer) == expected


def test_an_alias_is_proposed_only_where_it_would_pass() -> None:
    """Within a namespace it cannot name a type that has none."""
    (problem,) = outcome_of(record(name="shop.Trip"), record())
    assert problem.endswith("keep the name Ride")
    assert outcome_of(record(name="shop.Trip", aliases=["Ride"]), record())
    assert "the alias b.Ride" in outcome_of(record(name="shop.Trip"), record(name="b.Ride"))[0]


def test_aliases_are_the_readers() -> None:
    assert outcome_of(record(), record(name="Trip", aliases=["Ride"]))
    assert outcome_of(record(field("int", "new")), record(field("int", aliases=["new"])))


def test_every_problem_is_told_in_the_order_of_the_schema() -> None:
    reader = record(
        field({"type": "array", "items": {"type": "map", "values": "int"}}, "a"),
        field("int", "b"),
        field("int", "c"),
    )
    writer = record(
        field({"type": "array", "items": {"type": "map", "values": "long"}}, "a"), field("null", "c")
    )
    found = incompatibilities(schema_of({**reader, "name": "Trip"}), schema_of(writer))
    assert [location(each) for each in found] == [
        "/name",
        "/fields/0/type/items/values",
        "/fields/1",
        "/fields/2/type",
    ]


def test_a_problem_within_a_recursive_type_is_told_once() -> None:
    reader = record(field("int", "n"), field({"type": "array", "items": "Ride"}))
    writer = record(field("long", "n"), field({"type": "array", "items": "Ride"}))
    found = incompatibilities(schema_of(reader), schema_of(writer))
    assert [location(each) for each in found] == ["/fields/0/type"]


def test_what_depends_on_a_record_that_cannot_be_read_cannot_be_read() -> None:
    """Java says that it can: tests/schemas/avro/test_java_agrees.py."""
    found = incompatibilities(schema_of(MISLEADING[0]), schema_of(MISLEADING[1]))
    assert [(each.rule, location(each)) for each in found] == [
        ("MISSING_UNION_BRANCH", "/fields/1/type/fields/0/type/1")
    ]
    assert "[1].fields[1]: the field n is read; it is not written, and it has no default" in found[0].message


def test_types_of_other_schemas_are_compared() -> None:
    old, new = schema_of(fixed("Id", 4)), schema_of(fixed("Id", 8))
    found = incompatibilities(schema_of(["Id"], {"Id": new}), schema_of(["Id"], {"Id": old}))
    assert [each.rule for each in found] == ["MISSING_UNION_BRANCH"]
