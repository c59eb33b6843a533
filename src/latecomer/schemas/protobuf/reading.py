"""The columns of a message.

    reading(schema, name)      the message that is read, and where each of its columns is found in it

Fields of nested messages are columns, such as `pricing.base`. A repeated field is a list, and a map is a map. Fields
are identified by their numbers: a writer may have another name for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from latecomer.errors import did_you_mean
from latecomer.model.paths import DEEPEST
from latecomer.model.types import DEEPEST_NESTED, field_name, normal_type
from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.schema import Schema, schema_file
from latecomer.schemas.protobuf.words import by_type

MOST_COLUMNS = 2_000
_MOST_STEPS = 20_000
TEXT = "string"
COLUMN_TYPES = by_type(
    {
        "int": "int32 sint32 sfixed32",
        "bigint": "uint32 fixed32 int64 sint64 sfixed64",
        "decimal(20,0)": "uint64 fixed64",
        "float": "float",
        "double": "double",
        "boolean": "bool",
        TEXT: "string enum",
        "binary": "bytes",
    }
)
_PROTOBUF = "google.protobuf."
TIMESTAMP, DURATION = f"{_PROTOBUF}Timestamp", f"{_PROTOBUF}Duration"
WRAPPERS = frozenset(
    f"{_PROTOBUF}{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
AS_JSON = frozenset(f"{_PROTOBUF}{name}" for name in ("Struct", "Value", "ListValue"))
SECONDS = "decimal(21,9)"
"""A duration in seconds: Protobuf allows twelve digits, and nine after the point."""


class _NoType(Exception):
    """No column type can hold the values of a field: the column is their JSON text."""


@dataclass(frozen=True)
class Column:
    """A column: its type, and the numbers of the fields that lead to it."""

    kind: str
    path: tuple[int, ...]
    as_json: bool = False
    """Whether the column is the JSON text of the value."""


@dataclass(frozen=True)
class Reading:
    """The message that records are read as."""

    schema: Schema
    message: str
    """Its name, without the package."""
    values: Mapping[str, Column]
    left_out: tuple[str, ...] = ()
    """Always empty: no field of Protobuf is left out. `latecomer validate` asks the reading of any format for it."""

    @property
    def columns(self) -> dict[str, str]:
        return {name: each.kind for name, each in self.values.items()}


def reading(schema: Schema, name: str | None = None) -> Reading:
    """The columns of the message with this name, else of the first message.

    >>> from latecomer.schemas.protobuf.schema import parse_schema
    >>> text = 'syntax = "proto3"; message Ride { int64 id = 1; repeated string tags = 2; Fare fare = 3; } '
    >>> reading(parse_schema(text + "message Fare { uint64 paise = 1; }")).columns
    {'id': 'bigint', 'tags': 'array<string>', 'fare.paise': 'decimal(20,0)'}
    """
    message = message_of(schema, name)
    values = dict(islice(columns_of(message), MOST_COLUMNS + 1))
    if not values:
        fix = "name a message with fields"
        raise SchemaError((message.name,), "has no field that could be a column", fix)
    if len(values) > MOST_COLUMNS:
        fix = "name a message with fewer fields"
        raise SchemaError((message.name,), f"has more than {MOST_COLUMNS} fields, nested ones included", fix)
    return Reading(schema, local_name(message), values)


def message_of(schema: Schema, name: str | None) -> Any:
    """A message of a file by its name, with or without the package; else the first."""
    file = schema_file(schema)
    messages = {local_name(each): each for each in _messages(file.message_types_by_name.values())}
    if not messages:
        raise SchemaError((), "defines no message", "name the schema of a message")
    if name is None:
        return next(iter(messages.values()))
    prefix = f"{file.package}." if file.package else ""
    message = messages.get(name) or messages.get(name.removeprefix(prefix))
    if message is None:
        raise SchemaError((), f"defines no message {name}", did_you_mean(name, list(messages)[:50]))
    return message


def _messages(messages: Sequence[Any]) -> Iterator[Any]:
    for each in messages:
        if not each.GetOptions().map_entry:
            yield each
            yield from _messages(each.nested_types)


def message_at(schema: Schema, places: Sequence[int]) -> Any | None:
    """The message at an index path: the first index counts in the file, each next one in the message before. None if
    there is no such message."""
    message: Any = None
    messages = list(schema_file(schema).message_types_by_name.values())
    for place in places:
        if not 0 <= place < len(messages):
            return None
        message = messages[place]
        messages = list(message.nested_types)
    return message


def local_name(message: Any) -> str:
    """The name of a message in its package.

    >>> from latecomer.schemas.protobuf.schema import parse_schema
    >>> local_name(message_of(parse_schema('syntax = "proto3"; package a.b; message M { int32 i = 1; }'), None))
    'M'
    """
    package = message.file.package
    return str(message.full_name).removeprefix(f"{package}.") if package else str(message.full_name)


def columns_of(message: Any) -> Iterator[tuple[str, Column]]:
    """The columns of a message by their names."""
    yield from _Maker().columns(message, (), (), frozenset())


def is_map(field: Any) -> bool:
    inner = field.message_type
    return inner is not None and field.is_repeated and bool(inner.GetOptions().map_entry)


class _Maker:
    """Goes through a message and the messages in it. A message that is used twice is gone through twice."""

    def __init__(self) -> None:
        self.steps_left = _MOST_STEPS

    def columns(
        self, message: Any, names: tuple[str, ...], path: tuple[int, ...], above: frozenset[str]
    ) -> Iterator[tuple[str, Column]]:
        inside = above | {message.full_name}
        for field in message.fields:
            self._count()
            name, field_path = (*names, field.name), (*path, field.number)
            inner = field.message_type
            is_object = inner is not None and not field.is_repeated and plain_kind(field) is None
            if is_object and inner.fields and inner.full_name not in inside and len(name) < DEEPEST:
                yield from self.columns(inner, name, field_path, inside)
                continue
            try:
                column = Column(normal_type(self._type(field, inside)), field_path)
            except SchemaError:
                raise
            except (_NoType, ValueError):  # it is recursive, is nested too deeply, or has equal names
                column = Column(TEXT, field_path, as_json=True)
            yield ".".join(name), column

    def _count(self) -> None:
        self.steps_left -= 1
        if self.steps_left < 0:
            fix = "name a message with fewer fields"
            raise SchemaError((), f"has more than {_MOST_STEPS} fields, nested ones included", fix)

    def _type(self, field: Any, above: frozenset[str]) -> str:
        self._count()
        if is_map(field):
            return f"map<string,{self._one(field.message_type.fields_by_number[2], above)}>"
        one = self._one(field, above)
        return f"array<{one}>" if field.is_repeated else one

    def _one(self, field: Any, above: frozenset[str]) -> str:
        kind = plain_kind(field)
        if kind is not None:
            return kind
        inner = field.message_type
        if inner.full_name in above or len(above) > DEEPEST + DEEPEST_NESTED:
            raise _NoType
        if not inner.fields:
            return "boolean"
        inside = above | {inner.full_name}
        fields = [f"{field_name(each.name)}:{self._type(each, inside)}" for each in inner.fields]
        return f"struct<{','.join(fields)}>"


def plain_kind(field: Any) -> str | None:
    """The type of one value of a field; None for a message with fields of its own."""
    inner = field.message_type
    if inner is None:
        return COLUMN_TYPES[field.type]
    name = inner.full_name
    if name in WRAPPERS:
        return COLUMN_TYPES[inner.fields_by_number[1].type]
    if name in AS_JSON:
        return TEXT
    return {TIMESTAMP: "timestamp", DURATION: SECONDS}.get(name)
