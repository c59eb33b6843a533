"""JSON Schemas: parsing, the normalized form, validation, and whether one can read what another wrote. Pure.

parse_schema, schema_of      JSON → Schema, or a SchemaError with path, value and fix
Validator                    what is wrong with a record
columns_of                   the columns of records that fit a schema
changes                      why Confluent's registry would refuse to read data of one schema with another
"""

from latecomer.schemas import SchemaError
from latecomer.schemas.jsonschema.compatibility import changes
from latecomer.schemas.jsonschema.object_columns import columns_of
from latecomer.schemas.jsonschema.parsing import Schema, parse_schema, schema_of
from latecomer.schemas.jsonschema.validation import Validator

__all__ = [
    "Schema",
    "SchemaError",
    "Validator",
    "changes",
    "columns_of",
    "parse_schema",
    "schema_of",
]
