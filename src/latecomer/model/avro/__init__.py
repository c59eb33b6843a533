"""Avro schemas: parsing, their forms as text, and whether one reads what another wrote. Pure, by the specification.

parse_schema, schema_of      JSON → Schema, or a SchemaError with path, value and fix
canonical_form, fingerprint, sha256, normalized
incompatibilities            why one schema cannot read what another wrote
Level, breaches              the seven levels of a registry
"""

from latecomer.model.avro.compatibility import Incompatibility, Rule, breaches, incompatibilities
from latecomer.model.avro.forms import canonical_form, fingerprint, normalized, sha256
from latecomer.model.avro.logical import Logical, logical_type
from latecomer.model.avro.parsing import parse_schema, schema_of
from latecomer.model.avro.types import Schema
from latecomer.model.schemas import Breach, Level, SchemaError, written_path

__all__ = [
    "Breach",
    "Incompatibility",
    "Level",
    "Logical",
    "Rule",
    "Schema",
    "SchemaError",
    "breaches",
    "canonical_form",
    "fingerprint",
    "incompatibilities",
    "logical_type",
    "normalized",
    "parse_schema",
    "schema_of",
    "sha256",
    "written_path",
]
