"""Whether a migration can advance, why not, and the earliest dates of its phases.

Among the reasons are the rules that a registry enforces by itself: minimum durations, the limit for drift, consumers
that must move.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from latecomer.model.counting import counted
from latecomer.model.durations import format_duration, shown_duration
from latecomer.schemas.avro import Schema
from latecomer.schemas.migrations.definition import ADDITIVE, Migration, Soak
from latecomer.schemas.migrations.phases import MigrationState, Phase, Read, Stored
from latecomer.schemas.migrations.shapes import reader_problems


@dataclass(frozen=True)
class MigrationRules(Stored):
    """The rules stored with a state, durations as microseconds. The defaults are those of a file that sets none.

    >>> MigrationRules.read(MigrationRules(consumers=("crm",)).body()) == MigrationRules(consumers=("crm",))
    True
    """

    soak: Mapping[Phase, int] = field(default_factory=lambda: _soak(Soak()))
    """The minimum duration of each phase, in microseconds."""
    drift_limit: float = 0.0
    consumers: tuple[str, ...] = ()
    """The consumers that must not be seen with a schema that needs the old shape."""

    @classmethod
    def of(cls, migration: Migration) -> Self:
        return cls(_soak(migration.soak), migration.drift_limit, tuple(sorted(migration.consumers)))

    @classmethod
    def read(cls, body: Mapping[str, Any] | None) -> Self:
        return cls() if body is None else super().read(body)


def _soak(soak: Soak) -> dict[Phase, int]:
    return {phase: soak.of(phase) for phase in Phase if phase is not Phase.CONTRACT}


def waiting(state: MigrationState, rules: MigrationRules, now: int) -> list[str]:
    """Why a phase cannot end yet, by its age and by the measured drift; empty if it can."""
    reasons = (_soaking(state, rules, now), _drifting(state, rules))
    return [reason for reason in reasons if reason is not None]


def _soaking(state: MigrationState, rules: MigrationRules, now: int) -> str | None:
    """Why the phase is too young; None if it is not."""
    if state.phase is None or state.since is None:
        return None
    soak = rules.soak.get(state.phase, 0)
    remaining = state.since + soak - now
    if remaining <= 0:
        return None
    return f"{state.phase} is to last {format_duration(soak)}, and {shown_duration(remaining)} of it are left"


def _drifting(state: MigrationState, rules: MigrationRules) -> str | None:
    """Why the drift is too much or unknown; None if it is neither."""
    if state.phase not in (Phase.DUAL_WRITE, Phase.MIGRATE) or state.since is None:
        return None
    measured = state.measured
    if measured is None or measured.at < state.since:
        return f"drift was not measured since {state.phase} began; run latecomer migrate check FILE --pipeline FILE"
    if not measured.events:
        return "there was no event when drift was last measured; check again"
    if measured.share <= rules.drift_limit:
        return None
    return (
        f"{measured.drifted:,} of {counted(measured.events, 'event')} drift ({shown_share(measured.share)}), and "
        f"the limit is {shown_share(rules.drift_limit)}; correct the producers that latecomer migrate check names"
    )


def shown_share(share: float) -> str:
    """
    >>> shown_share(0.001), shown_share(0.25), shown_share(0)
    ('0.1%', '25%', '0%')
    """
    return f"{share * 100:.6g}%"


@dataclass(frozen=True)
class Obstacle:
    """Why a migration cannot advance, and whom to ask."""

    reason: str
    ask: str

    def __str__(self) -> str:
        return f"{self.reason} (ask {self.ask})"


@dataclass(frozen=True)
class Standing:
    """The state of a consumer."""

    name: str
    owner: str
    declared: Sequence[str]
    """Why the reader schema in the file needs the old shape; empty if it does not."""
    running: Sequence[str]
    """The same for the schema that the consumer was last seen with."""
    seen_at: int | None
    read: Read | None = None
    """Its last read from the registry."""

    @property
    def migrated(self) -> bool:
        return not self.declared and not self.running


@dataclass(frozen=True)
class Situation:
    """The facts for the decision."""

    migration: Migration
    state: MigrationState
    now: int
    contracted: Schema | None = None
    """The schema that contract would register; None if there is none."""
    refusals: Sequence[str] = ()
    """Why the schema of the next phase cannot be made, or would be refused by the registry."""


def consumer_standings(situation: Situation) -> list[Standing]:
    """The state of each consumer: why it still needs the old shape."""
    standings, migration = [], situation.migration
    if situation.contracted is None:
        return []
    for name, each in migration.consumers.items():
        seen = situation.state.seen.get(name)
        declared = reader_problems(each.reader, situation.contracted, migration.old)
        running = [] if seen is None else reader_problems(seen.reader, situation.contracted, migration.old)
        at = None if seen is None else seen.at
        read = situation.state.reads.get(name)
        standings.append(Standing(name, each.owner or migration.owner, declared, running, at, read))
    return standings


def obstacles(situation: Situation) -> list[Obstacle]:
    """Why the migration cannot advance now; empty if it can."""
    migration, state = situation.migration, situation.state
    if state.phase is None:
        reasons = situation.refusals if migration.from_ else [ADDITIVE]
        return [Obstacle(reason, migration.owner) for reason in reasons]
    if state.phase is Phase.CONTRACT:
        return [Obstacle("it is in its last phase, and nothing follows", migration.owner)]
    found = [
        *changed_definition(situation),
        *(
            Obstacle(reason, migration.owner)
            for reason in waiting(state, MigrationRules.of(migration), situation.now)
        ),
    ]
    if state.phase is Phase.MIGRATE:
        found += _needing(situation)
        found += [
            Obstacle(f"the registry would refuse the contracted schema: {reason}", migration.owner)
            for reason in situation.refusals
        ]
    return found


def changed_definition(situation: Situation) -> list[Obstacle]:
    """An obstacle if the file has changed since the migration began."""
    migration, state = situation.migration, situation.state
    if state.phase is None or state.identity == migration.identity:
        return []
    return [
        Obstacle(
            "the file has another subject, other fields or other expressions than when the migration began; "
            "bring them back, or roll the migration back to its beginning and begin again",
            state.owner or migration.owner,
        )
    ]


def due_since(migration: Migration, state: MigrationState, now: int) -> int | None:
    """From when on events must have both shapes: since dual_write began, but at most the duration of the phase ago.

    So earlier drift no longer counts once the producers have been right for that long. None means all events: before
    dual_write no event must have both shapes, and a check is only for information.
    """
    begun = state.entered.get(Phase.DUAL_WRITE)
    if begun is None or state.phase is None:
        return None
    soak = migration.soak.of(state.phase)
    return max(begun, now - soak) if soak else begun


def _needing(situation: Situation) -> list[Obstacle]:
    """An obstacle for each consumer that needs the old shape."""
    found = []
    for each in consumer_standings(situation):
        if each.declared:
            reason = f"the consumer {each.name} needs the old shape: {each.declared[0]}"
            found.append(Obstacle(reason, each.owner))
        elif each.running:
            reason = (
                f"the consumer {each.name} was last seen with a schema that needs the old shape: "
                f"{each.running[0]}; deploy the one of the file, and run latecomer migrate seen"
            )
            found.append(Obstacle(reason, each.owner))
    return found


@dataclass(frozen=True)
class PhaseBegin:
    """When a phase began, or can begin at the earliest."""

    phase: Phase
    at: int
    entered: bool
    soak: int


def calendar(migration: Migration, state: MigrationState, now: int) -> list[PhaseBegin]:
    """The phases in order. A future phase begins when the minimum duration of the one before is over."""
    phases: list[PhaseBegin] = []
    reached = state.phase is not None
    earliest = now
    for phase in Phase:
        soak = migration.soak.of(phase)
        entered = state.entered.get(phase) if reached else None
        begins = earliest if entered is None else entered
        phases.append(PhaseBegin(phase, begins, entered is not None, soak))
        earliest = max(now, begins + soak)
        reached = reached and phase is not state.phase
    return phases
