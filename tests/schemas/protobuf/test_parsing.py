"""`.proto` texts: held against what Google's own compiler made of the same files, written again, and refused."""

from __future__ import annotations

import base64
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2 as described
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf import parse_schema
from latecomer.schemas.protobuf.known import KNOWN, known_file
from latecomer.schemas.protobuf.parsing import parse_file
from latecomer.schemas.protobuf.schema import ROOT, Schema, schema_file

SITE = Path(str(resources.files("google.protobuf"))).parents[1]
COMPILED = sorted(
    str(path.relative_to(SITE))
    for package in ("type", "api", "rpc", "longrunning", "logging/type", "cloud")
    for path in (SITE / "google" / package).rglob("*.proto")
)


def compiled(name: str) -> Any:
    """What Google's compiler made of a file."""
    module = import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
    made = described.FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(made)
    return made


def parsed(name: str) -> Schema:
    """A file as it is parsed here, with all that it imports."""
    text = (SITE / name).read_text()
    below = [each for each in parse_file(text).dependency if each not in KNOWN]
    return parse_schema(text, {each: parsed(each) for each in below})


def without_options(made: Any) -> Any:
    """Custom options are left as they are written here, and resolved by the compiler; names for JSON are as usual."""
    for field, value in made.ListFields():
        if field.name == "json_name" or (field.name == "options" and not getattr(value, "map_entry", False)):
            made.ClearField(field.name)
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                without_options(each)
    return made


def test_there_are_files_to_hold_it_against() -> None:
    assert len(COMPILED) > 30


@pytest.mark.parametrize("name", COMPILED)
def test_a_file_of_googles_is_read_as_their_compiler_reads_it(name: str) -> None:
    schema = parsed(name)
    found = described.FileDescriptorProto()
    schema_file(schema).CopyToProto(found)
    wanted = compiled(name)
    found.name, found.dependency[:], wanted.dependency[:] = (
        wanted.name,
        sorted(found.dependency),
        sorted(wanted.dependency),
    )
    assert without_options(found) == without_options(wanted)


@pytest.mark.parametrize("name", sorted(name for name in KNOWN if not name.startswith("google/protobuf/")))
def test_what_needs_no_reference_is_what_it_is_elsewhere(name: str) -> None:
    place = "confluent_kafka/schema_registry/" if name.startswith("confluent/") else ""
    wanted, found = compiled(f"{place}{name}"), described.FileDescriptorProto.FromString(known_file(name))
    resolved = described.FileDescriptorProto()
    below = {each: known_file(each) for each in found.dependency}
    assert set(below) <= KNOWN
    schema_file(parse_schema(_text(name))).CopyToProto(resolved)
    for made in (wanted, resolved):
        made.ClearField("name")
        without_options(made)
        made.syntax = ""
        for kind in (made.message_type, made.enum_type):
            kind.sort(key=lambda each: each.name)
    assert resolved == wanted


def _text(name: str) -> str:
    return base64.b64encode(known_file(name)).decode()


@pytest.mark.parametrize("name", COMPILED)
def test_what_is_written_is_read_as_the_same(name: str) -> None:
    schema = parsed(name)
    again = parse_schema(schema.normalized, dict(schema.references))
    assert again.normalized == schema.normalized
    assert parse_schema(schema.serialized, dict(schema.references)).normalized == schema.normalized


LAYOUTS = [
    'syntax="proto3";package a;message M{int32 i=1;In n=2;message In{string s=1;}}',
    'syntax = "proto3"; // of rides\npackage a;\n/* one */ message M { int32 i = 0x1; .a.M.In n = 2; '
    "message In { string s = 1; } };",
    "syntax = 'proto3'; package a; message M { int32 i = 01; M.In n = 2; message In { string s = 1; } }",
]


def test_layout_and_how_a_type_is_named_make_no_difference() -> None:
    assert len({parse_schema(text).normalized for text in LAYOUTS}) == 1


OPTIONS = """syntax = "proto3"; package a; import "confluent/meta.proto"; import "google/protobuf/descriptor.proto";
extend google.protobuf.FieldOptions { string owner = 50000; repeated int32 codes = 50001; bool hot = 50002; }
message M {
  option (confluent.message_meta) = { doc: "a \\"ride\\"" tags: ["PII", "é"] };
  string s = 1 [(a.owner) = "ana", (a.codes) = 7, (a.codes) = -8, (a.hot) = true, deprecated = true];
}
"""


def test_custom_options_of_a_description_get_their_names_back() -> None:
    schema = parse_schema(OPTIONS)
    file = described.FileDescriptorProto.FromString(schema.file)
    pool = schema_file(schema).pool
    options = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FieldOptions"))()
    names = {name: pool.FindExtensionByName(f"a.{name}") for name in ("owner", "codes", "hot")}
    options.Extensions[names["owner"]], options.Extensions[names["hot"]] = "ana", True
    options.Extensions[names["codes"]].extend([7, -8])
    options.deprecated = True
    file.message_type[0].field[0].options.Clear()
    file.message_type[0].field[0].options.MergeFromString(options.SerializeToString())
    meta = GetMessageClass(pool.FindMessageTypeByName("google.protobuf.MessageOptions"))()
    meta.Extensions[pool.FindExtensionByName("confluent.message_meta")].doc = 'a "ride"'
    meta.Extensions[pool.FindExtensionByName("confluent.message_meta")].tags.extend(["PII", "é"])
    file.message_type[0].options.Clear()
    file.message_type[0].options.MergeFromString(meta.SerializeToString())
    found = parse_schema(base64.b64encode(file.SerializeToString()).decode()).text
    assert '[(a.codes) = 7, (a.codes) = -8, (a.hot) = true, (a.owner) = "ana", deprecated = true]' in found
    assert 'option (confluent.message_meta) = { doc : "a \\"ride\\"" tags : "PII" tags : "é" };' in found


REFUSED = [
    ("", "defines nothing"),
    ('syntax = "proto3"; message A { int32 a 1; }', "line 1: there is 1, and = is expected"),
    ('syntax = "proto3";\n\nmessage A {', "line 3: the text ends"),
    ('syntax = "proto3"; message A { B b = 1; }', "couldn't resolve name 'B'"),
    ('syntax = "proto3"; message A { int32 a = 1; int32 b = 1; }', "duplicate field number"),
    ('syntax = "proto3"; message A { int32 a = 1; int32 a = 2; }', "duplicate"),
    ('syntax = "proto3"; import "x.proto"; message A {}', "import.x.proto: is in no reference"),
    ("message A { int32 a = 1; }", "has no label"),
    ('syntax = "proto3"; ' + "message A {" * 1000, "nested too deeply"),
    ('syntax = "proto3"; message A { option (x) = ' + "{" * 5000, "the text ends"),
    ('{"type": "string"}', "there is {"),
    ('syntax = "proto4";', "'proto4' is not known"),
    ('edition = "2023";', "editions are not supported"),
    ('syntax = "proto3"; message A { int32 a = 0; }', "0 is no number of a field"),
    ('syntax = "proto3"; message A { int32 a = 19500; }', "19500 is no number"),
    ('syntax = "proto3"; message A { int32 a = 99999999999999999999999; }', "too large"),
    ('syntax = "proto3"; enum E { A = 1; }', "the first value must be zero"),
    ('syntax = "proto3"; message A { required int32 a = 1; }', "required"),
    ('syntax = "proto3"; message A { map<float, int32> a = 1; }', "the key of a map is float"),
    ('syntax = "proto3"; message A { oneof x { } }', "has no fields"),
    ('syntax = "proto3"; message A { oneof x { repeated int32 a = 1; } }', "a field of a oneof is repeated"),
    ('syntax = "proto3"; message A { option map_entry = true; }', "no value of map_entry"),
    ("syntax = \"proto3\"; message A { string a = 1 [json_name = '\\xff']; }", "is not UTF-8"),
    ("\0", "is no word"),
    ("a" * (1 << 21), "has more than"),
]


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_a_mistake_is_told_with_its_place(text: str, why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text)
    assert why in str(caught.value)


def test_two_files_of_one_name_that_differ_are_refused() -> None:
    one, other = (
        parse_schema(f'syntax = "proto3"; message X {{ {kind} a = 1; }}') for kind in ("int32", "string")
    )
    middle = parse_schema('syntax = "proto3"; import "x.proto"; message Y { X x = 1; }', {"x.proto": one})
    text = 'syntax = "proto3"; import "x.proto"; import "y.proto"; message Z { X x = 1; Y y = 2; }'
    assert parse_schema(text, {"x.proto": one, "y.proto": middle})
    with pytest.raises(SchemaError, match="not the same file"):
        parse_schema(text, {"x.proto": other, "y.proto": middle})


def test_nobody_imports_the_file_itself() -> None:
    with pytest.raises(SchemaError):
        parse_schema(f'syntax = "proto3"; import "{ROOT}"; message A {{}}')


WORDS = """message enum oneof map < > { } [ ] ( ) = ; , . "x" 1 2 int32 string A B a b optional repeated reserved to max
    extensions option extend service rpc returns stream group default json_name syntax package import - 'é' 1.5"""


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(WORDS.split()), max_size=60), st.sampled_from(["", 'syntax = "proto3";']))
def test_any_words_are_a_schema_or_a_mistake(words: list[str], head: str) -> None:
    try:
        schema = parse_schema(f"{head} {' '.join(words)}")
    except SchemaError:
        return
    assert parse_schema(schema.normalized).normalized == schema.normalized


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200))
def test_any_description_is_a_schema_or_a_mistake(raw: bytes) -> None:
    try:
        parse_schema(base64.b64encode(raw).decode())
    except SchemaError:
        return


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_description_is_a_schema_or_a_mistake(data: st.DataObject) -> None:
    raw = bytearray(known_file("google/protobuf/struct.proto"))
    for place, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(raw) - 1), st.integers(0, 255)), max_size=6)
    ):
        raw[place] = byte
    try:
        schema = parse_schema(base64.b64encode(bytes(raw)).decode())
    except SchemaError:
        return
    assert schema.normalized


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("inf", "inf"),
        ("-inf", "-inf"),
        ("nan", "nan"),
        ("-nan", "nan"),
        ("18446744073709551615", "18446744073709551615"),
        ("01777777777777777777777", "18446744073709551615"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("-9223372036854775809", "-9.223372036854776e+18"),
        ("18446744073709551616", "1.8446744073709552e+19"),
    ],
)
def test_numbers_of_options_keep_their_value_and_sign(written: str, kept: str) -> None:
    found = parse_schema(f'syntax = "proto3"; message A {{ option (x) = {written}; }}').normalized
    assert f"option (x) = {kept};" in found
    assert parse_schema(found).normalized == found


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), -0.5])
def test_doubles_that_are_no_finite_numbers_in_the_options_of_a_description(number: float) -> None:
    text = """syntax = "proto3"; import "google/protobuf/descriptor.proto"; message A { int32 a = 1; }
    extend google.protobuf.MessageOptions { optional double limit = 50001; }"""
    descriptor = schema_file(parse_schema(text))
    options = GetMessageClass(descriptor.pool.FindMessageTypeByName("google.protobuf.MessageOptions"))()
    options.Extensions[descriptor.extensions_by_name["limit"]] = number
    file = parse_schema(text).described
    file.message_type[0].options.MergeFromString(options.SerializeToString())
    compiled_text = base64.b64encode(file.SerializeToString()).decode()
    assert f"option (limit) = {number};" in parse_schema(compiled_text).text


@pytest.mark.parametrize(
    ("written", "kept"),
    [("'\\xff\\000a'", '"\\377\\000a"'), ("'\\303' '\\251'", '"é"'), ("'\\303' \"'\"", '"\\303\\047"')],
)
def test_bytes_of_options_keep_their_value(written: str, kept: str) -> None:
    found = parse_schema(f'syntax = "proto3"; message A {{ option (x) = {written}; }}').normalized
    assert f"option (x) = {kept};" in found
    assert parse_schema(found).normalized == found


def test_bytes_that_are_not_utf8_in_the_options_of_a_description() -> None:
    text = """syntax = "proto3"; import "google/protobuf/descriptor.proto"; message A { int32 a = 1; }
    extend google.protobuf.MessageOptions { optional bytes key = 50001; }"""
    descriptor = schema_file(parse_schema(text))
    options = GetMessageClass(descriptor.pool.FindMessageTypeByName("google.protobuf.MessageOptions"))()
    options.Extensions[descriptor.extensions_by_name["key"]] = b"\xff\x00a"
    file = parse_schema(text).described
    file.message_type[0].options.MergeFromString(options.SerializeToString())
    compiled_text = base64.b64encode(file.SerializeToString()).decode()
    assert r'option (key) = "\377\000a";' in parse_schema(compiled_text).text


def test_the_default_of_a_field_of_bytes_may_be_several_texts() -> None:
    found = parse_schema("message A { optional bytes a = 1 [default = '\\xff' 'b']; }").normalized
    assert r'default = "\377b"' in found


@pytest.mark.parametrize("written", ["-foo", "-", "0x11111111111111111111", "09", "- {"])
def test_numbers_of_options_that_are_none(written: str) -> None:
    with pytest.raises(SchemaError, match="line 1"):
        parse_schema(f'syntax = "proto3"; message A {{ option (x) = {written}; }}')
