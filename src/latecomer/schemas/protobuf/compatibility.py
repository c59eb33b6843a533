"""Whether one schema may read what another wrote, by the rules of Confluent's registry.

    changes(reader, writer)      the changes that forbid it

Messages are compared by their names, fields by their numbers. Only what is refused is listed: fields may be added,
removed and renamed, messages and enums added and moved, and the package may change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from google.protobuf import descriptor_pb2 as described

from latecomer.schemas.mistakes import Incompatibility, Path, StepLimit
from latecomer.schemas.protobuf.reading import is_map, local_name
from latecomer.schemas.protobuf.schema import Schema, schema_file
from latecomer.schemas.protobuf.words import TYPES, by_type

GROUPS = by_type(
    {
        "number": "int32 int64 uint32 uint64 bool enum",
        "signed number": "sint32 sint64",
        "number of four bytes": "fixed32 sfixed32",
        "number of eight bytes": "fixed64 sfixed64",
        "float": "float",
        "double": "double",
        "text": "string bytes",
    }
)
"""Type → its group. The types of a group have the same encoding."""
_Pair = tuple[str, str]
"""The names of the reader's message and of the writer's."""
OWN_NUMBER = "give the new type a number of its own"


def changes(reader: Schema, writer: Schema) -> list[Incompatibility]:
    """Why a reader's schema may not read what a writer's wrote.

    >>> from latecomer.schemas.protobuf.schema import parse_schema
    >>> old, new = (parse_schema(f'syntax = "proto3"; message M {{ {kind} a = 1; }}') for kind in ("int32", "string"))
    >>> [str(each) for each in changes(new, old)]
    ['M.1: int32 is written, and string is read (FIELD_SCALAR_KIND_CHANGED); give the new type a number of its own']
    """
    work = _Comparing()
    work.messages(schema_file(reader).message_types_by_name, schema_file(writer).message_types_by_name, ())
    work.compare()
    return work.problems


@dataclass(frozen=True)
class _Message:
    """The fields of a message as they are declared."""

    descriptor: Any

    @cached_property
    def written(self) -> dict[int, Any]:
        description = described.DescriptorProto()
        self.descriptor.CopyToProto(description)
        return {each.number: each for each in description.field}

    @cached_property
    def fields(self) -> dict[int, Any]:
        return {each.number: each for each in self.descriptor.fields}

    @cached_property
    def oneof_of(self) -> dict[int, str]:
        """Number of a field in a oneof → the name of the oneof."""
        return {
            number: each.containing_oneof.name
            for number, each in self.fields.items()
            if each.containing_oneof is not None and not self.written[number].proto3_optional
        }

    @cached_property
    def plain(self) -> dict[int, Any]:
        """The fields that are in no oneof."""
        return {number: each for number, each in self.fields.items() if number not in self.oneof_of}

    def label(self, number: int) -> str | None:
        """The label that is written before a field."""
        field = self.fields[number]
        if field.is_required:
            return "required"
        if field.is_repeated:
            return None if is_map(field) else "repeated"
        is_optional = field.has_presence and field.message_type is None and number not in self.oneof_of
        return "optional" if is_optional else None


class _Comparing:
    def __init__(self) -> None:
        self.problems: list[Incompatibility] = []
        self.seen: set[_Pair] = set()
        self.queue: deque[tuple[Any, Any, Path]] = deque()
        self.current: _Pair = ("", "")
        self.refused: set[_Pair] = set()
        self.fields_of: dict[_Pair, list[tuple[_Pair, Path]]] = {}
        """Pair of messages → the fields of this type, each with the pair that it belongs to."""
        self.work = StepLimit("compare")

    def add(self, path: Path, rule: str, message: str, fix: str) -> None:
        self.problems.append(Incompatibility(path, rule, message, fix))
        self.refused.add(self.current)

    def compare(self) -> None:
        """Compare each pair of messages once. Then refuse the fields whose message cannot be read."""
        while self.queue:
            reader, writer, path = self.queue.popleft()
            self.current = reader.full_name, writer.full_name
            self.message(reader, writer, path)
        spread = deque(self.refused)
        while spread:
            inner = spread.popleft()
            for outer, path in self.fields_of.get(inner, ()):
                self.current = outer
                is_new = outer not in self.refused
                what = f"the message {inner[0]} has changed so that it cannot be read"
                self.add(path, "FIELD_NAMED_TYPE_CHANGED", what, f"correct {inner[0]}")
                if is_new:
                    spread.append(outer)

    def reach(self, reader: Any, writer: Any, path: Path) -> None:
        """Queue a pair, once: messages may be recursive."""
        pair = reader.full_name, writer.full_name
        if pair not in self.seen:
            self.seen.add(pair)
            self.queue.append((reader, writer, path))

    def messages(self, reader: Mapping[str, Any], writer: Mapping[str, Any], path: Path) -> None:
        """Compare the messages that are defined in a file or in a message."""
        for name, old in writer.items():
            if old.GetOptions().map_entry:
                continue
            if name not in reader:
                fix = f"keep the message {name}"
                self.add((*path, name), "MESSAGE_REMOVED", "the message is gone", fix)
            else:
                self.reach(reader[name], old, (*path, name))

    def message(self, reader: Any, writer: Any, path: Path) -> None:
        self.work.spend(1 + len(reader.fields) + len(writer.fields))
        new, old = _Message(reader), _Message(writer)
        moved = self._oneofs(new, old, path)
        self._removed_of_oneofs(new, old, path)
        self._plain(new, old, moved, path)
        for number in sorted(new.fields.keys() & old.fields.keys()):
            self.field(new, old, number, (*path, str(number)))
        self.messages(reader.nested_types_by_name, writer.nested_types_by_name, path)

    def _oneofs(self, new: _Message, old: _Message, path: Path) -> set[int]:
        """The numbers of the fields that have moved into a oneof."""
        moved = {number for number in new.oneof_of if number in old.plain}
        for name in dict.fromkeys(new.oneof_of.values()):
            members = {number for number, oneof in new.oneof_of.items() if oneof == name}
            into, stayed = members & moved, members & old.oneof_of.keys()
            fix = "leave the fields where they are, and add others to the oneof"
            if len(into) > 1:
                what = f"the fields {', '.join(map(str, sorted(into)))} could all be set, and are in one oneof now"
                self.add((*path, name), "MULTIPLE_FIELDS_MOVED_TO_ONEOF", what, fix)
            elif into and stayed:
                what = f"the field {min(into)} has moved into a oneof that existed"
                self.add((*path, name), "FIELD_MOVED_TO_EXISTING_ONEOF", what, fix)
        return moved

    def _removed_of_oneofs(self, new: _Message, old: _Message, path: Path) -> None:
        oneofs = set(new.oneof_of.values())
        for number, name in sorted(old.oneof_of.items()):
            if name in oneofs and number not in new.fields:
                what = f"the field {old.fields[number].name} of a oneof is gone"
                self.add((*path, name, str(number)), "ONEOF_FIELD_REMOVED", what, "keep the field")

    def _plain(self, new: _Message, old: _Message, moved: set[int], path: Path) -> None:
        for number in sorted(new.plain.keys() ^ (old.plain.keys() - moved)):
            added, removed = new.plain.get(number), old.plain.get(number)
            place = (*path, str(number))
            if added is not None and added.is_required:
                what = f"the field {added.name} is required, and was not"
                self.add(place, "REQUIRED_FIELD_ADDED", what, "make it optional")
            elif added is None and removed is not None and removed.is_required:
                what = f"the field {removed.name} is gone, and is required"
                self.add(place, "REQUIRED_FIELD_REMOVED", what, "keep the field")

    def field(self, new: _Message, old: _Message, number: int, path: Path) -> None:
        reader, writer = new.fields[number], old.fields[number]
        before = len(self.problems)
        self.types(reader, writer, path)
        if len(self.problems) > before or kind_of(reader) != "scalar":
            return
        labels = new.label(number), old.label(number)
        if None not in labels and labels[0] != labels[1] and GROUPS[writer.type] != "text":
            what = f"{labels[1]} is written, and {labels[0]} is read"
            self.add(path, "FIELD_NUMERIC_LABEL_CHANGED", what, f"keep the label {labels[1]}")

    def types(self, reader: Any, writer: Any, path: Path) -> None:
        kinds = kind_of(reader), kind_of(writer)
        what = f"{shown_type(writer)} is written, and {shown_type(reader)} is read"
        if kinds[0] != kinds[1]:
            self.add(path, "FIELD_KIND_CHANGED", what, OWN_NUMBER)
        elif kinds[0] == "map":
            for part in (1, 2):
                self.types(_part(reader, part), _part(writer, part), path)
        elif kinds[0] == "scalar":
            if GROUPS[reader.type] != GROUPS[writer.type]:
                self.add(path, "FIELD_SCALAR_KIND_CHANGED", what, OWN_NUMBER)
        elif local_name(reader.message_type) != local_name(writer.message_type):
            self.add(path, "FIELD_NAMED_TYPE_CHANGED", what, OWN_NUMBER)
        else:
            pair = reader.message_type.full_name, writer.message_type.full_name
            if pair != self.current:
                self.fields_of.setdefault(pair, []).append((self.current, path))
            self.reach(reader.message_type, writer.message_type, (local_name(reader.message_type),))


def kind_of(field: Any) -> str:
    if is_map(field):
        return "map"
    return "scalar" if field.message_type is None else "message"


def _part(field: Any, number: int) -> Any:
    """The key (1) or the value (2) of a map."""
    return field.message_type.fields_by_number[number]


def shown_type(field: Any) -> str:
    """The type of a field as it is written."""
    if is_map(field):
        key, value = (shown_type(_part(field, part)) for part in (1, 2))
        return f"map<{key}, {value}>"
    named = field.message_type or field.enum_type
    return TYPES[field.type] if named is None else str(named.name)
