"""Custom options of a compiled description, by the names that a text has for them.

A compiler writes them as extensions of Protobuf's own option messages. Only the files that define them have their
names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass


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
