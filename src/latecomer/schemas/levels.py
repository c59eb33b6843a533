"""The compatibility levels of a registry, with Confluent's meaning.

A level says which way data must be readable between a new schema and those registered before it:

| level | the promise | against |
| --- | --- | --- |
| BACKWARD | the new schema reads data of the old one: consumers change first | the latest version |
| FORWARD | the old schema reads data of the new one: producers change first | the latest version |
| FULL | both | the latest version |
| …_TRANSITIVE | the same | every version |
| NONE | nothing | none |

The text that this package follows ("the seed") swaps BACKWARD and FORWARD: under its BACKWARD, old readers must be able
to read data of the new schema. In Confluent's registry, and here, that is FORWARD.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from latecomer.schemas.mistakes import Incompatibility

S = TypeVar("S")
Compare = Callable[[S, S], Sequence[Incompatibility]]
"""Reader's and writer's schema → why the reader cannot read the writer's data."""


class Level(StrEnum):
    """Which compatibility a new version of a schema must keep."""

    NONE = "NONE"
    BACKWARD = "BACKWARD"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD = "FORWARD"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL = "FULL"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def new_reads_old(self) -> bool:
        return self.startswith(("BACKWARD", "FULL"))

    @property
    def old_reads_new(self) -> bool:
        return self.startswith(("FORWARD", "FULL"))

    @property
    def against_all(self) -> bool:
        return self.endswith("_TRANSITIVE")


class Policy(StrEnum):
    """The rules by which JSON Schemas and Protobuf schemas are compared. Avro has rules of its own."""

    STRICT = "STRICT"
    """Confluent's: a list of changes that are compatible."""
    LENIENT = "LENIENT"
    """Confluent's for readers that ignore unknown properties: these may be added and removed. Protobuf readers always
    ignore unknown fields, so for Protobuf it is the same as STRICT."""


@dataclass(frozen=True)
class Breach:
    """Why a schema may not follow a version of its subject."""

    version: int
    rule: str
    text: str

    def __str__(self) -> str:
        return self.text


def compared(versions: Iterable[int], level: Level) -> list[int]:
    """The versions that a new schema is compared with under a level, the latest first."""
    numbers = [] if level is Level.NONE else sorted(versions, reverse=True)
    return numbers if level.against_all else numbers[:1]


def breaches(compare: Compare[S], new: S, versions: Mapping[int, S], level: Level) -> list[Breach]:
    """Why a level forbids a schema after the versions of a subject; the latest version first."""
    problems = []
    for version in compared(versions, level):
        old = versions[version]
        if level.new_reads_old:
            who = f"the new schema cannot read data of version {version}"
            problems += [Breach(version, each.rule, f"{who}: {each}") for each in compare(new, old)]
        if level.old_reads_new:
            who = f"version {version} cannot read data of the new schema"
            problems += [Breach(version, each.rule, f"{who}: {each}") for each in compare(old, new)]
    return problems
