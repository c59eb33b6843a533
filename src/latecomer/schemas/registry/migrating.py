"""The states of migrations, stored as settings by name. Applies changes to them, or refuses."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from latecomer.errors import LatecomerError, did_you_mean
from latecomer.schemas.avro import parse_schema
from latecomer.schemas.avro.types import Record
from latecomer.schemas.migrations import (
    LastSeen,
    MeasuredDrift,
    MigrationRules,
    MigrationState,
    Phase,
    reader_problems,
)
from latecomer.schemas.migrations.deciding import waiting
from latecomer.schemas.migrations.definition import NAME
from latecomer.schemas.migrations.phases import steps
from latecomer.schemas.registry import tables
from latecomer.schemas.registry.records import Definition
from latecomer.schemas.registry.refusals import Refused, invalid_schema, unusable
from latecomer.schemas.registry.tables import Transaction

MIGRATION = "migration"
CONFLICT = 40950
"""The error code if another change came first."""
NOT_YET = 40951
"""The error code if a phase cannot end yet."""
MOST_CONSUMERS = 1000


@dataclass(frozen=True)
class MigrationChange:
    """A change of a migration, by somebody who has seen a revision of it."""

    revision: int
    subject: str
    owner: str
    phase: Phase | None
    identity: str | None = None
    schema: Definition | None = None
    """The schema to register with the change."""
    measured: tuple[int, int] | None = None
    """Events, and how many of them drift."""
    rules: MigrationRules | None = None
    """The rules from then on: given when the migration begins, or in a step of their own."""


def name_of(written: str) -> str:
    """The name of a migration. Refused if it is not allowed."""
    if not NAME.fullmatch(written):
        raise unusable(
            f"{written[:60]!r} is no name of a migration; write letters, digits, dots, dashes and underscores"
        )
    return written


def phase_of(written: str | None) -> Phase | None:
    if written is None:
        return None
    if written not in list(Phase):
        raise unusable(f"{written[:40]!r} is no phase; {did_you_mean(written[:40], Phase)}")
    return Phase(written)


def state_of(session: Transaction, name: str) -> MigrationState:
    """The state of a migration. One that has not begun has the revision 0."""
    body = tables.setting(session, MIGRATION, name)
    return MigrationState(name) if body is None else MigrationState.read(body)


def keep(session: Transaction, state: MigrationState, *, is_news: bool = True) -> MigrationState:
    """Store a changed state. It gets the next revision, unless the change does not matter for a decision."""
    kept = replace(state, revision=state.revision + is_news)
    tables.put_setting(session, MIGRATION, state.name, kept.body())
    return kept


def require_possible(state: MigrationState, change: MigrationChange) -> None:
    """Refuse a change of an old revision, and one that skips a phase or does not fit the phase."""
    if change.revision != state.revision:
        raise Refused(
            CONFLICT,
            f"Migration '{state.name}' was changed by somebody else: it has the revision {state.revision}, and not "
            f"{change.revision}. Look at it again, and then decide.",
        )
    if abs(steps(state.phase, change.phase)) > 1:
        raise unusable(
            f"Migration '{state.name}' is in {shown(state.phase)}, and cannot go to {shown(change.phase)}: "
            "a step is one phase on or back"
        )
    if state.phase is not None and change.subject != state.subject:
        raise unusable(
            f"Migration '{state.name}' is one of the subject {state.subject}; "
            f"give another name to one of {change.subject}"
        )
    registers = steps(state.phase, change.phase) > 0 and change.phase in (Phase.EXPAND, Phase.CONTRACT)
    if (change.schema is not None) != registers:
        raise unusable("a schema is sent to enter expand or contract, and only then")
    moves = state.phase is not None and change.phase != state.phase
    if moves and change.rules is not None and change.rules != MigrationRules.read(state.rules):
        raise unusable("other rules need a step of their own, which stays in its phase")
    if moves and change.measured is not None:
        raise unusable("a measurement needs a step of its own, which stays in its phase")


def require_due(state: MigrationState, change: MigrationChange, now: int, latest: str | None) -> None:
    """Refuse to advance if the phase is too young, too many events drift, the file has changed, or a consumer was seen
    with a schema that needs the old shape. Going back is never refused. `latest` is the latest schema of the subject
    before contract."""
    if state.phase is None or steps(state.phase, change.phase) < 1:
        return
    rules = MigrationRules.read(state.rules)
    reasons = waiting(state, rules, now)
    if change.identity != state.identity:
        reasons.append("it has other fields or expressions than when it began")
    if change.phase is Phase.CONTRACT and change.schema is not None and latest is not None:
        reasons += _needed(state, rules, latest, change.schema.text)
    if reasons:
        raise Refused(
            NOT_YET, f"Migration '{state.name}' cannot leave {state.phase} yet: {'; '.join(reasons)}."
        )


def _needed(state: MigrationState, rules: MigrationRules, latest: str, contracted: str) -> list[str]:
    """Which consumers were last seen with a schema that needs fields that contract removes."""
    try:
        before, after = (parse_schema(text, strict=False) for text in (latest, contracted))
    except LatecomerError:
        return []  # it has references: the command line has checked it
    if not isinstance(before.root, Record) or not isinstance(after.root, Record):
        return []
    removed = {each.name for each in before.root.fields} - {each.name for each in after.root.fields}
    return [
        f"consumer {name} was last seen with a schema that needs the old shape: {problems[0]}"
        for name in rules.consumers
        if name in state.seen and (problems := reader_problems(state.seen[name].reader, after, removed))
    ]


def withdrawn_version(state: MigrationState, change: MigrationChange) -> int | None:
    """The version that a rollback deletes, not permanently; None if it deletes none."""
    if steps(state.phase, change.phase) >= 0:
        return None
    return {Phase.EXPAND: state.expanded, Phase.CONTRACT: state.contracted}.get(state.phase or Phase.MIGRATE)


def changed(state: MigrationState, change: MigrationChange, version: int | None, now: int) -> MigrationState:
    """The state after a change. `version` is the version that was registered with it."""
    measured = state.measured if change.measured is None else MeasuredDrift(now, *change.measured)
    rules = state.rules if change.rules is None else change.rules.body()
    if state.phase is None and change.phase is not None and change.rules is None:
        rules = MigrationRules().body()
    after = replace(state, subject=change.subject, owner=change.owner, measured=measured, rules=rules)
    if change.phase == state.phase:
        return after
    entered = {phase: at for phase, at in state.entered.items() if steps(phase, change.phase) >= 0}
    if change.phase is not None:
        entered[change.phase] = now
    expanded = state.expanded if change.phase else None
    return replace(
        after,
        phase=change.phase,
        identity=change.identity if state.phase is None else state.identity,
        entered=entered,
        expanded=version if change.phase is Phase.EXPAND and version else expanded,
        contracted=version if change.phase is Phase.CONTRACT else None,
    )


def with_seen(state: MigrationState, consumer: str, reader: str, now: int) -> MigrationState:
    """The state after a consumer was seen with a schema."""
    if not consumer.strip() or len(consumer) > 300:
        raise unusable(
            "the name of the consumer is empty or longer than 300 characters; name it as the file does"
        )
    if consumer not in state.seen and len(state.seen) >= MOST_CONSUMERS:
        raise unusable(f"more than {MOST_CONSUMERS} consumers were seen; does each run use a new name?")
    try:
        parse_schema(reader)
    except LatecomerError as error:
        raise invalid_schema(str(error)) from None
    return replace(state, seen={**state.seen, consumer: LastSeen(now, json.dumps(json.loads(reader)))})


def shown(phase: Phase | None) -> str:
    return "no phase yet" if phase is None else str(phase)


def account(state: MigrationState) -> dict[str, object]:
    """A state as the audit stores it."""
    body = state.body()
    kept = ("revision", "phase", "expanded", "contracted", "measured", "rules")
    return {"migration": state.name, **{name: body[name] for name in kept}}
