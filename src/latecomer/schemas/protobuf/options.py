"""Custom options in a compiled description, as they are written in a text.

A compiler has resolved them: they are extensions of Protobuf's own messages of options, and known to whoever knows the
files that define them. A text has their names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass


def name_options(file: Any, pool: Any) -> None:
    """Write the custom options of a file by their names, as far as the pool has their definitions. Those that nobody
    here knows are left out."""
    for options in list(_options_in(file)):
        try:
            known = GetMessageClass(pool.FindMessageTypeByName(options.DESCRIPTOR.full_name))
            found = known.FromString(options.SerializeToString())
        except (KeyError, DecodeError):
            found = options
        for field, value in found.ListFields():
            if field.is_extension:
                for each in value if field.is_repeated else [value]:
                    _keep(options.uninterpreted_option.add(), field, each)
        options.DiscardUnknownFields()


def _options_in(made: Any) -> Iterator[Any]:
    for field, value in made.ListFields():
        if field.name == "options":
            yield value
        elif field.message_type is not None:
            for each in value if field.is_repeated else [value]:
                yield from _options_in(each)


def _keep(kept: Any, field: Any, value: Any) -> None:
    kept.name.add(name_part=field.full_name, is_extension=True)
    if field.message_type is not None:
        kept.aggregate_value = text_format.MessageToString(value, as_one_line=True, as_utf8=True)
    elif field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        kept.identifier_value = str(value) if named is None else named.name
    elif isinstance(value, bool):
        kept.identifier_value = "true" if value else "false"
    elif isinstance(value, float):
        kept.double_value = value
    elif isinstance(value, int):
        setattr(kept, "negative_int_value" if value < 0 else "positive_int_value", value)
    else:
        kept.string_value = value if isinstance(value, bytes) else value.encode()
