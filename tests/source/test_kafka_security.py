"""Source, sink and doctor on a broker that encrypts and asks who one is; what is wrong is one sentence with its fix."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from pyspark.sql import SparkSession

from cli.cli_kit import calling
from kafka_kit import Broker
from latecomer.config.kafka import KafkaTopics
from latecomer.config.load import load_pipeline
from latecomer.config.sinks import KafkaSink
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.errors import LatecomerError, SinkError, SinkOutage, SourceError, SourceOutage
from latecomer.sink import kafka_client
from latecomer.sink.kafka import KafkaLogic
from latecomer.source.kafka import reader as kafka_source
from latecomer.source.kafka.reader import KafkaReader
from sink.sink_kit import SHAPE
from source.kafka_source_kit import payments, pipeline_on, totals
from spark_kit import event_log
from tls_kit import Authority

pytestmark = pytest.mark.usefixtures("spark")  # one process runs them all: they share a broker
WORD, LOCK = "open-sesame-41", "locked-drawer-7"
Options = dict[str, Any]


class Secure(NamedTuple):
    """A broker with encrypted listeners, and what clients need for them."""

    broker: Broker
    login: Options
    certified: Options
    foreign: Options
    """A certificate that is not of the broker's authority."""


@pytest.fixture(scope="module")
def secure(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("secure")
    ours, theirs = Authority(folder / "ours"), Authority(folder / "theirs")
    broker = Broker(folder / "kafka", authority=ours)
    try:
        broker.start()
        broker.add_user("ana", WORD)
        yield Secure(broker, _login(ours), _certified(ours, ours), _certified(ours, theirs))
    finally:
        broker.kill()


def _login(authority: Authority) -> Options:
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "ana",
        "sasl.password": WORD,
        "ssl.ca.location": str(authority.certificate),
    }


def _certified(trusted: Authority, by: Authority) -> Options:
    certificate, key = by.give("client")
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": str(trusted.certificate),
        "ssl.certificate.location": str(certificate),
        "ssl.key.location": str(by.lock(key, LOCK)),
        "ssl.key.password": LOCK,
    }


@pytest.mark.long
def test_source_sink_and_doctor_use_certificates_and_passwords(
    spark: SparkSession,
    secure: Secure,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The source by a certificate of its own, the sink by a password, whose words are in no file that a run writes, nor
    in Spark's event log."""
    broker, made = secure.broker, tmp_path / "made"
    made.mkdir()
    topic, results = broker.create_topic(), broker.new_name()
    broker.produce(topic, payments(0, 60))
    monkeypatch.setenv("KEY_WORD", LOCK)
    (tmp_path / "word").write_text(WORD + "\n")
    sink = {
        "servers": broker.login_servers,
        "topic": results,
        "options": {**secure.login, "sasl.password": f"${{file:{tmp_path / 'word'}}}"},
    }
    minutes = {
        "window": {"tumbling": "1m"},
        "aggregates": {"payments": "count(*)", "paise": "sum(paise)"},
        "late": "retract",
        "sinks": [{"kafka": sink}],
    }
    options = {**secure.certified, "ssl.key.password": "${env:KEY_WORD}"}
    plain = pipeline_on(made, broker, topic, outputs={"minutes": minutes})
    written = plain.model_dump(mode="json", by_alias=True, exclude_none=True)
    written["source"]["kafka"] |= {"servers": broker.tls_servers, "options": options}
    written["outputs"] = {"minutes": minutes}
    file = made / "pipeline.yaml"
    file.write_text(yaml.safe_dump(written), encoding="utf-8")

    pipeline = load_pipeline(file)
    with event_log(spark, made):
        run(pipeline, once=True, spark=spark)
        broker.produce(topic, payments(60, 60))
        run(pipeline, drain=True, spark=spark)
    assert totals(pipeline) == (120, sum(range(120)))
    assert check_ledger(pipeline, spark) == []
    told = [json.loads(record.value or b"") for record in broker.consume(results)]
    assert sum(row["payments"] for row in told) == 120

    said = calling(capsys)("doctor", str(file))
    assert f"ok       source: kafka {broker.tls_servers}, {topic}, the broker answers" in said.out
    assert "ok       kafka sink of minutes" in said.out
    left = [path.read_bytes() for path in made.rglob("*") if path.is_file()]
    for secret in (WORD, LOCK, "PRIVATE KEY"):
        assert not [text for text in left if secret.encode() in text]
        assert secret not in said.out + said.err


def without(options: Mapping[str, Any], *names: str) -> Options:
    return {name: value for name, value in options.items() if name not in names}


def wrong_authority(secure: Secure) -> tuple[str, Options]:
    trusted = secure.foreign["ssl.certificate.location"]
    authority = str(Path(trusted).with_name("ca.pem"))
    return secure.broker.login_servers, {**secure.login, "ssl.ca.location": authority}


def wrong_password(secure: Secure) -> tuple[str, Options]:
    return secure.broker.login_servers, {**secure.login, "sasl.password": "close-sesame"}


def plain_client(secure: Secure) -> tuple[str, Options]:
    return secure.broker.tls_servers, {}


def plain_client_of_a_login(secure: Secure) -> tuple[str, Options]:
    return secure.broker.login_servers, {**secure.login, "security.protocol": "SASL_PLAINTEXT"}


def no_certificate(secure: Secure) -> tuple[str, Options]:
    names = ("ssl.certificate.location", "ssl.key.location", "ssl.key.password")
    return secure.broker.tls_servers, without(secure.certified, *names)


def foreign_certificate(secure: Secure) -> tuple[str, Options]:
    return secure.broker.tls_servers, secure.foreign


def unencrypted_port(secure: Secure) -> tuple[str, Options]:
    return secure.broker.servers, secure.certified


def no_certificate_in_the_file(secure: Secure) -> tuple[str, Options]:
    return secure.broker.login_servers, {**secure.login, "ssl.ca.location": __file__}


NOT_TRUSTED = (
    "the broker's certificate is not of an authority that is trusted here, or is for another name; name the authority "
    "in ssl.ca.location, and the broker in servers as its certificate does"
)
NOT_TOLD = (
    "the broker encrypts on this port, and the client was not told so; write security.protocol: SSL in options, or "
    "SASL_SSL where it asks for a password"
)
NO_ONE = (
    "the broker asks for a certificate of the client, or refuses the one that it was given; name one that it trusts in "
    "ssl.certificate.location, and its key in ssl.key.location"
)
OPEN = "the broker does not encrypt on this port; name a port in servers that is encrypted, or leave security.protocol"
SOON = 5.0
"""Seconds: a busy machine needs more than two until a client knows what is wrong."""
MISTAKES: list[tuple[Callable[[Secure], tuple[str, Options]], str, str]] = [
    (wrong_authority, NOT_TRUSTED, NOT_TRUSTED),
    (
        wrong_password,
        "invalid credentials with SASL mechanism SCRAM-SHA-512; correct the user and password in source.kafka.options",
        "the broker refused who we say we are; correct the sasl and ssl options, or the secrets that they name",
    ),
    (plain_client, NOT_TOLD, NOT_TOLD),
    (plain_client_of_a_login, NOT_TOLD, NOT_TOLD),
    (no_certificate, NO_ONE, NO_ONE),
    (foreign_certificate, NO_ONE, NO_ONE),
    (unencrypted_port, OPEN, OPEN),
    (
        no_certificate_in_the_file,
        "no certificate or crl found; correct source.kafka.options",
        "no certificate or crl found); correct the options of the sink",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "source", "sink"),
    [pytest.param(*each, marks=[] if each[0] is wrong_authority else pytest.mark.long) for each in MISTAKES],
    ids=[mistake.__name__ for mistake, *_ in MISTAKES],
)
def test_what_is_wrong_is_one_sentence(
    secure: Secure,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[Secure], tuple[str, Options]],
    source: str,
    sink: str,
) -> None:
    monkeypatch.setattr(kafka_source, "ANSWER_SECONDS", SOON)
    monkeypatch.setattr(kafka_client, "ANSWER_SECONDS", SOON)
    servers, options = mistake(secure)
    certain = mistake is not unencrypted_port
    topics = KafkaTopics(servers=servers, topics=("payments",), options=options)
    with pytest.raises(SourceError) as told:
        KafkaReader(topics=topics, base=tmp_path).check()
    require_sentence(told.value, source)
    assert isinstance(told.value, SourceOutage) is not certain
    logic = KafkaLogic(KafkaSink(servers=servers, topic="out", options=options), tmp_path, "p", SHAPE)
    with pytest.raises(SinkError) as refused:
        logic.open()
    require_sentence(refused.value, sink)
    assert isinstance(refused.value, SinkOutage) is not certain


def require_sentence(error: LatecomerError, sentence: str) -> None:
    assert sentence in str(error)
    assert "\n" not in str(error)
    for secret in (WORD, LOCK, "close-sesame"):
        assert secret not in str(error)


def test_doctor_tells_the_same(
    secure: Secure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kafka_source, "ANSWER_SECONDS", SOON)
    servers, options = wrong_authority(secure)
    pipeline = pipeline_on(tmp_path, secure.broker, "payments", options=options)
    written = pipeline.model_dump(mode="json", by_alias=True, exclude_none=True)
    written["source"]["kafka"]["servers"] = servers
    (tmp_path / "pipeline.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
    said = calling(capsys)("doctor", str(tmp_path / "pipeline.yaml"))
    found, _, fix = NOT_TRUSTED.partition("; ")
    assert said.status == 1
    assert f"problem  source: kafka source: {found}\n         fix: {fix}" in said.out


def test_keys_in_other_forms_are_read(secure: Secure, tmp_path: Path) -> None:
    """Not only what is in PKCS #8, and locked by an old scheme, as Java's clients want it."""
    authority = Path(secure.certified["ssl.key.location"]).parent
    key = next(path for path in authority.glob("*client*") if b"BEGIN PRIVATE KEY" in path.read_bytes())
    for nth, command in enumerate((["rsa", "-traditional"], ["pkcs8", "-topk8", "-v2", "aes256"])):
        written = tmp_path / f"{nth}.pem"
        word = ["-passout", f"pass:{LOCK}"] if command[0] == "pkcs8" else []
        subprocess.run(["openssl", *command, "-in", str(key), "-out", str(written), *word], check=True)
        options = {**secure.certified, "ssl.key.location": str(written)}
        topics = KafkaTopics(
            servers=secure.broker.tls_servers, topics=(secure.broker.create_topic(),), options=options
        )
        KafkaReader(topics=topics, base=tmp_path).check()
