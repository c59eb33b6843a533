"""What clients of Confluent's registry send, and what they look for in the answers."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from schemas.registry.registry_kit import Asking, fresh, record

ONE, TWO = record("id:long"), record("id:long", "note:string?")


# Paths and parameters


@pytest.mark.parametrize("path", ["/subjects", "/config", "/mode", "/schemas/types", "/health"])
def test_a_path_may_end_with_a_slash(ask: Asking, path: str) -> None:
    assert ask.get(f"{path}/") == ask.get(path)


def test_the_paths_of_a_subject_may_end_with_a_slash(ask: Asking, subject: str) -> None:
    body = {"schema": ONE}
    number = ask("POST", f"/subjects/{subject}/versions/", body).body["id"]
    assert ask("POST", f"/subjects/{subject}/", body).body["id"] == number
    assert ask.get(f"/subjects/{subject}/versions/latest/")["id"] == number
    assert ask.get(f"/schemas/ids/{number}/")["schema"] == ONE
    assert ask("PUT", f"/config/{subject}/", {"compatibility": "FULL"}).status == 200
    assert ask.get(f"/config/{subject}") == {"compatibilityLevel": "FULL"}


@pytest.mark.parametrize("path", ["/subjects//", "//subjects", "/subjects//versions"])
def test_a_slash_too_many_is_another_path(ask: Asking, path: str) -> None:
    assert ask.refused("GET", path).status in (404, 422)


@pytest.mark.parametrize(
    "query", ["name=Coin", "normalize=true", "name=a&name=b", "aliases=true", "%00=1", "lookup"]
)
def test_a_parameter_that_is_not_known_is_ignored(ask: Asking, subject: str, query: str) -> None:
    number = ask.register(subject, ONE, f"?{query}")
    assert ask.get(f"/subjects/{subject}/versions/1?{query}")["id"] == number


@pytest.mark.parametrize("name", ["format", "referenceFormat", "deletedAsNegative"])
def test_a_parameter_that_would_change_the_answer_is_refused(ask: Asking, subject: str, name: str) -> None:
    ask.register(subject, ONE)
    found = ask.refused("GET", f"/subjects/{subject}/versions/1?{name}=true")
    assert (found.status, f"'{name}' is not supported" in found.message) == (422, True)


# A schema with its references written out is the same schema


COIN = record("paise:long", name="Coin", namespace="shop.money")
PURSE = record("coins:Coin", "owner:string", name="Purse", namespace="shop.money")


def written_out(text: str, **types: str) -> str:
    """A record in which the first use of a type is its definition, as Avro's Java library prints it."""
    found = json.loads(text)
    for field in found["fields"]:
        if field["type"] in types:
            field["type"] = json.loads(types.pop(field["type"]))
    return json.dumps(found)


def with_references(ask: Asking, subject: str) -> tuple[str, int]:
    """A purse that refers to a coin, and an order that refers to the purse; the order with both written out."""
    coin, purse = fresh("coin"), fresh("purse")
    ask.register(coin, COIN)
    to_coin = {"name": "shop.money.Coin", "subject": coin, "version": 1}
    ask.register(purse, PURSE, references=[to_coin])
    order = record("paid:Purse", "change:Coin", name="Order", namespace="shop.money", doc="of a shop")
    to_purse = {"name": "shop.money.Purse", "subject": purse, "version": 1}
    number = ask.register(subject, order, references=[to_purse])
    return written_out(order, Purse=written_out(PURSE, Coin=COIN)), number


def test_a_schema_with_its_references_written_out_is_found(ask: Asking, subject: str) -> None:
    text, number = with_references(ask, subject)
    found = ask("POST", f"/subjects/{subject}", {"schema": text})
    assert (found.status, found.body["id"], found.body["version"]) == (200, number, 1)
    assert found.body["references"][0]["name"] == "shop.money.Purse"


def test_a_schema_with_its_references_written_out_is_no_new_version(ask: Asking, subject: str) -> None:
    text, number = with_references(ask, subject)
    assert ask.register(subject, text) == number
    assert ask.get(f"/subjects/{subject}/versions") == [1]
    ask("DELETE", f"/subjects/{subject}/versions/1")
    assert ask("POST", f"/subjects/{subject}?deleted=true", {"schema": text}).body["id"] == number


def test_what_differs_within_a_reference_is_another_schema(ask: Asking, subject: str) -> None:
    text, _ = with_references(ask, subject)
    other = text.replace('"paise"', '"cents"')
    assert ask.refused("POST", f"/subjects/{subject}", {"schema": other}).code == 40403
    documented = text.replace('"of a shop"', '"of another shop"')
    assert ask.refused("POST", f"/subjects/{subject}", {"schema": documented}).code == 40403


def test_the_text_itself_comes_before_one_with_references(ask: Asking, subject: str) -> None:
    other = fresh()
    text, _ = with_references(ask, other)
    number = ask.register(subject, text)
    body = ask.get(f"/subjects/{other}/versions/1")
    ask.register(subject, body["schema"], references=body["references"])
    assert ask.get(f"/subjects/{subject}/versions") == [1, 2]
    assert ask("POST", f"/subjects/{subject}", {"schema": text}).body["id"] == number


# Codes and sentences that clients look for


@pytest.mark.parametrize(
    ("method", "path", "body", "code", "begins"),
    [
        ("POST", "/compatibility/subjects/none/versions/1", {"schema": ONE}, 40402, "Version 1 not found."),
        ("POST", "/compatibility/subjects/{s}/versions/7", {"schema": ONE}, 40402, "Version 7 not found."),
        ("GET", "/subjects/none/versions/1", None, 40401, "Subject 'none' not found."),
        ("DELETE", "/config/none", None, 40401, "Subject 'none' not found."),
        ("DELETE", "/mode/none", None, 40401, "Subject 'none' not found."),
        (
            "GET",
            "/config/none",
            None,
            40408,
            "Subject 'none' does not have subject-level compatibility configured",
        ),
        ("GET", "/mode/none", None, 40409, "Subject 'none' does not have subject-level mode configured"),
        (
            "GET",
            "/subjects/{s}/versions/x",
            None,
            42202,
            "The specified version 'x' is not a valid version id",
        ),
        (
            "POST",
            "/subjects/{s}/versions",
            {"schema": record("id:string")},
            409,
            'Schema being registered is incompatible with an earlier schema for subject "{s}", details: ',
        ),
        ("POST", "/subjects/{s}/versions", {"schema": "{"}, 42201, "Invalid schema"),
        (
            "POST",
            "/subjects/{s}/versions",
            {"schema": TWO, "id": 7},
            42205,
            "Subject {s} is not in import mode",
        ),
        ("PUT", "/mode/{s}", {"mode": "IMPORT"}, 42205, "Cannot import since found existing subjects"),
        ("PUT", "/mode/{s}", {"mode": "OPEN"}, 42204, "Invalid mode"),
        ("PUT", "/config/{s}", {"compatibility": "SOME"}, 42203, "Invalid compatibility level"),
        (
            "DELETE",
            "/subjects/{s}?permanent=true",
            None,
            40405,
            "Subject '{s}' was not deleted first before being permanently deleted",
        ),
    ],
)
def test_a_refusal_has_the_code_and_begins_with_the_words(
    ask: Asking, subject: str, method: str, path: str, body: Any, code: int, begins: str
) -> None:
    ask.register(subject, ONE)
    found = ask.refused(method, path.replace("{s}", subject), body)
    assert found.code == code
    assert found.message.startswith(begins.replace("{s}", subject))


def test_what_was_deleted_says_so(ask: Asking, subject: str) -> None:
    ask.register(subject, ONE)
    ask.register(subject, TWO)
    ask("DELETE", f"/subjects/{subject}/versions/1")
    again = ask.refused("DELETE", f"/subjects/{subject}/versions/1")
    assert again.message.startswith(f"Subject '{subject}' Version 1 was soft deleted.")
    kept = ask.refused("DELETE", f"/subjects/{subject}/versions/2?permanent=true")
    assert "was not deleted first before being permanently deleted" in kept.message
    ask("DELETE", f"/subjects/{subject}")
    assert f"Subject '{subject}' was soft deleted." in ask.refused("DELETE", f"/subjects/{subject}").message


def test_modes_are_told_as_clients_know_them(ask: Asking, subject: str) -> None:
    ask("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
    found = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": ONE})
    assert found.message.startswith(f"Subject {subject} is not in read-write mode")
    ask("PUT", f"/mode/{subject}", {"mode": "READONLY"})
    found = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": ONE})
    assert (found.code, f"Subject {subject} is in read-only mode" in found.message) == (42205, True)


# Small things


def test_a_config_that_changes_nothing_is_taken(ask: Asking, subject: str) -> None:
    assert ask("PUT", f"/config/{subject}", {}).body == {}
    assert ask.refused("GET", f"/config/{subject}").code == 40408, "nothing was set"
    ask("PUT", f"/config/{subject}", {"compatibility": "FULL"})
    assert ask("PUT", f"/config/{subject}", {"compatibility": None}).body == {}
    assert ask.get(f"/config/{subject}") == {"compatibilityLevel": "FULL"}


def test_the_level_outlives_a_soft_delete(ask: Asking, subject: str) -> None:
    ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    ask.register(subject, ONE)
    ask("DELETE", f"/subjects/{subject}")
    assert ask.get(f"/config/{subject}") == {"compatibilityLevel": "NONE"}
    ask("DELETE", f"/subjects/{subject}/versions/1?permanent=true")
    assert ask.refused("GET", f"/config/{subject}").code == 40408, "nothing of the subject is left"


def test_which_cluster_it_is(ask: Asking) -> None:
    found = ask.get("/v1/metadata/id")
    assert found == {"id": "", "scope": {"path": [], "clusters": {"schema-registry-cluster": "latecomer"}}}


def test_the_default_context_may_be_written(ask: Asking, subject: str) -> None:
    number = ask.register(f":.:{subject}", ONE)
    assert ask.get(f"/subjects/{subject}/versions/1")["subject"] == subject
    assert ask.get(f"/subjects/:.:{subject}/versions/latest")["id"] == number
    for prefix in (f":.:{subject}", f":*:{subject}", subject):
        assert ask.get(f"/subjects?subjectPrefix={prefix}") == [subject]
    assert ask.refused("GET", f"/subjects/:.other:{subject}/versions").code == 42208


def test_guids(ask: Asking, subject: str) -> None:
    """A serializer that puts the GUID into a header takes it from any of these answers."""
    coin = fresh("coin")
    ask.register(coin, COIN)
    references = [{"name": "shop.money.Coin", "subject": coin, "version": 1}]
    body = {"schema": PURSE, "references": references}
    answer = ask("POST", f"/subjects/{subject}/versions", body).body
    number, guid = answer["id"], answer["guid"]
    assert str(UUID(guid)) == guid
    assert ask("POST", f"/subjects/{subject}", body).body["guid"] == guid
    assert ask.get(f"/subjects/{subject}/versions/latest")["guid"] == guid
    assert ask.get(f"/schemas/ids/{number}") == {**body, "guid": guid}
    assert ask.get(f"/schemas/guids/{guid}") == {**body, "guid": guid}
    assert ask.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": number}]
    assert ask.get(f"/subjects/{coin}/versions/1")["guid"] != guid
    for unknown in ("x", "%25", str(UUID(int=7))):
        assert ask.refused("GET", f"/schemas/guids/{unknown}").code == 40403
