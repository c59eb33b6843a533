"""The four phases, and the state of a migration, as a registry stores it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Self

from pydantic import TypeAdapter


class Phase(StrEnum):
    EXPAND = "expand"
    """The schema has both shapes. Producers may write the new one; consumers read the old one."""
    DUAL_WRITE = "dual_write"
    """Producers write both shapes in every event, and drift between them is watched."""
    MIGRATE = "migrate"
    """Producers go on writing both. Consumers move to the new shape, each on its own day."""
    CONTRACT = "contract"
    """The schema has the new shape alone."""

    @property
    def next(self) -> Phase | None:
        """
        >>> Phase.EXPAND.next, Phase.CONTRACT.next
        (<Phase.DUAL_WRITE: 'dual_write'>, None)
        """
        following = list(Phase).index(self) + 1
        return list(Phase)[following] if following < len(Phase) else None

    @property
    def previous(self) -> Phase | None:
        place = list(Phase).index(self)
        return list(Phase)[place - 1] if place else None


def steps(before: Phase | None, after: Phase | None) -> int:
    """How many phases one is after another; negative for the way back. None is before the first.

    >>> steps(None, Phase.EXPAND), steps(Phase.EXPAND, Phase.MIGRATE), steps(Phase.EXPAND, None)
    (1, 2, -1)
    """
    order = [None, *Phase]
    return order.index(after) - order.index(before)


class Stored:
    """A dataclass that a registry stores and sends as JSON.

    >>> state = MigrationState("s", 3, phase=Phase.EXPAND, entered={Phase.EXPAND: 7}, seen={"b": LastSeen(1, "{}")})
    >>> state.body()["entered"], MigrationState.read(state.body()) == state
    ({'expand': 7}, True)
    """

    def body(self) -> dict[str, Any]:
        """As it is stored and sent."""
        return dict(self._adapter().dump_python(self, mode="json"))

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Self:
        """The value of its stored or sent form."""
        found: Self = cls._adapter().validate_python(body)
        return found

    @classmethod
    @cache
    def _adapter(cls) -> TypeAdapter[Any]:
        return TypeAdapter(cls)


@dataclass(frozen=True)
class MeasuredDrift(Stored):
    """The last measurement of drift in the log."""

    at: int
    events: int
    drifted: int

    @property
    def share(self) -> float:
        return self.drifted / self.events if self.events else 0.0


@dataclass(frozen=True)
class LastSeen(Stored):
    """When a consumer was last seen, and its reader schema then."""

    at: int
    reader: str


@dataclass(frozen=True)
class Read(Stored):
    """When a consumer last read a schema of the subject from the registry, with a token of its name; and the id."""

    at: int
    id: int


@dataclass(frozen=True)
class MigrationState(Stored):
    """The state of a migration. Times are microseconds, by the clock of the registry."""

    name: str
    revision: int = 0
    """Each change adds one, and names the revision that it is based on. 0 is before the first change."""
    subject: str | None = None
    owner: str | None = None
    phase: Phase | None = None
    """None before the first phase, and after a rollback out of it."""
    identity: str | None = None
    """The identity of the file when the migration began."""
    entered: Mapping[Phase, int] = field(default_factory=dict)
    """When each phase up to this one began last."""
    expanded: int | None = None
    """The version of the subject with both shapes."""
    contracted: int | None = None
    """The version with the new shape alone."""
    measured: MeasuredDrift | None = None
    seen: Mapping[str, LastSeen] = field(default_factory=dict)
    rules: Mapping[str, Any] | None = None
    """The rules that the registry enforces, as `Rules` writes them; None if an earlier version has begun it."""
    reads: Mapping[str, Read] = field(default_factory=dict)
    """The last reads of consumers. Added when the state is read, and not stored in it."""

    @property
    def since(self) -> int | None:
        return None if self.phase is None else self.entered.get(self.phase)
