"""Reads the messages of one writer as columns: they are parsed all at once as elements of a list, or one by one."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from google.protobuf import descriptor_pb2 as described
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from latecomer.model.array_types import Flags
from latecomer.schemas.protobuf.reading import (
    Column,
    Reading,
    columns_of,
    local_name,
    message_at,
    message_of,
)
from latecomer.schemas.protobuf.schema import Schema
from latecomer.source.decode.framing import HEAD_SIZE
from latecomer.source.decode.json_text import JsonText, Shape, shape_of, struct_of
from latecomer.source.decode.private_columns import KEPT, WRONG
from latecomer.source.decode.protobuf_values import (
    Convert,
    converter,
    default_of,
    is_set,
    require_readable,
)
from latecomer.source.decode.written import Misfit
from latecomer.store.layout import source_type

HEAD = HEAD_SIZE + 1
"""Bytes before the payload of most records: for the first message of a schema, one byte follows the framing. As an
element of the list, a record has as many bytes there: the tag of its field, and its length in five bytes."""
_ROWS = 0x0A
_DELIMITED = 2
FEW = 4
"""So few records are parsed one by one."""
MOST_PLACES = 100
_LONGEST_NUMBER = 5
"""Bytes of a place, at most."""


class Unusable(ValueError):
    """No record of a message can be read; the reason in words."""


def places_of(record: bytes) -> tuple[tuple[int, ...], int] | None:
    """The places of the message in its schema, and where the payload begins; None if they cannot be read.

    >>> places_of(bytes(5) + b"\\0"), places_of(bytes(5) + b"\\4\\2\\0"), places_of(bytes(5))
    (((0,), 6), ((1, 0), 8), None)
    """
    count, at = _number(record, HEAD_SIZE)
    if count == 0:
        return (0,), at
    if not 0 < count <= MOST_PLACES:
        return None
    places = []
    for _ in range(count):
        place, at = _number(record, at)
        if place < 0:
            return None
        places.append(place)
    return tuple(places), at


def _number(record: bytes, at: int) -> tuple[int, int]:
    """A number in zigzag coding, and where it ends; -1 if there is none."""
    number = 0
    for nth, byte in enumerate(record[at : at + _LONGEST_NUMBER]):
        number |= (byte & 0x7F) << (7 * nth)
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at + nth + 1
    return -1, at


@dataclass(frozen=True)
class _Leaf:
    """How a column is read from the messages that have its field."""

    name: str
    """The name of the field; empty if the writer has no such field."""
    has_presence: bool
    change: Convert | None
    nothing: Any
    """The value for messages without the field."""

    def values(self, holders: Sequence[Any]) -> list[Any]:
        """The values of some messages, which may be null; `Misfit` if the column does not take one."""
        name, change, nothing = self.name, self.change, self.nothing
        if not name:
            return [None if each is None else nothing for each in holders]
        if self.has_presence:
            fields = [
                None if each is None else getattr(each, name) if is_set(each, name) else self
                for each in holders
            ]
            if change is None:
                return [nothing if each is self else each for each in fields]
            return [None if each is None else nothing if each is self else change(each) for each in fields]
        if change is None:
            return [None if each is None else getattr(each, name) for each in holders]
        return [None if each is None else change(getattr(each, name)) for each in holders]

    def value(self, holder: Any) -> tuple[Any, bool]:
        """The value of one message, and whether it fits."""
        try:
            return self.values([holder])[0], True
        except (Misfit, UnicodeDecodeError):
            return None, False


@dataclass(frozen=True)
class ProtobufPlan:
    """How messages of one writer become columns, and how their unknown fields are kept."""

    message_class: Any
    list_class: Any
    """A message class with a list of such messages."""
    leaves: Mapping[str, tuple[tuple[str, ...], _Leaf]]
    """For each column, the fields that lead to the message that has it, and how it is read from that."""
    columns: Mapping[str, str]
    unknown: Mapping[str, tuple[tuple[str, ...], _Leaf]]
    """The same for unknown fields."""
    shape: Shape
    """The shape of the unknown fields."""
    keeps: bool
    requires: bool
    """Whether the message, or one within it, has required fields."""

    @classmethod
    def of(
        cls, read: Reading, writer: Schema, places: Sequence[int], keeps: bool, columns: Mapping[str, str]
    ) -> ProtobufPlan:
        message = message_at(writer, places)
        if message is None or message.GetOptions().map_entry:
            raise Unusable(f"has no message at the places {', '.join(map(str, places)) or 'that it names'}")
        if local_name(message) != read.message:
            raise Unusable(f"has the message {local_name(message)} there, and {read.message} is read")
        root = message_of(read.schema, read.message)
        leaves = {name: _leaf(root, message, each) for name, each in read.values.items() if name in columns}
        paths = {each.path for each in read.values.values()}
        others = {
            name: each
            for name, each in (columns_of(message) if keeps else ())
            if not any(each.path[:length] in paths for length in range(1, len(each.path) + 1))
        }
        unknown = {name: _leaf(message, message, each) for name, each in others.items()}
        return cls(
            GetMessageClass(message),
            _list_class(message),
            leaves,
            columns,
            unknown,
            _struct_shape(_tree({name: shape_of(each.kind) for name, each in others.items()})),
            keeps,
            _requires(message),
        )

    def payload(self, record: bytes) -> bytes:
        head = places_of(record)
        return b"" if head is None else record[head[1] :]

    def mistake(self, payload: bytes) -> str:
        """What is wrong with a message that could not be decoded."""
        name = self.message_class.DESCRIPTOR.name
        try:
            message = self.message_class.FromString(payload)
        except (DecodeError, UnicodeDecodeError):
            return f"its {len(payload)} bytes are no whole message {name}"
        if missing := self.message_class.FindInitializationErrors(message):
            return f"{', '.join(missing[:3])} is required in {name}, and missing"
        wrong = (
            column
            for column, (path, leaf) in self.leaves.items()
            if not leaf.value(_held(path, {(): [message]})[0])[1]
        )
        return f"the column {next(wrong, '')} does not hold what the field of {name} has"

    def unknown_names(self, payload: bytes) -> list[str]:
        """The fields of a message that are no columns."""
        try:
            unnamed = UnknownFieldSet(self.message_class.FromString(payload))
        except (DecodeError, UnicodeDecodeError):
            unnamed = ()
        return [*self.unknown, *dict.fromkeys(str(each.field_number) for each in unnamed)]

    def decoded(self, records: Sequence[bytes]) -> pa.Table:
        """Decodes records with HEAD bytes before their payloads."""
        messages, corrupt, strange = self._parsed(records)
        holders: dict[tuple[str, ...], Sequence[Any]] = {(): messages}
        table = {}
        for name, kind in self.columns.items():
            if name in self.leaves:
                path, leaf = self.leaves[name]
                table[name] = _column(self._values(leaf, path, holders, corrupt), kind)
            else:
                table[name] = pa.nulls(len(messages), source_type(kind))
        kept = self._kept(messages, holders, corrupt, strange)
        return pa.table({**table, WRONG: corrupt, **({} if kept is None else {KEPT: kept})})

    def _parsed(self, records: Sequence[bytes]) -> tuple[list[Any], Flags, bool]:
        """The messages, which of them are corrupt, and whether some may have fields that no schema names."""
        corrupt = np.zeros(len(records), np.bool_)
        if len(records) > FEW:
            data = _as_list(records)
            try:
                parsed = self.list_class.FromString(data)
            except (DecodeError, UnicodeDecodeError):
                pass
            else:
                strange = self.keeps and _has_strange(parsed)
                messages = list((self.list_class.FromString(data) if strange else parsed).rows)
                if self.requires:
                    corrupt[:] = [not self.message_class.IsInitialized(each) for each in messages]
                return messages, corrupt, strange
        messages = []
        for nth, each in enumerate(records):
            try:
                message = self.message_class.FromString(each[HEAD:])
            except (DecodeError, UnicodeDecodeError):
                message = self.message_class()
                corrupt[nth] = True
            if self.requires and not self.message_class.IsInitialized(message):
                corrupt[nth] = True
            messages.append(message)
        return messages, corrupt, self.keeps

    def _values(
        self,
        leaf: _Leaf,
        path: tuple[str, ...],
        holders: dict[tuple[str, ...], Sequence[Any]],
        corrupt: Flags,
    ) -> list[Any]:
        messages = _held(path, holders)
        try:
            return leaf.values(messages)
        except (Misfit, UnicodeDecodeError):
            values = [leaf.value(each) for each in messages]
            corrupt |= [not fits for _, fits in values]
            return [value for value, _ in values]

    def _kept(
        self,
        messages: Sequence[Any],
        holders: dict[tuple[str, ...], Sequence[Any]],
        corrupt: Flags,
        strange: bool,
    ) -> pa.Array | None:
        """The unknown fields of each message, as JSON text."""
        if not self.unknown and not strange:
            return None
        values = {
            name: self._values(leaf, path, holders, np.zeros(len(messages), np.bool_))
            for name, (path, leaf) in self.unknown.items()
        }
        write = JsonText().of(self.shape)
        texts: list[str | None] = []
        for nth, message in enumerate(messages):
            present = {name: column[nth] for name, column in values.items() if column[nth] not in (None, [])}
            text = write(_tree(present))
            more = ",".join(_strange_fields(message)) if strange else ""
            inside = ",".join(filter(None, (text[1:-1], more)))
            texts.append(f"{{{inside}}}" if inside and not corrupt[nth] else None)
        return pa.array(texts, pa.string())


def _has_strange(message: Any) -> bool:
    """Whether there are fields that no schema names. They are removed from the message."""
    before = len(message.SerializePartialToString())
    message.DiscardUnknownFields()
    return bool(len(message.SerializePartialToString()) != before)


def _leaf(reader: Any, writer: Any, column: Column) -> tuple[tuple[str, ...], _Leaf]:
    """How a column is read from the writer's messages; `SchemaError` if they cannot be read as the reader's."""
    path: list[str] = []
    for number in column.path[:-1]:
        wanted, reader = reader, reader.fields_by_number[number].message_type
        step = writer.fields_by_number.get(number)
        if step is None:  # the writer has no such message
            return (*path, ""), _Leaf("", False, None, None)
        require_readable(wanted.fields_by_number[number], step)
        path.append(step.name)
        writer = step.message_type
    wanted = reader.fields_by_number[column.path[-1]]
    nothing = None if column.as_json else default_of(wanted)
    written = writer.fields_by_number.get(column.path[-1])
    if written is None:
        return tuple(path), _Leaf("", False, None, nothing)
    change = converter(wanted, written, column.as_json)
    has_presence = written.has_presence and (wanted.has_presence or wanted.is_repeated)
    return tuple(path), _Leaf(written.name, has_presence, change, nothing)


def _held(path: tuple[str, ...], holders: dict[tuple[str, ...], Sequence[Any]]) -> Sequence[Any]:
    """The messages that a path leads to; null where there is none."""
    if path not in holders:
        name, above = path[-1], _held(path[:-1], holders)
        holders[path] = [
            getattr(each, name) if name and each is not None and is_set(each, name) else None
            for each in above
        ]
    return holders[path]


def _list_class(message: Any) -> Any:
    """A message class with a list of these messages."""
    package = f"latecomer.rows.of_{message.full_name.replace('.', '_')}"
    pool = message.file.pool
    try:
        rows_type = pool.FindMessageTypeByName(f"{package}.Rows")
    except KeyError:
        file = described.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        file.dependency.append(message.file.name)
        rows = file.message_type.add(name="Rows").field.add(name="rows", number=1, label=3, type=11)
        rows.type_name = f".{message.full_name}"
        pool.AddSerializedFile(file.SerializeToString())
        rows_type = pool.FindMessageTypeByName(f"{package}.Rows")
    return GetMessageClass(rows_type)


def _requires(message: Any) -> bool:
    left, seen = [message], {message.full_name}
    while left:
        for each in left.pop().fields:
            if each.is_required:
                return True
            inner = each.message_type
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                left.append(inner)
    return False


def _as_list(records: Sequence[bytes]) -> bytes:
    """Records as the elements of a list: the bytes before each payload become its tag and its length."""
    data = np.frombuffer(bytearray().join(records), np.uint8)
    sizes = np.fromiter(map(len, records), np.int64, len(records))
    starts, sizes = np.cumsum(sizes) - sizes, sizes - HEAD
    data[starts] = _ROWS
    for nth in range(HEAD_SIZE):
        goes_on = 0x80 if nth < HEAD_SIZE - 1 else 0
        data[starts + 1 + nth] = sizes >> (7 * nth) & 0x7F | goes_on
    return data.tobytes()


def _column(values: list[Any], kind: str) -> pa.Array:
    if kind.startswith("decimal(20,0)"):
        return pa.array(values, pa.uint64()).cast(source_type(kind))
    return pa.array(values, source_type(kind))


def _struct_shape(inside: Mapping[str, Any]) -> Shape:
    return struct_of(
        {name: _struct_shape(each) if isinstance(each, dict) else each for name, each in inside.items()}
    )


def _tree(row: Mapping[str, Any]) -> dict[str, Any]:
    """Values by names with dots, as objects within objects."""
    root: dict[str, Any] = {}
    for name, value in row.items():
        *path, last = name.split(".")
        inner = root
        for step in path:
            inner = inner.setdefault(step, {})
        inner[last] = value
    return root


def _strange_fields(message: Any) -> Iterator[str]:
    """The fields of a message that its own schema does not name, by number."""
    texts: dict[int, str] = {}
    for each in UnknownFieldSet(message):
        if each.wire_type == _DELIMITED:
            texts[each.field_number] = f'"{b64encode(each.data).decode()}"'
        elif isinstance(each.data, int):
            texts[each.field_number] = str(each.data)
        else:
            texts[each.field_number] = '"a group"'
    yield from (f'"{number}":{text}' for number, text in texts.items())
