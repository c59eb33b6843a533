"""How fields of a writer's messages become values of the reader's columns (ADR 0048).

A field is found by its number. Writer and reader may have different types for it that Protobuf allows; then a value
that the column does not hold is a `Misfit`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from operator import itemgetter
from typing import Any

from google.protobuf import descriptor_pb2 as described
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor as Field

from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.compatibility import GROUPS, OWN_NUMBER, shown_type
from latecomer.schemas.protobuf.reading import (
    AS_JSON,
    DURATION,
    TIMESTAMP,
    WRAPPERS,
    is_map,
    local_name,
)
from latecomer.source.decode.written import Misfit

Convert = Callable[[Any], Any]
_NANOS = Decimal(1).scaleb(-9)
_MOST_SECONDS = 315_576_000_000
_FIRST, _LAST = -62_135_596_800, 253_402_300_799
"""The seconds of the years 1 to 9999: a timestamp has no others."""
_RANGES = {
    **dict.fromkeys((Field.TYPE_INT32, Field.TYPE_SINT32, Field.TYPE_SFIXED32), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((Field.TYPE_UINT32, Field.TYPE_FIXED32), (0, 2**32 - 1)),
    **dict.fromkeys((Field.TYPE_INT64, Field.TYPE_SINT64, Field.TYPE_SFIXED64), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((Field.TYPE_UINT64, Field.TYPE_FIXED64), (0, 2**64 - 1)),
    Field.TYPE_BOOL: (0, 1),
}


def is_set(message: Any, name: str) -> bool:
    """Whether a message has a field. Called on the class, since a field of the message may be named HasField."""
    return bool(type(message).HasField(message, name))


def require_readable(reader: Any, writer: Any) -> None:
    """Refuse a written field that cannot be read as the reader's."""
    if is_map(reader) != is_map(writer) or (writer.is_repeated and not reader.is_repeated):
        raise _cannot(reader, writer)
    if is_map(reader):
        for number in (1, 2):
            require_readable(
                reader.message_type.fields_by_number[number], writer.message_type.fields_by_number[number]
            )
        return
    if (reader.message_type is None) != (writer.message_type is None):
        raise _cannot(reader, writer)
    if reader.message_type is not None:
        if local_name(reader.message_type) != local_name(writer.message_type):
            raise _cannot(reader, writer)
    elif GROUPS[reader.type] != GROUPS[writer.type]:
        raise _cannot(reader, writer)


def _cannot(reader: Any, writer: Any) -> SchemaError:
    read, written = (
        ("repeated " if each.is_repeated else "") + shown_type(each) for each in (reader, writer)
    )
    message = f"the field {writer.number} is written as {written}, and {read} is read"
    return SchemaError((local_name(reader.containing_type), reader.name), message, OWN_NUMBER)


def default_of(field: Any) -> Any:
    """The value of a field that the writer does not have."""
    if is_map(field) or field.is_repeated:
        return []
    if field.message_type is not None or (field.has_presence and not field.has_default_value):
        return None
    change = converter(field, field)
    return field.default_value if change is None else change(field.default_value)


def converter(reader: Any, writer: Any, as_json: bool = False) -> Convert | None:
    """What converts the value of the field to that of the column; None if they are the same."""
    require_readable(reader, writer)
    if as_json:
        return _json_of(writer)
    if is_map(reader):
        value = single_converter(
            reader.message_type.fields_by_number[2], writer.message_type.fields_by_number[2]
        )
        key = _key(reader.message_type.fields_by_number[1])
        keep = value or (lambda each: each)
        # A map has no order, and the Protobuf package iterates in another order in each process.
        return lambda field: [(text, keep(field[name])) for text, name in _sorted(field, key)]
    single = single_converter(reader, writer)
    if not reader.is_repeated:
        return single
    if not writer.is_repeated:  # the reader has a list of it
        within = single or (lambda each: each)
        return lambda field: [within(field)]
    return list if single is None else lambda field: [single(each) for each in field]


def _key(field: Any) -> Convert:
    if field.type == Field.TYPE_BOOL:
        return lambda each: "true" if each else "false"
    return _text if field.type == Field.TYPE_STRING else str


def _sorted(entries: Any, key: Convert) -> list[tuple[str, Any]]:
    return sorted(((key(name), name) for name in entries), key=itemgetter(0))


def single_converter(reader: Any, writer: Any) -> Convert | None:
    """What converts a single value; None if nothing changes."""
    if reader.message_type is None:
        return _scalar(reader, writer)
    name = reader.message_type.full_name
    if name == TIMESTAMP:
        return micros
    if name == DURATION:
        return seconds
    if name in AS_JSON:
        return json_text
    if name in WRAPPERS:
        inner = _scalar(*(each.message_type.fields_by_number[1] for each in (reader, writer)))
        return (lambda each: each.value) if inner is None else lambda each: inner(each.value)
    if not reader.message_type.fields:
        return lambda _: True
    return _struct(reader.message_type, writer.message_type)


def _struct(reader: Any, writer: Any) -> Convert:
    parts = [field_getter(each, writer.fields_by_number.get(each.number)) for each in reader.fields]
    names = [each.name for each in reader.fields]
    return lambda message: {name: get(message) for name, get in zip(names, parts, strict=True)}


def field_getter(reader: Any, writer: Any | None) -> Convert:
    """What reads a field from a message: null if the message shows that it does not have it."""
    if writer is None:
        nothing = default_of(reader)
        return lambda _: nothing
    name, change = writer.name, converter(reader, writer)
    if writer.has_presence and (reader.has_presence or reader.is_repeated):
        empty = default_of(reader)
        keep = change or (lambda each: each)
        return lambda message: keep(getattr(message, name)) if is_set(message, name) else empty
    if change is None:
        return lambda message: getattr(message, name)
    return lambda message: change(getattr(message, name))


def _scalar(reader: Any, writer: Any) -> Convert | None:
    match reader.type:
        case Field.TYPE_ENUM:
            names = {**_enum_names(writer), **_enum_names(reader)}
            return lambda each: names.get(int(each)) or str(int(each))
        case Field.TYPE_STRING if writer.type == Field.TYPE_BYTES or not _is_proto3(writer.file):
            return _text  # only in proto3 the Protobuf package refuses texts that are not UTF-8
        case Field.TYPE_BYTES if writer.type == Field.TYPE_STRING:
            return lambda each: each if isinstance(each, bytes) else each.encode()
    if reader.type == writer.type or reader.type not in _RANGES:
        return None
    low, high = _RANGES[reader.type]
    whole = bool if reader.type == Field.TYPE_BOOL else int

    def ranged(each: Any) -> Any:
        if not low <= each <= high:
            raise Misfit
        return whole(each)

    return ranged


@lru_cache(maxsize=64)
def _is_proto3(file: Any) -> bool:
    copied = described.FileDescriptorProto()
    file.CopyToProto(copied)
    return bool(copied.syntax == "proto3")


def _enum_names(field: Any) -> Mapping[int, str]:
    """The name of each number; the first, if it has several."""
    if field.enum_type is None:
        return {}
    return {each.number: each.name for each in reversed(field.enum_type.values)}


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise Misfit from None


def micros(timestamp: Any) -> int:
    """A timestamp in microseconds since 1970."""
    if not (_FIRST <= timestamp.seconds <= _LAST and 0 <= timestamp.nanos < 1_000_000_000):
        raise Misfit
    return int(timestamp.seconds * 1_000_000 + timestamp.nanos // 1000)


def seconds(duration: Any) -> Decimal:
    """A duration in seconds."""
    if abs(duration.seconds) > _MOST_SECONDS or abs(duration.nanos) >= 1_000_000_000:
        raise Misfit
    return Decimal(duration.seconds * 1_000_000_000 + duration.nanos) * _NANOS


def json_text(message: Any) -> str:
    """A message as JSON, as Protobuf writes it, with the names of its fields."""
    try:
        return str(
            json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None, sort_keys=True)
        )
    except (TypeError, ValueError, json_format.Error, RecursionError, UnicodeDecodeError):
        raise Misfit from None


def _json_of(field: Any) -> Convert:
    """What writes a message, or a list or a map of messages, as JSON: no column holds it otherwise."""
    if is_map(field):
        key = _key(field.message_type.fields_by_number[1])
        return lambda value: (
            "{"
            + ", ".join(f"{json.dumps(text)}: {json_text(value[name])}" for text, name in _sorted(value, key))
            + "}"
        )
    if field.is_repeated:
        return lambda value: f"[{', '.join(json_text(each) for each in value)}]"
    return json_text
