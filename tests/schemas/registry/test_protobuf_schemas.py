"""Protobuf in the registry: registered as text and as Confluent's client for Python sends it, referred to, compared."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass

from latecomer.schemas.protobuf import parse_schema
from latecomer.schemas.protobuf.reading import message_of
from latecomer.schemas.registry.client import Client
from schemas.registry.registry_kit import Asking, Server, fresh

RIDE = (
    'syntax = "proto3"; package shop; message Ride { int64 id = 1; string city = 2; Home home = 3; '
    "message Home { int32 no = 1; } }"
)
TRIP = (
    'syntax = "proto3"; import "google/protobuf/timestamp.proto"; package shop; message A { int32 no = 1; } '
    "message Ride { int64 id = 1; google.protobuf.Timestamp at = 2; message Leg { string city = 1; } "
    "map<string, Leg> legs = 3; }"
)
BILL = (
    'syntax = "proto3"; import "pay/money.proto"; import "google/type/date.proto"; '
    "message Bill { pay.Money due = 1; google.type.Date day = 2; }"
)
WIDER = RIDE.replace("string city = 2;", "string city = 2; int64 paise = 4;")
BREAKING = RIDE.replace("string city = 2;", "int64 city = 2;")


def sent(text: str, **more: Any) -> dict[str, Any]:
    return {"schema": text, "schemaType": "PROTOBUF", **more}


def test_it_is_registered_once_and_handed_out_with_its_type(ask: Asking, subject: str) -> None:
    number = ask.register(subject, **sent(RIDE))
    other_layout = RIDE.replace("; ", ";\n  ").replace("Home home", ".shop.Ride.Home home")
    assert ask.register(subject, **sent(other_layout)) == number
    found = ask.get(f"/schemas/ids/{number}")
    assert (found["schemaType"], found["schema"]) == ("PROTOBUF", RIDE)
    assert ask("POST", f"/subjects/{subject}", sent(other_layout)).body["id"] == number
    assert ask("POST", f"/subjects/{subject}?normalize=true", sent(other_layout)).body["version"] == 1
    assert ask.get("/schemas/types") == ["AVRO", "JSON", "PROTOBUF"]


def test_a_description_becomes_text_and_is_handed_out_again_where_it_is_asked_for(
    ask: Asking, subject: str
) -> None:
    text = RIDE.replace("Ride {", "Compiled {").replace("int64 id", "Home far = 9; int64 id")
    schema = parse_schema(text)
    number = ask.register(subject, **sent(schema.serialized))
    found = ask.get(f"/schemas/ids/{number}")["schema"]
    assert found.startswith('syntax = "proto3";\n\npackage shop;')
    assert ask.register(subject, **sent(text)) == number
    for path in (
        f"/schemas/ids/{number}?format=serialized",
        f"/subjects/{subject}/versions/latest?format=serialized",
        f"/subjects/{subject}/versions/1?format=serialized",
    ):
        assert parse_schema(ask.get(path)["schema"]).normalized == schema.normalized
    refused = ask.refused("GET", f"/schemas/ids/{number}?format=other")
    assert (refused.status, "serialized" in refused.message) == (422, True)


def test_a_refused_one_says_where_by_which_rule_and_what_would_pass(ask: Asking, subject: str) -> None:
    ask.register(subject, **sent(RIDE))
    answer = ask.refused("POST", f"/subjects/{subject}/versions", sent(BREAKING))
    assert answer.status == 409
    assert "Ride.2: string is written, and int64 is read (FIELD_SCALAR_KIND_CHANGED)" in answer.message
    verbose = ask(
        "POST", f"/compatibility/subjects/{subject}/versions/latest?verbose=true", sent(BREAKING)
    ).body
    assert (verbose["is_compatible"], len(verbose["messages"])) == (False, 1)
    assert ask.register(subject, **sent(WIDER))
    assert ask("POST", f"/compatibility/subjects/{subject}/versions", sent(RIDE)).body["is_compatible"]


@pytest.mark.parametrize(
    ("level", "before", "after", "passes"),
    [
        ("BACKWARD", RIDE, WIDER, True),
        ("FULL_TRANSITIVE", RIDE, WIDER, True),
        ("NONE", RIDE, BREAKING, True),
        ("FORWARD", RIDE, BREAKING, False),
    ],
)
def test_levels_hold_for_it(
    ask: Asking, subject: str, level: str, before: str, after: str, passes: bool
) -> None:
    assert ask("PUT", f"/config/{subject}", {"compatibility": level}).status == 200
    ask.register(subject, **sent(before))
    answer = ask("POST", f"/subjects/{subject}/versions", sent(after))
    assert answer.status == (200 if passes else 409)


def test_one_imports_another_by_its_name(ask: Asking, server: Server, subject: str) -> None:
    money = fresh("money")
    ask.register(money, **sent('syntax = "proto3"; package pay; message Money { int64 paise = 1; }'))
    reference = {"name": "pay/money.proto", "subject": money, "version": 1}
    number = ask.register(subject, **sent(BILL, references=[reference]))
    assert ask.get(f"/schemas/ids/{number}")["references"] == [reference]
    assert ask.get(f"/subjects/{money}/versions/1/referencedby") == [number]
    missing = ask.refused("POST", f"/subjects/{fresh()}/versions", sent(BILL))
    assert "import.pay/money.proto: is in no reference" in missing.message
    found = Client(server.url).schema(number).parsed().schema
    assert [name for name, _ in found.references] == ["pay/money.proto"]


def test_a_subject_keeps_its_type_and_what_is_no_schema_is_refused(ask: Asking, subject: str) -> None:
    ask.register(subject, **sent(RIDE))
    assert (
        "TYPE_CHANGED" in ask.refused("POST", f"/subjects/{subject}/versions", {"schema": '"string"'}).message
    )
    for wrong in ("message M {", '"string"', "AAAA", 'syntax = "proto3"; message M { N n = 1; }'):
        answer = ask.refused("POST", f"/subjects/{fresh()}/versions", sent(wrong))
        assert (answer.status, answer.code) == (422, 42201)


def test_an_import_keeps_the_id_that_it_names(ask: Asking) -> None:
    name = fresh("imported")
    assert ask("PUT", f"/mode/{name}", {"mode": "IMPORT"}).status == 200
    assert ask.register(name, **sent(RIDE, id=777_001, version=4)) == 777_001
    assert ask.get(f"/subjects/{name}/versions/4")["schemaType"] == "PROTOBUF"


def test_confluents_serializer_and_deserializer_work_with_it(server: Server, ask: Asking) -> None:
    """With what it imports: the client registers that by itself, as a subject of its name."""
    topic = fresh("rides").removesuffix("-value")
    client = SchemaRegistryClient({"url": server.url})
    schema = parse_schema(TRIP)
    for name, fields in (("A", {"no": 1}), ("Ride", {"id": 5}), ("Ride.Leg", {"city": "Pune"})):
        kind = GetMessageClass(message_of(schema, name))
        context = SerializationContext(f"{topic}-{name}", MessageField.VALUE)
        raw = ProtobufSerializer(kind, client)(kind(**fields), context)
        read = ProtobufDeserializer(kind, {}, SchemaRegistryClient({"url": server.url}))
        assert read(raw, context) == kind(**fields)
        number = int.from_bytes(raw[1:5], "big")
        assert ask.get(f"/schemas/ids/{number}")["schema"].startswith('syntax = "proto3";')


def test_the_client_registers_and_looks_up_text(server: Server, subject: str) -> None:
    client = SchemaRegistryClient({"url": server.url})
    number = client.register_schema(subject, Schema(RIDE, "PROTOBUF"), normalize_schemas=True)
    found = client.lookup_schema(subject, Schema(RIDE, "PROTOBUF"))
    assert (found.schema_id, found.schema.schema_type) == (number, "PROTOBUF")
    assert client.test_compatibility(subject, Schema(WIDER, "PROTOBUF"))
    assert not client.test_compatibility(subject, Schema(BREAKING, "PROTOBUF"))
