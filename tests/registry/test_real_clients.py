"""What clients of Confluent's registry send, and what they look for in the answers."""

from __future__ import annotations

import json

import pytest

from registry.registry_kit import Asking, fresh, record

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
    assert ask.get(f"/schemas/ids/{number}/") == {"schema": ONE}
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


@pytest.mark.parametrize("name", ["format", "referenceFormat", "ruleType", "deletedAsNegative"])
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
