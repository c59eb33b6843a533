"""The Kafka sink while writer and broker die and say no: afterwards the topic is as if nothing had happened."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from kafka_kit import Broker, Client, free_ports
from latecomer.config.sinks import KafkaSink
from latecomer.errors import LatecomerError, SinkError, SinkOutage
from latecomer.sink import kafka as kafka_sink
from latecomer.sink import kafka_client
from latecomer.sink.keeper import SinkKeeper, check_sinks, sink_status
from latecomer.sink.status import NOTES
from sink.feeding_kit import Fed, HandClock, eventually

TESTS = str(Path(__file__).parents[1])
STEPS = ("begun", "sent", "written", "committed")
SCRIPT = """
import sys; sys.path.insert(0, sys.argv[2])
from pathlib import Path
from latecomer.config.load import load_pipeline
from latecomer.sink.keeper import SinkKeeper
from latecomer.store.store import open_store
keeper = SinkKeeper(open_store(load_pipeline(Path(sys.argv[1]))))
keeper.start(3)
keeper.finish()
keeper.close()
"""


def fed_with(folder: Path, topic: str, servers: str, more: str = "") -> Fed:
    """A store of four batches whose panes are to go to a topic."""
    folder.mkdir(exist_ok=True)
    fed = Fed(folder, f"[{{kafka: {{servers: '{servers}', topic: {topic}, partitions: 2{more}}}}}]")
    for batch in range(4):
        fed.publish(batch, *(f"merchant {nth}" for nth in range(50)), None)
    return fed


def bring_up(fed: Fed, complete: int = 3) -> None:
    keeper = SinkKeeper(fed.store)
    try:
        keeper.start(complete)
        keeper.finish()
    finally:
        keeper.close()


def outcome_of(kafka: Client, topic: str) -> list[tuple[int, bytes | None, bytes | None, str]]:
    """What a consumer is told, in the order of each partition; offsets differ where something was given up."""
    return [
        (record.partition, record.key, record.value, record.header["batch"])
        for record in kafka.consume(topic)
    ]


@pytest.fixture(scope="module")
def undisturbed(
    kafka: Client, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[int, bytes | None, bytes | None, str]]:
    topic = kafka.new_name()
    bring_up(fed_with(tmp_path_factory.mktemp("undisturbed"), topic, kafka.servers))
    found = outcome_of(kafka, topic)
    assert len(found) == 4 * 51
    return found


@pytest.mark.long
def test_a_writer_that_is_killed_between_any_two_steps(
    kafka: Client, tmp_path: Path, undisturbed: list[tuple[int, bytes | None, bytes | None, str]]
) -> None:
    topic = kafka.new_name()
    fed = fed_with(tmp_path, topic, kafka.servers)
    for nth, step in enumerate(STEPS):
        killed = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(fed.file), TESTS],
            env={**os.environ, "LATECOMER_FAILPOINT": f"sink.kafka.{step}@{min(nth, 3)}"},
            capture_output=True,
            check=False,
        )
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
        seen = {batch for *_, batch in outcome_of(kafka, topic)}
        assert seen == {str(batch) for batch in range(nth + (step == "committed"))}
    bring_up(fed)
    assert outcome_of(kafka, topic) == undisturbed


@pytest.mark.long
def test_a_broker_that_is_killed_in_the_middle_of_a_batch(
    own_kafka: Broker,
    kafka: Client,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    undisturbed: list[tuple[int, bytes | None, bytes | None, str]],
) -> None:
    monkeypatch.setattr(kafka_client, "ANSWER_SECONDS", 2.0)
    monkeypatch.setattr(kafka_sink, "SETTLE_SECONDS", 3.0)
    monkeypatch.setattr(kafka_sink, "SILENT_SECONDS", 2.0)
    due = ["begun@0", "written@2"]

    def kill(name: str, batch: int) -> None:
        if f"{name}@{batch}".removeprefix("sink.kafka.") in due:
            due.pop(0)
            own_kafka.kill()

    monkeypatch.setattr(kafka_sink, "failpoint", kill)
    topic, clock = own_kafka.new_name(), HandClock()
    fed = fed_with(tmp_path, topic, own_kafka.servers)
    keeper = SinkKeeper(fed.store, clock)
    keeper.start(-1)
    (worker,) = keeper.workers
    for complete in (1, 3):
        keeper.announce(complete)
        eventually(lambda: worker.outage is not None, 60)
        assert sink_status(fed.store).to_pylist()[0]["state"] == "down"
        own_kafka.start()
        clock.seconds += 100
        eventually(lambda complete=complete: worker.reached == complete, 60)
    keeper.finish()
    keeper.close()
    assert not due
    assert outcome_of(own_kafka, topic) == undisturbed
    assert sink_status(fed.store).to_pylist()[0]["state"] == "up to date"


def test_no_broker_at_all_is_an_outage_and_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "ANSWER_SECONDS", 1.0)
    (port,) = free_ports(1)
    fed = fed_with(tmp_path, "totals", f"127.0.0.1:{port}", ", on_outage: stop")
    begun = time.monotonic()
    with pytest.raises(SinkOutage) as raised:
        check_sinks(fed.store)
    assert time.monotonic() - begun < 60  # on a busy machine; the client alone would try for minutes
    assert f"kafka sink 127.0.0.1:{port}/totals: " in str(raised.value)
    assert "see that the brokers run and can be reached. Nothing is lost" in str(raised.value)
    (row,) = sink_status(fed.store).to_pylist()
    assert (row["state"], row["target"]) == ("down", f"127.0.0.1:{port}/totals")


# A broker that asks who one is

PASSWORD = "open-sesame-4711"
WRONG = "open-barley-0815"


@pytest.fixture(scope="module")
def guarded(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("guarded"), users={"ana": PASSWORD, "ben": PASSWORD}).start()
    yield broker
    broker.kill()


def signed(
    folder: Path, broker: Broker, topic: str, user: str = "ana", password: str = "${env:SESAME}"
) -> Fed:
    options = f"{{security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: {user}, "
    options += f"sasl.password: '{password}'}}"
    return fed_with(folder, topic, broker.guarded_servers, f", options: {options}")


def traces(fed: Fed) -> str:
    """All that is kept of a run: the files of the store, and what status shows."""
    files = (path for path in fed.store.root.rglob("*") if path.is_file())
    kept = [path.read_bytes().decode(errors="replace") for path in files]
    return "\n".join([*kept, json.dumps(sink_status(fed.store).to_pylist(), default=str)])


@pytest.mark.long
def test_secrets_come_from_outside_and_are_shown_nowhere(
    guarded: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(kafka_client, "ANSWER_SECONDS", 2.0)
    topic = guarded.new_name()
    fed = signed(tmp_path / "right", guarded, topic)
    with pytest.raises(
        SinkError, match=r"no such variable \(\${env:SESAME} in options.sasl.password\); set SESAME"
    ):
        check_sinks(fed.store)
    monkeypatch.setenv("SESAME", PASSWORD)
    bring_up(fed)
    assert len(outcome_of(guarded, topic)) == 4 * 51

    monkeypatch.setenv("SESAME", WRONG)
    other = signed(tmp_path / "wrong", guarded, guarded.new_name())
    plain = signed(tmp_path / "plain", guarded, guarded.new_name(), password=WRONG)
    said = []
    for wrong in (other, plain):
        with pytest.raises(
            SinkError, match="the broker refused who we say we are; correct the sasl"
        ) as raised:
            bring_up(wrong)
        assert not isinstance(raised.value, SinkOutage)
        said.append(str(raised.value))
        assert "refused who we say we are" in traces(wrong)
    shown = "\n".join([*said, traces(fed), traces(other), caplog.text, *capfd.readouterr()])
    assert (fed.store.root / NOTES).exists()
    assert PASSWORD not in shown
    assert WRONG not in shown
    assert WRONG not in traces(plain)


def test_what_the_broker_does_not_allow_is_said_with_the_fix(
    guarded: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SESAME", PASSWORD)
    topic = guarded.create_topic()
    guarded.forbid("ben", AclOperation.WRITE, ResourceType.TOPIC, topic)
    guarded.forbid("ben", AclOperation.CREATE, ResourceType.BROKER, "kafka-cluster")
    absent = guarded.new_name()
    guarded.forbid("ben", AclOperation.CREATE, ResourceType.TOPIC, absent)
    with pytest.raises(
        LatecomerError, match=r"the broker does not allow it .*allow Read, Write and Create on the topic"
    ) as raised:
        bring_up(signed(tmp_path / "write", guarded, topic, "ben"))
    assert not isinstance(raised.value, SinkOutage)
    with pytest.raises(
        LatecomerError, match=r"the broker does not allow it .*Read on groups that begin with latecomer/"
    ):
        bring_up(signed(tmp_path / "create", guarded, absent, "ben"))
    assert absent not in guarded.topics()


def test_the_settings_that_the_sink_stands_on_cannot_be_changed() -> None:
    with pytest.raises(LatecomerError, match=r"isolation\.level is set by latecomer"):
        KafkaSink(servers="a:1", options={"isolation.level": "read_uncommitted"})
