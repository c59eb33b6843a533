"""Levels, modes, owners and naming rules: of the registry, and of a subject."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.registry.registry_kit import Asking, Server, record

ONE, OTHER = record("id:long"), record("id:string")


def test_levels_of_the_registry_and_of_a_subject(registry: Server) -> None:
    ask = registry.asking
    assert ask.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert ask("PUT", "/config", {"compatibility": "none"}).body == {"compatibility": "NONE"}
    assert ask.get("/config") == {"compatibilityLevel": "NONE"}
    assert ask.get("/config/a?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    ask.register("a", ONE)
    ask.register("a", OTHER)
    assert ask("PUT", "/config/a", {"compatibilityLevel": "FULL"}).body == {"compatibility": "FULL"}
    assert ask.get("/config/a") == {"compatibilityLevel": "FULL"}
    assert ask.refused("POST", "/subjects/a/versions", {"schema": record("id:double")}).code == 409
    assert ask("DELETE", "/config/a").body == {"compatibilityLevel": "FULL"}
    assert ask("DELETE", "/config").body == {"compatibilityLevel": "NONE"}
    assert ask.get("/config") == {"compatibilityLevel": "BACKWARD"}


def test_a_subject_may_normalize_always(ask: Asking, subject: str) -> None:
    assert ask("PUT", f"/config/{subject}", {"normalize": True}).body == {"normalize": True}
    assert ask.get(f"/config/{subject}") == {"compatibilityLevel": "BACKWARD", "normalize": True}
    ask("PUT", f"/config/{subject}", {"compatibility": "FULL"})
    assert ask.get(f"/config/{subject}") == {"compatibilityLevel": "FULL", "normalize": True}
    number = ask.register(subject, '{"type":  "fixed", "size": 3,  "name": "Three"}')
    assert ask.get(f"/schemas/ids/{number}")["schema"] == '{"type":"fixed","name":"Three","size":3}'


FORBIDDEN = {
    "a default that does not fit": record('id:long="x"'),
    "a default of an enum that is no symbol": '{"type": "enum", "name": "E", "symbols": ["A"], "default": "B"}',
    "a namespace with a hyphen": record("id:long", namespace="my-shop"),
}
"""What the specification forbids, and Confluent's registry takes."""


@pytest.mark.parametrize("schema", FORBIDDEN.values(), ids=FORBIDDEN)
def test_new_schemas_are_held_to_the_specification_where_that_is_asked_for(
    ask: Asking, subject: str, schema: str
) -> None:
    test = f"/compatibility/subjects/{subject}/versions"
    assert ask("PUT", f"/config/{subject}", {"validateNewSchemas": True}).body == {"validateNewSchemas": True}
    assert ask.get(f"/config/{subject}") == {"compatibilityLevel": "BACKWARD", "validateNewSchemas": True}
    assert ask.refused("POST", f"/subjects/{subject}/versions", {"schema": schema}).code == 42201
    assert ask.refused("POST", test, {"schema": schema}).code == 42201
    ask("PUT", f"/config/{subject}", {"validateNewSchemas": False})
    assert ask("POST", test, {"schema": schema}).body == {"is_compatible": True}
    assert (
        ask.refused("POST", f"/subjects/{subject}/versions?normalize=true", {"schema": schema}).code == 42201
    )
    number = ask.register(subject, schema)
    ask("PUT", f"/config/{subject}", {"validateNewSchemas": True})
    assert ask.register(subject, schema) == number, "it is there already"
    assert ask("POST", f"/subjects/{subject}", {"schema": schema}).body["id"] == number


@pytest.mark.parametrize("schema", FORBIDDEN.values(), ids=FORBIDDEN)
def test_an_import_is_not_held_to_the_specification(ask: Asking, subject: str, schema: str) -> None:
    ask("PUT", f"/config/{subject}", {"validateNewSchemas": True})
    ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
    number = 1_000_000 + list(FORBIDDEN.values()).index(schema)
    assert ask.register(subject, schema, id=number, version=1) == number


def test_a_default_that_does_not_fit_makes_nothing_compatible(ask: Asking, subject: str) -> None:
    ask.register(subject, ONE)
    bad = record("id:long", 'more:int="x"')
    assert ask.refused("POST", f"/subjects/{subject}/versions", {"schema": bad}).code == 409


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        ({"compatibility": "BACKWRD"}, 42203, "did you mean BACKWARD"),
        ({"compatibility": "FULL", "compatibilityLevel": "NONE"}, 42203, "different values"),
        ({"compatibility": 3}, 422, "compatibility"),
        ({"compatibilityPolicy": "STRICTER"}, 42203, "did you mean STRICT"),
        ({"compatibilityPolicy": 3}, 422, "compatibilityPolicy"),
        ({"alias": ":.other:a"}, 42208, "names a context"),
        ({"alias": 3}, 422, "alias"),
        ({"compatibilityGroup": ["g"]}, 422, "compatibilityGroup"),
        ({"defaultRuleSet": {"a": 1}}, 422, "defaultRuleSet"),
        ({"overrideMetadata": {"properties": []}}, 422, "overrideMetadata.properties"),
        ({"aliasForDeks": "a"}, 422, "aliasForDeks"),
    ],
)
def test_levels_that_are_none(ask: Asking, subject: str, body: Any, code: int, word: str) -> None:
    found = ask.refused("PUT", f"/config/{subject}", body)
    assert (found.code, word in found.message) == (code, True)
    assert ask.refused("GET", f"/config/{subject}").code == 40408


# Modes


def test_readonly(ask: Asking, subject: str) -> None:
    number = ask.register(subject, ONE)
    assert ask("PUT", f"/mode/{subject}", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    assert ask.get(f"/mode/{subject}") == {"mode": "READONLY"}
    assert ask.register(subject, ONE) == number, "it is there already"
    for method, path, body in (
        ("POST", f"/subjects/{subject}/versions", {"schema": OTHER}),
        ("DELETE", f"/subjects/{subject}", None),
        ("DELETE", f"/subjects/{subject}/versions/1", None),
        ("PUT", f"/config/{subject}", {"compatibility": "NONE"}),
        ("PUT", f"/about/{subject}", {"owner": "ana"}),
    ):
        found = ask.refused(method, path, body)
        assert (found.status, found.code) == (422, 42205)
        assert "READONLY" in found.message
    assert ask("DELETE", f"/mode/{subject}").body == {"mode": "READONLY"}
    assert ask("DELETE", f"/subjects/{subject}").body == [1]


def test_modes_of_the_registry(registry: Server) -> None:
    ask = registry.asking
    ask.register("a", ONE)
    assert ask.get("/mode") == {"mode": "READWRITE"}
    ask("PUT", "/mode", {"mode": "READONLY"})
    ask("PUT", "/mode/a", {"mode": "READWRITE"})
    assert ask.refused("POST", "/subjects/b/versions", {"schema": ONE}).code == 42205
    ask.register("a", record("id:long", "x:int=0"))
    ask("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    assert ask.refused("POST", "/subjects/a/versions", {"schema": record("id:long", "y:int=0")}).code == 42205
    assert ask.get("/mode/b?defaultToGlobal=true") == {"mode": "READONLY_OVERRIDE"}
    assert ask("DELETE", "/mode").body == {"mode": "READONLY_OVERRIDE"}
    assert ask.get("/mode") == {"mode": "READWRITE"}


def test_import_keeps_the_ids_of_elsewhere(registry: Server) -> None:
    ask = registry.asking
    ask.register("there", ONE)
    assert ask.refused("PUT", "/mode", {"mode": "IMPORT"}).code == 42205
    assert ask.refused("PUT", "/mode/there", {"mode": "IMPORT"}).code == 42205
    assert ask("PUT", "/mode/there?force=true", {"mode": "IMPORT"}).body == {"mode": "IMPORT"}
    ask("PUT", "/mode/a", {"mode": "IMPORT"})
    first = {"schema": OTHER, "id": 1000, "version": 5}
    assert ask("POST", "/subjects/a/versions", first).body["id"] == 1000
    assert ask("POST", "/subjects/a/versions", first).body["id"] == 1000
    assert ask.get("/subjects/a/versions/5")["id"] == 1000
    incompatible = {"schema": record("x:bytes"), "id": 900}
    assert ask("POST", "/subjects/a/versions", incompatible).body["id"] == 900
    assert ask.get("/subjects/a/versions") == [5, 6]
    for body, code in (
        ({"schema": record("y:int")}, 42205),
        ({"schema": record("y:int"), "id": 1000}, 42205),
        ({"schema": "", "id": 8}, 42201),
    ):
        assert ask.refused("POST", "/subjects/a/versions", body).code == code
    assert ask.register("later", record("z:int")) == 1001


def test_a_schema_may_be_imported_under_several_ids(registry: Server) -> None:
    """Each keeps its own text. Who registers the schema gets the one that its subject has, or else the first."""
    ask = registry.asking
    ask("PUT", "/mode", {"mode": "IMPORT"})
    spaced = json.dumps(json.loads(ONE), indent=1)
    assert ask.register("a", ONE, id=70, version=1) == 70
    assert ask.register("a", spaced, id=50, version=2) == 50
    assert ask.register("b", spaced, id=60, version=1) == 60
    assert ask.register("b", spaced, id=60, version=1) == 60
    assert ask.get("/schemas/ids/70")["schema"] == ONE
    assert ask.get("/schemas/ids/50")["schema"] == spaced
    assert ask.get("/schemas/ids/50/versions") == [{"subject": "a", "version": 2}]
    assert ask("POST", "/subjects/a", {"schema": ONE}).body["version"] == 2
    ask("PUT", "/mode", {"mode": "READWRITE"})
    assert [ask.register(subject, ONE) for subject in ("a", "b", "c")] == [50, 60, 50]
    assert ask.get("/subjects/a/versions") == [1, 2]


def test_an_import_may_begin_beside_deleted_versions(registry: Server) -> None:
    ask = registry.asking
    old = ask.register("a", ONE)
    ask("DELETE", "/subjects/a")
    assert ask("PUT", "/mode", {"mode": "IMPORT"}).status == 200
    assert ask.register("a", OTHER, id=900, version=1) == 900
    assert ask.get("/subjects/a/versions?deleted=true") == [1]
    assert ask.get(f"/schemas/ids/{old}")["schema"] == ONE, "data may have been written with it"
    assert ask("PUT", "/mode", {"mode": "IMPORT"}).status == 200, "it has begun"


def test_an_import_may_take_the_place_of_a_version(registry: Server) -> None:
    """As a replicator does that starts again. What it was is in the audit, and its id can still be read."""
    ask = registry.asking
    ask("PUT", "/mode", {"mode": "IMPORT"})
    ask.register("a", ONE, id=5, version=3)
    ask.register("a", OTHER, id=6, version=3)
    assert [ask.get("/subjects/a/versions"), ask.get("/subjects/a/versions/3")["id"]] == [[3], 6]
    assert ask.get("/schemas/ids/5")["schema"] == ONE
    assert ask.get("/audit")[-1]["before"] == {"id": 5, "deleted": False}
    references = [{"name": "Order", "subject": "a", "version": 3}]
    ask.register("b", record("of:Order", name="Bill"), id=7, version=1, references=references)
    assert ask.refused("POST", "/subjects/a/versions", {"schema": ONE, "id": 5, "version": 3}).code == 42206
    assert ask.register("a", OTHER, id=6, version=3) == 6


def test_an_import_may_refer_to_deleted_versions(registry: Server) -> None:
    ask = registry.asking
    ask("PUT", "/mode", {"mode": "IMPORT"})
    ask.register("coin", record("paise:long", name="Coin"), id=5, version=1)
    ask("DELETE", "/subjects/coin/versions/1")
    references = [{"name": "Coin", "subject": "coin", "version": 1}]
    ask.register("order", record("paid:Coin"), id=6, version=1, references=references)
    other = {"schema": record("paise:int", name="Coin"), "id": 7, "version": 1}
    assert ask.refused("POST", "/subjects/coin/versions", other).code == 42206
    assert ask.register("coin", record("paise:long", name="Coin"), id=5, version=1) == 5
    assert ask.get("/subjects/coin/versions") == [1]
    was, became = ({"id": 5, "deleted": True}, {"version": 1, "id": 5, "schemaType": "AVRO"})
    assert [(each["before"], each["after"]) for each in ask.get("/audit")[-1:]] == [(was, became)]


def test_an_import_is_not_normalized(registry: Server) -> None:
    ask = registry.asking
    ask("PUT", "/config", {"normalize": True})
    ask("PUT", "/mode", {"mode": "IMPORT"})
    spaced = json.dumps(json.loads(ONE), indent=1)
    ask.register("a", spaced, "?normalize=true", id=5, version=1)
    assert ask.get("/schemas/ids/5")["schema"] == spaced


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        ({"mode": "FORWARD"}, 42204, "no mode that this registry has"),
        ({"mode": "READONLY_OVERRIDE"}, 42204, "whole registry"),
        ({"mode": ""}, 42204, "no mode"),
        ({}, 422, "mode"),
    ],
)
def test_modes_that_are_none(ask: Asking, subject: str, body: Any, code: int, word: str) -> None:
    found = ask.refused("PUT", f"/mode/{subject}", body)
    assert (found.code, word in found.message) == (code, True)


# Owners and naming rules


def test_who_owns_a_subject(ask: Asking, subject: str) -> None:
    nobody = {"subject": subject, "owner": None, "metadata": {}, "namingRule": None}
    assert ask.get(f"/about/{subject}") == nobody
    about = {"owner": "fares@shop.example", "metadata": {"domain": "rides"}}
    assert ask("PUT", f"/about/{subject}", about).body == {**nobody, **about}
    assert ask("DELETE", f"/about/{subject}").body == nobody
    assert "owner" in ask.refused("PUT", f"/about/{subject}", {"owner": ""}).message
    assert ask.refused("PUT", f"/about/{subject}", {"metadata": {"a": 1}}).status == 422


def test_naming_rules(registry: Server) -> None:
    ask = registry.asking
    ask.register("old", ONE)
    rules = [{"subjects": "pay.*-value", "owner": "pay@shop.example"}, {"subjects": "*-key"}]
    naming = {"rules": rules, "others": "refuse"}
    assert ask.get("/naming") == {"rules": [], "others": "allow"}
    assert ask("PUT", "/naming", naming).body == naming
    ask.register("pay.orders-value", ONE)
    ask.register("orders-key", ONE)
    ask.register("old", record("id:long", "x:int=0"))
    refused = ask.refused("POST", "/subjects/orders-value/versions", {"schema": ONE})
    assert refused.code == 42208
    assert "pay.*-value, *-key" in refused.message
    assert ask.get("/about/pay.orders-value") == {
        "subject": "pay.orders-value",
        "owner": "pay@shop.example",
        "metadata": {},
        "namingRule": "pay.*-value",
    }
    broken = ask.refused("POST", "/subjects/pay.orders-value/versions", {"schema": OTHER})
    assert broken.message.endswith("Ask the owner of 'pay.orders-value': pay@shop.example.")
    ask("DELETE", "/naming")
    ask.register("orders-value", ONE)
