"""The seven levels, with Confluent's meaning; and what a refused registration says."""

from __future__ import annotations

import pytest

from latecomer.schemas import Level
from schemas.registry.registry_kit import Asking, record

PLAIN = record("id:long")
WITH_DEFAULT = record("id:long", 'note:string=""')
WITHOUT_DEFAULT = record("id:long", "note:string")


def test_backward_is_the_default_and_the_new_schema_reads_old_data(ask: Asking, subject: str) -> None:
    """The text that asked for the registry has it the other way round."""
    ask.register(subject, PLAIN)
    assert ask.refused("POST", f"/subjects/{subject}/versions", {"schema": WITHOUT_DEFAULT}).code == 409
    ask.register(subject, WITH_DEFAULT)
    ask.register(subject, PLAIN.replace("Order", "Order"))  # a field may go


def test_under_forward_old_schemas_read_new_data(ask: Asking, subject: str) -> None:
    ask("PUT", f"/config/{subject}", {"compatibility": "FORWARD"})
    ask.register(subject, WITHOUT_DEFAULT)
    refused = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": PLAIN})
    assert "version 1 cannot read data of the new schema" in refused.message
    ask.register(subject, record("id:long", "note:string", "more:string"))


@pytest.mark.parametrize(
    ("level", "allowed"),
    [
        ("NONE", {"drop", "add", "retype"}),
        ("BACKWARD", {"drop"}),
        ("BACKWARD_TRANSITIVE", {"drop"}),
        ("FORWARD", {"add"}),
        ("FORWARD_TRANSITIVE", {"add"}),
        ("FULL", set()),
        ("FULL_TRANSITIVE", set()),
    ],
)
def test_every_level(ask: Asking, subject: str, level: str, allowed: set[str]) -> None:
    ask("PUT", f"/config/{subject}", {"compatibility": level})
    ask.register(subject, record("id:long", "note:string"))
    changes = {
        "drop": record("id:long"),
        "add": record("id:long", "note:string", "more:string"),
        "retype": record("id:string", "note:string"),
        "optional": record("id:long", "note:string", "more:string?"),
    }
    found = {
        name
        for name, schema in changes.items()
        if ask("POST", f"/compatibility/subjects/{subject}/versions", {"schema": schema}).body[
            "is_compatible"
        ]
    }
    assert found == allowed | {"optional"}


@pytest.mark.parametrize("level", [each for each in Level if each.against_all])
def test_transitive_levels_look_at_every_version(ask: Asking, subject: str, level: Level) -> None:
    """x is there, goes, and comes back as text: each step is allowed, the way from the first to the last is not."""
    one = record("id:long", "x:int=0")
    two = record("id:long")
    three = record("id:long", 'x:string=""')
    plain = str(level).removesuffix("_TRANSITIVE")
    ask("PUT", f"/config/{subject}", {"compatibility": plain})
    ask.register(subject, one)
    ask.register(subject, two)
    test = f"/compatibility/subjects/{subject}/versions"
    assert ask("POST", test, {"schema": three}).body == {"is_compatible": True}
    ask("PUT", f"/config/{subject}", {"compatibility": str(level)})
    found = ask("POST", f"{test}?verbose=true", {"schema": three}).body
    assert found["is_compatible"] is False
    assert all("version 1" in each for each in found["messages"])
    assert ask("POST", f"{test}/2", {"schema": three}).body == {"is_compatible": True}
    assert ask("POST", f"{test}/1", {"schema": three}).body == {"is_compatible": False}
    assert ask.refused("POST", f"/subjects/{subject}/versions", {"schema": three}).code == 409


def test_testing_where_there_is_nothing_yet(ask: Asking, subject: str) -> None:
    test = f"/compatibility/subjects/{subject}/versions"
    assert ask("POST", test, {"schema": PLAIN}).body == {"is_compatible": True}
    assert ask("POST", f"{test}/latest?verbose=true", {"schema": PLAIN}).body == {
        "is_compatible": True,
        "messages": [],
    }
    assert ask.refused("POST", f"{test}/1", {"schema": PLAIN}).code == 40402
    ask.register(subject, PLAIN)
    assert ask.refused("POST", f"{test}/2", {"schema": PLAIN}).code == 40402
    assert ask.refused("POST", f"{test}/0", {"schema": PLAIN}).code == 42202
    assert ask.refused("POST", test, {"schema": "{"}).code == 42201


def test_a_refusal_says_field_rule_fix_and_whom_to_ask(ask: Asking, subject: str) -> None:
    ask.register(subject, PLAIN)
    refused = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": record("id:long", "fare:int")})
    assert (refused.status, refused.code) == (409, 409)
    assert f'for subject "{subject}", details: 1 problem under BACKWARD: (1)' in refused.message
    for word in (
        "fields[1]",
        "fare",
        "READER_FIELD_MISSING_DEFAULT_VALUE",
        "give it a default",
        "no owner on record",
    ):
        assert word in refused.message
    ask("PUT", f"/about/{subject}", {"owner": "fares@shop.example"})
    again = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": record("id:long", "fare:int")})
    assert again.message.endswith(f"Ask the owner of '{subject}': fares@shop.example.")


def test_a_long_refusal_is_cut(ask: Asking, subject: str) -> None:
    ask.register(subject, PLAIN)
    many = record("id:long", *(f"f{number}:int" for number in range(50)))
    refused = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": many})
    assert "details: 50 problems" in refused.message
    assert "and 30 more" in refused.message
