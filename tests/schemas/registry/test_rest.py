"""Confluent's paths on the real server: schemas, subjects, versions, references."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.registry.registry_kit import SENT, Asking, Server, fresh, record

ONE, TWO = record("id:long"), record("id:long", "note:string?")


def test_a_schema_is_registered_once(ask: Asking, subject: str) -> None:
    first = ask.register(subject, ONE)
    assert ask.register(subject, ONE) == first
    assert ask.get(f"/subjects/{subject}/versions") == [1]
    assert ask.register(fresh(), ONE) == first


def test_layout_makes_no_other_schema(ask: Asking, subject: str) -> None:
    number = ask.register(subject, ONE)
    spaced = json.dumps(dict(reversed(json.loads(ONE).items())), indent=4)
    assert spaced != ONE
    assert ask.register(subject, spaced) == number
    found = ask("POST", f"/subjects/{subject}", {"schema": spaced})
    assert (found.status, found.body["version"], found.body["id"]) == (200, 1, number)


def test_a_schema_is_kept_as_it_was_sent_unless_it_is_to_be_normalized(ask: Asking, subject: str) -> None:
    spaced = json.dumps(json.loads(record("id:long", name=f"N{subject[7:9].strip('-')}a")), indent=2)
    number = ask.register(subject, spaced)
    assert ask.get(f"/schemas/ids/{number}")["schema"] == spaced
    other = fresh()
    normal = ask.register(
        other, json.dumps(json.loads(record("x:int", name="Norm")), indent=2), "?normalize=true"
    )
    assert ask.get(f"/schemas/ids/{normal}")["schema"] == (
        '{"type":"record","name":"Norm","fields":[{"name":"x","type":"int"}]}'
    )


def test_versions_and_their_texts(ask: Asking, subject: str) -> None:
    ids = [ask.register(subject, ONE), ask.register(subject, TWO)]
    assert ask.get(f"/subjects/{subject}/versions") == [1, 2]
    guid = ask.get(f"/schemas/ids/{ids[1]}")["guid"]
    expected = {"subject": subject, "version": 2, "id": ids[1], "guid": guid, "schema": TWO}
    for which in ("2", "latest", "-1"):
        assert ask.get(f"/subjects/{subject}/versions/{which}") == expected
    assert ask.get(f"/subjects/{subject}/versions/1/schema") == json.loads(ONE)
    assert ask.get(f"/schemas/ids/{ids[0]}/schema") == json.loads(ONE)
    assert {"subject": subject, "version": 1} in ask.get(f"/schemas/ids/{ids[0]}/versions")
    assert subject in ask.get(f"/schemas/ids/{ids[0]}/subjects")
    assert ask.get(f"/schemas/ids/{ids[0]}/versions?subject={subject}") == [
        {"subject": subject, "version": 1}
    ]
    assert ask.get(f"/schemas/ids/{ids[0]}?fetchMaxId=true")["maxId"] >= ids[1]


def test_lists_can_be_asked_for_in_parts(ask: Asking) -> None:
    names = [fresh("paged") for _ in range(3)]
    for each in names:
        ask.register(each, ONE)
    ask.register(names[0], TWO)
    assert ask.get("/subjects?subjectPrefix=paged-") == sorted(names)
    assert ask.get("/subjects?subjectPrefix=paged-&offset=1&limit=1") == sorted(names)[1:2]
    for limit in (0, -1, -7):
        assert ask.get(f"/subjects?subjectPrefix=paged-&limit={limit}") == sorted(names)
    assert ask.get(f"/subjects/{names[0]}/versions?offset=1") == [2]
    listed = ask.get("/schemas?subjectPrefix=paged-")
    assert [(each["subject"], each["version"]) for each in listed] == sorted(
        [(names[0], 1), (names[0], 2), (names[1], 1), (names[2], 1)]
    )
    latest = ask.get("/schemas?subjectPrefix=paged-&latestOnly=true")
    assert [each["version"] for each in latest if each["subject"] == names[0]] == [2]


def test_small_things(ask: Asking) -> None:
    assert ask.get("/") == {}
    assert ask.get("/health") == {"status": "ok"}
    assert ask.get("/contexts") == ["."]
    assert ask.get("/schemas/types") == ["AVRO", "JSON", "PROTOBUF"]


@pytest.mark.parametrize(
    ("accept", "answered"),
    [
        (None, SENT),
        ("*/*", SENT),
        ("application/json", "application/json"),
        ("application/vnd.schemaregistry+json", "application/vnd.schemaregistry+json"),
        ("text/html, application/xhtml+xml, */*;q=0.8", SENT),
    ],
)
def test_the_answer_is_of_the_kind_that_is_accepted(ask: Asking, accept: str | None, answered: str) -> None:
    headers = {} if accept is None else {"Accept": accept}
    assert ask("GET", "/subjects", headers=headers).headers["content-type"] == answered


@pytest.mark.parametrize(
    "kind", [SENT, "application/vnd.schemaregistry+json", "application/json; charset=utf-8"]
)
def test_a_body_may_be_of_each_kind(ask: Asking, subject: str, kind: str) -> None:
    found = ask("POST", f"/subjects/{subject}/versions", {"schema": ONE}, headers={"Content-Type": kind})
    assert found.status == 200


# What is not there


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/subjects/none/versions", 404, 40401),
        ("GET", "/subjects/none/versions/1", 404, 40401),
        ("GET", "/subjects/{s}/versions/7", 404, 40402),
        ("GET", "/subjects/{s}/versions/0", 422, 42202),
        ("GET", "/subjects/{s}/versions/-2", 422, 42202),
        ("GET", "/subjects/{s}/versions/first", 422, 42202),
        ("GET", "/subjects/{s}/versions/99999999999", 422, 42202),
        ("GET", "/subjects/{s}/versions/7/schema", 404, 40402),
        ("GET", "/subjects/{s}/versions/7/referencedby", 404, 40402),
        ("GET", "/schemas/ids/2000000000", 404, 40403),
        ("GET", "/schemas/ids/none", 404, 40403),
        ("GET", "/schemas/ids/2000000000/subjects", 404, 40403),
        ("GET", "/schemas/ids/2000000000/versions", 404, 40403),
        ("DELETE", "/subjects/none", 404, 40401),
        ("DELETE", "/subjects/none/versions/1", 404, 40401),
        ("DELETE", "/subjects/{s}/versions/7", 404, 40402),
        ("GET", "/config/none", 404, 40408),
        ("DELETE", "/config/none", 404, 40401),
        ("GET", "/mode/none", 404, 40409),
        ("DELETE", "/mode/none", 404, 40401),
        ("GET", "/nothing", 404, 404),
        ("PATCH", "/subjects", 405, 405),
        ("PUT", "/subjects/{s}/versions", 405, 405),
    ],
)
def test_what_is_not_there(ask: Asking, subject: str, method: str, path: str, status: int, code: int) -> None:
    ask.register(subject, ONE)
    found = ask.refused(method, path.format(s=subject))
    assert (found.status, found.code) == (status, code)


def test_a_schema_that_is_not_there_is_not_looked_up(ask: Asking, subject: str) -> None:
    assert ask.refused("POST", f"/subjects/{subject}", {"schema": ONE}).code == 40401
    ask.register(subject, ONE)
    assert ask.refused("POST", f"/subjects/{subject}", {"schema": TWO}).code == 40403


# What is refused, and not passed over


@pytest.mark.parametrize(
    ("body", "code", "word"),
    [
        ({"schema": ONE, "schemaType": "XSD"}, 42201, "takes AVRO, JSON, PROTOBUF"),
        ({"schema": ONE, "schemaType": "avro"}, 42201, "this registry takes AVRO"),
        ({"schema": ""}, 42201, "there is none"),
        ({"schema": " ", "metadata": {"properties": {"a": "b"}}}, 42201, "there is none"),
        ({"schemaType": "AVRO"}, 42201, "there is none"),
        ({"schema": "{"}, 42201, "is not JSON"),
        ({"schema": '{"type": "recrod"}'}, 42201, "recrod"),
        ({"schema": ONE, "ruleSet": {"domainRules": [{"doc": "x"}]}}, 42210, "has no name"),
        ({"schema": ONE, "ruleSet": {"domainRules": [{"name": "x"}] * 2}}, 42210, "two rules are called 'x'"),
        (
            {"schema": ONE, "ruleSet": {"domainRules": [{"name": "x", "kind": "y"}]}},
            422,
            "domainRules[0].kind",
        ),
        ({"schema": ONE, "ruleSet": {"rules": []}}, 422, "ruleSet.rules"),
        ({"schema": ONE, "metadata": {"properties": {"a": 1}}}, 422, "metadata.properties.a"),
        ({"schema": ONE, "metadata": {"owner": "a"}}, 422, "metadata.owner"),
        ({"schema": ONE, "alias": "x"}, 422, "alias"),
        ({"schema": 7}, 422, "schema: input should be a valid string (value: 7)"),
        ({"schema": {"type": "string"}}, 422, "a schema is sent as text"),
        ({"schema": ONE, "references": {}}, 422, "references"),
        ({"schema": ONE, "references": [{"name": "a"}]}, 422, "references[0].subject"),
        ({"schema": ONE, "references": [{"name": "a", "subject": "none", "version": 1}]}, 42201, "'none'"),
        (
            {"schema": ONE, "references": [{"name": "a", "subject": "none", "version": 0}]},
            42201,
            "0 is no version",
        ),
        ({"schema": ONE, "id": 7}, 42205, "IMPORT"),
        ({"schema": ONE, "version": 7}, 42201, "7 was asked for, and the next is 1"),
        ({"schema": ONE, "version": -7}, 422, "version: -7"),
        ({"schema": ONE, "id": -7}, 422, "id: -7"),
        ([], 422, "no JSON object"),
        ("x", 422, "no JSON object"),
    ],
)
def test_a_body_that_cannot_be_used(ask: Asking, subject: str, body: Any, code: int, word: str) -> None:
    found = ask.refused("POST", f"/subjects/{subject}/versions", body)
    assert (found.status, found.code) == (422, code)
    assert word in found.message
    assert ask.refused("GET", f"/subjects/{subject}/versions").code == 40401


def test_what_asks_for_nothing_is_passed_over(ask: Asking, subject: str) -> None:
    body = {
        "schema": ONE,
        "schemaType": None,
        "references": [],
        "metadata": None,
        "ruleSet": {},
        "id": -1,
        "version": 0,
    }
    assert ask("POST", f"/subjects/{subject}/versions?findTags=false&format=", body).status == 200


@pytest.mark.parametrize(
    ("path", "word"),
    [
        ("/subjects?deleted=maybe", "neither true nor false"),
        ("/subjects?offset=x", "no whole number"),
        ("/subjects?offset=-1", "negative"),
        ("/subjects?deleted=true&deleted=false", "twice"),
        ("/subjects?subjectPrefix=:.other:", "contexts are not supported"),
        ("/schemas/ids/1?format=resolved", "'format' is not supported"),
    ],
)
def test_parameters_that_cannot_be_used(ask: Asking, path: str, word: str) -> None:
    found = ask.refused("GET", path)
    assert found.status == 422
    assert word in found.message


# References


def test_references(ask: Asking, subject: str) -> None:
    money = fresh("money")
    amount = record("paise:long", name="Amount", namespace="shop")
    ask.register(money, amount)
    wanted = {"name": "shop.Amount", "subject": money, "version": 1}
    order = record("id:long", "paid:shop.Amount", name="Paid")
    assert ask.refused("POST", f"/subjects/{subject}/versions", {"schema": order}).code == 42201
    number = ask.register(subject, order, references=[{**wanted, "version": -1}])
    assert ask.get(f"/schemas/ids/{number}")["references"] == [wanted]
    assert ask.get(f"/subjects/{subject}/versions/1")["references"] == [wanted]
    assert ask.get(f"/subjects/{money}/versions/1/referencedby") == [number]
    assert ask.register(subject, order, references=[wanted]) == number
    found = ask("POST", f"/subjects/{subject}", {"schema": order, "references": [wanted]})
    assert found.body["version"] == 1
    taken = ask.refused("DELETE", f"/subjects/{money}/versions/1")
    assert (taken.code, str(number) in taken.message) == (42206, True)
    assert ask.refused("DELETE", f"/subjects/{money}").code == 42206
    ask("DELETE", f"/subjects/{subject}")
    assert ask("DELETE", f"/subjects/{money}").body == [1]
    assert ask.refused("DELETE", f"/subjects/{money}?permanent=true").code == 42206
    assert ask("DELETE", f"/subjects/{subject}?permanent=true").body == [1]
    assert ask("DELETE", f"/subjects/{money}?permanent=true").body == [1]


def test_references_to_another_version_are_another_schema(ask: Asking, subject: str) -> None:
    money = fresh("money")
    ask.register(money, record("paise:long", name="Coin"))
    ask.register(money, record("paise:long", "code:string?", name="Coin"))
    order = record("paid:Coin", name="Order2")
    ids = {
        ask.register(subject, order, references=[{"name": "Coin", "subject": money, "version": v}])
        for v in (1, 2)
    }
    assert len(ids) == 2


def test_compatibility_sees_through_references(ask: Asking, subject: str) -> None:
    money = fresh("money")
    ask.register(money, record("paise:long", name="Coin"))
    other = fresh("money")
    ask.register(other, record("paise:string", name="Coin"))
    order = record("paid:Coin", name="Order3")
    ask.register(subject, order, references=[{"name": "Coin", "subject": money, "version": 1}])
    body = {"schema": order, "references": [{"name": "Coin", "subject": other, "version": 1}]}
    found = ask.refused("POST", f"/subjects/{subject}/versions", body)
    assert found.code == 409
    assert "long is written, and string is read" in found.message


def test_references_do_not_lead_on_for_ever(registry: Server) -> None:
    ask = registry.asking
    ask.register("s0", record("x:int", name="R0"))
    for number in range(1, 60):
        references = [{"name": f"R{number - 1}", "subject": f"s{number - 1}", "version": 1}]
        body = {"schema": record("x:int", name=f"R{number}"), "references": references}
        found = ask("POST", f"/subjects/s{number}/versions", body)
        if found.status != 200:
            assert number == 51
            assert "more than 50 schemas" in found.message
            return
    pytest.fail("sixty schemas in a row")
