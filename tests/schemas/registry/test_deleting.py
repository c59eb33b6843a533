"""Deleting: first so that it can still be read, then for good."""

from __future__ import annotations

from schemas.registry.registry_kit import Asking, Server, record

ONE, TWO, OTHER = record("id:long"), record("id:long", "note:string?"), record("id:string")


def test_a_deleted_version_can_still_be_read_by_its_id(ask: Asking, subject: str) -> None:
    ids = [ask.register(subject, ONE), ask.register(subject, TWO)]
    assert ask("DELETE", f"/subjects/{subject}/versions/1").body == 1
    assert ask.get(f"/subjects/{subject}/versions") == [2]
    assert ask.get(f"/subjects/{subject}/versions?deleted=true") == [1, 2]
    assert ask.get(f"/subjects/{subject}/versions?deletedOnly=true") == [1]
    assert ask.refused("GET", f"/subjects/{subject}/versions/1").code == 40402
    assert ask.get(f"/subjects/{subject}/versions/1?deleted=true")["deleted"] is True
    assert ask.get(f"/schemas/ids/{ids[0]}")["schema"] == ONE
    assert ask.refused("DELETE", f"/subjects/{subject}/versions/1").code == 40406
    assert ask.refused("POST", f"/subjects/{subject}", {"schema": ONE}).code == 40403
    assert ask("POST", f"/subjects/{subject}?deleted=true", {"schema": ONE}).body["version"] == 1


def test_what_is_registered_again_has_its_id(ask: Asking, subject: str) -> None:
    number = ask.register(subject, ONE)
    ask.register(subject, TWO)
    ask("DELETE", f"/subjects/{subject}/versions/1")
    assert ask.register(subject, ONE) == number
    assert ask.get(f"/subjects/{subject}/versions") == [2, 3]


def test_compatibility_passes_over_what_was_deleted(ask: Asking, subject: str) -> None:
    ask.register(subject, ONE)
    assert ask.refused("POST", f"/subjects/{subject}/versions", {"schema": OTHER}).code == 409
    ask("DELETE", f"/subjects/{subject}/versions/latest")
    ask.register(subject, OTHER)
    assert ask.get(f"/subjects/{subject}/versions") == [2]


def test_for_good_comes_second(ask: Asking, subject: str) -> None:
    ask.register(subject, ONE)
    assert ask.refused("DELETE", f"/subjects/{subject}/versions/1?permanent=true").code == 40407
    assert ask.refused("DELETE", f"/subjects/{subject}?permanent=true").code == 40405
    ask("DELETE", f"/subjects/{subject}/versions/1")
    assert ask("DELETE", f"/subjects/{subject}/versions/1?permanent=true").body == 1
    assert ask.refused("GET", f"/subjects/{subject}/versions?deleted=true").code == 40401


def test_a_subject_is_deleted_for_good_with_its_level_and_mode(ask: Asking, subject: str) -> None:
    ask.register(subject, ONE)
    ask.register(subject, TWO)
    ask("PUT", f"/config/{subject}", {"compatibility": "FULL"})
    ask("PUT", f"/mode/{subject}", {"mode": "READWRITE"})
    assert ask("DELETE", f"/subjects/{subject}").body == [1, 2]
    assert subject not in ask.get("/subjects")
    assert subject in ask.get("/subjects?deleted=true")
    assert subject in ask.get("/subjects?deletedOnly=true")
    assert ask.refused("DELETE", f"/subjects/{subject}").code == 40404
    assert ask.get(f"/config/{subject}") == {"compatibilityLevel": "FULL"}
    assert ask.get(f"/mode/{subject}") == {"mode": "READWRITE"}
    assert ask("DELETE", f"/subjects/{subject}?permanent=true").body == [1, 2]
    assert ask.refused("GET", f"/config/{subject}").code == 40408
    assert ask.refused("GET", f"/mode/{subject}").code == 40409
    assert subject not in ask.get("/subjects?deleted=true")


def test_an_id_means_one_schema_for_ever(registry: Server) -> None:
    ask = registry.asking
    number = ask.register("a", ONE)
    for query in ("", "?permanent=true"):
        ask("DELETE", f"/subjects/a{query}")
    assert ask.refused("GET", f"/schemas/ids/{number}").code == 40403
    assert ask.register("b", OTHER) == number + 1
    assert ask.register("a", ONE) == number
    assert ask.get("/subjects/a/versions") == [1]


def test_a_name_that_came_to_mean_another_schema_makes_another_id(registry: Server) -> None:
    ask = registry.asking
    ask.register("coin", record("paise:long", name="Coin"))
    order = record("paid:Coin")
    references = [{"name": "Coin", "subject": "coin", "version": 1}]
    before = ask.register("order", order, references=references)
    for path in ("order", "order?permanent=true", "coin", "coin?permanent=true"):
        assert ask("DELETE", f"/subjects/{path}").status == 200
    ask.register("coin", record("paise:string", name="Coin"))
    assert ask.register("order", order, references=references) != before


def test_a_subject_that_refers_to_itself_can_be_deleted_as_a_whole(ask: Asking, subject: str) -> None:
    ask("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    ask.register(subject, record("paise:long", name="Coin"))
    references = [{"name": "Coin", "subject": subject, "version": 1}]
    ask.register(subject, record("paid:Coin", name="Purse"), references=references)
    assert ask.refused("DELETE", f"/subjects/{subject}/versions/1").code == 42206
    assert ask("DELETE", f"/subjects/{subject}").body == [1, 2]
    assert ask("DELETE", f"/subjects/{subject}?permanent=true").body == [1, 2]
