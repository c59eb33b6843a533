"""Confluent's own client, unmodified, against our server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    header_schema_id_serializer,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.schema_registry_client import (
    Metadata,
    MetadataProperties,
    MetadataTags,
    Rule,
    RuleKind,
    RuleMode,
    RuleParams,
    RuleSet,
    ServerConfig,
)
from confluent_kafka.serialization import MessageField, SerializationContext

from latecomer.schemas.registry.tokens import Scope, add_token, new_token
from schemas.registry.registry_kit import Server, beside, fresh, record

ONE, TWO = record("id:long"), record("id:long", 'note:string=""')


@pytest.fixture
def client(server: Server) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": server.url})


def fresh_client(server: Server) -> SchemaRegistryClient:
    """One that remembers nothing."""
    return SchemaRegistryClient({"url": server.url})


def test_registering_and_looking_up(server: Server, client: SchemaRegistryClient, subject: str) -> None:
    number = client.register_schema(subject, Schema(ONE, "AVRO"))
    assert client.register_schema(subject, Schema(TWO, "AVRO"), normalize_schemas=True) > number
    other = fresh_client(server)
    assert json.loads(other.get_schema(number).schema_str) == json.loads(ONE)
    found = other.lookup_schema(subject, Schema(ONE, "AVRO"), normalize_schemas=True)
    assert (found.subject, found.version, found.schema_id) == (subject, 1, number)
    latest = other.get_latest_version(subject)
    assert (latest.version, json.loads(latest.schema.schema_str)) == (2, json.loads(TWO))
    assert other.get_version(subject, 1).schema_id == number
    assert other.get_versions(subject) == [1, 2]
    assert subject in other.get_subjects(subject_prefix=subject[:6])
    assert subject in other.get_subjects_by_schema_id(number)
    assert (subject, 1) in [(each.subject, each.version) for each in other.get_schema_versions(number)]
    assert other.get_schema_types() == ["AVRO", "JSON", "PROTOBUF"]
    assert other.get_contexts() == ["."]


def test_testing_compatibility(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, Schema(ONE, "AVRO"))
    breaking = Schema(record("id:long", "note:string"), "AVRO")
    assert client.test_compatibility(subject, Schema(TWO, "AVRO"))
    assert not client.test_compatibility(subject, breaking)
    assert not client.test_compatibility(subject, breaking, version=1, verbose=True)
    assert client.test_compatibility_all_versions(subject, Schema(TWO, "AVRO"))
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema(subject, breaking)
    assert (caught.value.http_status_code, caught.value.error_code) == (409, 409)
    assert "give it a default" in caught.value.error_message


def test_levels_and_modes(client: SchemaRegistryClient, subject: str) -> None:
    assert client.get_compatibility() == "BACKWARD"
    assert client.set_compatibility(subject, "FULL_TRANSITIVE") == {"compatibility": "FULL_TRANSITIVE"}
    assert client.get_compatibility(subject) == "FULL_TRANSITIVE"
    assert client.get_config(subject).compatibility_level.value == "FULL_TRANSITIVE"
    assert client.delete_config(subject).compatibility_level.value == "FULL_TRANSITIVE"
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_compatibility(subject)
    assert caught.value.error_code == 40408
    assert client.update_mode(subject, "READONLY") == "READONLY"
    assert client.get_mode(subject) == "READONLY"
    assert client.delete_mode(subject) == "READONLY"
    assert client.get_global_mode() == "READWRITE"


def test_deleting(client: SchemaRegistryClient, subject: str) -> None:
    client.register_schema(subject, Schema(ONE, "AVRO"))
    client.register_schema(subject, Schema(TWO, "AVRO"))
    assert client.delete_version(subject, 1) == 1
    assert client.get_versions(subject) == [2]
    assert client.get_versions(subject, deleted=True) == [1, 2]
    assert client.get_versions(subject, deleted_only=True) == [1]
    assert client.delete_subject(subject) == [2]
    assert client.delete_subject(subject, permanent=True) == [1, 2]
    with pytest.raises(SchemaRegistryError) as caught:
        client.get_latest_version(subject)
    assert (caught.value.http_status_code, caught.value.error_code) == (404, 40401)


def test_references(client: SchemaRegistryClient, subject: str) -> None:
    coin = fresh("coin")
    client.register_schema(coin, Schema(record("paise:long", name="Coin"), "AVRO"))
    order = Schema(record("paid:Coin"), "AVRO", [SchemaReference("Coin", coin, 1)])
    number = client.register_schema(subject, order)
    assert client.get_referenced_by(coin, 1) == [number]
    write = AvroSerializer(client, order, conf={"auto.register.schemas": False})
    read = AvroDeserializer(client)
    topic = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
    value = {"paid": {"paise": 5}}
    assert read(write(value, topic), topic) == value


@pytest.mark.parametrize("options", [{}, {"normalize.schemas": True}, {"use.latest.version": True}])
def test_a_record_there_and_back(server: Server, subject: str, options: dict[str, Any]) -> None:
    topic = SerializationContext(subject.removesuffix("-value"), MessageField.VALUE)
    old = AvroSerializer(fresh_client(server), ONE)
    written = old({"id": 7}, topic)
    if "use.latest.version" in options:
        options = {**options, "auto.register.schemas": False}
        fresh_client(server).register_schema(subject, Schema(TWO, "AVRO"))
    new = AvroSerializer(fresh_client(server), TWO, conf=options)
    also = new({"id": 8, "note": "late"}, topic)
    assert written[:1] == also[:1] == b"\x00"
    assert written[1:5] != also[1:5]
    read = AvroDeserializer(fresh_client(server), TWO)
    assert read(written, topic) == {"id": 7, "note": ""}
    assert read(also, topic) == {"id": 8, "note": "late"}


def test_subjects_with_odd_names(client: SchemaRegistryClient) -> None:
    name = fresh("a/b c%2F ü")
    number = client.register_schema(name, Schema(ONE, "AVRO"))
    assert client.get_latest_version(name).schema_id == number
    assert client.delete_subject(name) == [1]


def test_what_it_may_ask_for_and_we_do_not_have_is_refused(
    client: SchemaRegistryClient, subject: str
) -> None:
    with pytest.raises(SchemaRegistryError) as caught:
        client.register_schema(subject, Schema("<schema/>", "XSD"))
    assert caught.value.http_status_code == 422
    with pytest.raises(SchemaRegistryError):
        client.register_schema(":.other:" + subject, Schema(ONE, "AVRO"))


def owned(**properties: str) -> Metadata:
    return Metadata(MetadataTags({"**.id": ["PII"]}), MetadataProperties(properties), ["owner"])


def test_metadata_and_rules(server: Server, client: SchemaRegistryClient, subject: str) -> None:
    rule = Rule(
        *("no-gaps", "ids begin at 1", RuleKind.CONDITION, RuleMode.WRITE, "CEL", ["PII"]),
        *(RuleParams({"a": "b"}), "message.id > 0", "NONE", "DLQ", False),
    )
    sent = Schema(ONE, "AVRO", metadata=owned(owner="ana"), rule_set=RuleSet([], [rule], []))
    found = client.register_schema_full_response(subject, sent)
    kept = fresh_client(server).get_version(subject, 1).schema
    assert (kept.metadata, kept.rule_set) == (sent.metadata, sent.rule_set)
    assert fresh_client(server).get_schema(found.schema_id).metadata == sent.metadata
    assert fresh_client(server).lookup_schema(subject, sent).version == 1
    again = client.register_schema_full_response(subject, Schema(TWO, "AVRO"))
    assert (again.version, again.schema.metadata) == (2, sent.metadata)


def test_a_config_with_a_group_and_defaults(
    server: Server, client: SchemaRegistryClient, subject: str
) -> None:
    config = ServerConfig(compatibility_group="major", default_metadata=owned(owner="ana"))
    client.set_config(subject, config)
    found = client.get_config(subject)
    assert (found.compatibility_group, found.default_metadata) == ("major", config.default_metadata)
    for major, schema in (("1", ONE), ("2", record("id:string"))):
        client.register_schema(subject, Schema(schema, "AVRO", metadata=owned(major=major)))
    latest = client.get_latest_with_metadata(subject, {"major": "1"})
    assert (latest.version, latest.schema.metadata) == (1, owned(owner="ana", major="1"))


def test_a_serializer_that_uses_the_latest_version_of_a_group(
    server: Server, client: SchemaRegistryClient
) -> None:
    topic = fresh("topic")
    client.set_config(f"{topic}-value", ServerConfig(compatibility_group="major"))
    ids = [
        client.register_schema(f"{topic}-value", Schema(schema, "AVRO", metadata=owned(major=major)))
        for major, schema in (("1", ONE), ("2", record("id:string")))
    ]
    conf = {"auto.register.schemas": False, "use.latest.with.metadata": {"major": "1"}}
    serializer = AvroSerializer(fresh_client(server), None, conf=conf)
    written = serializer({"id": 7}, SerializationContext(topic, MessageField.VALUE))
    assert written is not None
    assert int.from_bytes(written[1:5], "big") == ids[0]


def test_tokens(tmp_path: Path) -> None:
    secret, kept = new_token("ana", Scope.WRITE)
    add_token(tmp_path / "tokens", kept)
    with beside(tmp_path / "r.db", tmp_path / "tokens") as server:
        bearer = {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": secret,
            "bearer.auth.logical.cluster": "none",
        }
        for number, auth in enumerate((bearer, {"basic.auth.user.info": f"ana:{secret}"})):
            client = SchemaRegistryClient({"url": server.url, **auth})
            assert client.register_schema(f"s{number}", Schema(ONE, "AVRO")) == 1
        with pytest.raises(SchemaRegistryError) as caught:
            SchemaRegistryClient({"url": server.url}).get_subjects()
        assert caught.value.http_status_code == 401


def test_a_serializer_that_may_not_register_finds_a_schema_that_has_references(
    server: Server, client: SchemaRegistryClient
) -> None:
    """It was built with the schema as one text."""
    topic, coin = fresh("topic"), fresh("coin")
    defined = record("paise:long", name="Coin")
    client.register_schema(coin, Schema(defined, "AVRO"))
    referring = Schema(record("paid:Coin"), "AVRO", [SchemaReference("Coin", coin, 1)])
    number = client.register_schema(f"{topic}-value", referring)
    whole = json.dumps(
        json.loads(record("paid:Coin")) | {"fields": [{"name": "paid", "type": json.loads(defined)}]}
    )
    serializer = AvroSerializer(fresh_client(server), whole, conf={"auto.register.schemas": False})
    written = serializer({"paid": {"paise": 250}}, SerializationContext(topic, MessageField.VALUE))
    assert written is not None
    assert int.from_bytes(written[1:5], "big") == number


def test_a_serializer_may_put_the_guid_into_a_header(server: Server) -> None:
    topic = fresh("topic")
    place = SerializationContext(topic, MessageField.VALUE, headers=[])
    conf = {"schema.id.serializer": header_schema_id_serializer}
    row = {"id": 7, "note": "by the river"}
    written = AvroSerializer(fresh_client(server), TWO, conf=conf)(row, place)
    assert written == b"\x0e\x18by the river", "the value alone"
    assert AvroDeserializer(fresh_client(server))(written, place) == row
