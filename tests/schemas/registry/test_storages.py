"""The core on both databases: the same answers, one writer at a time."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from urllib.parse import quote

import pytest

from latecomer.errors import RegistryError
from latecomer.schemas import Level
from latecomer.schemas.migrations import Phase
from latecomer.schemas.registry.core import Registry
from latecomer.schemas.registry.databases import open_database
from latecomer.schemas.registry.migrating import MigrationChange
from latecomer.schemas.registry.names import Naming, NamingRule
from latecomer.schemas.registry.records import Actor, Definition, Deleted, Mode, Reference
from latecomer.schemas.registry.refusals import Refused
from latecomer.schemas.registry.tables import StorageError
from postgres_kit import PASSWORD, Postgres
from schemas.registry.registry_kit import record, serving

ANA = Actor("ana", "10.0.0.1")
NUMBERS = count()
Opened = Callable[[], Registry]


def schema(*fields: str, name: str = "Order") -> Definition:
    return Definition(record(*fields, name=name))


def store_at(postgres: Postgres) -> str:
    """A schema of the test's own on the server."""
    name = f"registry_{next(NUMBERS)}"
    postgres.ask(f"CREATE SCHEMA {name}")
    return f"{postgres.url_with_password}?options={quote(f'-csearch_path={name}')}"


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "registry.db")
    return store_at(request.getfixturevalue("postgres"))


@pytest.fixture
def opened(where: str) -> Iterator[Opened]:
    made: list[Registry] = []

    def open_one() -> Registry:
        made.append(Registry(open_database(where)))
        return made[-1]

    yield open_one
    for each in made:
        each.close()


def test_a_migration_is_kept_and_compared(opened: Opened) -> None:
    first, second = opened(), opened()
    first.register(ANA, "orders", schema("id:long", "old:long"))
    both = schema("id:long", "old:long", "new:long?")
    step = MigrationChange(0, "orders", "ana@shop.example", Phase.EXPAND, "pinned", both)
    state = first.change_migration(ANA, "m", step)
    assert second.migration("m") == state
    assert (state.phase, state.expanded, state.revision) == (Phase.EXPAND, 2, 1)
    with pytest.raises(Refused, match="changed by somebody else"):
        second.change_migration(ANA, "m", step)
    back = second.change_migration(ANA, "m", MigrationChange(1, "orders", "ana@shop.example", None))
    assert first.migration("m") == back
    assert first.versions("orders") == [1]
    assert [each.action for each in first.audit()][-1] == "migrate expand to no phase yet"


def test_what_is_kept_is_there_after_a_restart(opened: Opened) -> None:
    first = opened()
    coin = first.register(ANA, "coin", schema("paise:long", name="Coin"))
    reference = Reference("Coin", "coin", 1)
    order = first.register(ANA, "order", Definition(record("paid:Coin"), "AVRO", (reference,)))
    first.set_config(ANA, "order", {"compatibility": "FULL"})
    first.set_mode(ANA, "coin", Mode.READONLY)
    first.set_about(ANA, "order", {"owner": "bo \u20ac 'x'", "metadata": {"a": "\x00"}})
    first.set_naming(ANA, Naming(rules=[NamingRule(subjects="o*", owner="cy")], others="refuse"))
    first.delete_version(ANA, "order", 1)
    second = opened()
    assert second.subjects(deleted=Deleted.INCLUDED) == ["coin", "order"]
    assert second.version("order", 1, Deleted.INCLUDED).definition.references == (reference,)
    assert second.definition(order.id).text == record("paid:Coin")
    assert second.config("order") == {"compatibilityLevel": Level.FULL}
    assert second.mode("coin") is Mode.READONLY
    assert second.about("order")["metadata"] == {"a": "\x00"}
    assert second.naming().rules == [NamingRule(subjects="o*", owner="cy")]
    assert second.audit() == first.audit()
    assert [each.action for each in second.audit()][-1] == "delete"
    assert second.register(ANA, "order", order.definition).id == order.id
    assert coin.registered_at is not None


def test_many_at_once_by_two_servers(opened: Opened) -> None:
    sides = [opened(), opened()]
    with ThreadPoolExecutor(16) as pool:
        ids = set(pool.map(lambda n: sides[n % 2].register(ANA, "s", schema("id:long")).id, range(100)))
    assert ids == {1}
    assert sides[0].versions("s") == [1]
    assert len(sides[1].audit()) == 1


def test_what_fails_leaves_nothing(opened: Opened) -> None:
    registry = opened()
    registry.register(ANA, "s", schema("id:long"))
    with pytest.raises(Refused):
        registry.register(ANA, "s", schema("id:string"))
    with pytest.raises(Refused):
        registry.delete_version(ANA, "s", 1, permanent=True)
    assert registry.versions("s") == [1]
    assert len(registry.audit()) == 1


def test_the_audit_is_only_added_to(opened: Opened, where: str) -> None:
    registry = opened()
    registry.register(ANA, "s", schema("id:long"))
    for statement in ("UPDATE registry_audit SET who = 'bo'", "DELETE FROM registry_audit"):
        database = open_database(where)
        with pytest.raises(RegistryError, match="only added to"), database.writing() as session:
            session.run(statement)
        database.close()
    assert [each.who for each in registry.audit()] == ["ana"]


# Postgres alone


def test_the_server_on_postgres(postgres: Postgres) -> None:
    with serving(store_at(postgres)) as server:
        assert server.asking.register("a", record("id:long")) == 1
        assert PASSWORD not in server.url
    with serving("${env:TARGET}", TARGET=store_at(postgres)) as server:
        assert server.asking.get("/subjects") == []


def test_a_connection_that_was_cut(postgres: Postgres) -> None:
    registry = Registry(open_database(store_at(postgres)))
    registry.register(ANA, "s", schema("id:long"))
    postgres.end_backends()
    with pytest.raises(StorageError) as caught:
        registry.versions("s")
    assert PASSWORD not in str(caught.value)
    assert registry.versions("s") == [1]
    registry.close()


@pytest.mark.parametrize(
    ("target", "word"),
    [
        ("postgresql://ana:wrong-one@{place}", "password was not accepted"),
        ("postgresql://ana:s3/cret@{place}", "not a URL that Postgres can read"),
        ("${{env:NO_SUCH_VARIABLE}}", "no such variable"),
    ],
)
def test_servers_that_do_not_let_us_in(postgres: Postgres, target: str, word: str) -> None:
    place = postgres.url.partition("@")[2]
    with pytest.raises(RegistryError) as caught:
        open_database(target.format(place=place))
    assert word in str(caught.value)
    assert "wrong-one" not in str(caught.value)
    assert "s3/cret" not in str(caught.value)


def as_of_format(version: int, where: str, postgres: Postgres | None) -> None:
    """Tables as they were before a schema could have metadata (2), and several ids (1)."""
    if postgres is not None:
        schema = where.rpartition("%3D")[2]
        postgres.ask(f"ALTER TABLE {schema}.registry_schemas DROP COLUMN contract")
        postgres.ask(f"UPDATE {schema}.registry_format SET version = {version}")
        if version == 2:
            return
        postgres.ask(f"DROP INDEX {schema}.registry_schemas_identity")
        postgres.ask(
            f"ALTER TABLE {schema}.registry_schemas ADD CONSTRAINT registry_schemas_identity_key UNIQUE (identity)"
        )
        return
    with closing(sqlite3.connect(where)) as database:
        database.executescript(
            "ALTER TABLE registry_schemas DROP COLUMN contract;"
            f"UPDATE registry_format SET version = {version};"
        )
        if version == 2:
            return
        database.executescript(
            "CREATE TABLE old (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE, type TEXT NOT NULL, text TEXT);"
            "INSERT INTO old SELECT * FROM registry_schemas; DROP TABLE registry_schemas;"
            "ALTER TABLE old RENAME TO registry_schemas;"
        )


@pytest.mark.parametrize("version", [1, 2])
def test_the_tables_of_an_earlier_version_are_brought_to_this_one(
    where: str, opened: Opened, request: pytest.FixtureRequest, version: int
) -> None:
    before = opened()
    before.register(ANA, "coin", schema("paise:long", name="Coin"))
    referring = replace(schema("paid:Coin"), references=(Reference("Coin", "coin", 1),))
    number = before.register(ANA, "order", referring).id
    before.close()
    is_server = where.startswith("postgresql")
    as_of_format(version, where, request.getfixturevalue("postgres") if is_server else None)
    after = opened()
    assert after.look_up("order", referring).id == number
    after.set_mode(ANA, "other", Mode.IMPORT)
    assert after.register(ANA, "other", schema("paise:long", name="Coin"), number=77, version=1).id == 77
    after.set_mode(ANA, "other", Mode.READWRITE)
    assert after.register(ANA, "another", schema("paise:long", name="Coin")).id == 1
    with pytest.raises(Refused, match="Delete those first"):
        after.delete_subject(ANA, "coin")
    named = replace(schema("paise:long", name="Coin"), metadata={"properties": {"team": "mint"}})
    assert after.register(ANA, "named", named).id == 78
    assert opened().definition(78).metadata == named.metadata
    assert opened().largest_id() == 78
