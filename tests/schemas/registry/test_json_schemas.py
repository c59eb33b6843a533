"""JSON Schemas in the registry: registered, compared by meaning, and referred to."""

from __future__ import annotations

import json
from typing import Any

from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from schemas.registry.registry_kit import Asking, Server, fresh

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["id"],
    "additionalProperties": False,
}
WIDER = {**ORDER, "properties": {**ORDER["properties"], "paise": {"type": "integer"}}}  # type: ignore[dict-item]
STRICTER = {**ORDER, "required": ["id", "note"]}


def sent(schema: Any) -> dict[str, Any]:
    return {"schema": json.dumps(schema), "schemaType": "JSON"}


def test_it_is_registered_once_and_handed_out_with_its_type(ask: Asking, subject: str) -> None:
    number = ask.register(subject, **sent(ORDER))
    assert ask.register(subject, json.dumps(ORDER, indent=3), schemaType="JSON") == number
    assert ask.get(f"/schemas/ids/{number}")["schemaType"] == "JSON"
    assert ask.get(f"/subjects/{subject}/versions/1")["schemaType"] == "JSON"


def test_a_refused_one_says_where_by_which_rule_and_what_would_pass(ask: Asking, subject: str) -> None:
    ask.register(subject, **sent(ORDER))
    answer = ask.refused("POST", f"/subjects/{subject}/versions", sent(STRICTER))
    assert answer.status == 409
    assert "required" in answer.message
    assert "note" in answer.message
    assert ask.register(subject, **sent(WIDER))
    narrower = {**ORDER, "properties": {"id": {"type": "integer"}}}
    assert ask.refused("POST", f"/subjects/{subject}/versions", sent(narrower)).status == 409


def test_one_refers_to_another_by_name(ask: Asking, subject: str) -> None:
    amount = fresh("amount")
    ask.register(amount, **sent({"type": "integer", "minimum": 0}))
    reference = {"name": "amount.json", "subject": amount, "version": 1}
    order = {"type": "object", "properties": {"paise": {"$ref": "amount.json"}}}
    number = ask.register(subject, **sent(order), references=[reference])
    assert ask.get(f"/schemas/ids/{number}")["references"] == [reference]
    missing = ask.refused("POST", f"/subjects/{fresh()}/versions", sent(order))
    assert "amount.json" in missing.message


def test_a_subject_keeps_its_type_and_what_is_no_schema_is_refused(ask: Asking, subject: str) -> None:
    ask.register(subject, **sent(ORDER))
    avro = ask.refused("POST", f"/subjects/{subject}/versions", {"schema": '"string"'})
    assert "TYPE_CHANGED" in avro.message
    for wrong in ({"type": "objekt"}, {"minimum": "3"}, 5, {"$ref": "https://elsewhere.example/a.json"}):
        answer = ask.refused("POST", f"/subjects/{fresh()}/versions", sent(wrong))
        assert (answer.status, answer.code) == (422, 42201), wrong


def test_the_unmodified_client_registers_and_asks(server: Server, subject: str) -> None:
    client = SchemaRegistryClient({"url": server.url})
    number = client.register_schema(subject, Schema(json.dumps(ORDER), "JSON"))
    assert client.get_schema(number).schema_type == "JSON"
    assert client.test_compatibility(subject, Schema(json.dumps(WIDER), "JSON"))
    assert not client.test_compatibility(subject, Schema(json.dumps(STRICTER), "JSON"))
