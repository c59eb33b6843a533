"""The broker of the tests is a real one, from jars that latecomer resolves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from _pytest.outcomes import Failed, Skipped

from kafka_kit import Broker, Client
from latecomer.errors import MachineError
from shared_fixtures import require

TESTS = Path(__file__).parents[1]


def test_what_a_producer_wrote_is_there(kafka: Client) -> None:
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [("a", {"n": 1}), ("b", {"n": 2}), ("c", None)])
    assert sorted((record.key, record.value) for record in kafka.consume(topic)) == [
        (b"a", b'{"n": 1}'),
        (b"b", b'{"n": 2}'),
        (b"c", None),
    ]


def test_topics_change_while_the_broker_runs(kafka: Client) -> None:
    topic = kafka.create_topic(message_timestamp_type="LogAppendTime")
    kafka.produce(topic, ["one", "two", "three"], timestamp=1)
    assert [record.timestamp[0] for record in kafka.consume(topic)] == [2, 2, 2]
    kafka.delete_records(topic, before=2)
    assert kafka.watermarks(topic) == (2, 3)
    assert [record.value for record in kafka.consume(topic)] == [b"three"]
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, ["four"], partition=2)
    assert [(record.partition, record.value) for record in kafka.consume(topic)] == [
        (0, b"three"),
        (2, b"four"),
    ]
    kafka.delete_topic(topic)
    assert topic not in kafka.topics()


@pytest.mark.long
def test_a_killed_broker_starts_again_with_what_it_had(own_kafka: Broker) -> None:
    topic = own_kafka.create_topic()
    own_kafka.produce(topic, ["before"])
    own_kafka.kill()
    own_kafka.start()
    own_kafka.produce(topic, ["after"])
    assert [record.value for record in own_kafka.consume(topic)] == [b"before", b"after"]


@pytest.mark.long
def test_test_processes_share_a_broker_which_outlives_none_of_them(kafka_jars: None, tmp_path: Path) -> None:
    """Also where they are killed."""
    script = (
        "import sys, time, pathlib, kafka_kit\n"
        "broker = kafka_kit.shared_broker(pathlib.Path(sys.argv[1]))\n"
        "print(broker.servers, flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-c", script, str(tmp_path)]
    holders = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) for _ in range(2)
    ]
    servers = []
    for holder in holders:
        assert holder.stdout is not None
        with holder.stdout:
            servers.append(holder.stdout.readline().strip())
    assert servers[0] == servers[1]
    broker = psutil.Process(json.loads((tmp_path / "broker.json").read_text())["pid"])
    for holder in holders:
        assert Client(servers[0]).topics() is not None
        holder.kill()
        holder.wait()
    deadline = time.monotonic() + 30
    while broker.is_running() and broker.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the broker is still running"
        time.sleep(0.05)


@pytest.mark.parametrize(("ci", "outcome"), [("", Skipped), ("true", Failed)])
def test_what_cannot_be_had_skips_tests_with_the_reason_and_fails_them_in_ci(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    def missing() -> None:
        raise MachineError("Kafka 4.1.1 could not be downloaded")

    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match=r"Kafka cannot be had: Kafka 4\.1\.1 could not be downloaded"):
        require("Kafka", missing)


@pytest.mark.long
@pytest.mark.parametrize(("ci", "outcome"), [("", "1 skipped"), ("true", "1 error")])
def test_without_jars_tests_are_skipped_with_the_reason_and_ci_fails(
    tmp_path: Path, ci: str, outcome: str
) -> None:
    environment = {
        **os.environ,
        "CI": ci,
        "XDG_CACHE_HOME": str(tmp_path),
        "DEFAULT_ARTIFACT_REPOSITORY": "http://127.0.0.1:9/",
    }
    asked = [
        "--tb=line",
        "-p",
        "no:cacheprovider",
        f"--basetemp={tmp_path / 'tmp'}",
        f"{__file__}",
        "-k",
        "topics_change",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *asked],
        capture_output=True,
        text=True,
        env=environment,
        cwd=TESTS.parent,
    )
    assert outcome in done.stdout, done.stdout + done.stderr
    assert "Kafka cannot be had: Kafka 4.1.1 could not be downloaded" in done.stdout
