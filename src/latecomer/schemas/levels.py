"""The compatibility levels of a registry, as Confluent's has them.

A level says which way data must be readable between a new schema and those registered before it:

| level | the promise | against |
| --- | --- | --- |
| BACKWARD | the new schema reads data of the old one: consumers change first | the latest version |
| FORWARD | the old schema reads data of the new one: producers change first | the latest version |
| FULL | both | the latest version |
| …_TRANSITIVE | the same | every version |
| NONE | nothing | none |

The text that this part of latecomer follows ("the seed") has BACKWARD and FORWARD the other way round: it says that
under BACKWARD a new schema must be readable by old readers. In Confluent's registry, and here, that is FORWARD.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from latecomer.schemas.mistakes import Incompatibility

S = TypeVar("S")
Compare = Callable[[S, S], Sequence[Incompatibility]]
"""Reader's and writer's schema → why the one cannot read what the other wrote."""


class Level(StrEnum):
    """What a new version of a schema must keep to."""

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
    """By which rules JSON Schemas and those of Protobuf are compared. Avro has rules of its own."""

    STRICT = "STRICT"
    """Confluent's: a list of changes that are compatible."""
    LENIENT = "LENIENT"
    """Confluent's for readers that pass over what they do not know: properties may be added and removed. Readers of
    Protobuf always do: of that it is the same as STRICT."""


@dataclass(frozen=True)
class Breach:
    """Why a new schema is refused: with which version it does not go together, and which of the two reads."""

    version: int
    new_reads_old: bool
    problem: Incompatibility

    def __str__(self) -> str:
        who = f"the new schema cannot read data of version {self.version}"
        if not self.new_reads_old:
            who = f"version {self.version} cannot read data of the new schema"
        return f"{who}: {self.problem}"


def breaches(compare: Compare[S], new: S, versions: Mapping[int, S], level: Level) -> list[Breach]:
    """Why a schema may not follow the versions of a subject under a level, the latest version first."""
    numbers = sorted(versions, reverse=True)
    found = []
    for version in numbers if level.against_all else numbers[:1]:
        old = versions[version]
        if level.new_reads_old:
            found += [Breach(version, True, problem) for problem in compare(new, old)]
        if level.old_reads_new:
            found += [Breach(version, False, problem) for problem in compare(old, new)]
    return found
