"""What each level of a registry refuses, by each policy."""

from __future__ import annotations

from collections.abc import Mapping

from latecomer.schemas.jsonschema.changes import changes
from latecomer.schemas.jsonschema.parsing import Schema
from latecomer.schemas.jsonschema.rules import Incompatibility
from latecomer.schemas.levels import Breach, Level, Policy, breaches_by


def breaches(
    new: Schema, versions: Mapping[int, Schema], level: Level, policy: Policy = Policy.STRICT
) -> list[Breach[Incompatibility]]:
    """Why a schema may not follow the versions of a subject under a level, the latest version first."""

    def compare(reader: Schema, writer: Schema) -> list[Incompatibility]:
        return changes(reader, writer, lenient=policy is Policy.LENIENT)

    return breaches_by(compare, new, versions, level)
