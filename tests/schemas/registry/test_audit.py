"""The audit: every change, who made it, from where, what it was before and after."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from latecomer.schemas.registry.tokens import Scope, add_token, new_token
from schemas.registry.registry_kit import Asking, Server, beside, record

ONE, TWO = record("id:long"), record("id:long", "x:int=0")


def outcome_of(entries: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(e["action"], e["subject"], e["version"], e["before"], e["after"]) for e in entries]


def test_every_change_is_told(registry: Server) -> None:
    ask = registry.asking
    ask.register("a", ONE)
    ask.register("a", ONE)
    ask.refused("POST", "/subjects/a/versions", {"schema": record("id:string")})
    ask("PUT", "/config/a", {"compatibility": "FULL"})
    ask("PUT", "/config/a", {"compatibility": "FULL"})
    ask("PUT", "/config/a", {"compatibility": "NONE"})
    ask("PUT", "/mode", {"mode": "READWRITE"})
    ask("PUT", "/about/a", {"owner": "ana"})
    ask("PUT", "/naming", {"rules": [{"subjects": "a*"}]})
    ask("DELETE", "/subjects/a")
    ask("DELETE", "/subjects/a?permanent=true")
    kept = {"version": 1, "id": 1, "schemaType": "AVRO"}
    naming = {"rules": [{"subjects": "a*"}], "others": "allow"}
    about = {"owner": "ana", "metadata": {}}
    entries = ask.get("/audit")
    assert outcome_of(entries) == [
        ("register", "a", 1, None, kept),
        ("set config", "a", None, None, {"compatibility": "FULL"}),
        ("set config", "a", None, {"compatibility": "FULL"}, {"compatibility": "NONE"}),
        ("set mode", None, None, None, "READWRITE"),
        ("set about", "a", None, None, about),
        ("set naming", None, None, None, naming),
        ("delete", "a", 1, {"id": 1, "deleted": False}, {"id": 1, "deleted": True}),
        ("delete permanently", "a", 1, {"id": 1, "deleted": True}, None),
        ("remove config", "a", None, {"compatibility": "NONE"}, None),
        ("remove about", "a", None, about, None),
    ]
    assert [each["number"] for each in entries] == list(range(1, 11))
    assert {(each["who"], each["from"]) for each in entries} == {("anonymous", "127.0.0.1")}
    moments = [datetime.fromisoformat(each["at"]) for each in entries]
    assert moments == sorted(moments)
    assert all(each.tzinfo is not None for each in moments)
    assert outcome_of(ask.get("/audit?after=3&limit=2")) == outcome_of(entries[3:5])
    assert outcome_of(ask.get("/audit?subject=a&after=3")) == outcome_of(
        [e for e in entries[3:] if e["subject"] == "a"]
    )


@pytest.mark.parametrize("query", ["after=-1", "limit=0", "limit=10001", "limit=x", "subject=%00"])
def test_questions_that_cannot_be_answered(ask: Asking, query: str) -> None:
    assert ask.refused("GET", f"/audit?{query}").status == 422


def test_it_names_the_token(tmp_path: Path) -> None:
    secret, kept = new_token("ana@shop", Scope.ADMIN)
    add_token(tmp_path / "tokens", kept)
    with beside(tmp_path / "registry.db", tmp_path / "tokens", token=secret) as server:
        server.asking("POST", "/subjects/a/versions", {"schema": ONE}, headers={"X-Forwarded-For": "6.6.6.6"})
        [entry] = server.asking.get("/audit")
    assert (entry["who"], entry["from"]) == ("ana@shop", "127.0.0.1")
    stored = b"".join(file.read_bytes() for file in tmp_path.glob("registry.db*"))
    assert secret.encode() not in stored


def test_it_is_only_added_to(registry: Server, tmp_path: Path) -> None:
    registry.asking.register("a", ONE)
    with sqlite3.connect(tmp_path / "registry.db") as database:
        for statement in ("UPDATE registry_audit SET who = 'bo'", "DELETE FROM registry_audit"):
            with pytest.raises(sqlite3.IntegrityError, match="only added to"):
                database.execute(statement)
    database.close()


def test_a_change_and_its_entry_are_one(registry: Server, tmp_path: Path) -> None:
    """Where the entry cannot be written, nothing is changed."""
    registry.asking.register("a", ONE)
    with sqlite3.connect(tmp_path / "registry.db") as database:
        database.execute(
            "CREATE TRIGGER full BEFORE INSERT ON registry_audit BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    database.close()
    refused = registry.asking.refused("POST", "/subjects/a/versions", {"schema": TWO})
    assert (refused.status, refused.code) == (500, 50001)
    assert registry.asking.get("/subjects/a/versions") == [1]
