"""The steps of a migration in a registry: look at the situation, decide, then change it in one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from latecomer.errors import LatecomerError, RegistryError, RegistryOutage
from latecomer.schemas.avro import Schema, parse_schema
from latecomer.schemas.migrations import (
    Migration,
    MigrationRules,
    MigrationState,
    Obstacle,
    Phase,
    Situation,
    contracted_text,
    expanded_text,
    obstacles,
)
from latecomer.schemas.migrations.deciding import changed_definition
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.migrating import MigrationChange
from latecomer.schemas.registry.records import Definition, Deleted
from latecomer.schemas.registry.refusals import NO_SUBJECT


class NotYet(LatecomerError):
    """A migration that cannot advance now."""

    def __init__(self, migration: Migration, phase: Phase | None, obstacles: Sequence[Obstacle]) -> None:
        self.obstacles = list(obstacles)
        into = "begin" if phase is None else f"leave {phase}"
        reasons = "".join(f"\n  - {each}" for each in obstacles)
        super().__init__(f"{migration.migration} cannot {into}:{reasons}")


def _made(
    client: Client, migration: Migration, text_of: Callable[[str, Migration, Mapping[str, Schema]], str]
) -> tuple[Definition, Mapping[str, Schema]]:
    """The schema of a subject now, with both shapes, or with the new shape only; and the schemas that it names."""
    subject = migration.subject
    try:
        latest = client.version(subject).definition
    except RegistryError as error:
        if isinstance(error, RegistryOutage) or error.code != NO_SUBJECT:
            raise
        raise LatecomerError(
            f"subject: the registry {client.shown} has no subject {subject}; register its schema first"
        ) from None
    if latest.type != "AVRO":
        raise LatecomerError(
            f"subject: {subject} has a schema of the type {latest.type}, and only Avro schemas can be migrated"
        )
    references = {
        each.name: client.parsed(client.version(each.subject, each.version, Deleted.INCLUDED)).schema
        for each in latest.references
    }
    return replace(latest, text=text_of(latest.text, migration, references)), references


def look(client: Client, migration: Migration, now: int, *, briefly: bool = False) -> Situation:
    """The situation before the next step. `briefly` leaves out the schemas: they cannot stop a rollback."""
    state = client.migration(migration.migration)
    if briefly or state.phase is Phase.CONTRACT or not migration.from_:
        return Situation(migration, state, now)
    if state.phase is None:
        return _look_before(client, migration, state, now)
    definition, references = _made(client, migration, contracted_text)
    schema = parse_schema(definition.text, references, strict=False)
    refusals = client.problems(migration.subject, definition) if state.phase is Phase.MIGRATE else []
    return Situation(migration, state, now, schema, refusals)


def _look_before(client: Client, migration: Migration, state: MigrationState, now: int) -> Situation:
    """The situation before the first step: whether the schema with both shapes can be made, and would be accepted."""
    try:
        both, references = _made(client, migration, expanded_text)
        refusals = client.problems(migration.subject, both)
    except RegistryOutage:
        raise
    except LatecomerError as error:
        return Situation(migration, state, now, None, [str(error)])
    contracted = contracted_text(both.text, migration, references)
    schema = parse_schema(contracted, references, strict=False)
    return Situation(migration, state, now, schema, refusals)


def advance(client: Client, situation: Situation) -> MigrationState:
    """Go on to the next phase, and register its schema; or raise what is in the way."""
    migration, state = situation.migration, situation.state
    if in_the_way := obstacles(situation):
        raise NotYet(migration, state.phase, in_the_way)
    situation = _with_rules(client, situation)
    phase = Phase.EXPAND if state.phase is None else state.phase.next
    schema = rules = None
    if phase is Phase.EXPAND:
        (schema, _), rules = _made(client, migration, expanded_text), MigrationRules.of(migration)
    elif phase is Phase.CONTRACT:
        schema, _ = _made(client, migration, contracted_text)
    return _changed(client, situation, phase, schema=schema, rules=rules)


def roll_back(client: Client, situation: Situation) -> MigrationState:
    """Go back to the phase before. What was registered can still be read by its id."""
    migration, state = situation.migration, situation.state
    if state.phase is None:
        raise LatecomerError(f"{migration.migration} has not begun, so there is nothing to roll back")
    if migration.subject != state.subject:
        raise NotYet(migration, state.phase, changed_definition(situation))
    return _changed(client, situation, state.phase.previous)


def keep_measured(client: Client, situation: Situation, events: int, drifted: int) -> MigrationState:
    """Have the registry keep the drift that was measured."""
    if changed := changed_definition(situation):
        raise NotYet(situation.migration, situation.state.phase, changed)
    rules = MigrationRules.of(situation.migration)
    return _changed(client, situation, situation.state.phase, measured=(events, drifted), rules=rules)


def _with_rules(client: Client, situation: Situation) -> Situation:
    """Tell the registry the soak times, the limit and the consumers of the file, if they have changed. It checks them
    by its own clock."""
    rules, state = MigrationRules.of(situation.migration), situation.state
    if state.phase is None or (state.rules is not None and MigrationRules.read(state.rules) == rules):
        return situation
    return replace(situation, state=_changed(client, situation, state.phase, rules=rules))


def _changed(client: Client, situation: Situation, phase: Phase | None, **what: Any) -> MigrationState:
    """Change the migration in the registry, as it was looked at; `what` are further fields of the change."""
    migration, revision = situation.migration, situation.state.revision
    change = MigrationChange(revision, migration.subject, migration.owner, phase, migration.identity, **what)
    return client.change_migration(migration.migration, change)
