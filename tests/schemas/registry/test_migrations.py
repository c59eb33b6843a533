"""Migrations in the registry: one transaction a step, compared first, audited; and over HTTP with our client."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from latecomer.errors import RegistryError
from latecomer.model.durations import UNITS, to_moment
from latecomer.schemas.migrations import (
    Migration,
    MigrationRules,
    MigrationState,
    Phase,
    contracted_text,
    expanded_text,
)
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.core import Registry
from latecomer.schemas.registry.databases import open_database
from latecomer.schemas.registry.migrating import MigrationChange
from latecomer.schemas.registry.records import Actor, Definition, Deleted, Mode
from latecomer.schemas.registry.refusals import Refused
from latecomer.schemas.registry.tokens import Scope, add_token, new_token
from schemas.migrations.migration_kit import DAY, NOW, RIDE, USER, made, pricing, rename, text
from schemas.registry.registry_kit import Server, beside, fresh

ANA = Actor("ana", "10.0.0.1")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> str:
        return to_moment(self.now).astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(tmp_path: Path, clock: Clock) -> Iterator[Registry]:
    opened = Registry(open_database(str(tmp_path / "registry.db")), clock)
    yield opened
    opened.close()


def change(
    migration: Migration, state: MigrationState, phase: Phase | None, schema: str | None = None, **more: Any
) -> MigrationChange:
    sent = None if schema is None else Definition(schema)
    return MigrationChange(
        state.revision, migration.subject, migration.owner, phase, migration.identity, schema=sent, **more
    )


def latest(registry: Registry, migration: Migration) -> str:
    return registry.version(migration.subject).definition.text


def fields(schema: str) -> list[str]:
    return [each["name"] for each in json.loads(schema)["fields"]]


def soaked(registry: Registry, clock: Clock, migration: Migration, state: MigrationState) -> MigrationState:
    """A week later, when somebody has looked for drift and found none."""
    clock.now += 7 * DAY
    step = change(migration, state, state.phase, measured=(10, 0))
    return registry.change_migration(ANA, migration.migration, step)


@pytest.mark.parametrize(("migration", "schema"), [(made(pricing()), RIDE), (made(rename()), USER)])
def test_all_four_phases_and_back(
    registry: Registry, clock: Clock, migration: Migration, schema: dict[str, Any]
) -> None:
    name, subject = migration.migration, migration.subject
    registry.register(ANA, subject, Definition(text(schema)))
    state = registry.migration(name)
    assert (state.revision, state.phase) == (0, None)
    both = expanded_text(text(schema), migration)
    state = registry.change_migration(ANA, name, change(migration, state, Phase.EXPAND, both))
    assert (state.phase, state.expanded, state.since) == (Phase.EXPAND, 2, NOW)
    for phase in (Phase.DUAL_WRITE, Phase.MIGRATE):
        state = soaked(registry, clock, migration, state)
        state = registry.change_migration(ANA, name, change(migration, state, phase))
    left = contracted_text(latest(registry, migration), migration)
    state = soaked(registry, clock, migration, state)
    state = registry.change_migration(ANA, name, change(migration, state, Phase.CONTRACT, left))
    assert (state.contracted, state.since) == (3, NOW + 21 * DAY)
    assert fields(latest(registry, migration)) == fields(left)
    assert list(state.entered) == list(Phase)
    # And back, phase by phase. Ids can still be read.
    clock.now += DAY
    number = registry.version(subject).id
    state = registry.change_migration(ANA, name, change(migration, state, Phase.MIGRATE))
    assert (state.phase, state.contracted, state.since) == (Phase.MIGRATE, None, NOW + 22 * DAY)
    assert fields(latest(registry, migration)) == fields(both)
    assert fields(registry.definition(number).text) == fields(left)
    # Contracting again registers it again, under the id that it had.
    state = soaked(registry, clock, migration, state)
    state = registry.change_migration(ANA, name, change(migration, state, Phase.CONTRACT, left))
    assert (state.contracted, registry.version(subject).id) == (4, number)
    for phase in (Phase.MIGRATE, Phase.DUAL_WRITE, Phase.EXPAND, None):
        state = registry.change_migration(ANA, name, change(migration, state, phase))
    assert (state.phase, state.expanded, state.entered) == (None, None, {})
    assert fields(latest(registry, migration)) == fields(text(schema))
    assert registry.versions(subject, Deleted.INCLUDED) == [1, 2, 3, 4]
    actions = [each.action for each in registry.audit(subject=subject)]
    steps = [each.removeprefix("migrate ") for each in actions if each.startswith("migrate ")]
    assert steps[:4] == [
        "no phase yet to expand",
        "expand to dual_write",
        "dual_write to migrate",
        "migrate to contract",
    ]
    assert steps[-1] == "expand to no phase yet"
    assert len(steps) == 10


def begun(registry: Registry, migration: Migration, schema: dict[str, Any], **rules: Any) -> MigrationState:
    registry.register(ANA, migration.subject, Definition(text(schema)))
    both = expanded_text(text(schema), migration)
    step = change(migration, registry.migration("m"), Phase.EXPAND, both, **rules)
    return registry.change_migration(ANA, "m", step)


def refused(registry: Registry, step: MigrationChange) -> str:
    before = registry.migration("m")
    with pytest.raises(Refused) as caught:
        registry.change_migration(ANA, "m", step)
    assert (caught.value.status, caught.value.code) == (409, 40951)
    assert registry.migration("m") == before
    return str(caught.value)


def test_the_registry_itself_sees_to_soak_and_drift(registry: Registry, clock: Clock) -> None:
    migration = made(pricing(drift_limit="20%"))
    state = begun(registry, migration, RIDE, rules=MigrationRules.of(migration))
    clock.now += DAY - 1
    step = change(migration, state, Phase.DUAL_WRITE)
    assert "expand is to last 1d, and" in refused(registry, step)
    clock.now += 1
    state = registry.change_migration(ANA, "m", step)
    clock.now += 7 * DAY
    on = Phase.MIGRATE
    assert "drift was not measured since dual_write began" in refused(registry, change(migration, state, on))
    for events, drifted, outcome in (
        (0, 0, "there was no event"),
        (10, 3, r"3 of 10 events drift (30%), and the limit is 20%"),
    ):
        measured = change(migration, state, Phase.DUAL_WRITE, measured=(events, drifted))
        state = registry.change_migration(ANA, "m", measured)
        assert outcome in refused(registry, change(migration, state, on))
    state = registry.change_migration(ANA, "m", change(migration, state, Phase.DUAL_WRITE, measured=(10, 2)))
    other = made(pricing(**{"from": {"fare_cents": "pricing.base + pricing.surge + pricing.tax + 1"}}))
    assert "other fields or expressions" in refused(registry, change(other, state, on))
    clock.now += 1
    state = registry.change_migration(ANA, "m", change(migration, state, on))
    # What was measured in an earlier phase does not count, and going back needs no patience.
    clock.now += 14 * DAY
    left = contracted_text(latest(registry, migration), migration)
    assert "drift was not measured since migrate" in refused(
        registry, change(migration, state, Phase.CONTRACT, left)
    )
    back = registry.change_migration(ANA, "m", change(migration, state, Phase.DUAL_WRITE))
    assert "dual_write is to last 7d, and 7d of it are left" in refused(registry, change(migration, back, on))


def test_a_consumer_that_was_seen_with_the_old_shape_holds_the_last_phase(
    registry: Registry, clock: Clock
) -> None:
    migration = made(pricing())
    state = begun(registry, migration, RIDE, rules=MigrationRules.of(migration))
    for phase in (Phase.DUAL_WRITE, Phase.MIGRATE, None):
        clock.now += 14 * DAY
        measured = change(migration, state, state.phase, measured=(10, 0))
        state = registry.change_migration(ANA, "m", measured)
        if phase is not None:
            state = registry.change_migration(ANA, "m", change(migration, state, phase))
    registry.consumer_seen(ANA, "m", "nobody of the file", text(RIDE))
    state = registry.consumer_seen(ANA, "m", "billing", text(RIDE))
    left = contracted_text(latest(registry, migration), migration)
    outcome = refused(registry, change(migration, state, Phase.CONTRACT, left))
    assert "consumer billing was last seen with a schema that needs the old shape" in outcome
    assert "nobody" not in outcome
    state = registry.consumer_seen(ANA, "m", "billing", left)
    assert registry.change_migration(ANA, "m", change(migration, state, Phase.CONTRACT, left)).contracted == 3


def test_who_says_no_rules_has_those_of_a_file_that_says_none(registry: Registry, clock: Clock) -> None:
    migration = made(pricing())
    state = begun(registry, migration, RIDE)
    assert MigrationRules.read(state.rules) == MigrationRules()
    assert "expand is to last 1d" in refused(registry, change(migration, state, Phase.DUAL_WRITE))
    # Other rules are a step of their own, and in the audit.
    quick = MigrationRules({phase: 0 for phase in Phase if phase is not Phase.CONTRACT})
    with pytest.raises(Refused, match="other rules need a step of their own"):
        registry.change_migration(ANA, "m", change(migration, state, Phase.DUAL_WRITE, rules=quick))
    with pytest.raises(Refused, match="a measurement needs a step of its own"):
        registry.change_migration(ANA, "m", change(migration, state, Phase.DUAL_WRITE, measured=(1, 0)))
    state = registry.change_migration(ANA, "m", change(migration, state, Phase.EXPAND, rules=quick))
    state = registry.change_migration(ANA, "m", change(migration, state, Phase.DUAL_WRITE))
    last = list(registry.audit(subject=migration.subject))[-2]
    assert last.action == "migrate with other rules"
    assert last.before["rules"]["soak"]["expand"] == DAY
    assert last.after["rules"]["soak"]["expand"] == 0


def test_of_two_operators_one_advances(registry: Registry) -> None:
    migration = made(pricing())
    registry.register(ANA, migration.subject, Definition(text(RIDE)))
    seen_by_both = registry.migration("m")
    step = change(migration, seen_by_both, Phase.EXPAND, expanded_text(text(RIDE), migration))
    registry.change_migration(ANA, "m", step)
    with pytest.raises(Refused, match="was changed by somebody else") as caught:
        registry.change_migration(ANA, "m", step)
    assert caught.value.status == 409
    assert registry.migration("m").revision == 1


def test_of_many_at_once_one_advances(tmp_path: Path) -> None:
    migration, start = made(pricing()), MigrationState("m")
    place = str(tmp_path / "shared.db")
    with closing(Registry(open_database(place))) as one, closing(Registry(open_database(place))) as other:
        one.register(ANA, migration.subject, Definition(text(RIDE)))
        step = change(migration, start, Phase.EXPAND, expanded_text(text(RIDE), migration))

        def code_of(number: int) -> int | None:
            try:
                (one, other)[number % 2].change_migration(ANA, "m", step)
            except Refused as refused:
                return refused.code
            return 0

        with ThreadPoolExecutor(6) as pool:
            assert sorted(pool.map(code_of, range(6))) == [0] + [40950] * 5
        assert one.versions(migration.subject) == [1, 2]


def test_a_step_that_fails_changes_nothing(registry: Registry) -> None:
    migration = made(pricing())
    registry.register(ANA, migration.subject, Definition(text(RIDE)))
    start = registry.migration("m")
    both = expanded_text(text(RIDE), migration)
    for wrong, said in (
        (change(migration, start, Phase.DUAL_WRITE), "a step is one phase on or back"),
        (change(migration, start, Phase.EXPAND), "a schema is sent to enter expand"),
        (change(migration, start, Phase.EXPAND, '{"type": "record"}'), "Invalid schema"),
        (
            change(migration, start, Phase.EXPAND, text({**RIDE, "name": "Other"})),
            "Schema being registered is incompatible",
        ),
    ):
        with pytest.raises(Refused, match=said):
            registry.change_migration(ANA, "m", wrong)
    registry.set_mode(ANA, migration.subject, Mode.READONLY)
    with pytest.raises(Refused, match="nothing may be changed"):
        registry.change_migration(ANA, "m", change(migration, start, Phase.EXPAND, both))
    assert registry.migration("m") == start
    assert registry.versions(migration.subject) == [1]


def test_a_heartbeat_is_no_reason_to_look_again(registry: Registry, clock: Clock) -> None:
    migration = made(pricing())
    registry.register(ANA, migration.subject, Definition(text(RIDE)))
    with pytest.raises(Refused, match="has not begun"):
        registry.consumer_seen(ANA, "m", "billing", text(RIDE))
    both = expanded_text(text(RIDE), migration)
    begun = registry.change_migration(
        ANA, "m", change(migration, registry.migration("m"), Phase.EXPAND, both)
    )
    first = registry.consumer_seen(ANA, "m", "billing", text(RIDE))
    assert (first.revision, first.seen["billing"].at) == (begun.revision + 1, NOW)
    clock.now += DAY
    again = registry.consumer_seen(ANA, "m", "billing", text(RIDE))
    assert (again.revision, again.seen["billing"].at) == (first.revision, NOW + DAY)
    measured = change(migration, again, Phase.EXPAND, measured=(10, 1))
    assert registry.change_migration(ANA, "m", measured).seen == again.seen
    actions = [each.action for each in registry.audit(subject=migration.subject)]
    assert actions.count("consumer billing seen") == 1
    with pytest.raises(Refused, match="Invalid schema"):
        registry.consumer_seen(ANA, "m", "billing", "{")


# Over HTTP


def test_our_client_and_the_scopes(tmp_path: Path) -> None:
    tokens = {}
    for name, scope in (("reader", Scope.READ), ("writer", Scope.WRITE)):
        tokens[name], kept = new_token(name, scope)
        add_token(tmp_path / "tokens", kept)
    migration = made(pricing())
    with beside(tmp_path / "r.db", tmp_path / "tokens") as server:
        writer, reader = (Client(server.url, token=tokens[each]) for each in ("writer", "reader"))
        writer.register(migration.subject, Definition(text(RIDE)))
        start = reader.migration("m")
        assert start == MigrationState("m")
        step = change(migration, start, Phase.EXPAND, expanded_text(text(RIDE), migration))
        with pytest.raises(RegistryError, match="takes the scope write"):
            reader.change_migration("m", step)
        state = writer.change_migration("m", step)
        assert state == reader.migration("m")
        assert abs(state.since / 1e6 - datetime.now(UTC).timestamp()) < 60
        with pytest.raises(RegistryError, match="changed by somebody else") as caught:
            writer.change_migration("m", step)
        assert caught.value.code == 40950
        with pytest.raises(RegistryError, match="takes the scope write"):
            reader.consumer_seen("m", "billing", text(RIDE))
        assert "billing" in writer.consumer_seen("m", "billing", text(RIDE)).seen


def test_a_read_that_could_not_be_noted_is_noted_soon_after(
    registry: Registry, clock: Clock, tmp_path: Path
) -> None:
    billing, migration = Actor("billing", "10.0.0.2"), made(pricing())
    number = registry.register(ANA, migration.subject, Definition(text(RIDE))).id
    both = expanded_text(text(RIDE), migration)
    step = change(migration, MigrationState("m"), Phase.EXPAND, both, rules=MigrationRules.of(migration))
    registry.change_migration(ANA, "m", step)
    with closing(sqlite3.connect(tmp_path / "registry.db")) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON registry_settings BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
        other.commit()
        registry.note_read(billing, number)
        other.execute("DROP TRIGGER full")
        other.commit()
    registry.note_read(billing, number)  # too soon
    assert registry.migration("m").reads == {}
    clock.now += 5 * UNITS["s"]
    registry.note_read(billing, number)
    assert registry.migration("m").reads["billing"].id == number


def test_what_a_consumer_has_read_under_its_own_token(tmp_path: Path) -> None:
    """A consumer whose token has its name is seen when it asks for a schema; others and other subjects do not count."""
    tokens = {}
    for name in ("billing", "writer", "stranger"):
        tokens[name], kept = new_token(name, Scope.ADMIN if name == "writer" else Scope.READ)
        add_token(tmp_path / "tokens", kept)
    migration = made(pricing())
    assert "billing" in migration.consumers
    with beside(tmp_path / "r.db", tmp_path / "tokens") as server:
        billing, writer, stranger = (
            Client(server.url, token=tokens[each]) for each in ("billing", "writer", "stranger")
        )
        writer.register(migration.subject, Definition(text(RIDE)))
        other = writer.register("others-value", Definition(text(USER)))
        both = expanded_text(text(RIDE), migration)
        step = change(
            migration, writer.migration("m"), Phase.EXPAND, both, rules=MigrationRules.of(migration)
        )
        revision = writer.change_migration("m", step).revision
        stranger.schema(1)
        billing.schema(other)
        assert writer.migration("m").reads == {}
        before = len(writer.audit())
        billing.schema(1)
        first = writer.migration("m").reads["billing"]
        assert first.id == 1
        assert abs(first.at / 1e6 - datetime.now(UTC).timestamp()) < 60
        billing.schema(1)  # within a minute: no news
        assert writer.migration("m").reads["billing"] == first
        newest = billing.version(migration.subject)
        state = writer.migration("m")
        assert (state.reads["billing"].id, state.revision) == (newest.id, revision)
        assert len(writer.audit()) == before


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"revision": 0, "subject": "s", "owner": "o", "phase": "expandd"}, 422),
        ({"revision": -1, "subject": "s", "owner": "o"}, 422),
        ({"revision": 0, "subject": "s", "owner": "o", "measured": {"events": 1, "drifted": 2}}, 422),
        ({"revision": 0, "subject": "", "owner": "o"}, 422),
        ({"revision": 0, "subject": "s", "owner": "o", "rules": {"soak": {"expand": -1}}}, 422),
        ({"revision": 7, "subject": "s", "owner": "o"}, 409),
    ],
)
def test_bodies_that_cannot_be_used(server: Server, body: dict[str, Any], status: int) -> None:
    assert server.asking.refused("PUT", f"/migrations/{fresh('m')}", body).status == status


def test_names_that_cannot_be(server: Server) -> None:
    assert server.asking.refused("GET", "/migrations/a%20b").status == 422
    assert "no name of a migration" in server.asking.refused("GET", "/migrations/%2E%2E").message


def test_a_registry_of_another_kind_says_so() -> None:
    class Confluent(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b'{"error_code":404,"message":"HTTP 404 Not Found"}'
            self.send_response(404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Confluent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with pytest.raises(RegistryError, match="keeps no migrations: it is not latecomer's own"):
                Client(f"http://127.0.0.1:{server.server_port}").migration("m")
        finally:
            server.shutdown()
            thread.join()
