"""What `latecomer migrate` prints: where a migration stands, a step of it, and drift."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from latecomer.cli.options import Format, WrongUsage, print_json
from latecomer.errors.harmless import harmless
from latecomer.model.counting import counted
from latecomer.model.zoned import moment

if TYPE_CHECKING:
    from latecomer.after.migrate.drift import Drift, ProducerTally
    from latecomer.schemas.migrations import Migration, MigrationState, Situation


def require_no_csv(form: Format) -> None:
    if form is Format.CSV:
        raise WrongUsage("--format", "csv", "is for rows", "write table or json")


def print_status(situation: Situation, form: Format) -> None:
    from latecomer.schemas.migrations import Phase, consumer_standings, obstacles

    require_no_csv(form)
    migration, state = situation.migration, situation.state
    following = Phase.EXPAND if state.phase is None else state.phase.next
    found = obstacles(situation)
    standings = consumer_standings(situation)
    measured = state.measured
    if form is Format.JSON:
        drift = measured and {**measured.body(), "at": moment(measured.at), "share": measured.share}
        consumers = [
            {
                "name": each.name,
                "owner": each.owner,
                "migrated": each.migrated,
                "needs": list(dict.fromkeys((*each.declared, *each.running))),
                "seen": moment(each.seen_at),
                "read": each.read and {"at": moment(each.read.at), "id": each.read.id},
            }
            for each in standings
        ]
        blocking = [{"reason": each.reason, "ask": each.ask} for each in found]
        shown = {"next": following, "obstacles": blocking, "drift": drift, "consumers": consumers}
        print_json({**_standing(situation, state), **shown})
        return
    print(_sentence(situation, state))
    print(f"owner: {migration.owner}")
    if measured is not None:
        print(f"drift: {measured.drifted:,} of {counted(measured.events, 'event')}, at {moment(measured.at)}")
    for each in standings:
        ready = "ready" if each.migrated else "needs the old shape"
        last = "never seen" if each.seen_at is None else f"last seen {moment(each.seen_at)}"
        if each.read is not None:
            last += f"; last read schema {each.read.id} at {moment(each.read.at)}"
        print(f"consumer {each.name}: {ready}; {last}; ask {each.owner}")
    if following is None:
        print("nothing follows; latecomer migrate rollback goes back")
    elif not found:
        print(f"it can advance to {following}")
    else:
        print(f"it cannot advance to {following} yet:")
        for obstacle in found:
            print(f"  - {obstacle}")


def _standing(situation: Situation, state: MigrationState) -> dict[str, Any]:
    return {
        "migration": situation.migration.migration,
        "subject": situation.migration.subject,
        "owner": situation.migration.owner,
        "phase": state.phase,
        "since": moment(state.since),
        "revision": state.revision,
        "expanded": state.expanded,
        "contracted": state.contracted,
    }


def _sentence(situation: Situation, state: MigrationState) -> str:
    name, subject = situation.migration.migration, situation.migration.subject
    if state.phase is None:
        return f"{name} of {subject} has not begun"
    return f"{name} of {subject} is in {state.phase} since {moment(state.since)}"


def print_step(before: Situation, after: MigrationState, form: Format) -> None:
    require_no_csv(form)
    if form is Format.JSON:
        print_json({"from": before.state.phase, **_standing(before, after)})
        return
    print(_sentence(before, after))
    for what, version, earlier in (
        ("both shapes", after.expanded, before.state.expanded),
        ("the new shape alone", after.contracted, before.state.contracted),
    ):
        if version is not None and version != earlier:
            print(f"registered: version {version}, with {what}")
        elif version is None and earlier is not None:
            print(f"deleted, and still to be read: version {earlier}, with {what}")


def print_drift(migration: Migration, drift: Drift, form: Format) -> None:
    from latecomer.schemas.migrations.deciding import shown_share

    require_no_csv(form)
    if form is Format.JSON:
        print_json(_drift_document(migration, drift))
        return
    print(
        f"{drift.drifted:,} of {counted(drift.events, 'event')} drift ({shown_share(drift.share)}; "
        f"the limit is {shown_share(migration.drift_limit)})"
    )
    for producer, schema_id, each in _by_producer(drift):
        if each.drifted:
            kinds = ", ".join(f"{kind}: {count:,}" for kind, count in sorted(each.kinds.items()))
            print(
                f"producer {harmless(producer or '-')}, schema {schema_id}: {each.drifted:,} of {each.events:,} since "
                f"{moment(each.first)}, last {moment(each.last)} ({kinds})"
            )
    for example in drift.examples:
        has, expected = (
            ", ".join(f"{name}={'-' if value is None else value}" for name, value in _texts(values).items())
            for values in (example.values, example.expected)
        )
        print(
            harmless(
                f"  {moment(example.arrival_time)} {example.event_id or example.origin}: {example.kind}; "
                f"has {has}; expected {expected}"
            )
        )


def _by_producer(drift: Drift) -> list[tuple[str | None, int | None, ProducerTally]]:
    """The events of each producer with each schema, the most drifting ones first."""
    whose = sorted(drift.by.items(), key=lambda each: (-each[1].drifted, str(each[0])))
    return [(producer, schema_id, tally) for (producer, schema_id), tally in whose]


def _drift_document(migration: Migration, drift: Drift) -> dict[str, Any]:
    return {
        "migration": migration.migration,
        "since": moment(drift.since),
        "events": drift.events,
        "drifted": drift.drifted,
        "share": drift.share,
        "limit": migration.drift_limit,
        "first_drift": moment(drift.first),
        "by": [
            {
                "producer": producer,
                "schema_id": schema_id,
                "events": each.events,
                "drifted": each.drifted,
                "kinds": dict(each.kinds),
                "first": moment(each.first),
                "last": moment(each.last),
            }
            for producer, schema_id, each in _by_producer(drift)
        ],
        "examples": [
            {
                "kind": each.kind,
                "producer": each.producer,
                "schema_id": each.schema_id,
                "event_id": each.event_id,
                "arrival_time": moment(each.arrival_time),
                "origin": each.origin,
                "position": each.position,
                "values": _texts(each.values),
                "expected": _texts(each.expected),
            }
            for each in drift.examples
        ],
    }


def _texts(values: Mapping[str, Any]) -> dict[str, Any]:
    from latecomer.model.written_values import json_value

    return {name: json_value(value) for name, value in values.items()}
