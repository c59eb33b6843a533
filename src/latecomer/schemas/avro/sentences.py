"""The messages for schemas that do not fit: each a sentence and a fix."""

from __future__ import annotations

from collections.abc import Sequence

from latecomer.schemas.avro.naming import simple_name
from latecomer.schemas.avro.types import Defined, Enum, Field, Fixed, Named, Record, Reference, Type, Union
from latecomer.schemas.mistakes import Words, listed

READ_BY: dict[str, tuple[str, ...]] = {
    "null": ("null",),
    "boolean": ("boolean",),
    "int": ("int",),
    "long": ("long", "int"),
    "float": ("float", "int", "long"),
    "double": ("double", "int", "long", "float"),
    "bytes": ("bytes", "string"),
    "string": ("string", "bytes"),
    "array": ("array",),
    "map": ("map",),
    "enum": ("enum",),
    "fixed": ("fixed",),
    "record": ("record",),
}
"""Reader's kind → the writer's kinds that it can read."""


def named(found: Type) -> str:
    """A type in few words.

    >>> from latecomer.schemas.avro.types import Primitive
    >>> named(Union((Primitive("null"), Reference("a.Ride"))))
    'union of null, a.Ride'
    """
    match found:
        case Reference():
            return found.name
        case Union():
            return f"union of {listed([named(each) for each in found.branches])}"
        case Record() | Enum() | Fixed():
            return f"{found.kind} {found.name}"
    return found.kind


def type_mismatch(reader: Defined, writer: Defined) -> Words:
    kinds = [kind for kind, written in READ_BY.items() if writer.kind in written and kind != writer.kind]
    fix = f"read {listed([writer.kind, *kinds], ' or ')}"
    return f"{named(writer)} is written, and {named(reader)} is read", fix


def name_mismatch(reader: Named, writer: Named) -> Words:
    fix = f"keep the name {simple_name(writer.name)}"
    # An alias that has no namespace is in that of its type.
    if "." in writer.name or "." not in reader.name:
        fix += f", or give the reader's {reader.kind} the alias {writer.name}"
    return f"{named(writer)} is written, and {named(reader)} is read", fix


def fixed_size(reader: Fixed, writer: Fixed) -> Words:
    message = f"{writer.size} bytes are written, and {reader.size} are read"
    return message, f"keep the size {writer.size}, or add a field with the new type beside this one"


def missing_symbols(reader: Enum, missing: Sequence[str]) -> Words:
    message = f"{listed(missing)} may be written, and the reader's {named(reader)} has no such symbol"
    return message, "keep the symbols that are written, or give the reader's enum a default"


def missing_default(field: Field, reader: Record, writer: Record) -> Words:
    read = {name for each in reader.fields for name in (each.name, *each.aliases)}
    unread = [each.name for each in writer.fields if each.name not in read]
    fix = "give it a default"
    if unread:
        fix += f", or an alias if it was written under another name: {listed(unread, ' or ')}"
    return f"the field {field.name} is read; it is not written, and it has no default", fix


def several_fields(field: Field, sources: Sequence[Field]) -> Words:
    names = listed([each.name for each in sources], " and ")
    message = f"the field {field.name} stands for {names}, which are all written"
    return message, "leave all but one name or alias out"


def missing_branch(reader: Defined, writer: Defined, *reasons: str) -> Words:
    message = f"{named(writer)} is written, and no branch of the reader's {named(reader)} can read it"
    if reasons:
        return f"{message}: {reasons[0]}", "correct that, or keep the branch as the writer has it"
    return message, f"add {named(writer)} to the reader's union"
