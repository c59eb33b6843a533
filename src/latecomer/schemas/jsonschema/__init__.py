"""JSON Schemas: parsing, the normalized form, validating values, and whether one reads what another wrote. Pure.

parse_schema, schema_of      JSON → Schema, or a SchemaError with path, value and fix
normalized, sha256           one text, and its hash, for schemas that differ in layout alone
Validator                    what is wrong with a record
columns_of                   the columns of records that fit a schema
changes                      why Confluent's registry would not have one read what another wrote
Level, Policy, breaches      the seven levels of a registry, and by which rules they are held
"""

from latecomer.schemas import Breach, Level, Policy, SchemaError, written_path
from latecomer.schemas.jsonschema.changes import changes
from latecomer.schemas.jsonschema.columns import columns_of
from latecomer.schemas.jsonschema.drafts import Draft
from latecomer.schemas.jsonschema.forms import normalized, sha256
from latecomer.schemas.jsonschema.levels import breaches
from latecomer.schemas.jsonschema.parsing import Schema, parse_schema, schema_of
from latecomer.schemas.jsonschema.rules import Incompatibility, Rule
from latecomer.schemas.jsonschema.validation import Fault, Validator

__all__ = [
    "Breach",
    "Draft",
    "Fault",
    "Incompatibility",
    "Level",
    "Policy",
    "Rule",
    "Schema",
    "SchemaError",
    "Validator",
    "breaches",
    "changes",
    "columns_of",
    "normalized",
    "parse_schema",
    "schema_of",
    "sha256",
    "written_path",
]
