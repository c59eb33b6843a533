"""How the messages of one writer are read as columns: parsed all at once as the elements of a list, or one by one."""

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

from latecomer.schemas.protobuf.reading import (
    Column,
    Reading,
    columns_of,
    local_name,
    message_at,
    message_of,
)
from latecomer.schemas.protobuf.schema import Schema
from latecomer.source.decode.frames import HEAD_SIZE, Decoded, Mask
from latecomer.source.decode.json_text import JsonText, Shape, shape_of, struct_of
from latecomer.source.decode.protobuf_values import (
    Convert,
    Misfit,
    converter,
    default_of,
    is_set,
    require_readable,
)
from latecomer.store.layout import source_type

HEAD = HEAD_SIZE + 1
"""Bytes before the payload of most records: they are of the first message, which one byte says. In its place an
element of the list that all are parsed as has the mark of its field, and its length in five bytes."""
_ROWS = 0x0A
_DELIMITED = 2
FEW = 4
"""So few records are parsed one by one."""


MOST_PLACES = 100
_LONGEST_NUMBER = 5
"""Bytes of a place."""


class Unusable(ValueError):
    """Why no record of a message can be read, in words."""


def places_of(record: bytes) -> tuple[tuple[int, ...], int] | None:
    """The places of the message in its schema, and where the payload begins; None where they cannot be read.

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
    """A number with its sign in the last bit, and where it ends; -1 where there is none."""
    found = 0
    for nth, byte in enumerate(record[at : at + _LONGEST_NUMBER]):
        found |= (byte & 0x7F) << (7 * nth)
        if byte < 0x80:
            return (found >> 1) ^ -(found & 1), at + nth + 1
    return -1, at


@dataclass(frozen=True)
class _Leaf:
    """A column: how its values are had of the messages that hold them."""

    name: str
    """Of the field; empty where the writer has none."""
    has_presence: bool
    change: Convert | None
    nothing: Any
    """What it is where a message has it not."""

    def values(self, holders: Sequence[Any]) -> list[Any]:
        """Of each message, which may be null. `Misfit` where one is no value of the column."""
        name, change, nothing = self.name, self.change, self.nothing
        if not name:
            return [None if each is None else nothing for each in holders]
        if self.has_presence:
            found = [
                None if each is None else getattr(each, name) if is_set(each, name) else self
                for each in holders
            ]
            if change is None:
                return [nothing if each is self else each for each in found]
            return [None if each is None else nothing if each is self else change(each) for each in found]
        if change is None:
            return [None if each is None else getattr(each, name) for each in holders]
        return [None if each is None else change(getattr(each, name)) for each in holders]

    def value(self, holder: Any) -> tuple[Any, bool]:
        """Of one message, and whether it fits."""
        try:
            return self.values([holder])[0], True
        except (Misfit, UnicodeDecodeError):
            return None, False


@dataclass(frozen=True)
class Plan:
    """How messages of one writer become columns, and what is kept of their other fields."""

    one: Any
    many: Any
    """A message that has a list of them."""
    leaves: Mapping[str, tuple[tuple[str, ...], _Leaf]]
    """Each column: the fields that lead to the message that holds it, and how it is had of that."""
    columns: Mapping[str, str]
    unknown: Mapping[str, tuple[tuple[str, ...], _Leaf]]
    """The same of fields that are no columns."""
    shape: Shape
    """Of what is kept."""
    keeps: bool
    requires: bool
    """Whether the message, or one within it, has fields that are required."""

    @classmethod
    def of(
        cls, read: Reading, writer: Schema, places: Sequence[int], keeps: bool, columns: Mapping[str, str]
    ) -> Plan:
        message = message_at(writer, places)
        if message is None or message.GetOptions().map_entry:
            raise Unusable(f"has no message at the places {', '.join(map(str, places)) or 'that it names'}")
        if local_name(message) != read.message:
            raise Unusable(f"has the message {local_name(message)} there, and {read.message} is read")
        root = message_of(read.schema, read.message)
        leaves = {name: _leaf(root, message, each) for name, each in read.values.items() if name in columns}
        known = {each.way for each in read.values.values()}
        others = {
            name: each
            for name, each in (columns_of(message) if keeps else ())
            if not any(each.way[:length] in known for length in range(1, len(each.way) + 1))
        }
        unknown = {name: _leaf(message, message, each) for name, each in others.items()}
        return cls(
            GetMessageClass(message),
            _list_class(message),
            leaves,
            columns,
            unknown,
            _shape({name: each.kind for name, each in others.items()}),
            keeps,
            _requires(message),
        )

    def payload(self, record: bytes) -> bytes:
        found = places_of(record)
        return b"" if found is None else record[found[1] :]

    def mistake(self, payload: bytes) -> str:
        """What is wrong with a message that could not be decoded."""
        name = self.one.DESCRIPTOR.name
        try:
            message = self.one.FromString(payload)
        except (DecodeError, UnicodeDecodeError):
            return f"its {len(payload)} bytes are no whole message {name}"
        if missing := self.one.FindInitializationErrors(message):
            return f"{', '.join(missing[:3])} is required in {name}, and missing"
        wrong = (
            column
            for column, (way, leaf) in self.leaves.items()
            if not leaf.value(_held(way, {(): [message]})[0])[1]
        )
        return f"the column {next(wrong, '')} does not hold what the field of {name} has"

    def unknown_names(self, payload: bytes) -> list[str]:
        """The fields of a message that are no columns."""
        try:
            found = UnknownFieldSet(self.one.FromString(payload))
        except (DecodeError, UnicodeDecodeError):
            found = ()
        return [*self.unknown, *dict.fromkeys(str(each.field_number) for each in found)]

    def decoded(self, records: Sequence[bytes]) -> Decoded:
        """Of records with as many bytes before their payloads as most have."""
        messages, corrupt, strange = self._parsed(records)
        holders: dict[tuple[str, ...], Sequence[Any]] = {(): messages}
        table = {}
        for name, kind in self.columns.items():
            if name in self.leaves:
                way, leaf = self.leaves[name]
                table[name] = _column(self._values(leaf, way, holders, corrupt), kind)
            else:
                table[name] = pa.nulls(len(messages), source_type(kind))
        return Decoded(pa.table(table), corrupt, self._kept(messages, holders, corrupt, strange))

    def _parsed(self, records: Sequence[bytes]) -> tuple[list[Any], Mask, bool]:
        """The messages, which of them could not be parsed, and whether some may have fields that no schema names."""
        corrupt = np.zeros(len(records), np.bool_)
        if len(records) > FEW:
            data = _as_list(records)
            try:
                found = self.many.FromString(data)
            except (DecodeError, UnicodeDecodeError):
                pass
            else:
                strange = self.keeps and _has_strange(found)
                messages = list((self.many.FromString(data) if strange else found).rows)
                if self.requires:
                    corrupt[:] = [not self.one.IsInitialized(each) for each in messages]
                return messages, corrupt, strange
        messages = []
        for nth, each in enumerate(records):
            try:
                message = self.one.FromString(each[HEAD:])
            except (DecodeError, UnicodeDecodeError):
                message = self.one()
                corrupt[nth] = True
            if self.requires and not self.one.IsInitialized(message):
                corrupt[nth] = True
            messages.append(message)
        return messages, corrupt, self.keeps

    def _values(
        self, leaf: _Leaf, way: tuple[str, ...], holders: dict[tuple[str, ...], Sequence[Any]], corrupt: Mask
    ) -> list[Any]:
        there = _held(way, holders)
        try:
            return leaf.values(there)
        except (Misfit, UnicodeDecodeError):
            found = [leaf.value(each) for each in there]
            corrupt |= [not fits for _, fits in found]
            return [value for value, _ in found]

    def _kept(
        self,
        messages: Sequence[Any],
        holders: dict[tuple[str, ...], Sequence[Any]],
        corrupt: Mask,
        strange: bool,
    ) -> pa.Array | None:
        """What is kept of each, as JSON text."""
        if not self.unknown and not strange:
            return None
        values = {
            name: self._values(leaf, way, holders, np.zeros(len(messages), np.bool_))
            for name, (way, leaf) in self.unknown.items()
        }
        write = JsonText().of(self.shape)
        texts: list[str | None] = []
        for nth, message in enumerate(messages):
            text = write(_nested({name: column[nth] for name, column in values.items()}))
            more = ",".join(_strange_fields(message)) if strange else ""
            inside = ",".join(filter(None, (text[1:-1], more)))
            texts.append(f"{{{inside}}}" if inside and not corrupt[nth] else None)
        return pa.array(texts, pa.string())


def _has_strange(found: Any) -> bool:
    """Whether there are fields that no schema names. They are gone afterwards."""
    before = len(found.SerializePartialToString())
    found.DiscardUnknownFields()
    return bool(len(found.SerializePartialToString()) != before)


def _leaf(reader: Any, writer: Any, column: Column) -> tuple[tuple[str, ...], _Leaf]:
    """How a column is had of the writer's messages; `SchemaError` where they cannot be read as the reader's."""
    way: list[str] = []
    for number in column.way[:-1]:
        wanted, reader = reader, reader.fields_by_number[number].message_type
        step = writer.fields_by_number.get(number)
        if step is None:  # then nobody holds it
            return (*way, ""), _Leaf("", False, None, None)
        require_readable(wanted.fields_by_number[number], step)
        way.append(step.name)
        writer = step.message_type
    wanted = reader.fields_by_number[column.way[-1]]
    found = writer.fields_by_number.get(column.way[-1])
    if found is None:
        return tuple(way), _Leaf("", False, None, None if column.as_json else default_of(wanted))
    change = converter(wanted, found, column.as_json)
    has_presence = found.has_presence and (wanted.has_presence or wanted.is_repeated)
    return tuple(way), _Leaf(found.name, has_presence, change, None if column.as_json else default_of(wanted))


def _held(way: tuple[str, ...], holders: dict[tuple[str, ...], Sequence[Any]]) -> Sequence[Any]:
    """The messages that a way leads to, null where there is none."""
    if way not in holders:
        name, above = way[-1], _held(way[:-1], holders)
        holders[way] = [
            getattr(each, name) if name and each is not None and is_set(each, name) else None
            for each in above
        ]
    return holders[way]


def _list_class(message: Any) -> Any:
    """A message that has a list of these."""
    package = f"latecomer.rows.of_{message.full_name.replace('.', '_')}"
    pool = message.file.pool
    try:
        found = pool.FindMessageTypeByName(f"{package}.Rows")
    except KeyError:
        file = described.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        file.dependency.append(message.file.name)
        rows = file.message_type.add(name="Rows").field.add(name="rows", number=1, label=3, type=11)
        rows.type_name = f".{message.full_name}"
        pool.AddSerializedFile(file.SerializeToString())
        found = pool.FindMessageTypeByName(f"{package}.Rows")
    return GetMessageClass(found)


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
    """Records as the elements of a list: what is before the payload of each becomes its mark and its length."""
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


def _shape(columns: Mapping[str, str]) -> Shape:
    """The shape of objects with columns at these places."""
    inside: dict[str, Any] = {}
    for name, kind in columns.items():
        *way, last = name.split(".")
        there = inside
        for step in way:
            there = there.setdefault(step, {})
        there[last] = shape_of(kind)
    return _struct_shape(inside)


def _struct_shape(inside: Mapping[str, Any]) -> Shape:
    return struct_of(
        {name: _struct_shape(each) if isinstance(each, dict) else each for name, each in inside.items()}
    )


def _nested(row: Mapping[str, Any]) -> dict[str, Any]:
    """An object with the values that are there; a list that has none, and what is as if it were not, are not."""
    made: dict[str, Any] = {}
    for name, value in row.items():
        if value is None or value == []:
            continue
        *way, last = name.split(".")
        there = made
        for step in way:
            there = there.setdefault(step, {})
        there[last] = value
    return made


def _strange_fields(message: Any) -> Iterator[str]:
    """The fields of a message that not even its own schema names: by their numbers."""
    found: dict[int, str] = {}
    for each in UnknownFieldSet(message):
        if each.wire_type == _DELIMITED:
            found[each.field_number] = f'"{b64encode(each.data).decode()}"'
        elif isinstance(each.data, int):
            found[each.field_number] = str(each.data)
        else:
            found[each.field_number] = '"a group"'
    yield from (f'"{number}":{text}' for number, text in found.items())


def no_text(count: int) -> pa.Array:
    return pa.nulls(count, pa.string())
