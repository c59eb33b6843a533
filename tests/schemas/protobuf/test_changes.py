"""What Confluent's registry lets one Protobuf schema change into: facts, each as two schemas and a verdict."""

from __future__ import annotations

import pytest

from latecomer.schemas import Level
from latecomer.schemas.levels import breaches
from latecomer.schemas.protobuf import Schema, changes, parse_schema

STATE = "enum S { ON = 0; OFF = 1; }"
HOME = "message Home { int32 id = 1; bool on = 2; }"
OTHER_HOME = "message Home { string id = 1; bool on = 2; }"

FACTS: list[tuple[str, str, list[str]]] = [
    # bodies of a message M, or whole files: before, after, what is refused of the change
    ("string a = 1;", "string a = 1; string b = 2;", []),
    ("string a = 1; string b = 2;", "string a = 1;", []),
    ("string a = 1;", "string a = 2;", []),
    ("string a = 1;", "string other = 1;", []),
    ("int32 a = 1;", "int64 a = 1;", []),
    ("int64 a = 1;", "int32 a = 1;", []),
    ("uint64 a = 1;", "bool a = 1;", []),
    ("sint32 a = 1;", "sint64 a = 1;", []),
    ("fixed32 a = 1;", "sfixed32 a = 1;", []),
    ("fixed64 a = 1;", "sfixed64 a = 1;", []),
    ("string a = 1;", "bytes a = 1;", []),
    ("int32 a = 1;", "string a = 1;", ["FIELD_SCALAR_KIND_CHANGED M.1"]),
    ("int32 a = 1;", "sint32 a = 1;", ["FIELD_SCALAR_KIND_CHANGED M.1"]),
    ("fixed32 a = 1;", "fixed64 a = 1;", ["FIELD_SCALAR_KIND_CHANGED M.1"]),
    ("float a = 1;", "double a = 1;", ["FIELD_SCALAR_KIND_CHANGED M.1"]),
    ("int32 a = 1;", f"S a = 1; {STATE}", []),
    (f"S a = 1; {STATE}", "int32 a = 1;", []),
    (f"S a = 1; {STATE}", "S a = 1; enum S { ON = 0; GONE = 1; LATER = 2; }", []),
    ("int32 a = 1;", f"Home a = 1; {HOME}", ["FIELD_KIND_CHANGED M.1"]),
    (f"Home a = 1; {HOME}", "int32 a = 1;", ["FIELD_KIND_CHANGED M.1", "MESSAGE_REMOVED M.Home"]),
    (
        f"Home a = 1; {HOME}",
        f"Home a = 1; {OTHER_HOME}",
        ["FIELD_SCALAR_KIND_CHANGED M.Home.1", "FIELD_NAMED_TYPE_CHANGED M.1"],
    ),
    (
        f"Home a = 1; {HOME}",
        "Flat a = 1; message Flat { int32 id = 1; }",
        ["FIELD_NAMED_TYPE_CHANGED M.1", "MESSAGE_REMOVED M.Home"],
    ),
    (f"Home a = 1; {HOME}", f".M.Home a = 1; {HOME}", []),
    ("map<string, int32> a = 1;", "map<string, string> a = 1;", ["FIELD_SCALAR_KIND_CHANGED M.1"]),
    ("map<string, int32> a = 1;", "map<int32, int32> a = 1;", ["FIELD_SCALAR_KIND_CHANGED M.1"]),
    ("map<string, int32> a = 1;", "map<string, int64> b = 1;", []),
    ("map<string, int32> a = 1;", "repeated int32 a = 1;", ["FIELD_KIND_CHANGED M.1"]),
    ("map<string, int32> a = 1;", "string b = 2;", []),  # what a map is written as is no message of its own
    (f"map<string, Home> a = 1; {HOME}", f"map<string, M.Home> a = 1; {HOME}", []),
    # labels count where both are written
    ("optional int32 a = 1;", "repeated int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED M.1"]),
    ("repeated int32 a = 1;", "optional int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED M.1"]),
    ("optional string a = 1;", "repeated string a = 1;", []),
    ("optional bytes a = 1;", "repeated bytes a = 1;", []),
    (f"optional Home a = 1; {HOME}", f"repeated Home a = 1; {HOME}", []),
    ("int32 a = 1;", "repeated int32 a = 1;", []),
    ("int32 a = 1;", "optional int32 a = 1;", []),
    # oneof
    ("string a = 1; string b = 2;", "string a = 1; oneof x { string b = 2; int32 c = 3; }", []),
    (
        "string a = 1; string b = 2;",
        "oneof x { string a = 1; string b = 2; }",
        ["MULTIPLE_FIELDS_MOVED_TO_ONEOF M.x"],
    ),
    (
        "oneof x { string a = 1; } string b = 2;",
        "oneof x { string a = 1; string b = 2; }",
        ["FIELD_MOVED_TO_EXISTING_ONEOF M.x"],
    ),
    ("oneof x { string a = 1; string b = 2; }", "oneof x { string a = 1; string b = 2; int32 c = 3; }", []),
    ("oneof x { string a = 1; string b = 2; }", "oneof x { string a = 1; }", ["ONEOF_FIELD_REMOVED M.x.2"]),
    ("oneof x { string a = 1; string b = 2; }", "oneof x { string a = 1; } string b = 2;", []),
    ("oneof x { string a = 1; string b = 2; }", "string c = 3;", []),
    ("oneof x { string a = 1; }", "oneof x { int32 a = 1; }", ["FIELD_SCALAR_KIND_CHANGED M.1"]),
    ("oneof x { string a = 1; }", "oneof y { int32 a = 1; }", ["FIELD_SCALAR_KIND_CHANGED M.1"]),
    ("string a = 1;", "oneof y { int32 a = 1; }", ["FIELD_SCALAR_KIND_CHANGED M.1"]),
    ("oneof x { string a = 1; }", "string a = 1;", []),
    # messages
    (
        "int32 a = 1; message In { string x = 1; }",
        "int32 a = 1; message In { string x = 1; string y = 2; }",
        [],
    ),
    ("int32 a = 1; message In { string x = 1; }", "int32 a = 1;", ["MESSAGE_REMOVED M.In"]),
    ("int32 a = 1;", "int32 a = 1; message In { string x = 1; }", []),
    ("M a = 1;", "M a = 1; int32 b = 2;", []),
    ("M a = 1; int32 b = 2;", "M a = 1; string b = 2;", ["FIELD_SCALAR_KIND_CHANGED M.2"]),
]
PROTO2: list[tuple[str, str, list[str]]] = [
    ("optional string a = 1;", "optional string a = 1; required string b = 2;", ["REQUIRED_FIELD_ADDED M.2"]),
    (
        "optional string a = 1; required string b = 2;",
        "optional string a = 1;",
        ["REQUIRED_FIELD_REMOVED M.2"],
    ),
    ("optional int32 a = 1;", "required int32 a = 1;", ["FIELD_NUMERIC_LABEL_CHANGED M.1"]),
    ("optional string a = 1;", "required string a = 1;", []),
]
FILES: list[tuple[str, str, list[str]]] = [
    ("package a; message M { int32 i = 1; }", "package b; message M { int32 i = 1; }", []),
    ("message M { int32 i = 1; }", "message N { int32 i = 1; } message M { int32 i = 1; }", []),
    (
        "message M { int32 i = 1; } message N { int32 i = 1; }",
        "message N { int32 i = 1; } message M { int32 i = 1; }",
        [],
    ),
    (
        "message M { int32 i = 1; } message N { int32 i = 1; }",
        "message M { int32 i = 1; }",
        ["MESSAGE_REMOVED N"],
    ),
]


def of_body(body: str, syntax: str = "proto3") -> Schema:
    return parse_schema(f'syntax = "{syntax}"; message M {{ {body} }}')


def refused(before: Schema, after: Schema) -> list[str]:
    """What stands against a reader that has the schema after, of data that was written before."""
    found = changes(after, before)
    return [f"{each.rule} {'.'.join(map(str, each.path))}" for each in found]


@pytest.mark.parametrize(("before", "after", "why"), FACTS)
def test_a_change_of_a_message(before: str, after: str, why: list[str]) -> None:
    assert sorted(refused(of_body(before), of_body(after))) == sorted(why)


@pytest.mark.parametrize(("before", "after", "why"), PROTO2)
def test_a_change_of_what_is_required(before: str, after: str, why: list[str]) -> None:
    assert refused(of_body(before, "proto2"), of_body(after, "proto2")) == why


@pytest.mark.parametrize(("before", "after", "why"), FILES)
def test_a_change_of_a_file(before: str, after: str, why: list[str]) -> None:
    schemas = (parse_schema(f'syntax = "proto3"; {text}') for text in (before, after))
    assert refused(*schemas) == why


def with_import(package: str, home: str, file: str = "home.proto") -> Schema:
    below = parse_schema(f'syntax = "proto3"; package {package}; {home}')
    return parse_schema(
        f'syntax = "proto3"; import "{file}"; message M {{ .{package}.Home a = 1; }}', {file: below}
    )


def test_what_is_imported_is_compared_through_the_fields_that_lead_there() -> None:
    inside = parse_schema(f'syntax = "proto3"; message M {{ Home a = 1; }} {HOME}')
    imported = with_import("one", HOME)
    assert refused(imported, with_import("two", HOME, "other.proto")) == []
    assert refused(imported, with_import("two", OTHER_HOME)) == [
        "FIELD_SCALAR_KIND_CHANGED Home.1",
        "FIELD_NAMED_TYPE_CHANGED M.1",
    ]
    assert refused(imported, inside) == []
    assert refused(inside, imported) == ["MESSAGE_REMOVED Home"]


@pytest.mark.parametrize(
    ("level", "versions"),
    [
        (Level.NONE, []),
        (Level.BACKWARD, []),
        (Level.BACKWARD_TRANSITIVE, [1]),
        (Level.FORWARD, []),
        (Level.FORWARD_TRANSITIVE, [1]),
        (Level.FULL_TRANSITIVE, [1, 1]),
    ],
)
def test_a_level_says_which_versions_count_and_who_reads(level: Level, versions: list[int]) -> None:
    earlier = {1: of_body("string a = 1; int32 b = 2;"), 2: of_body("string a = 1;")}
    new = of_body("string a = 1; string b = 2;")
    assert [each.version for each in breaches(changes, new, earlier, level)] == versions


def test_a_long_chain_of_messages_is_compared() -> None:
    def chain(last: str) -> Schema:
        links = (f"message M{nth} {{ M{nth + 1} next = 1; }}" for nth in range(3000))
        return parse_schema(f'syntax = "proto3"; {" ".join(links)} message M3000 {{ {last} a = 1; }}')

    assert refused(chain("int32"), chain("int64")) == []
    assert len(refused(chain("int32"), chain("string"))) == 3001


def test_a_breach_is_told_in_a_sentence() -> None:
    (found,) = breaches(changes, of_body("string a = 1;"), {4: of_body("int32 a = 1;")}, Level.BACKWARD)
    assert str(found) == (
        "the new schema cannot read data of version 4: M.1: int32 is written, and string is read "
        "(FIELD_SCALAR_KIND_CHANGED); give the new type a number of its own"
    )


def test_which_way_a_level_reads() -> None:
    one, other = of_body("oneof x { string a = 1; string b = 2; }"), of_body("oneof x { string a = 1; }")
    assert breaches(changes, other, {1: one}, Level.BACKWARD)
    assert not breaches(changes, other, {1: one}, Level.FORWARD)
    assert breaches(changes, one, {1: other}, Level.FORWARD)
    assert breaches(changes, one, {1: other}, Level.FULL)
