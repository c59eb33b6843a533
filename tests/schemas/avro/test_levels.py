"""The seven levels of a registry, with Confluent's meaning of BACKWARD and FORWARD."""

from __future__ import annotations

from typing import Any

import pytest

from latecomer.schemas import Level, levels
from latecomer.schemas.avro import Schema, incompatibilities, schema_of
from latecomer.schemas.levels import Breach


def ride(*fields: dict[str, Any]) -> Schema:
    return schema_of({"type": "record", "name": "Ride", "fields": list(fields)})


def field(name: str, **others: Any) -> dict[str, Any]:
    return {"name": name, "type": "int", **others}


ID, TIP, TIP_OR_NOT = field("id"), field("tip"), field("tip", default=0)
ALL = set(Level)
BACKWARD = {Level.BACKWARD, Level.BACKWARD_TRANSITIVE}
FORWARD = {Level.FORWARD, Level.FORWARD_TRANSITIVE}
FULL = {Level.FULL, Level.FULL_TRANSITIVE}


def breaches(new: Schema, versions: dict[int, Schema], level: Level) -> list[Breach]:
    return levels.breaches(incompatibilities, new, versions, level)


@pytest.mark.parametrize(
    ("new", "old", "refused"),
    [
        (ride(ID, TIP_OR_NOT), ride(ID), set()),
        (ride(ID, TIP), ride(ID), BACKWARD | FULL),  # nobody wrote the tips that the new schema reads
        (ride(ID), ride(ID, TIP), FORWARD | FULL),  # the old schema reads tips that nobody writes any more
        (ride(ID), ride(ID, TIP_OR_NOT), set()),
        (schema_of("long"), schema_of("int"), FORWARD | FULL),
        (schema_of("int"), schema_of("long"), BACKWARD | FULL),
        (schema_of("int"), schema_of("null"), ALL - {Level.NONE}),
        (schema_of("bytes"), schema_of("string"), set()),
    ],
)
def test_what_each_level_refuses(new: Schema, old: Schema, refused: set[Level]) -> None:
    assert {level for level in Level if breaches(new, {1: old}, level)} == refused


def test_only_transitive_levels_look_further_back_than_the_latest_version() -> None:
    versions = {1: ride(ID), 2: ride(ID, TIP_OR_NOT), 3: ride(ID, TIP)}
    new = ride(ID, TIP)
    assert {level for level in Level if breaches(new, versions, level)} == {
        Level.BACKWARD_TRANSITIVE,
        Level.FULL_TRANSITIVE,
    }
    assert {each.version for each in breaches(new, versions, Level.BACKWARD_TRANSITIVE)} == {1}


def test_the_latest_version_is_the_one_with_the_largest_number() -> None:
    assert breaches(ride(ID, TIP), {9: ride(ID, TIP), 10: ride(ID)}, Level.BACKWARD)
    assert not breaches(ride(ID, TIP), {10: ride(ID, TIP), 9: ride(ID)}, Level.BACKWARD)


def test_the_first_version_breaks_nothing() -> None:
    assert not any(breaches(ride(ID), {}, level) for level in Level)


def test_a_breach_says_which_version_and_which_of_the_two_reads() -> None:
    outcome = [str(each) for each in breaches(schema_of("int"), {4: schema_of("null")}, Level.FULL)]
    assert outcome == [
        "the new schema cannot read data of version 4: the schema: null is written, and int is read "
        "(TYPE_MISMATCH); read null",
        "version 4 cannot read data of the new schema: the schema: int is written, and null is read "
        "(TYPE_MISMATCH); read int, long, float or double",
    ]
