"""The levels of a registry for JSON Schemas, with Confluent's meaning of BACKWARD and FORWARD."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.schemas import Level, levels
from latecomer.schemas.jsonschema import Schema, changes, schema_of
from latecomer.schemas.levels import Breach

BACKWARD = {Level.BACKWARD, Level.BACKWARD_TRANSITIVE}
FORWARD = {Level.FORWARD, Level.FORWARD_TRANSITIVE}
FULL = {Level.FULL, Level.FULL_TRANSITIVE}


def breaches(new: Schema, versions: dict[int, Schema], level: Level) -> list[Breach]:
    return levels.breaches(changes, new, versions, level)


def ride(*required: str, is_open: bool = False, **properties: Any) -> Schema:
    found = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()}}
    return schema_of({**found, "required": list(required), "additionalProperties": is_open})


@pytest.mark.parametrize(
    ("new", "old", "refused"),
    [
        (ride(id="integer", tip="integer"), ride(id="integer"), FORWARD | FULL),
        (ride("tip", id="integer", tip="integer"), ride(id="integer"), BACKWARD | FORWARD | FULL),
        (ride(id="integer"), ride(id="integer", tip="integer"), BACKWARD | FULL),
        (ride(id="integer", tip="integer", is_open=True), ride(id="integer", is_open=True), BACKWARD | FULL),
        (ride(id="integer", is_open=True), ride(id="integer", tip="integer", is_open=True), FORWARD | FULL),
        (ride(id="number"), ride(id="integer"), FORWARD | FULL),
        (ride(id="integer"), ride(id="integer"), set()),
    ],
)
def test_what_each_level_refuses(new: Schema, old: Schema, refused: set[Level]) -> None:
    assert {level for level in Level if breaches(new, {1: old}, level)} == refused


def test_a_breach_says_which_version_and_which_of_the_two_reads() -> None:
    versions = {3: schema_of({"type": "integer"}), 2: schema_of({"type": "string"})}
    outcome = [str(each) for each in breaches(schema_of({"type": "number"}), versions, Level.FULL_TRANSITIVE)]
    assert outcome == [
        "version 3 cannot read data of the new schema: the schema: number is written, and integer is read "
        "(TYPE_NARROWED); read number",
        "the new schema cannot read data of version 2: the schema: string is written, and number is read "
        "(TYPE_CHANGED); read string",
        "version 2 cannot read data of the new schema: the schema: number is written, and string is read "
        "(TYPE_CHANGED); read number",
    ]
