"""Any message of any schema: what is decoded is what Protobuf's own JSON says of it."""

from __future__ import annotations

import struct
from base64 import b64decode
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latecomer.schemas.protobuf.reading import message_of, reading
from latecomer.schemas.protobuf.schema import parse_schema
from latecomer.source.decode.private_columns import CORRUPT, KEPT
from latecomer.source.decode.protobuf_messages import ProtobufMessages

WHOLE = {
    "int32": (-(2**31), 2**31 - 1), "sint32": (-(2**31), 2**31 - 1), "sfixed32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1), "fixed32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1), "sint64": (-(2**63), 2**63 - 1), "sfixed64": (-(2**63), 2**63 - 1),
    "uint64": (0, 2**64 - 1), "fixed64": (0, 2**64 - 1),
}  # fmt: skip
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    **{name: st.integers(*ends) for name, ends in WHOLE.items()},
    "bool": st.booleans(),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "string": TEXT,
    "bytes": st.binary(max_size=8),
    "Kind": st.integers(-3, 3),
}
PLAIN = sorted(VALUES)
KEYS = [*WHOLE, "bool", "string"]


def of_plain(kind: str, value: Any) -> Any:
    """What JSON has of a value, as it was."""
    if kind in WHOLE:
        return int(value)
    if kind == "bytes":
        return b64decode(value)
    if kind == "float":  # JSON has as few digits as tell it from others
        return struct.unpack("f", struct.pack("f", value))[0]
    return {0: "ZERO", 1: "ONE"}.get(value, str(value)) if kind == "Kind" else value


def of_inner(found: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if found is None else {"x": int(found["x"]), "y": found.get("y")}


@st.composite
def fields(draw: st.DrawFn) -> list[tuple[str, str, str]]:
    """Names of fields, their types, and how they are written: with a label, as a map or in a oneof."""
    made = []
    for nth in range(draw(st.integers(1, 8))):
        shape = draw(st.sampled_from(["", "optional ", "repeated ", "map", "oneof"]))
        kind = draw(st.sampled_from([*PLAIN, "In"]))
        made.append((f"f{nth}", kind, f"map {draw(st.sampled_from(KEYS))}" if shape == "map" else shape))
    return made


def text_of(made: list[tuple[str, str, str]]) -> str:
    lines = []
    for nth, (name, kind, shape) in enumerate(made, 1):
        if shape.startswith("map"):
            lines.append(f"map<{shape.split()[1]}, {kind}> {name} = {nth};")
        elif shape == "oneof":
            lines.append(f"oneof o{nth} {{ {kind} {name} = {nth}; int32 other{nth} = {nth + 100}; }}")
        else:
            lines.append(f"{shape}{kind} {name} = {nth};")
    return (
        'syntax = "proto3"; enum Kind { ZERO = 0; ONE = 1; } message In { int64 x = 1; optional string y = 2; } '
        f"message M {{ {' '.join(lines)} }}"
    )


def value_of(draw: Any, kind: str) -> Any:
    if kind != "In":
        return draw(VALUES[kind])
    found = {"x": draw(VALUES["int64"])}
    return {**found, "y": draw(TEXT)} if draw(st.booleans()) else found


def fill(draw: Any, message: Any, made: list[tuple[str, str, str]]) -> None:
    for name, kind, shape in made:
        if draw(st.integers(0, 3)) == 0:
            continue
        there = getattr(message, name)
        if shape.startswith("map"):
            key = VALUES[shape.split()[1]]
            for _ in range(draw(st.integers(0, 3))):
                if kind == "In":
                    there[draw(key)].CopyFrom(_inner(message, value_of(draw, kind)))
                else:
                    there[draw(key)] = value_of(draw, kind)
        elif shape == "repeated ":
            for _ in range(draw(st.integers(0, 3))):
                there.add(**value_of(draw, kind)) if kind == "In" else there.append(value_of(draw, kind))
        elif kind == "In":
            there.CopyFrom(_inner(message, value_of(draw, kind)))
        else:
            setattr(message, name, value_of(draw, kind))


def _inner(message: Any, values: dict[str, Any]) -> Any:
    return GetMessageClass(message.DESCRIPTOR.file.message_types_by_name["In"])(**values)


def expected(message: Any, made: list[tuple[str, str, str]]) -> dict[str, Any]:
    found = MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    row: dict[str, Any] = {}
    for name, kind, shape in made:
        value = found.get(name)
        if shape.startswith("map"):
            change = of_inner if kind == "In" else lambda each, kind=kind: of_plain(kind, each)
            row[name] = sorted((key, change(each)) for key, each in (value or {}).items())
        elif shape == "repeated ":
            row[name] = [of_inner(each) if kind == "In" else of_plain(kind, each) for each in value or ()]
        elif kind == "In":
            inner = of_inner(value) or {"x": None, "y": None}
            row |= {f"{name}.{part}": each for part, each in inner.items()}
        else:
            row[name] = None if value is None else of_plain(kind, value)
        if shape == "oneof":
            other = f"other{made.index((name, kind, shape)) + 1}"
            row[other] = found.get(other)
    return row


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(st.data())
def test_what_is_decoded_is_what_protobuf_says(data: st.DataObject) -> None:
    made = data.draw(fields())
    schema = parse_schema(text_of(made))
    kind = GetMessageClass(message_of(schema, "M"))
    messages = []
    for _ in range(data.draw(st.sampled_from([1, 7]))):
        message = kind()
        fill(data.draw, message, made)
        messages.append(message)
    found = reading(schema, "M")
    decoder = ProtobufMessages({1: schema}, "keep", reader=schema, message="M")
    places = b"\2\2"  # M is the second message
    rows = decoder.decode(
        [b"\0\0\0\0\1" + places + each.SerializeToString() for each in messages], found.columns
    )
    for row, message in zip(rows.to_pylist(), messages, strict=True):
        assert row.pop(CORRUPT) is None
        assert row.pop(KEPT, None) is None
        assert {name: row[name] for name in found.columns} == expected(message, made)
