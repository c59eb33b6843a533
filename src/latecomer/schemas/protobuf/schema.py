"""A Protobuf schema: a file, with those that it imports.

    parse_schema(text, references)      text → Schema, or a SchemaError with place and fix

A client may send a compiled description in base64, as Confluent's clients for Python do. It is converted to text.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from google.protobuf import descriptor_pb2 as described
from google.protobuf import text_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from latecomer.schemas import SchemaError
from latecomer.schemas.protobuf.known import KNOWN, known_file
from latecomer.schemas.protobuf.parsing import parse_file
from latecomer.schemas.protobuf.words import LONGEST_TEXT
from latecomer.schemas.protobuf.writing import file_text

ROOT = "latecomer-root.proto"
"""The name of a schema's own file. Nobody imports it."""
MOST_FILES = 500
_DIGITS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=\r\n")


@dataclass(frozen=True)
class Schema:
    """A file and what it imports. It can be pickled, since the descriptions are bytes."""

    text: str
    file: bytes
    """Its description, under the name `ROOT`."""
    references: tuple[tuple[str, Schema], ...] = ()
    """The files that it imports, by the names that it imports them by."""

    @property
    def described(self) -> Any:
        return described.FileDescriptorProto.FromString(self.file)

    @property
    def normalized(self) -> str:
        """The same text for schemas that differ only in layout, or in how they refer to a type."""
        resolved = described.FileDescriptorProto()
        schema_file(self).CopyToProto(resolved)
        return file_text(resolved)

    @property
    def serialized(self) -> str:
        """The description in base64, as some clients ask for it."""
        return b64encode(self.file).decode()


def parse_schema(text: str, references: Mapping[str, Schema] | None = None) -> Schema:
    """
    >>> parse_schema('syntax = "proto3"; message Ride { int64 id = 1; }').normalized
    'syntax = "proto3";\\n\\nmessage Ride {\\n  int64 id = 1;\\n}\\n'
    """
    compiled = _compiled(text)
    if compiled is None:
        return _schema(parse_file(text), text, references or {})
    name_options(compiled, schema_file(_schema(compiled, "", references or {})).pool)
    before = _schema(compiled, "", references or {})
    try:
        text = file_text(compiled)
        schema = _schema(parse_file(text), text, references or {})
        is_same = schema.normalized == before.normalized
    except (TypeError, UnicodeError, SchemaError):  # text that is not UTF-8 comes as bytes
        is_same = False
    if not is_same:
        message = "is a description that cannot be written as .proto text"
        raise SchemaError((), message, "compile it with protoc")
    return schema


def _schema(file: Any, text: str, references: Mapping[str, Schema]) -> Schema:
    file.name = ROOT
    file.ClearField("source_code_info")
    for name in file.dependency:
        if name not in references and name not in KNOWN:
            fix = f"add the reference {name} to its subject and version"
            raise SchemaError(("import", name), "is in no reference", fix)
    used = tuple((name, references[name]) for name in sorted(set(file.dependency)) if name in references)
    if not (
        file.message_type or file.enum_type or file.extension or file.service or file.HasField("options")
    ):
        raise SchemaError((), "defines nothing", "define a message")
    schema = Schema(text, file.SerializeToString(deterministic=True), used)
    schema_file(schema)
    return schema


def _compiled(text: str) -> Any | None:
    """The description that a text has in base64; None if it has none."""
    if len(text) > LONGEST_TEXT or not text.strip() or not _DIGITS.issuperset(text):
        return None
    try:
        file = described.FileDescriptorProto.FromString(b64decode(text))
    except (NotBase64, ValueError, DecodeError):
        return None
    if file.syntax == "editions":
        raise SchemaError((), "is of an edition, and editions are not supported", "use proto2 or proto3")
    return file


# Custom options of a compiled description
#
# A compiler writes them as extensions of Protobuf's own option messages. Only the files that define them have their
# names.


def name_options(file: Any, pool: Any) -> None:
    """Replace the custom options of a file by options with names. Options that the pool does not define are dropped."""
    for options in list(_options_in(file)):
        try:
            known = GetMessageClass(pool.FindMessageTypeByName(options.DESCRIPTOR.full_name))
            resolved = known.FromString(options.SerializeToString())
        except (KeyError, DecodeError):
            resolved = options
        for field, value in resolved.ListFields():
            if field.is_extension:
                for each in value if field.is_repeated else [value]:
                    _keep(options.uninterpreted_option.add(), field, each)
        options.DiscardUnknownFields()


def _options_in(message: Any) -> Iterator[Any]:
    for field, value in message.ListFields():
        if field.name == "options":
            yield value
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                yield from _options_in(each)


def _keep(option: Any, field: Any, value: Any) -> None:
    option.name.add(name_part=field.full_name, is_extension=True)
    if field.message_type is not None:
        option.aggregate_value = text_format.MessageToString(value, as_one_line=True, as_utf8=True)
    elif field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        option.identifier_value = str(value) if named is None else named.name
    elif isinstance(value, bool):
        option.identifier_value = "true" if value else "false"
    elif isinstance(value, float):
        option.double_value = value
    elif isinstance(value, int):
        setattr(option, "negative_int_value" if value < 0 else "positive_int_value", value)
    else:
        option.string_value = value if isinstance(value, bytes) else value.encode()


# Files with what they import


@lru_cache(maxsize=256)
def schema_file(schema: Schema) -> Any:
    """The descriptor of a schema's file. Raises SchemaError if the file is not consistent."""
    pool, added = DescriptorPool(), dict[str, bytes]()
    _add(pool, ROOT, schema, added)
    return pool.FindFileByName(ROOT)


def _add(pool: Any, name: str, schema: Schema, added: dict[str, bytes]) -> None:
    """Add a file to a pool, after the files that it imports. `added` has those that are there, by name."""
    file = schema.described
    file.name = name
    references = dict(schema.references)
    for each in file.dependency:
        imported = references.get(each) or Schema("", known_file(each))
        if each in references and added.get(each, imported.file) != imported.file:
            fix = "refer to one version of it everywhere"
            raise SchemaError(("import", each), "is not the same file as in another import", fix)
        if each in added:
            continue
        if len(added) >= MOST_FILES:
            raise SchemaError(("import", each), f"more than {MOST_FILES} files are imported", "import fewer")
        added[each] = imported.file
        _add(pool, each, imported, added)
    try:
        pool.AddSerializedFile(file.SerializeToString())
    except (TypeError, DecodeError, UnicodeDecodeError) as error:
        why = str(error).removeprefix("Couldn't build proto file into descriptor pool: ")
        raise SchemaError((), why.replace(ROOT, "it")[:300], "correct that") from None
