"""A registry of somebody else's: Apicurio, as its makers publish it, with its paths of Confluent's."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from pyspark.sql import SparkSession

from kafka_kit import Client as Kafka
from latecomer.after.reading.reader import Reader
from latecomer.cli import main
from latecomer.engine.running import run
from latecomer.errors import RegistryError
from latecomer.schemas import Level, Policy
from latecomer.schemas.registry.client import Client
from latecomer.schemas.registry.records import Definition, Reference
from latecomer.schemas.registry.refusals import NO_SCHEMA
from latecomer.spark.archive import cache_folder
from latecomer.testing.servers import free_ports
from schemas.registry.registry_kit import fresh, record
from source import avro_source_kit as kit
from source.kafka_source_kit import logged

pytestmark = pytest.mark.long
VERSION = "3.0.9"
SHA256 = "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43"
PLACE = (
    "https://repo1.maven.org/maven2/io/apicurio/apicurio-registry-app/"
    f"{VERSION}/apicurio-registry-app-{VERSION}-all.tar.gz"
)
ONE, TWO, OTHER = record("id:long"), record("id:long", "x:int=0"), record("id:string")


def archive() -> Path:
    """All of it, about 110 MB, downloaded once."""
    file = cache_folder("tests") / PLACE.rpartition("/")[2]
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        with urllib.request.urlopen(PLACE, timeout=60) as answer:
            raw = answer.read()
        part = file.with_suffix(".part")
        part.write_bytes(raw)
        part.rename(file)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == SHA256, file
    return file


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("apicurio")
    with tarfile.open(archive()) as packed:
        packed.extractall(folder, filter="data")
    (port,) = free_ports(1)
    (jar,) = folder.glob("*-runner.jar")
    settings = [f"-Dquarkus.http.port={port}", "-Dquarkus.http.host=127.0.0.1"]
    with open(folder / "out.log", "wb") as said:
        server = subprocess.Popen(["java", "-Xmx300m", *settings, "-jar", str(jar)], stdout=said, stderr=said)
    place = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    deadline = time.monotonic() + 180
    try:
        while not answers(place):
            assert server.poll() is None, (folder / "out.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "it does not start"
            time.sleep(0.5)
        yield place
    finally:
        server.kill()
        server.wait(30)


def answers(place: str) -> bool:
    try:
        with urllib.request.urlopen(f"{place}/subjects", timeout=5):
            return True
    except OSError:
        return False


def put_level(url: str, subject: str, level: str) -> None:
    body = json.dumps({"compatibility": level}).encode()
    asked = urllib.request.Request(f"{url}/config/{subject}", body, method="PUT")
    asked.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(asked, timeout=30):
        pass


def test_what_the_client_asks(url: str) -> None:
    client, subject = Client(url), fresh("orders")
    one = client.register(subject, Definition(ONE))
    assert client.register(subject, Definition(ONE)) == one
    assert client.problems(fresh("none"), Definition(ONE)) == []
    put_level(url, subject, "BACKWARD")
    assert client.compatibility(subject) == (Level.BACKWARD, Policy.STRICT)
    assert client.problems(subject, Definition(TWO)) == []
    assert client.problems(subject, Definition(OTHER)) != []
    with pytest.raises(RegistryError):
        client.register(subject, Definition(OTHER))
    two = client.register(subject, Definition(TWO))
    assert (client.version(subject).id, client.version(subject, 1).id) == (two, one)
    assert client.versions(subject) == [1, 2]
    assert client.subjects(subject) == [subject], "and no other, though it does not know the parameter"
    assert client.schema(two).definition.text == TWO
    with pytest.raises(RegistryError) as unknown:
        client.schema(987_654)
    assert unknown.value.code == NO_SCHEMA
    assert (client.naming(), client.about(subject)) == (None, None)


def test_references_and_json_schemas(url: str) -> None:
    client, fare, ride = Client(url), fresh("fare"), fresh("ride")
    client.register(fare, Definition(record("paise:long", name="Fare")))
    text = json.dumps({"type": "record", "name": "Ride", "fields": [{"name": "fare", "type": "Fare"}]})
    client.register(ride, Definition(text, references=(Reference("Fare", fare, 1),)))
    assert "Fare" in str(client.parsed(client.version(ride)).schema)
    rules = {"type": "object", "properties": {"paise": {"type": "integer"}}}
    subject = fresh("rules")
    client.register(subject, Definition(json.dumps(rules), "JSON"))
    assert client.parsed(client.version(subject)).type == "JSON"


def test_the_verbs(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def call(*arguments: object) -> tuple[Any, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["registry", *map(str, arguments), "--url", url])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    client, grown, broken, new = Client(url), fresh("grown"), fresh("broken"), fresh("new")
    for subject in (grown, broken):
        client.register(subject, Definition(ONE))
        put_level(url, subject, "BACKWARD")
    (tmp_path / f"{grown}.avsc").write_text(TWO)
    (tmp_path / f"{new}.avsc").write_text(ONE)
    status, _, err = call("check", tmp_path)
    assert (status, "0 problems; 0 registered already, 1 new version, 1 new subject" in err) == (0, True)
    (tmp_path / f"{broken}.avsc").write_text(OTHER)
    status, out, _ = call("check", tmp_path)
    assert (status, broken in out) == (1, True)
    put_level(url, broken, "NONE")
    client.register(broken, Definition(OTHER))
    status, out, _ = call("dry-run", "--level", "FULL", "--prefix", broken)
    assert (status, out.count(broken) > 0, grown in out) == (1, True, False)


def test_a_pipeline_reads_by_its_schemas(spark: SparkSession, kafka: Kafka, url: str, tmp_path: Path) -> None:
    """Confluent's own serializer registers, and old and new writers mix."""
    topic = kafka.create_topic()
    place = SerializationContext(topic, MessageField.VALUE)
    first, third = (
        AvroSerializer(SchemaRegistryClient({"url": url}), kit.record(fields))
        for fields in (kit.FIRST, kit.THIRD)
    )
    old = first(kit.payment(0, amount=1), place)
    kafka.produce(topic, [old, third(kit.payment(1, paise=2, shop="chai", note=""), place), old[:-1]])
    pipeline = kit.avro_pipeline(tmp_path, kafka, topic, {"registry": url, "subject": f"{topic}-value"})
    run(pipeline, drain=True, spark=spark)
    assert logged(pipeline, "txn", "paise", "shop") == [("t0", 1, None), ("t1", 2, "chai")]
    assert Reader(pipeline).dead_letters().num_rows == 1
