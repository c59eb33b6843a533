"""`latecomer migrate`, as a user calls it: against a real registry, with a log that was made by hand."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from after.migrate.rides_kit import MIXED, NOON, log, ride, rides
from cli.cli_kit import Cli
from latecomer.config.load import load_pipeline
from latecomer.model.durations import to_micros
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.tokens import Scope, add_token, new_token
from latecomer.sink.keeper import check_sinks
from latecomer.store.store import Store, open_store
from schemas.migrations.migration_kit import RIDE, avro, pricing, text
from schemas.registry.registry_kit import Server, beside

AT_ONCE = {"expand": "0s", "dual_write": "0s", "migrate": "0s"}
NEVER = "2099-01-01T00:00:00Z"


@pytest.fixture
def registry(registry: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    for name in ("LATECOMER_REGISTRY_URL", "LATECOMER_REGISTRY_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    registry.asking.register("rides-value", text(RIDE))
    return registry


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return rides(tmp_path)


def written(folder: Path, url: str | None, **more: Any) -> Path:
    file = folder / "fare-cents.yaml"
    document = pricing(**{"soak": AT_ONCE, **({"registry": url} if url else {}), **more})
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


def later(store: Store, batch: int, *events: dict[str, Any]) -> None:
    """Events that arrive after every phase has begun."""
    far = (to_micros(datetime.fromisoformat(NEVER)) - NOON) // 1_000_000
    log(store, batch, [{**each, "second": far + each["second"]} for each in events])


def fields(registry: Server) -> list[str]:
    latest = registry.asking.get("/subjects/rides-value/versions/latest")
    return [each["name"] for each in json.loads(latest["schema"])["fields"]]


# new and plan


def test_a_new_file_is_one_that_can_be_used(cli: Cli, registry: Server, tmp_path: Path) -> None:
    file = tmp_path / "fare-cents.yaml"
    assert cli("migrate", "new", file).status == 0
    before = file.read_text()
    again = cli("migrate", "new", file)
    assert again.status == 2
    assert "exists already, and is not changed" in again.err
    assert file.read_text() == before
    file.write_text(before.replace("http://127.0.0.1:8081", registry.url))
    said = cli("migrate", "plan", file, "--format", "json")
    rows = json.loads(said.out)
    assert [row["phase"] for row in rows] == ["expand", "dual_write", "migrate", "contract"]
    days = [row["begins"][:10] for row in rows]
    assert len(set(days)) == 4
    assert "consumers move to the new shape" in cli("migrate", "plan", file).out
    assert cli("migrate", "new", tmp_path / "a b.yaml").status == 2


# From the first phase to the last and back


def test_all_phases_and_back(cli: Cli, registry: Server, store: Store, tmp_path: Path) -> None:
    file = written(tmp_path, registry.url)
    pipeline = tmp_path / "pipeline.yaml"
    assert "has not begun" in cli("migrate", "status", file).out
    said = cli("migrate", "advance", file)
    assert (said.status, said.err) == (0, "")
    assert "registered: version 2, with both shapes" in said.out
    assert fields(registry) == ["ride_id", "fare_cents", "pricing"]
    assert json.loads(cli("migrate", "advance", file, "-f", "json").out)["phase"] == "dual_write"
    # Nothing was looked at, then nothing was there, then too much drifts.
    assert "drift was not measured" in cli("migrate", "advance", file).err
    log(store, 0, MIXED)  # before both shapes were due
    assert "0 of 0 events drift" in cli("migrate", "check", file, "--pipeline", pipeline).out
    assert "there was no event" in cli("migrate", "advance", file).err
    later(store, 1, ride(1, "ios", 10, 5, 3, 2), ride(2, "ios", 10, 5, 3, 1))
    failed = cli("migrate", "check", file, "--pipeline", pipeline, "--fail-on-drift")
    assert failed.status == 1
    assert "1 of 2 events drift (50%; the limit is 0.1%)" in failed.out
    assert "producer ios, schema 1: 1 of 2 since 2099-01-01T00:00:02Z" in failed.out
    assert "expected fare_cents=9" in failed.out
    refused = cli("migrate", "advance", file)
    assert refused.status == 1
    assert "1 of 2 events drift (50%), and the limit is 0.1%" in refused.err
    assert "(ask fares@rides.example)" in refused.err
    later(store, 2, *(ride(number, "ios", 10, 5, 3, 2) for number in range(3, 1003)))
    assert cli("migrate", "advance", file, "--pipeline", pipeline).status == 0
    # A consumer holds it.
    status = json.loads(cli("migrate", "status", file, "-f", "json").out)
    assert (status["phase"], status["next"]) == ("migrate", "contract")
    assert {each["name"]: each["migrated"] for each in status["consumers"]} == {
        "billing": False,
        "dashboard": True,
    }
    assert cli("migrate", "seen", file, "--consumer", "billing").out.startswith("billing seen at 2")
    consumers = json.loads(cli("migrate", "status", file, "-f", "json").out)["consumers"]
    (billing,) = (each for each in consumers if each["name"] == "billing")
    assert len(billing["needs"]) == 1, "the schema of the file and the one that was seen need the same"
    held = cli("migrate", "advance", file, "--pipeline", pipeline)
    assert held.status == 1
    assert "the consumer billing needs the old shape" in held.err
    assert "(ask billing@rides.example)" in held.err
    # The file says that it has moved, and what runs does not yet.
    ready = avro("Ride", ("ride_id", "string"))
    (tmp_path / "billing.avsc").write_text(text(ready))
    file = written(tmp_path, registry.url, consumers={"billing": {"reader": "billing.avsc"}})
    assert "last seen with a schema that needs the old shape" in cli("migrate", "advance", file).err
    assert cli("migrate", "seen", file, "--consumer", "billing").status == 0
    assert "it can advance to contract" in cli("migrate", "status", file).out
    done = cli("migrate", "advance", file)
    assert "registered: version 3, with the new shape alone" in done.out
    assert fields(registry) == ["ride_id", "pricing"]
    assert "nothing follows" in cli("migrate", "advance", file).err
    # And back.
    back = cli("migrate", "rollback", file)
    assert "deleted, and still to be read: version 3" in back.out
    assert "fare_cents have it by: pricing.base" in back.err.replace("without ", "")
    assert fields(registry) == ["ride_id", "fare_cents", "pricing"]
    for phase in ("dual_write", "expand", None):
        assert json.loads(cli("migrate", "rollback", file, "-f", "json").out)["phase"] == phase
    assert fields(registry) == ["ride_id", "fare_cents"]
    assert "nothing to roll back" in cli("migrate", "rollback", file).err
    steps = [each["action"] for each in registry.asking.get("/audit?subject=rides-value")]
    assert [each for each in steps if each.startswith("migrate")][-1] == "migrate expand to no phase yet"


# check


def test_a_check_without_a_registry(cli: Cli, store: Store, tmp_path: Path) -> None:
    log(store, 0, MIXED)
    file = written(tmp_path, None)
    asked = ("migrate", "check", file, "--pipeline", tmp_path / "pipeline.yaml", "--no-registry")
    found = json.loads(cli(*asked, "--format", "json", "--examples", 1).out)
    assert (found["events"], found["drifted"], found["share"]) == (6, 3, 0.5)
    assert found["first_drift"] == "2026-04-25T12:00:02Z"
    assert found["by"][0]["producer"] == "ios"
    [example] = found["examples"]
    assert (example["values"]["pricing.tax"], example["expected"]) == (99, {"fare_cents": 1249})
    later_on = cli(*asked, "--since", "2026-04-25T12:00:05Z", "--fail-on-drift")
    assert (later_on.status, later_on.out) == (0, "0 of 1 event drift (0%; the limit is 0.1%)\n")
    assert cli(*asked, "--fail-on-drift").status == 1
    assert cli(*asked, "--format", "csv").status == 2
    assert cli("migrate", "check", file, "--no-registry").status == 2


# What is refused


def test_a_plain_additive_change_is_refused(cli: Cli, registry: Server, tmp_path: Path) -> None:
    file = written(tmp_path, registry.url, **{"from": {}, "to": {"tip": {"type": "long"}}, "consumers": {}})
    said = cli("migrate", "advance", file)
    assert said.status == 1
    assert "that needs no migration: a new field with a default is an additive change" in said.err
    assert fields(registry) == ["ride_id", "fare_cents"]


def test_a_changed_file_is_refused_under_way(cli: Cli, registry: Server, tmp_path: Path) -> None:
    assert cli("migrate", "advance", written(tmp_path, registry.url)).status == 0
    file = written(
        tmp_path, registry.url, **{"from": {"fare_cents": "pricing.base+pricing.surge-pricing.tax"}}
    )
    assert "other fields or other expressions" in cli("migrate", "advance", file).err


def test_a_phase_that_is_too_young(cli: Cli, registry: Server, tmp_path: Path) -> None:
    file = written(tmp_path, registry.url, soak={"expand": "2d"})
    assert cli("migrate", "advance", file).status == 0
    said = cli("migrate", "advance", file)
    assert said.status == 1
    assert "expand is to last 2d, and 1d 23h of it are left" in said.err


def test_a_subject_that_is_not_there(cli: Cli, registry: Server, tmp_path: Path) -> None:
    said = cli("migrate", "advance", written(tmp_path, registry.url, subject="nobody-value"))
    assert said.status == 1
    assert "has no subject nobody-value; register its schema first" in said.err


def test_a_subject_with_a_json_schema(cli: Cli, registry: Server, tmp_path: Path) -> None:
    registry.asking.register("json-value", '{"type": "object"}', schemaType="JSON")
    said = cli("migrate", "advance", written(tmp_path, registry.url, subject="json-value"))
    assert said.status == 1
    assert "a schema of the type JSON, and only Avro schemas can be migrated" in said.err


def test_what_would_stop_the_beginning_is_in_the_status(cli: Cli, registry: Server, tmp_path: Path) -> None:
    found = json.loads(cli("migrate", "status", written(tmp_path, registry.url), "-f", "json").out)
    assert (found["phase"], found["next"], found["obstacles"]) == (None, "expand", [])
    assert [each["migrated"] for each in found["consumers"]] == [False, True]
    wrong = written(tmp_path, registry.url, **{"from": {"fare": "pricing.base+pricing.surge+pricing.tax"}})
    said = cli("migrate", "status", wrong)
    assert "it cannot advance to expand yet:" in said.out
    assert "has no field fare; there are ride_id, fare_cents" in said.out


def test_the_last_schema_is_held_to_the_level_before_it_is_due(
    cli: Cli, registry: Server, store: Store, tmp_path: Path
) -> None:
    registry.asking("PUT", "/config/rides-value", {"compatibility": "FULL"})
    file, pipeline = written(tmp_path, registry.url, consumers={}), tmp_path / "pipeline.yaml"
    later(store, 0, ride(1, "ios", 10, 5, 3, 2))
    for _ in range(3):
        assert cli("migrate", "advance", file, "--pipeline", pipeline).status == 0
    said = cli("migrate", "advance", file, "--pipeline", pipeline)
    assert said.status == 1
    assert "the registry would refuse the contracted schema" in said.err
    assert "fare_cents" in said.err


def test_the_token_is_sent_and_never_shown(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = {}
    for scope in (Scope.READ, Scope.WRITE):
        secrets[scope], kept = new_token(scope.word, scope)
        add_token(tmp_path / "tokens", kept)
    with beside(tmp_path / "r.db", tmp_path / "tokens", secrets[Scope.WRITE]) as server:
        server.asking.register("rides-value", text(RIDE))
        file = written(tmp_path, server.url, token="${env:RIDES_TOKEN}")
        monkeypatch.setenv("RIDES_TOKEN", secrets[Scope.READ])
        assert cli("migrate", "status", file).status == 0
        refused = cli("migrate", "advance", file)
        assert refused.status == 1
        assert "takes the scope write" in refused.err
        assert secrets[Scope.READ] not in refused.err + refused.out
        monkeypatch.setenv("RIDES_TOKEN", secrets[Scope.WRITE])
        assert cli("migrate", "advance", file).status == 0
        monkeypatch.setenv("RIDES_TOKEN", "hunter2-nobody-knows-it")
        stranger = cli("migrate", "status", file)
        assert stranger.status == 1
        assert "hunter2" not in stranger.err


def test_what_a_consumer_reads_under_its_token_is_shown(cli: Cli, tmp_path: Path) -> None:
    secrets = {}
    for name, scope in (("billing", Scope.READ), ("writer", Scope.WRITE)):
        secrets[name], kept = new_token(name, scope)
        add_token(tmp_path / "tokens", kept)
    with beside(tmp_path / "r.db", tmp_path / "tokens", secrets["writer"]) as server:
        server.asking.register("rides-value", text(RIDE))
        file = written(tmp_path, server.url, token=secrets["writer"])
        assert cli("migrate", "advance", file).status == 0
        assert "consumer billing: needs the old shape; never seen; ask" in cli("migrate", "status", file).out
        Client(server.url, token=secrets["billing"]).schema(1)
        assert (
            "billing: needs the old shape; never seen; last read schema 1 at 2"
            in cli("migrate", "status", file).out
        )
        status = json.loads(cli("migrate", "status", file, "-f", "json").out)
        assert {each["name"]: each["read"] and each["read"]["id"] for each in status["consumers"]} == {
            "billing": 1,
            "dashboard": None,
        }


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"frm": {}}, "frm: unknown key"),
        ({"soak": {"expnd": "1d"}}, "did you mean expand?"),
        ({"owner": ""}, "owner: is empty"),
        ({"consumers": {"a": {"reader": "none.avsc"}}}, "consumers.a.reader: the file cannot be read"),
        (
            {"consumers": {"a": {"reader": "/dev/zero"}}},
            "the file cannot be read (it has more than 4,194,304 bytes)",
        ),
        ({"consumers": {"a": {"reader": {"type": "rec"}}}}, "consumers.a.reader: is no Avro schema"),
        ({"from": {"a": "b"}, "to": {"b": {"type": {"type": "rec"}}}}, "to.b: is no field of Avro"),
        ({"token": "${env:NO_SUCH_TOKEN}"}, "set NO_SUCH_TOKEN"),
        ({"drift_limit": "lots"}, "write it such as 0.1%"),
    ],
)
def test_a_wrong_file_names_field_line_and_fix(
    cli: Cli, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    found = cli("migrate", "status", written(tmp_path, "http://127.0.0.1:1", **change))
    assert found.status == 2
    assert said in found.err
    assert f"{tmp_path / 'fare-cents.yaml'}:" in found.err


def test_a_registry_that_is_missing_or_silent(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LATECOMER_REGISTRY_URL", raising=False)
    assert "registry: is missing" in cli("migrate", "status", written(tmp_path, None)).err
    said = cli("migrate", "status", written(tmp_path, "http://127.0.0.1:1"))
    assert said.status == 1
    assert "does not answer" in said.err
    stranger = cli("migrate", "seen", written(tmp_path, "http://127.0.0.1:1"), "--consumer", "biling")
    assert "did you mean billing?" in stranger.err


# Tables of sinks


def test_the_tables_of_sinks_are_brought_along(
    cli: Cli, registry: Server, store: Store, tmp_path: Path
) -> None:
    file, pipeline = written(tmp_path, registry.url), tmp_path / "pipeline.yaml"
    assert "--pipeline is missing" in cli("migrate", "tables", file).err
    said = cli("migrate", "tables", file, "--pipeline", pipeline)
    assert said.status == 1
    assert "fare-cents has not begun, so tables stay as they are" in said.err
    assert cli("migrate", "advance", file).status == 0
    assert "only late_to has such tables" in cli("migrate", "tables", file, "--pipeline", pipeline).err
    pipeline.write_text(
        pipeline.read_text().replace("rides: count(*)}}", "rides: count(*)}, late_to: [{sqlite: late.db}]}")
    )
    missing = cli("migrate", "tables", file, "--pipeline", pipeline)
    assert "there is no totals_late yet; run the pipeline first" in missing.err
    check_sinks(open_store(load_pipeline(pipeline)))
    planned = cli("migrate", "tables", file, "--pipeline", pipeline)
    assert f"sqlite {tmp_path / 'late.db'}, table totals_late: its columns stay as they are" in planned.out
    assert 'CREATE VIEW "totals_late_both_shapes" AS SELECT "window_start", ' in planned.out
    assert "nothing was changed; --apply does it" in planned.err
    assert cli("migrate", "tables", file, "--pipeline", pipeline, "--apply").err == ""
    with closing(sqlite3.connect(tmp_path / "late.db")) as database:
        assert database.execute("select fare_cents from totals_late_both_shapes").fetchall() == []
    (row,) = json.loads(cli("migrate", "tables", file, "--pipeline", pipeline, "-f", "json").out)["tables"]
    assert (row["table"], row["drop"], row["bring_back"], row["applied"]) == ("totals_late", [], [], False)
    assert cli("migrate", "tables", file, "--pipeline", pipeline, "-f", "csv").status == 2
