"""Protobuf schemas: parsing, their text, their columns, and whether one can read what another wrote.

parse_schema       text, or a compiled description → Schema, or a SchemaError with place and fix
reading            the columns of a message
changes            why one schema may not read what another wrote, by Confluent's rules

All of it needs the package `protobuf`, which is an extra: import this package only inside functions.
"""

from latecomer.schemas.protobuf.compatibility import changes
from latecomer.schemas.protobuf.reading import Reading, reading
from latecomer.schemas.protobuf.schema import Schema, parse_schema

__all__ = ["Reading", "Schema", "changes", "parse_schema", "reading"]
