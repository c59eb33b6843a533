"""JSON Schemas: parsing, the normalized form, validating values, and whether one reads what another wrote. Pure.

parse_schema, schema_of      JSON → Schema, or a SchemaError with path, value and fix
normalized, sha256           one text, and its hash, for schemas that differ in layout alone
Validator                    what is wrong with a value
columns_of                   the columns of records that fit a schema
changes                      why Confluent's registry would not have one read what another wrote
incompatibilities            why not every value of one schema is a value of another
Level, Policy, breaches      the seven levels of a registry, and by which rules they are held
"""

from latecomer.model.jsonschema.changes import changes
from latecomer.model.jsonschema.columns import columns_of
from latecomer.model.jsonschema.compatibility import incompatibilities
from latecomer.model.jsonschema.drafts import Draft
from latecomer.model.jsonschema.forms import normalized, sha256
from latecomer.model.jsonschema.levels import breaches
from latecomer.model.jsonschema.parsing import Schema, parse_schema, schema_of
from latecomer.model.jsonschema.rules import Incompatibility, Rule
from latecomer.model.jsonschema.validation import Fault, Validator
from latecomer.model.schemas import Breach, Level, Policy, SchemaError, written_path

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
    "incompatibilities",
    "normalized",
    "parse_schema",
    "schema_of",
    "sha256",
    "written_path",
]
