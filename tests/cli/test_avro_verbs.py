"""What `validate` and `doctor` say of Avro and its registry, without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.cli_kit import calling
from schemas.registry.registry_kit import Server

FIELDS = [
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "paise", "type": "long"},
    {"name": "parent", "type": ["null", "Payment"], "default": None},
]
SCHEMA = json.dumps({"type": "record", "name": "Payment", "fields": FIELDS})
FILE = """
name: payments
store: store
source: {{{source}}}
event: {{time: at}}
watermark: {{delay: 1m, idle_after: 1m}}
outputs: {{minutes: {{window: {{tumbling: 1m}}, aggregates: {{paise: sum(paise)}}}}}}
"""


@pytest.fixture
def registry(registry: Server) -> Server:
    registry.asking.register("payments-value", SCHEMA)
    return registry


def written(folder: Path, avro: str) -> str:
    kafka = "kafka: {servers: '127.0.0.1:1', topics: [payments]}"
    file = folder / "payments.yaml"
    file.write_text(FILE.format(source=f"{kafka}, format: {{avro: {{{avro}}}}}"))
    return str(file)


def test_validate_tells_the_schema_and_what_is_no_column(
    registry: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = calling(capsys)
    said = call("validate", written(tmp_path, f"registry: '{registry.url}', subject: payments-value"))
    assert said.status == 0
    assert f"avro read as payments-value (latest), schemas from {registry.url}" in said.out
    assert "columns    at timestamp, paise bigint (of its Avro schema)" in said.out
    assert "the schema is version 1 of payments-value, id 1" in said.out
    assert "parent is left out: it leads back to its own record" in said.out


def test_what_is_wrong_is_one_sentence(
    registry: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = calling(capsys)
    for avro, words in {
        "registry: 'http://127.0.0.1:1', subject: payments-value": "the registry http://127.0.0.1:1 does not answer",
        f"registry: '{registry.url}', subject: payment-value": "has no subject payment-value; did you mean payments-",
        f"registry: '{registry.url}', subject: payments-value, version: 9": "has no version 9 of payments-value; there",
        f"registry: '{registry.url}', schema_file: none.avsc": "cannot be read (No such file or directory); correct",
        f"registry: '{registry.url}', schema_file: /dev/zero": "cannot be read (it has more than 4,194,304 bytes)",
        f"registry: '{registry.url}', schema_file: payments.yaml": "payments.yaml is no Avro schema that can be used",
    }.items():
        said = call("validate", written(tmp_path, avro))
        assert said.status != 0
        assert words in said.err, said.err
        assert "Traceback" not in said.err


def test_doctor_asks_the_registry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "payments.avsc").write_text(SCHEMA)
    file = written(tmp_path, "registry: 'http://ana:secret@127.0.0.1:1', schema_file: payments.avsc")
    said = calling(capsys)("doctor", file)
    assert said.status == 1
    assert "problem  registry: the registry http://" in said.out
    assert "0 of its schemas are in the store" in said.out
    assert "secret" not in said.out + said.err


@pytest.mark.long
def test_json_of_a_registry_is_told(
    registry: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call, file = calling(capsys), tmp_path / "payments.yaml"
    kafka = "kafka: {servers: '127.0.0.1:1', topics: [payments]}, schema: {at: timestamp, paise: bigint}"
    options = f"{{registry: '{registry.url}', id_header: sid}}"
    file.write_text(FILE.format(source=f"{kafka}, format: {{json: {options}}}"))
    said = call("validate", str(file))
    assert said.status == 0
    assert f"json, ids in the header sid, checked by schemas from {registry.url}" in said.out
    assert f"{registry.url} answers, 0 of its schemas are in the store" in call("doctor", str(file)).out
    file.write_text(FILE.format(source=f"{kafka}, format: {{json: {{validate: false}}}}"))
    assert "json, not checked" in call("validate", str(file)).out
