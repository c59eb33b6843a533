"""Confluent's REST reference, path by path: the documented answer, and the documented code of each error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.registry.registry_kit import Asking, Server, record

ONE, TWO, OTHER = record("id:long"), record("id:long", "note:string?"), record("id:string")
JSON_TEXT = '{"type": "string"}'
DOCUMENT = Path(__file__).parents[3] / "docs" / "registry.md"

DOCUMENTED = {
    "/": "get",
    "/compatibility/subjects/{subject}/versions": "post",
    "/compatibility/subjects/{subject}/versions/{version}": "post",
    "/config": "get put delete",
    "/config/{subject}": "get put delete",
    "/contexts": "get",
    "/mode": "get put delete",
    "/mode/{subject}": "get put delete",
    "/schemas": "get",
    "/schemas/guids/{guid}": "get",
    "/schemas/guids/{guid}/ids": "get",
    "/schemas/ids/{id}": "get",
    "/schemas/ids/{id}/schema": "get",
    "/schemas/ids/{id}/subjects": "get",
    "/schemas/ids/{id}/versions": "get",
    "/schemas/types": "get",
    "/subjects": "get",
    "/subjects/{subject}": "post delete",
    "/subjects/{subject}/metadata": "get",
    "/subjects/{subject}/versions": "get post",
    "/subjects/{subject}/versions/{version}": "get delete",
    "/subjects/{subject}/versions/{version}/referencedby": "get",
    "/subjects/{subject}/versions/{version}/schema": "get",
    "/v1/metadata/id": "get",
    "/v1/metadata/version": "get",
}
LEFT_OUT = (
    ("POST", "/associations"),
    ("DELETE", "/contexts/CONTEXT"),
    ("GET", "/dek-registry"),
    ("GET", "/exporters"),
    ("GET", "/subjects/SUBJECT/provenance"),
    ("POST", "/subjects/SUBJECT/versions/VERSION/tags"),
    ("GET", "/v1/metadata/deployment"),
)


def test_every_documented_path_is_there_or_is_named_as_left_out(ask: Asking) -> None:
    paths = ask.get("/openapi.json")["paths"]
    assert {path: set(methods.split()) for path, methods in DOCUMENTED.items()} == {
        path: set(paths[path]) for path in DOCUMENTED
    }
    outcome = DOCUMENT.read_text()
    for method, path in LEFT_OUT:
        assert ask.refused(method, path, {} if method == "POST" else None).status in (404, 405), path
        assert f"`{path}`" in outcome


@pytest.fixture
def filled(registry: Server) -> Asking:
    """Two subjects, of which one refers to the other."""
    ask = registry.asking
    assert [ask.register("a", ONE), ask.register("a", TWO)] == [1, 2]
    references = [{"name": "Order", "subject": "a", "version": 1}]
    bill = record("of:Order", name="Bill")
    assert ask.register("b", bill, references=references) == 3
    return ask


def test_subjects_and_versions(filled: Asking) -> None:
    ask = filled
    assert ask.get("/subjects") == ["a", "b"]
    assert ask.get("/subjects?subjectPrefix=b") == ["b"]
    assert ask.get("/subjects/a/versions") == [1, 2]
    found = ask.get("/subjects/a/versions/latest")
    assert {**found, "guid": ""} == {"subject": "a", "version": 2, "id": 2, "guid": "", "schema": TWO}
    assert ask.get("/subjects/a/versions/1/schema") == json.loads(ONE)
    assert ask.get("/subjects/a/versions/1/referencedby") == [3]
    again = ask("POST", "/subjects/a/versions", {"schema": TWO}).body
    assert (again["id"], again["version"], again["schema"]) == (2, 2, TWO)
    looked_up = ask("POST", "/subjects/a", {"schema": ONE}).body
    assert {**looked_up, "guid": ""} == {"subject": "a", "version": 1, "id": 1, "guid": "", "schema": ONE}


def test_schemas_by_id(filled: Asking) -> None:
    ask = filled
    found = ask.get("/schemas/ids/3")
    assert found["references"] == [{"name": "Order", "subject": "a", "version": 1}]
    assert "schemaType" not in found
    assert ask.get("/schemas/ids/1?fetchMaxId=true")["maxId"] == 3
    assert ask.get("/schemas/ids/1/schema") == json.loads(ONE)
    ask.register("c", ONE)
    assert ask.get("/schemas/ids/1/subjects") == ["a", "c"]
    assert ask.get("/schemas/ids/1/subjects?subject=c") == ["c"]
    assert ask.get("/schemas/ids/1/versions") == [
        {"subject": "a", "version": 1},
        {"subject": "c", "version": 1},
    ]
    ask("DELETE", "/subjects/c")
    assert ask.get("/schemas/ids/1/subjects") == ["a"]
    assert ask.get("/schemas/ids/1/subjects?deleted=true&offset=1&limit=1") == ["c"]
    assert ask.get("/schemas/ids/1/versions?deleted=true")[1] == {"subject": "c", "version": 1}
    guid = ask.get("/schemas/ids/1")["guid"]
    assert ask.get(f"/schemas/guids/{guid}")["schema"] == ONE
    assert ask.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": 1}]


def test_schemas_are_listed_with_where_they_are(filled: Asking) -> None:
    ask = filled

    def listed(query: str = "") -> list[tuple[str, int, int]]:
        return [(each["subject"], each["version"], each["id"]) for each in ask.get(f"/schemas{query}")]

    assert listed() == [("a", 1, 1), ("a", 2, 2), ("b", 1, 3)]
    assert listed("?latestOnly=true") == [("a", 2, 2), ("b", 1, 3)]
    assert listed("?subjectPrefix=a&offset=1") == [("a", 2, 2)]
    assert listed("?limit=1") == [("a", 1, 1)]
    ask("DELETE", "/subjects/a/versions/2")
    assert listed("?subjectPrefix=a") == [("a", 1, 1)]
    assert listed("?subjectPrefix=a&latestOnly=true") == [("a", 1, 1)]
    assert [each.get("deleted") for each in ask.get("/schemas?subjectPrefix=a&deleted=true")] == [None, True]


def test_deleting(filled: Asking) -> None:
    ask = filled
    assert ask("DELETE", "/subjects/a/versions/2").body == 2
    assert ask.get("/subjects/a/versions?deleted=true") == [1, 2]
    assert ask.get("/subjects/a/versions?deletedOnly=true") == [2]
    assert ask("DELETE", "/subjects/a/versions/2?permanent=true").body == 2
    assert ask.refused("DELETE", "/subjects/a/versions/1").code == 42206
    assert ask("DELETE", "/subjects/b").body == [1]
    assert ask.get("/subjects?deletedOnly=true") == ["b"]
    assert ask("DELETE", "/subjects/b?permanent=true").body == [1]


def test_levels_and_modes(filled: Asking) -> None:
    ask = filled
    for path in ("/config", "/config/a"):
        assert ask("PUT", path, {"compatibility": "FULL_TRANSITIVE"}).body == {
            "compatibility": "FULL_TRANSITIVE"
        }
        assert ask.get(path) == {"compatibilityLevel": "FULL_TRANSITIVE"}
        assert ask("DELETE", path).body == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert ask.get("/config/a?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    for path in ("/mode", "/mode/a"):
        assert ask("PUT", path, {"mode": "READONLY"}).body == {"mode": "READONLY"}
        assert ask.get(path) == {"mode": "READONLY"}
        assert ask("DELETE", path).body == {"mode": "READONLY"}
    assert ask.get("/mode/a?defaultToGlobal=true") == {"mode": "READWRITE"}


def test_compatibility_and_the_rest(filled: Asking) -> None:
    ask = filled
    path = "/compatibility/subjects/a/versions"
    for which in ("", "/latest", "/1"):
        assert ask("POST", path + which, {"schema": TWO}).body == {"is_compatible": True}
        outcome = ask("POST", f"{path}{which}?verbose=true", {"schema": OTHER}).body
        assert (outcome["is_compatible"], bool(outcome["messages"])) == (False, True)
    assert ask.get("/") == {}
    assert ask.get("/contexts") == ["."]
    assert ask.get("/schemas/types") == ["AVRO", "JSON", "PROTOBUF"]
    assert set(ask.get("/v1/metadata/id")) == {"id", "scope"}
    assert set(ask.get("/v1/metadata/version")) == {"version", "commitId"}


ERRORS: list[tuple[str, str, Any, int]] = [
    ("GET", "/subjects/none/versions", None, 40401),
    ("GET", "/subjects/none/versions/1", None, 40401),
    ("GET", "/subjects/none/metadata?key=a&value=b", None, 40401),
    ("GET", "/subjects/a/metadata?key=a&value=b", None, 40403),
    ("GET", "/subjects/a/versions/9", None, 40402),
    ("GET", "/subjects/a/versions/zero", None, 42202),
    ("GET", "/subjects/a/versions/9/schema", None, 40402),
    ("GET", "/subjects/a/versions/0/schema", None, 42202),
    ("GET", "/subjects/a/versions/9/referencedby", None, 40402),
    ("POST", "/subjects/none", {"schema": ONE}, 40401),
    ("POST", "/subjects/a", {"schema": OTHER}, 40403),
    ("POST", "/subjects/a", {"schema": "{"}, 42201),
    ("POST", "/subjects/a/versions", {"schema": OTHER}, 409),
    ("POST", "/subjects/a/versions", {"schema": "{"}, 42201),
    ("POST", "/subjects/a/versions", {"schema": JSON_TEXT, "schemaType": "XML"}, 42201),
    ("POST", "/subjects/a/versions", {"schema": ONE, "id": 9}, 42205),
    ("POST", "/subjects/a/versions", {"schema": TWO, "version": 9}, 42201),
    ("POST", "/subjects/__GLOBAL/versions", {"schema": ONE}, 42208),
    (
        "POST",
        "/subjects/a/versions",
        {"schema": ONE, "ruleSet": {"domainRules": [{"type": "CEL"}]}},
        42210,
    ),
    (
        "POST",
        "/subjects/c/versions",
        {"schema": ONE, "references": [{"name": "a", "subject": "z"}]},
        42201,
    ),
    ("DELETE", "/subjects/none", None, 40401),
    ("DELETE", "/subjects/none?permanent=true", None, 40401),
    ("DELETE", "/subjects/a?permanent=true", None, 40405),
    ("DELETE", "/subjects/a/versions/9", None, 40402),
    ("DELETE", "/subjects/a/versions/x", None, 42202),
    ("DELETE", "/subjects/a/versions/2?permanent=true", None, 40407),
    ("DELETE", "/subjects/a/versions/1", None, 42206),
    ("GET", "/schemas/ids/9", None, 40403),
    ("GET", "/schemas/ids/9/schema", None, 40403),
    ("GET", "/schemas/ids/9/subjects", None, 40403),
    ("GET", "/schemas/ids/9/versions", None, 40403),
    ("GET", "/schemas/guids/none", None, 40403),
    ("GET", "/schemas/guids/00000000-0000-0000-0000-000000000000/ids", None, 40403),
    ("POST", "/compatibility/subjects/a/versions/9", {"schema": ONE}, 40402),
    ("POST", "/compatibility/subjects/a/versions/x", {"schema": ONE}, 42202),
    ("POST", "/compatibility/subjects/a/versions", {"schema": "{"}, 42201),
    ("PUT", "/config", {"compatibility": "SOME"}, 42203),
    ("PUT", "/config/a", {"compatibility": "SOME"}, 42203),
    ("GET", "/config/a", None, 40408),
    ("DELETE", "/config/a", None, 40401),
    ("PUT", "/mode", {"mode": "SOME"}, 42204),
    ("PUT", "/mode", {"mode": "IMPORT"}, 42205),
    ("PUT", "/mode/a", {"mode": "SOME"}, 42204),
    ("PUT", "/mode/a", {"mode": "IMPORT"}, 42205),
    ("GET", "/mode/a", None, 40409),
    ("DELETE", "/mode/a", None, 40401),
]


def test_every_documented_error_has_its_code(filled: Asking) -> None:
    for method, path, body, code in ERRORS:
        refused = filled.refused(method, path, body)
        assert (refused.code, refused.status) == (code, int(str(code)[:3])), (method, path, body)
    assert filled.get("/schemas?latestOnly=true")[0]["version"] == 2, "nothing has changed"


def test_deleting_twice(filled: Asking) -> None:
    filled("DELETE", "/subjects/b")
    assert filled.refused("DELETE", "/subjects/b").code == 40404
    filled("DELETE", "/subjects/a/versions/2")
    assert filled.refused("DELETE", "/subjects/a/versions/2").code == 40406


@pytest.mark.parametrize(
    ("body", "code", "answered"),
    [
        ({"schema": TWO, "id": 70, "version": 9}, None, (70, 9)),  # a gap
        ({"schema": TWO, "id": 70}, None, (70, 3)),  # no version: the next
        ({"schema": ONE, "id": 70, "version": 1}, None, (70, 1)),  # once more
        ({"schema": TWO, "id": 71, "version": 1}, None, (71, 1)),  # in its place
        ({"schema": TWO, "id": 50, "version": 9}, 42205, None),  # the id of another schema
        ({"schema": TWO, "version": 9}, 42205, None),  # no id
        ({"schema": TWO}, 42205, None),  # neither
    ],
)
def test_importing(registry: Server, body: Any, code: int | None, answered: Any) -> None:
    ask = registry.asking
    ask("PUT", "/mode/a", {"mode": "IMPORT"})
    if body["schema"] == ONE or body.get("id") == 71:
        ask.register("a", ONE, id=70, version=1)
    else:
        ask.register("a", OTHER, id=50, version=2)
    found = ask("POST", "/subjects/a/versions", body)
    if code is not None:
        assert (found.status, found.code) == (422, code)
    else:
        assert (found.body["id"], found.body["version"]) == answered
        assert ask.get(f"/subjects/a/versions/{answered[1]}")["id"] == answered[0]
