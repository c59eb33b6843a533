"""JSON Schemas: parsing, the normalized form, validating values, and whether one reads what another wrote. Pure.

parse_schema, schema_of      JSON → Schema, or a SchemaError with path, value and fix
normalized, sha256           one text, and its hash, for schemas that differ in layout alone
Validator                    what is wrong with a value
columns_of                   the columns of records that fit a schema
incompatibilities            why not every value of one schema is a value of another
Level, breaches              the seven levels of a registry
"""

from latecomer.model.jsonschema.columns import columns_of
from latecomer.model.jsonschema.compatibility import breaches, incompatibilities
from latecomer.model.jsonschema.drafts import Draft
from latecomer.model.jsonschema.forms import normalized, sha256
from latecomer.model.jsonschema.parsing import Schema, parse_schema, schema_of
from latecomer.model.jsonschema.rules import Incompatibility, Rule
from latecomer.model.jsonschema.validation import Fault, Validator
from latecomer.model.schemas import Breach, Level, SchemaError, written_path

__all__ = [
    "Breach",
    "Draft",
    "Fault",
    "Incompatibility",
    "Level",
    "Rule",
    "Schema",
    "SchemaError",
    "Validator",
    "breaches",
    "columns_of",
    "incompatibilities",
    "normalized",
    "parse_schema",
    "schema_of",
    "sha256",
    "written_path",
]
