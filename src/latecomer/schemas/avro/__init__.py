"""Avro schemas: parsing, their forms as text, and whether one reads what another wrote. Pure, by the specification.

parse_schema, schema_of      JSON → Schema, or a SchemaError with path, value and fix
normalized, self_contained   one text for schemas that differ only in layout; the same without references to others
incompatibilities            why one schema cannot read what another wrote
reading                      how data of one schema is read as the columns of another
"""

from latecomer.schemas import SchemaError
from latecomer.schemas.avro.compatibility import incompatibilities
from latecomer.schemas.avro.logical import logical_type
from latecomer.schemas.avro.parsing import parse_schema, schema_of
from latecomer.schemas.avro.reading import Reading, ReadValue, reading
from latecomer.schemas.avro.types import Schema, normalized, self_contained

__all__ = [
    "ReadValue",
    "Reading",
    "Schema",
    "SchemaError",
    "incompatibilities",
    "logical_type",
    "normalized",
    "parse_schema",
    "reading",
    "schema_of",
    "self_contained",
]
