"""Schemas: their meaning, whether one can read what another wrote, and where they are registered.

avro/ jsonschema/ protobuf/    parsing, text, compatibility, columns; pure
migrations/                    the phases of a breaking change; pure
registry/                      a server for schemas by subject and id, and a client of any such server
inventory                      which schemas occur in messages, and which of them a registry knows
levels, mistakes, json_input, packages    shared by all kinds of schema

The engine uses this package in `store/schemas.py`: a decoder asks for the writer's schema by its id.
"""

from latecomer.schemas.levels import Level, Policy
from latecomer.schemas.mistakes import SchemaError, written_path

__all__ = ["Level", "Policy", "SchemaError", "written_path"]
