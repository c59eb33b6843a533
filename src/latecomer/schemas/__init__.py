"""All about schemas: what they mean, whether one reads what another wrote, and who knows which.

avro/ jsonschema/ protobuf/    parsing, text, compatibility, columns; pure
migrations/                    the phases of a breaking change; pure
registry/                      a server that keeps schemas by subject and id, and a client of any such server
inventory/                     which schemas were seen, and which a registry knows
levels, mistakes, json_input, packages    what all kinds of schema need

The engine meets this room in `store/schemas.py`: a decoder asks for the writer's schema by its id.
"""

from latecomer.schemas.levels import Breach, Level, Policy
from latecomer.schemas.mistakes import SchemaError, written_path

__all__ = ["Breach", "Level", "Policy", "SchemaError", "written_path"]
