"""Settings of a Kafka client for the broker's questions and for Spark, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latecomer.config.load import parse_pipeline
from latecomer.errors import PipelineError, SourceError, SourceOutage
from latecomer.source.choose import source_of
from latecomer.source.kafka_settings import java_settings

PIPELINE = """
name: payments
store: store
source:
  kafka: {{servers: "127.0.0.1:9", {kafka}}}
  schema: {{at: string, paise: bigint}}
event: {{time: at}}
watermark: {{delay: 1m}}
outputs:
  minutes: {{window: {{tumbling: 1m}}, aggregates: {{rows: count(*)}}}}
"""


def loaded(folder: Path, kafka: str) -> Any:
    return parse_pipeline(PIPELINE.format(kafka=kafka), folder / "pipeline.yaml")


def test_files_and_passwords_are_named_as_javas_clients_do(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(f"PEM of {name}")
    made = java_settings(
        {
            "bootstrap.servers": "db:9093",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "ana",
            "sasl.password": 'a"b\\c',
            "ssl.ca.location": str(tmp_path / "ca"),
            "ssl.certificate.location": str(tmp_path / "cert"),
            "ssl.key.location": str(tmp_path / "key"),
            "java.max.poll.records": "5",
            "socket.timeout.ms": "9",
        }
    )
    login = "org.apache.kafka.common.security.scram.ScramLoginModule"
    assert made == {
        "kafka.bootstrap.servers": "db:9093",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f'{login} required username="ana" password="a\\"b\\\\c";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.certificates": "PEM of ca",
        "kafka.ssl.keystore.type": "PEM",
        "kafka.ssl.keystore.certificate.chain": "PEM of cert",
        "kafka.ssl.keystore.key": "PEM of key",
        "kafka.max.poll.records": "5",
        "kafka.isolation.level": "read_committed",
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"sasl.mechanism": "GSSAPI"}, "sasl.mechanism GSSAPI is not known here"),
        ({"queued.min.messages": "5"}, "options.queued.min.messages has no counterpart"),
        ({"ssl.ca.location": "/no/such/file"}, "/no/such/file cannot be read"),
        ({"enable.ssl.certificate.verification": "false"}, "cannot be switched off"),
    ],
)
def test_what_spark_cannot_do_is_refused(options: dict[str, str], told: str) -> None:
    with pytest.raises(SourceError, match=told):
        java_settings(options)


@pytest.mark.parametrize(
    ("written", "field", "told"),
    [
        ("topics: [a], pattern: b", "source.kafka", "names its topics twice, or not at all"),
        ("start: latest", "source.kafka", "names its topics twice, or not at all"),
        ("topics: [a b]", "source.kafka.topics", "'a b' is no name of a topic"),
        ("topics: [a, a]", "source.kafka.topics", "names a topic twice"),
        ("pattern: '('", "source.kafka.pattern", "is no regular expression"),
        ("topics: [a], start: {timestamp: soon}", "source.kafka.start", ""),
        ("topics: [a], max_rows_per_batch: 0", "source.kafka.max_rows_per_batch", ""),
        ("topics: [a], options: {group.id: x}", "source.kafka.options", "group.id is not an option"),
        ("topics: [a], topic: b", "source.kafka.topic", "unknown key"),
        ("topics: [a], metadata: {k: keys}", "source.kafka.metadata.k", ""),
    ],
)
def test_mistakes_are_told_with_their_field(tmp_path: Path, written: str, field: str, told: str) -> None:
    with pytest.raises(PipelineError) as error:
        loaded(tmp_path, written)
    (problem, *_) = error.value.problems
    assert problem.field.startswith(field)
    assert problem.line is not None
    assert told in problem.message
    assert problem.fix


def test_a_pipeline_with_kafka_survives_being_written_out(tmp_path: Path) -> None:
    pipeline = loaded(
        tmp_path,
        "topics: [a], start: {timestamp: 2026-04-25T12:00:00Z}, options: {sasl.password: '${env:X}'}",
    )
    written = pipeline.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert type(pipeline).model_validate({**written, "base": tmp_path}) == pipeline
    assert written["source"]["kafka"]["options"] == {"sasl.password": "${env:X}"}


def test_a_reference_to_nothing_and_a_broker_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = loaded(tmp_path, "topics: [a], options: {sasl.password: '${env:NO_SUCH_SECRET}'}")
    with pytest.raises(PipelineError, match=r"source.kafka.options.sasl.password.*no such variable"):
        source_of(pipeline, {"at": "string"}).require()
    monkeypatch.setattr("latecomer.source.kafka_broker.ANSWER_SECONDS", 1.0)
    with pytest.raises(
        SourceOutage, match=r"Connection refused.*; start the broker, or correct source\.kafka\.servers"
    ):
        source_of(loaded(tmp_path, "topics: [a]"), {"at": "string"}).require()
