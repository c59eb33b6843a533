"""What clients of Confluent's registry send, and what they look for in the answers."""

from __future__ import annotations

import pytest

from registry.registry_kit import Asking, record

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
