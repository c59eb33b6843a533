"""The description of a file as `.proto` text: the same for descriptions that differ only in layout."""

from __future__ import annotations

import json
from collections.abc import Iterator
from operator import itemgetter
from typing import Any

from google.protobuf import descriptor_pb2 as described

from latecomer.schemas.protobuf.words import TYPES, escaped, tokens

_FIELD = described.FieldDescriptorProto
_LABELS = {_FIELD.LABEL_REQUIRED: "required ", _FIELD.LABEL_REPEATED: "repeated "}
_IN = "  "
Lines = Iterator[str]


def file_text(file: Any) -> str:
    """The text of a `FileDescriptorProto`."""
    is_proto3 = file.syntax == "proto3"
    parts = [[f'syntax = "{"proto3" if is_proto3 else "proto2"}";']]
    if file.package:
        parts.append([f"package {file.package};"])
    parts.append(list(_imports(file)))
    parts.append([f"option {each};" for each in _options(file.options)])
    parts += [list(_message(each, is_proto3)) for each in file.message_type]
    parts += [list(_enum(each)) for each in file.enum_type]
    parts += _extensions(file.extension, file.message_type, is_proto3)
    parts += [list(_service(each)) for each in file.service]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _imports(file: Any) -> Lines:
    kinds = dict.fromkeys(file.public_dependency, "public ") | dict.fromkeys(file.weak_dependency, "weak ")
    yield from sorted(
        f"import {kinds.get(at, '')}{_quoted(name)};" for at, name in enumerate(file.dependency)
    )


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _block(head: str, lines: Lines) -> Lines:
    inside = [f"{_IN}{line}" if line else "" for line in lines]
    yield f"{head} {{"
    yield from inside
    yield "}"


def _message(message: Any, is_proto3: bool) -> Lines:
    yield from _block(f"message {message.name}", _inside(message, is_proto3))


def _inside(message: Any, is_proto3: bool) -> Lines:
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    groups = {
        each.type_name.rpartition(".")[2]
        for each in (*message.field, *message.extension)
        if each.type == _FIELD.TYPE_GROUP
    }
    nested = {each.name: each for each in message.nested_type}
    yield from (f"option {each};" for each in _options(message.options))
    yield from _reserved(message, 1, 2**29)
    for each in message.extension_range:
        yield f"extensions {_range(each, 1, 2**29)};"
    written = set[int]()
    for field in message.field:
        if not field.HasField("oneof_index") or field.proto3_optional:
            yield from _field(field, is_proto3, entries, nested)
        elif field.oneof_index not in written:
            written.add(field.oneof_index)
            yield from _oneof(message, field.oneof_index, nested)
    for each in message.nested_type:
        if each.name not in entries and each.name not in groups:
            yield from _message(each, is_proto3)
    for each in message.enum_type:
        yield from _enum(each)
    for lines in _extensions(message.extension, message.nested_type, is_proto3):
        yield from lines


def _oneof(message: Any, index: int, nested: dict[str, Any]) -> Lines:
    def inside() -> Lines:
        yield from (f"option {each};" for each in _options(message.oneof_decl[index].options))
        for field in message.field:
            if field.HasField("oneof_index") and field.oneof_index == index:
                yield from _field(field, True, {}, nested)

    yield from _block(f"oneof {message.oneof_decl[index].name}", inside())


def _field(field: Any, unlabelled: bool, entries: dict[str, Any], nested: dict[str, Any]) -> Lines:
    options = list(_options(field.options))
    if field.HasField("default_value"):
        options.insert(0, f"default = {_default(field)}")
    if field.json_name and field.json_name != _json_name(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    behind = f" = {field.number}" + (f" [{', '.join(options)}]" if options else "")
    entry = entries.get(field.type_name.rpartition(".")[2])
    if entry is not None and field.label == _FIELD.LABEL_REPEATED:
        key, value = (_type(each) for each in sorted(entry.field, key=lambda each: each.number))
        yield f"map<{key}, {value}> {field.name}{behind};"
        return
    label = _LABELS.get(field.label, "optional " if field.proto3_optional or not unlabelled else "")
    if field.type == _FIELD.TYPE_GROUP:
        name = field.type_name.rpartition(".")[2]
        yield from _block(f"{label}group {name}{behind}", _inside(nested[name], False))
        return
    yield f"{label}{_type(field)} {field.name}{behind};"


def _type(field: Any) -> str:
    return str(field.type_name or TYPES[field.type])


def _default(field: Any) -> str:
    if field.type == _FIELD.TYPE_BYTES:
        return f'"{field.default_value}"'
    return _quoted(field.default_value) if field.type == _FIELD.TYPE_STRING else str(field.default_value)


def _json_name(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def _enum(enum: Any) -> Lines:
    def inside() -> Lines:
        yield from (f"option {each};" for each in _options(enum.options))
        yield from _reserved(enum, 0, 2**31 - 1)
        for value in enum.value:
            options = list(_options(value.options))
            yield f"{value.name} = {value.number}" + (f" [{', '.join(options)}]" if options else "") + ";"

    yield from _block(f"enum {enum.name}", inside())


def _reserved(made: Any, beyond: int, most: int) -> Lines:
    if made.reserved_range:
        ranges = sorted(made.reserved_range, key=lambda each: each.start)
        yield f"reserved {', '.join(_range(each, beyond, most) for each in ranges)};"
    if made.reserved_name:
        yield f"reserved {', '.join(_quoted(each) for each in sorted(made.reserved_name))};"


def _range(reserved: Any, beyond: int, most: int) -> str:
    first, last = str(reserved.start), "max" if reserved.end == most else str(reserved.end - beyond)
    return first if last == first else f"{first} to {last}"


def _extensions(fields: Any, messages: Any, is_proto3: bool) -> list[list[str]]:
    nested = {each.name: each for each in messages}
    by_extended: dict[str, list[Any]] = {}
    for each in fields:
        by_extended.setdefault(each.extendee, []).append(each)
    return [
        list(
            _block(
                f"extend {name}",
                (line for each in extensions for line in _field(each, is_proto3, {}, nested)),
            )
        )
        for name, extensions in by_extended.items()
    ]


def _service(service: Any) -> Lines:
    def inside() -> Lines:
        yield from (f"option {each};" for each in _options(service.options))
        for each in service.method:
            takes = f"{'stream ' if each.client_streaming else ''}{each.input_type}"
            gives = f"{'stream ' if each.server_streaming else ''}{each.output_type}"
            head, options = f"rpc {each.name} ({takes}) returns ({gives})", list(_options(each.options))
            if options:
                yield from _block(head, (f"option {option};" for option in options))
            else:
                yield f"{head};"

    yield from _block(f"service {service.name}", inside())


def _options(options: Any) -> Lines:
    """Options as they are written, sorted by name. Repeated ones keep their order, since they are a list."""
    options_found = []
    for field, value in options.ListFields():
        if field.name == "uninterpreted_option" or field.is_repeated or field.message_type is not None:
            continue
        options_found.append((field.name, _option(field, value)))
    for each in options.uninterpreted_option:
        name = ".".join(f"({part.name_part})" if part.is_extension else part.name_part for part in each.name)
        options_found.append((name, _kept(each)))
    yield from (f"{name} = {value}" for name, value in sorted(options_found, key=itemgetter(0)))


def _option(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def _kept(option: Any) -> str:
    for kind in ("identifier_value", "positive_int_value", "negative_int_value", "double_value"):
        if option.HasField(kind):
            return str(getattr(option, kind))
    if option.HasField("string_value"):
        try:
            return _quoted(option.string_value.decode())
        except UnicodeDecodeError:
            return f'"{escaped(option.string_value)}"'
    return f"{{ {' '.join(token.text for token in tokens(option.aggregate_value)).strip()} }}"
