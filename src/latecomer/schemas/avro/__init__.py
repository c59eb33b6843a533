"""Avro schemas: parsing, their forms as text, and whether one reads what another wrote. Pure, by the specification.

parse_schema, schema_of      JSON → Schema, or a SchemaError with path, value and fix
canonical_form, fingerprint, sha256, normalized, self_contained
incompatibilities            why one schema cannot read what another wrote
Level, breaches              the seven levels of a registry
reading                      how what one schema wrote is read as the columns of another
"""

from latecomer.schemas import Breach, Level, SchemaError, written_path
from latecomer.schemas.avro.compatibility import Incompatibility, Rule, breaches, incompatibilities
from latecomer.schemas.avro.forms import canonical_form, fingerprint, normalized, self_contained, sha256
from latecomer.schemas.avro.logical import Logical, logical_type
from latecomer.schemas.avro.parsing import parse_schema, schema_of
from latecomer.schemas.avro.reading import Reading, Value, reading
from latecomer.schemas.avro.types import Schema

__all__ = [
    "Breach",
    "Incompatibility",
    "Level",
    "Logical",
    "Reading",
    "Rule",
    "Schema",
    "SchemaError",
    "Value",
    "breaches",
    "canonical_form",
    "fingerprint",
    "incompatibilities",
    "logical_type",
    "normalized",
    "parse_schema",
    "reading",
    "schema_of",
    "self_contained",
    "sha256",
    "written_path",
]
