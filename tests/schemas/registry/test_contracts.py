"""Metadata and rules beside a schema, and what settings make of them, as Confluent's registry has it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from latecomer.schemas.registry import questions
from latecomer.schemas.registry.core import Registry
from latecomer.schemas.registry.databases import open_database
from latecomer.schemas.registry.records import Actor, Definition
from latecomer.schemas.registry.refusals import Refused
from latecomer.schemas.registry.tables import EVERYWHERE
from schemas.registry.registry_kit import Answer, Asking, Server, fresh, record

ONE, TWO = record("id:long"), record("id:long", "note:string?")
RIDES: dict[str, Any] = {"properties": {"team": "rides"}, "tags": {"**.id": ["PII"]}, "sensitive": ["team"]}
RULE = {"name": "no-gaps", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "message.id > 0"}
RULES = {"domainRules": [RULE]}


def properties(**found: str) -> dict[str, Any]:
    return {"properties": {name.replace("_", ":"): value for name, value in found.items()}}


def post(ask: Asking, subject: str, schema: str, **more: Any) -> Any:
    answer = ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **more})
    assert answer.status == 200, answer
    return answer.body


def look_up(ask: Asking, subject: str, schema: str, **more: Any) -> Answer:
    return ask("POST", f"/subjects/{subject}", {"schema": schema, **more})


def test_they_are_kept_and_handed_out(ask: Asking, subject: str) -> None:
    found = post(ask, subject, ONE, metadata=RIDES, ruleSet=RULES)
    assert (found["metadata"], found["ruleSet"], found["version"]) == (RIDES, RULES, 1)
    for path in (
        f"/subjects/{subject}/versions/1",
        f"/schemas/ids/{found['id']}",
        f"/schemas/guids/{found['guid']}",
    ):
        assert {**ask.get(path)}.items() >= {"metadata": RIDES, "ruleSet": RULES}.items()
    assert found["id"] in {each["id"] for each in ask.get("/schemas?ruleType=CEL")}
    assert found["id"] not in {each["id"] for each in ask.get("/schemas?ruleType=CEL_FIELD")}


def test_other_metadata_make_another_schema(ask: Asking, subject: str) -> None:
    plain = post(ask, subject, ONE)["id"]
    assert post(ask, subject, ONE, metadata={}, ruleSet={})["id"] == plain
    rides = post(ask, subject, ONE, metadata=RIDES)["id"]
    assert rides != plain
    assert ask.get(f"/subjects/{subject}/versions") == [1, 2]
    assert look_up(ask, subject, ONE).body["version"] == 1
    assert look_up(ask, subject, ONE, metadata=RIDES).body["version"] == 2
    assert look_up(ask, subject, ONE, metadata=properties(team="fares")).body["error_code"] == 40403
    assert post(ask, fresh(), ONE, metadata=RIDES)["id"] == rides


def test_a_version_has_what_the_one_before_had_unless_it_says_otherwise(ask: Asking, subject: str) -> None:
    first = post(ask, subject, ONE, metadata=RIDES, ruleSet=RULES)
    assert post(ask, subject, ONE)["id"] == first["id"], "who registers as before gets the same"
    second = post(ask, subject, TWO)
    assert (second["metadata"], second["ruleSet"]) == (RIDES, RULES)
    third = post(ask, subject, "", metadata=properties(team="fares"))
    assert (third["schema"], third["metadata"], third["ruleSet"]) == (TWO, properties(team="fares"), RULES)
    fourth = post(ask, subject, record("id:long", "x:int=0"), metadata={}, ruleSet={})
    assert set(fourth) == {"id", "version", "guid", "schema"}
    assert ask.get(f"/subjects/{subject}/versions") == [1, 2, 3, 4]


def test_the_version_of_a_body_compares_before_it_writes(ask: Asking, subject: str) -> None:
    assert post(ask, subject, ONE, version=1)["metadata"] == properties(confluent_version="1")
    late = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": TWO, "version": 1})
    assert (late.code, "1 was asked for, and the next is 2" in late.message) == (42201, True)
    assert post(ask, subject, TWO, version=2)["version"] == 2
    assert ask.get(f"/subjects/{subject}/versions") == [1, 2]


def test_the_version_in_metadata_follows_the_version(ask: Asking, subject: str) -> None:
    """Step by step what Confluent's registry answers."""

    def version(schema: str = ONE, **more: Any) -> int:
        return int(post(ask, subject, schema, **more)["version"])

    def found(**more: Any) -> int:
        return int(look_up(ask, subject, ONE, **more).body["version"])

    assert [version(), version(version=-1), version(version=2), version(version=-1)] == [1, 1, 2, 2]
    assert "metadata" not in ask.get(f"/subjects/{subject}/versions/1")
    named = [found(), *(found(metadata=properties(confluent_version=each)) for each in "12")]
    assert named == [1, 1, 2]
    ask("DELETE", f"/subjects/{subject}/versions/1")
    assert [found(), version()] == [2, 2]
    assert [version(version=3), version(version=-1), version(version=4)] == [3, 3, 4]
    assert ask.refused("POST", f"/subjects/{subject}/versions", {"schema": ONE, "version": 4}).code == 42201
    assert version(metadata=properties(confluent_version="-1")) == 5
    assert [version(metadata=properties(confluent_version=each)) for each in "23"] == [2, 3]
    assert version(metadata=properties(confluent_version="0")) == 6
    assert version(metadata={"properties": {}}) == 6
    assert version(metadata=properties(mine="x")) == 7
    assert post(ask, subject, ONE, version=-1)["metadata"] == properties(mine="x", confluent_version="8")
    assert found(metadata=properties(mine="x")) == 7
    ask("DELETE", f"/subjects/{subject}/versions/7")
    assert found(metadata=properties(mine="x")) == 8
    # It is no comparison: a number that is neither there nor the next is put right.
    assert post(ask, subject, TWO, metadata=properties(confluent_version="99"))["metadata"] == properties(
        confluent_version="9"
    )


def test_defaults_and_overrides(ask: Asking, subject: str) -> None:
    settings = {
        "defaultMetadata": properties(team="all", area="city"),
        "overrideMetadata": properties(region="in"),
        "defaultRuleSet": {"domainRules": [{"name": "a", "doc": "default"}, {"name": "b"}]},
        "overrideRuleSet": {"domainRules": [{"name": "a", "doc": "override"}]},
    }
    assert ask("PUT", f"/config/{subject}", settings).body == settings
    assert ask.get(f"/config/{subject}").items() >= settings.items()
    found = post(ask, subject, ONE, metadata=properties(team="rides", region="us"))
    assert found["metadata"] == properties(team="rides", area="city", region="in")
    assert found["ruleSet"] == {"domainRules": [{"name": "a", "doc": "override"}, {"name": "b"}]}
    assert post(ask, subject, ONE)["version"] == 1
    cleared = {"defaultMetadata": None, "overrideRuleSet": {}}
    ask("PUT", f"/config/{subject}", cleared)
    assert set(ask.get(f"/config/{subject}")) == {"compatibilityLevel", "overrideMetadata", "defaultRuleSet"}


def test_defaults_of_the_registry_hold_for_every_subject(registry: Server) -> None:
    ask = registry.asking
    ask("PUT", "/config", {"defaultMetadata": properties(team="all")})
    assert post(ask, "a", ONE)["metadata"] == properties(team="all")
    ask("PUT", "/config/b", {"defaultMetadata": properties(team="b")})
    assert post(ask, "b", ONE)["metadata"] == properties(team="b")
    ask("PUT", "/mode", {"mode": "IMPORT"})
    ask("PUT", "/mode/c", {"mode": "IMPORT"})
    assert "metadata" not in post(ask, "c", ONE, id=90, version=7), "what is imported stays as it is"


def test_the_largest_version_has_no_next_one(registry: Server) -> None:
    ask = registry.asking
    ask("PUT", "/mode/a", {"mode": "IMPORT"})
    assert ask.register("a", ONE, id=5, version=2**31 - 1) == 5
    ask("PUT", "/mode/a", {"mode": "READWRITE"})
    assert ask.refused("POST", "/subjects/a/versions", {"schema": TWO}).code == 42205


def test_only_versions_of_one_group_are_compared(ask: Asking, subject: str) -> None:
    ask("PUT", f"/config/{subject}", {"compatibilityGroup": "major"})
    post(ask, subject, ONE, metadata=properties(major="1"))
    other = record("id:string")
    refused = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": other})
    assert (refused.status, refused.code) == (409, 409)
    test = f"/compatibility/subjects/{subject}/versions/latest"
    for major, is_compatible in (("1", False), ("2", True)):
        body = {"schema": other, "metadata": properties(major=major)}
        assert ask("POST", test, body).body == {"is_compatible": is_compatible}
    assert post(ask, subject, other, metadata=properties(major="2"))["version"] == 2
    wider = record("id:long", "y:int=0")
    assert post(ask, subject, wider, metadata=properties(major="1"))["version"] == 3


def test_under_none_no_version_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Registry(open_database(str(tmp_path / "registry.db")))) as registry:
        registry.set_config(
            Actor("priya", "10.0.0.1"), "a", {"compatibility": "NONE", "compatibilityGroup": "major"}
        )
        monkeypatch.delattr(questions, "_property")
        for schema in (ONE, record("id:string")):
            registry.register(Actor("priya", "10.0.0.1"), "a", Definition(schema))


def test_an_alias_stands_for_a_subject(ask: Asking, subject: str) -> None:
    alias = fresh("alias")
    number = post(ask, subject, ONE)["id"]
    assert ask.refused("GET", f"/subjects/{alias}/versions").code == 40401
    assert ask("PUT", f"/config/{alias}", {"alias": subject}).body == {"alias": subject}
    assert ask.get(f"/config/{alias}")["alias"] == subject
    assert ask.get(f"/subjects/{alias}/versions/latest")["subject"] == subject
    assert ask.get(f"/schemas/ids/{number}/versions?subject={alias}") == [{"subject": subject, "version": 1}]
    assert ask("POST", f"/compatibility/subjects/{alias}/versions", {"schema": TWO}).body == {
        "is_compatible": True
    }
    assert post(ask, alias, TWO)["version"] == 2
    assert look_up(ask, alias, TWO).body["subject"] == subject
    assert alias not in ask.get("/subjects")
    listed = ask.get(f"/schemas?subjectPrefix={alias}&aliases=true")
    assert [(each["subject"], each["version"], each["aliases"]) for each in listed] == [
        (subject, version, [alias]) for version in (1, 2)
    ]
    assert ask.get(f"/schemas?subjectPrefix={alias}") == []
    ask("PUT", f"/config/{alias}", {"alias": ""})
    assert ask.refused("GET", f"/subjects/{alias}/versions").code == 40401
    for path in ("/config", f"/config/{subject}"):
        assert ask.refused("PUT", path, {"alias": subject}).status == 422


def test_the_latest_version_with_a_property(ask: Asking, subject: str) -> None:
    for major, minor in (("1", "a"), ("1", "b"), ("2", "a")):
        post(ask, subject, ONE, metadata=properties(major=major, minor=minor))
    path = f"/subjects/{subject}/metadata"
    assert ask.get(f"{path}?key=major&value=1")["version"] == 2
    assert ask.get(f"{path}?key=major&value=1&key=minor&value=a")["version"] == 1
    assert ask.refused("GET", f"{path}?key=major&value=3").code == 40403
    assert ask.refused("GET", f"/subjects/{fresh()}/metadata?key=a&value=b").code == 40401
    for wrong in ("", "?key=a", "?key=a&value=b&value=c"):
        assert ask.refused("GET", path + wrong).status == 422


def schema(*required: str, **kinds: str) -> dict[str, Any]:
    found = {"type": "object", "properties": {name: {"type": kind} for name, kind in kinds.items()}}
    return {"schemaType": "JSON", "schema": json.dumps({**found, "required": list(required)})}


@pytest.mark.parametrize(
    ("policy", "added"),
    [(None, False), ("STRICT", False), ("LENIENT", True)],
)
def test_the_policy_of_json_schemas(ask: Asking, subject: str, policy: str | None, added: bool) -> None:
    if policy is not None:
        assert ask("PUT", f"/config/{subject}", {"compatibilityPolicy": policy.lower()}).body == {
            "compatibilityPolicy": policy
        }
        assert ask.get(f"/config/{subject}") == {
            "compatibilityLevel": "BACKWARD",
            "compatibilityPolicy": policy,
        }
    ask.register(subject, **schema("a", a="string"))
    test = f"/compatibility/subjects/{subject}/versions"
    for change, expected in (
        (schema("b", a="string"), True),
        (schema("a", a="string", tip="integer"), added),
    ):
        assert ask("POST", test, change).body == {"is_compatible": expected}
        assert ask("POST", f"{test}/1?verbose=true", change).body["is_compatible"] is expected


def test_a_policy_that_was_taken_away_is_named_with_what_to_do(tmp_path: Path) -> None:
    """PROVEN may still be in the settings of a registry."""
    store, ana = str(tmp_path / "registry.db"), Actor("ana", "10.0.0.1")
    old, new = (
        Definition(schema("a", a="string", **more)["schema"], "JSON") for more in ({}, {"b": "integer"})
    )
    with closing(Registry(open_database(store))) as registry:
        registry.register(ana, "rides-value", old)
    with closing(sqlite3.connect(store)) as database, database:
        setting = json.dumps({"compatibilityPolicy": "PROVEN"})
        database.execute("INSERT INTO registry_settings VALUES ('config', ?, ?)", (EVERYWHERE, setting))
    with closing(Registry(open_database(store))) as registry:
        with pytest.raises(Refused, match=r"'PROVEN' is none; it was removed; set another: PUT /config"):
            registry.register(ana, "rides-value", new)
        assert registry.versions("rides-value") == [1]
