"""Messages of Protobuf in Confluent's framing, decoded: each type of field, other writers, and damage."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.reading import message_of, reading
from latecomer.schemas.protobuf.schema import Schema, parse_schema
from latecomer.source.decode.private_columns import CORRUPT, KEPT
from latecomer.source.decode.protobuf_messages import ProtobufMessages

RIDE = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/empty.proto";
import "google/type/money.proto";

message Ride {
  int32 i32 = 1; sint32 s32 = 2; sfixed32 f32 = 3; uint32 u32 = 4; fixed32 x32 = 5;
  int64 i64 = 6; sint64 s64 = 7; sfixed64 f64 = 8; uint64 u64 = 9; fixed64 x64 = 10;
  float f = 11; double d = 12; bool ok = 13; string text = 14; bytes raw = 15;
  State state = 16;
  Fare fare = 17;
  repeated int64 numbers = 18;
  repeated Fare fares = 19;
  map<string, int32> counts = 20;
  map<int64, Fare> by_id = 21;
  oneof paid { string card = 22; int32 cash = 23; google.protobuf.Empty free = 24; }
  optional int32 maybe = 25;
  google.protobuf.Timestamp at = 26;
  google.protobuf.Duration took = 27;
  google.protobuf.StringValue note = 28;
  google.protobuf.UInt64Value large = 29;
  google.protobuf.Struct more = 30;
  google.type.Money money = 31;
  Ride back = 32;
  repeated google.protobuf.Timestamp stops = 33;
  repeated Ride legs = 34;
  map<bool, string> flags = 35;
  enum State { UNKNOWN = 0; OPEN = 1; CLOSED = 2; }
  message Fare { uint64 paise = 1; optional string currency = 2; }
}
"""


def framed(number: int, payload: bytes, places: bytes = b"\0") -> bytes:
    return b"\0" + number.to_bytes(4, "big") + places + payload


def message_class(schema: Schema, name: str | None = None) -> Any:
    return GetMessageClass(message_of(schema, name))


def decoded(
    reader: Schema, writer: Schema, records: list[bytes], unknown: Any = "keep", name: str | None = None
) -> list[dict[str, Any]]:
    found = reading(reader, name)
    decoder = ProtobufMessages({1: writer}, unknown, reader=reader, message=found.message)
    decoder = pickle.loads(pickle.dumps(decoder))
    rows = decoder.decode(records, found.columns).to_pylist()
    assert len(rows) == len(records)
    return [{name: value for name, value in row.items() if not name.endswith("schema_id")} for row in rows]


def one(reader: str, writer: str, **fields: Any) -> dict[str, Any]:
    """A message of a writer, as a reader has it; each is the body of a message `M`."""
    schemas = [parse_schema(f'syntax = "proto3"; message M {{ {text} }}') for text in (reader, writer)]
    record = framed(1, message_class(schemas[1])(**fields).SerializeToString())
    singly = decoded(*schemas, [record])[0]
    assert decoded(*schemas, [record] * 9)[4] == singly  # parsed as one list
    return singly


def test_the_columns_of_each_type_of_field() -> None:
    assert reading(parse_schema(RIDE)).columns == {
        **dict.fromkeys(("i32", "s32", "f32"), "int"),
        **dict.fromkeys(("u32", "x32", "i64", "s64", "f64"), "bigint"),
        **dict.fromkeys(("u64", "x64"), "decimal(20,0)"),
        "f": "float",
        "d": "double",
        "ok": "boolean",
        "text": "string",
        "raw": "binary",
        "state": "string",
        "fare.paise": "decimal(20,0)",
        "fare.currency": "string",
        "numbers": "array<bigint>",
        "fares": "array<struct<paise:decimal(20,0),currency:string>>",
        "counts": "map<string,int>",
        "by_id": "map<string,struct<paise:decimal(20,0),currency:string>>",
        "card": "string",
        "cash": "int",
        "free": "boolean",
        "maybe": "int",
        "at": "timestamp",
        "took": "decimal(21,9)",
        "note": "string",
        "large": "decimal(20,0)",
        "more": "string",
        "money.currency_code": "string",
        "money.units": "bigint",
        "money.nanos": "int",
        "back": "string",
        "stops": "array<timestamp>",
        "legs": "string",
        "flags": "map<string,string>",
    }


def test_messages_that_fan_out_or_never_end_do_not_hold_it_up() -> None:
    fan = "".join(
        f"message M{nth} {{ M{nth + 1} a = 1; M{nth + 1} b = 2; M{nth + 1} c = 3; }}" for nth in range(40)
    )
    with pytest.raises(SchemaError, match="has more than"):
        reading(parse_schema(f'syntax = "proto3"; {fan} message M40 {{ int32 x = 1; }}'))
    chain = "".join(f"message M{nth} {{ repeated M{nth + 1} a = 1; }}" for nth in range(3000))
    found = reading(parse_schema(f'syntax = "proto3"; {chain} message M3000 {{ int32 x = 1; }}'))
    assert found.columns == {"a": "string"}  # JSON: no list is nested so deeply


def full_ride(schema: Schema) -> Any:
    ride = message_class(schema)(
        i32=-5, s32=-6, f32=-7, u32=2**32 - 1, x32=8, i64=-(2**63), s64=-9, f64=2**63 - 1, u64=2**64 - 1, x64=3,
        f=1.5, d=0.1, ok=True, text="é", raw=b"\xff\0", state=2, numbers=[1, -2], card="visa", maybe=0,
    )  # fmt: skip
    ride.fare.paise = 2**64 - 1
    ride.fares.add(paise=1, currency="INR")
    ride.fares.add(paise=2)
    ride.counts.update({"a": 1, "b": -1})
    ride.by_id[7].paise = 5
    ride.at.seconds, ride.at.nanos = 1_700_000_000, 123_456_789
    ride.took.seconds, ride.took.nanos = -1, -500_000_000
    ride.note.value = "n"
    ride.large.value = 2**64 - 1
    ride.more.update({"a": [1, None]})
    ride.money.units = 3
    ride.back.i32 = 1
    ride.stops.add(seconds=5)
    ride.legs.add(text="x")
    ride.flags[True] = "yes"
    return ride


@pytest.mark.parametrize("count", [1, 9])
def test_the_values_of_each_type_of_field(count: int) -> None:
    schema = parse_schema(RIDE)
    found = decoded(schema, schema, [framed(1, full_ride(schema).SerializeToString())] * count)[-1]
    more, back, legs = (json.loads(found.pop(name)) for name in ("more", "back", "legs"))
    assert (more, back, legs) == ({"a": [1, None]}, {"i32": 1}, [{"text": "x"}])
    assert found == {
        "i32": -5, "s32": -6, "f32": -7, "u32": 2**32 - 1, "x32": 8, "i64": -(2**63), "s64": -9, "f64": 2**63 - 1,
        "u64": Decimal(2**64 - 1), "x64": Decimal(3), "f": 1.5, "d": 0.1, "ok": True, "text": "é", "raw": b"\xff\0",
        "state": "CLOSED", "fare.paise": Decimal(2**64 - 1), "fare.currency": None, "numbers": [1, -2],
        "fares": [{"paise": 1, "currency": "INR"}, {"paise": 2, "currency": None}],
        "counts": [("a", 1), ("b", -1)], "by_id": [("7", {"paise": 5, "currency": None})],
        "card": "visa", "cash": None, "free": None, "maybe": 0,
        "at": datetime.fromtimestamp(1_700_000_000, UTC).replace(microsecond=123_456),
        "took": Decimal("-1.5"), "note": "n", "large": Decimal(2**64 - 1), "money.currency_code": "",
        "money.units": 3, "money.nanos": 0, "stops": [datetime.fromtimestamp(5, UTC)], "flags": [("true", "yes")],
        CORRUPT: None,
    }  # fmt: skip


def test_an_empty_message_has_defaults_and_what_can_be_absent_is_null() -> None:
    schema = parse_schema(RIDE)
    (found,) = decoded(schema, schema, [framed(1, b"")])
    assert (found["i32"], found["text"], found["state"], found["ok"], found["raw"]) == (
        0,
        "",
        "UNKNOWN",
        False,
        b"",
    )
    assert (found["numbers"], found["counts"], found["u64"]) == ([], [], Decimal(0))
    absent = ("maybe", "fare.paise", "card", "cash", "free", "at", "note", "more", "back", "money.units")
    assert [found[name] for name in absent] == [None] * len(absent)


def test_a_member_of_a_oneof_that_has_no_fields_is_true() -> None:
    schema = parse_schema(RIDE)
    ride = message_class(schema)()
    ride.free.SetInParent()
    (found,) = decoded(schema, schema, [framed(1, ride.SerializeToString())])
    assert (found["free"], found["card"]) == (True, None)


def test_a_number_that_no_enum_names_is_text() -> None:
    found = one("E e = 1; enum E { A = 0; }", "E e = 1; enum E { A = 0; B = 7; }", e=7)
    assert found["e"] == "B"  # the writer names it
    assert one("E e = 1; enum E { A = 0; }", "E e = 1; enum E { A = 0; }", e=9)["e"] == "9"


# Other writers


def test_a_field_is_known_by_its_number() -> None:
    assert one("int32 fee = 1;", "int32 tip = 1;", tip=5) == {"fee": 5, CORRUPT: None}


@pytest.mark.parametrize(
    ("reader", "writer", "value", "read"),
    [
        ("int64", "int32", -5, -5),
        ("int32", "int64", 5, 5),
        ("int32", "uint64", 5, 5),
        ("bool", "int32", 1, True),
        ("int32", "bool", True, 1),
        ("string", "bytes", b"x", "x"),
        ("bytes", "string", "é", "é".encode()),
        ("sfixed32", "fixed32", 5, 5),
    ],
)
def test_a_type_that_is_written_alike_is_read(reader: str, writer: str, value: Any, read: Any) -> None:
    assert one(f"{reader} a = 1;", f"{writer} a = 1;", a=value) == {"a": read, CORRUPT: None}


@pytest.mark.parametrize(
    ("reader", "writer", "value"),
    [("int32", "int64", 2**40), ("uint32", "int32", -1), ("bool", "int32", 2), ("string", "bytes", b"\xff")],
)
def test_a_value_that_the_column_does_not_hold_is_corrupt(reader: str, writer: str, value: Any) -> None:
    assert one(f"{reader} a = 1;", f"{writer} a = 1;", a=value)[CORRUPT] is not None


@pytest.mark.parametrize(
    ("reader", "writer", "value"),
    [
        ("int32", "string", "x"),
        ("int32", "sint32", 1),
        ("double", "float", 1.5),
        ("int32", "repeated int32", [1]),
        ("map<string, int32>", "repeated int32", [1]),
    ],
)
def test_a_writer_with_another_type_is_refused_whole(reader: str, writer: str, value: Any) -> None:
    found = one(f"{reader} a = 1; int32 b = 2;", f"{writer} a = 1; int32 b = 2;", a=value, b=1)
    assert found[CORRUPT] is not None


def test_what_the_writer_does_not_have_is_as_if_it_were_not_set() -> None:
    found = one(
        "int32 a = 1; optional int32 b = 2; string c = 3; repeated int32 d = 4; M e = 5;", "int32 a = 1;", a=1
    )
    assert found == {"a": 1, "b": None, "c": "", "d": [], "e": None, CORRUPT: None}


def test_one_that_became_many_is_a_list_of_one() -> None:
    assert one("repeated string a = 1;", "optional string a = 1;", a="x")["a"] == ["x"]
    assert one("repeated string a = 1;", "optional string a = 1;")["a"] == []


def test_fields_that_the_reader_does_not_have_are_kept() -> None:
    writer = "int32 a = 1; uint64 b = 2; In in = 3; message In { string x = 1; int32 y = 2; }"
    reader = "int32 a = 1; In in = 3; message In { int32 y = 2; }"
    found = one(reader, writer, a=1, b=2**64 - 1, **{"in": {"x": "é", "y": 3}})
    assert (found["in.y"], json.loads(found[KEPT])) == (3, {"b": 2**64 - 1, "in": {"x": "é"}})


@pytest.mark.parametrize("count", [1, 9])
def test_fields_that_no_schema_names_are_kept_by_their_numbers(count: int) -> None:
    schema = parse_schema('syntax = "proto3"; message M { int32 a = 1; }')
    strange = bytes([0x08, 1, 15 << 3 & 0x7F, 7, 0x7A, 1, 65])
    found = decoded(schema, schema, [framed(1, strange)] * count)[-1]
    assert found[KEPT] == '{"15":"QQ=="}'
    assert decoded(schema, schema, [framed(1, strange)] * count, "dead_letter")[-1][CORRUPT] is not None
    assert KEPT not in decoded(schema, schema, [framed(1, strange)] * count, "ignore")[-1]


# Which message it is


SEVERAL = """syntax = "proto3"; package p;
message A { int32 a = 1; map<string, int32> m = 2; message In { int32 b = 1; } }
message B { int32 c = 1; }"""


@pytest.mark.parametrize(
    ("name", "places", "column"), [("A", b"\0", "a"), ("B", b"\2\2", "c"), ("p.A.In", b"\4\0\2", "b")]
)
def test_a_message_is_found_by_its_places(name: str, places: bytes, column: str) -> None:
    schema = parse_schema(SEVERAL)
    payload = message_class(schema, name)(**{column: 5}).SerializeToString()
    (found,) = decoded(schema, schema, [framed(1, payload, places)], name=name)
    assert (found[column], found[CORRUPT]) == (5, None)


@pytest.mark.parametrize(
    "places", [b"", b"\2", b"\2\2", b"\2\x20", b"\1\0", b"\2\1", b"\xff\xff\xff\xff\xff\xff", b"\4\0\0"]
)
def test_another_message_or_none_is_corrupt(places: bytes) -> None:
    schema = parse_schema(SEVERAL)
    record = b"\0\0\0\0\1" + places
    assert decoded(schema, schema, [record, framed(1, b"\x08\5")])[0][CORRUPT] == record


@pytest.mark.parametrize("name", ["HasField", "IsInitialized", "FromString", "DESCRIPTOR", "class", "rows"])
def test_a_field_may_have_any_name(name: str) -> None:
    assert (
        one(f"int32 {name} = 1; optional int32 b = 2;", f"int32 {name} = 1; optional int32 b = 2;", b=5)["b"]
        == 5
    )


# Damage


@pytest.mark.parametrize("count", [1, 9])
def test_damaged_bytes_are_corrupt_and_no_others(count: int) -> None:
    schema = parse_schema('syntax = "proto3"; message M { int32 a = 1; string s = 2; }')
    good, bad, no_text = framed(1, b"\x08\5"), framed(1, b"\x08"), framed(1, b"\x12\1\xff")
    found = decoded(schema, schema, [good] * count + [bad, no_text] + [good] * count)
    assert [row[CORRUPT] for row in found] == [None] * count + [bad, no_text] + [None] * count
    assert [row["a"] for row in found if row[CORRUPT] is None] == [5] * 2 * count


@pytest.mark.parametrize("count", [1, 9])
def test_a_field_that_is_required_and_missing_is_corrupt(count: int) -> None:
    schema = parse_schema("message M { required int32 a = 1; optional string s = 2 [default = 'x']; }")
    records = [framed(1, b"\x08\5")] * count + [framed(1, b"")] + [framed(1, b"\x08\5\x12\1\xff")]
    found = decoded(schema, schema, records)
    assert [row[CORRUPT] is None for row in found] == [True] * count + [False, False]
    assert found[0]["s"] == "x"  # as its schema says


def test_messages_that_are_nested_too_deeply_are_corrupt() -> None:
    schema = parse_schema('syntax = "proto3"; message M { M m = 1; int32 a = 2; }')

    def nested(depth: int) -> bytes:
        payload = b"\x10\5"
        for _ in range(depth):
            size = len(payload)
            payload = (
                b"\x0a" + (bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])) + payload
            )
        return framed(1, payload)

    found = decoded(schema, schema, [nested(5), nested(2000)])
    assert [row[CORRUPT] is None for row in found] == [True, False]
    assert json.loads(found[0]["m"]) == {"m": {"m": {"m": {"m": {"a": 5}}}}}


@pytest.mark.parametrize("moment", [{"seconds": 2**60}, {"nanos": -1}, {"seconds": 1, "nanos": 2 * 10**9}])
def test_a_moment_that_there_is_not_is_corrupt(moment: dict[str, int]) -> None:
    schema = parse_schema(RIDE)
    ride = message_class(schema)()
    for name, value in moment.items():
        setattr(ride.at, name, value)
    assert decoded(schema, schema, [framed(1, ride.SerializeToString())])[0][CORRUPT] is not None


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_mutated_bytes_are_rows_or_corrupt_and_never_an_error(data: st.DataObject) -> None:
    schema = parse_schema(RIDE)
    payload = bytearray(framed(1, full_ride(schema).SerializeToString()))
    places = st.integers(0, len(payload) - 1)
    for place, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), max_size=8)):
        payload[place] = byte
    cut = data.draw(st.integers(1, len(payload)))
    record = bytes(payload[:cut])
    unknown = data.draw(st.sampled_from(["keep", "ignore", "dead_letter"]))
    if record[:5] != b"\0\0\0\0\1"[: len(record)]:
        record = b"\0\0\0\0\1" + record[5:]
    (alone,) = decoded(schema, schema, [record], unknown)
    among = decoded(schema, schema, [record, *[framed(1, b"")] * 8], unknown)[0]
    assert str(among[CORRUPT]) == str(alone[CORRUPT])
    if alone[CORRUPT] is None:  # texts, as NaN is no NaN
        assert str({**among, KEPT: among.get(KEPT)}) == str({**alone, KEPT: alone.get(KEPT)})
