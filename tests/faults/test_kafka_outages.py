"""A broker that dies while a pipeline reads it, and a pipeline that dies while a producer goes on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession

from kafka_kit import Broker, Client
from latecomer.after.reading.reader import Reader
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.source.kafka import reader as kafka_source
from latecomer.store import failpoints
from latecomer.store.store import open_store
from latecomer.testing.servers import free_ports
from source.kafka_source_kit import iso, payments, pipeline_on, totals
from spark_kit import quick_start

PATIENCE = 120.0
SCRIPT = "from latecomer.cli import main; main()"


def wait_for(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline, f"{what}: it did not come to that"
        time.sleep(0.2)


def read_so_far(pipeline: Pipeline) -> int:
    try:
        return totals(pipeline)[0]
    except Exception:  # there is no store yet
        return 0


def running(
    pipeline: Pipeline, spark: SparkSession, stop: threading.Event, ended: list[BaseException]
) -> None:
    """Run until it is stopped; what ends it before is kept."""
    try:
        run(pipeline, spark=spark, stop=stop)
    except BaseException as error:
        ended.append(error)
        raise


def test_a_broker_dies_while_it_is_read(spark: SparkSession, own_kafka: Broker, tmp_path: Path) -> None:
    topic = own_kafka.create_topic(partitions=2)
    early = {
        "minutes": {
            "window": {"tumbling": "1m"},
            "aggregates": {"payments": "count(*)", "paise": "sum(paise)"},
        }
    }
    early["minutes"]["trigger"] = {"early": {"every": "1s"}}
    pipeline = pipeline_on(tmp_path, own_kafka, topic, outputs=early)
    stop, ended = threading.Event(), list[BaseException]()

    own_kafka.produce(topic, ((row["txn"], row) for row in payments(0, 100)))
    thread = threading.Thread(target=running, args=(pipeline, spark, stop, ended))
    thread.start()
    try:
        wait_for(lambda: (tmp_path / "store" / "offsets").exists() and not ended, "the first answer")
        own_kafka.kill()
        time.sleep(3)
        own_kafka.start()
        own_kafka.produce(topic, ((row["txn"], row) for row in payments(100, 100)))
        wait_for(lambda: bool(ended) or read_so_far(pipeline) == 200, "everything is read")
    finally:
        stop.set()
        thread.join(PATIENCE)
    assert not ended
    run(pipeline, drain=True, spark=spark)
    assert totals(pipeline) == (200, sum(range(200)))
    assert check_ledger(pipeline, spark) == []


class Cable:
    """A way to a broker that can be cut: connections through it end, and new ones are refused."""

    def __init__(self, port: int, to: int) -> None:
        self.port, self.to = port, to
        self._ends: list[socket.socket] = []
        self.mend()

    def mend(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        threading.Thread(target=self._take, args=[self._listening], daemon=True).start()

    def cut(self) -> None:
        for each in (self._listening, *self._ends):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._ends = []

    def _take(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                here, _ = listening.accept()
                there = socket.create_connection(("127.0.0.1", self.to))
                self._ends += [here, there]
                for ends in ((here, there), (there, here)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    @staticmethod
    def _carry(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)


@pytest.mark.long
def test_a_cut_cable_is_not_silence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reaches the broker in time is on time, however long nobody could ask for it."""
    for name, short in (("ANSWER_SECONDS", 1.0), ("PATIENCE", (0.25, 1.0))):
        monkeypatch.setattr(kafka_source, name, short)
    inside, outside, controller, near = free_ports(4)
    broker = Broker(
        tmp_path / "broker",
        listeners=f"PLAINTEXT://127.0.0.1:{near},OUTSIDE://127.0.0.1:{inside},CONTROLLER://127.0.0.1:{controller}",
        advertised_listeners=f"PLAINTEXT://127.0.0.1:{near},OUTSIDE://127.0.0.1:{outside}",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT",
        controller_quorum_voters=f"1@127.0.0.1:{controller}",
    )
    broker.servers = broker._server.servers = f"127.0.0.1:{near}"
    broker.start()
    cable = Cable(outside, inside)
    topic = broker.create_topic(partitions=2, message_timestamp_type="LogAppendTime")
    seconds = {
        "window": {"tumbling": "1s"},
        "aggregates": {"payments": "count(*)"},
        "too_late": "side_output",
    }
    pipeline = pipeline_on(
        tmp_path,
        Client(f"127.0.0.1:{outside}"),
        topic,
        arrival="broker",
        schema={"at": "string"},
        event={"time": "at"},
        watermark={"delay": "1s", "every": "200ms", "idle_after": "2s"},
        outputs={"seconds": seconds},
    )
    stop, sold, ended = threading.Event(), 0, list[BaseException]()

    def logged() -> int:
        try:
            return sum(file.rows for file in open_store(pipeline).events.files())
        except Exception:  # there is no store yet
            return 0

    def sell(for_seconds: float) -> None:
        nonlocal sold
        until = time.monotonic() + for_seconds
        while time.monotonic() < until:
            for partition in (0, 1):
                broker.produce(topic, [{"at": iso(datetime.now(UTC))}], partition=partition)
                sold += 1
            time.sleep(0.2)

    thread = threading.Thread(target=running, args=(pipeline, spark, stop, ended))
    thread.start()
    try:
        sell(1)
        wait_for(lambda: bool(ended) or logged() > 0, "the first batch")
        sell(2)
        cable.cut()
        sell(6)
        cable.mend()
        sell(2)
        wait_for(lambda: bool(ended) or logged() == sold, "everything is read")
    finally:
        stop.set()
        thread.join(PATIENCE)
        broker.stop()
    assert not ended
    assert Reader(pipeline).late("seconds").num_rows == 0


@pytest.mark.long
def test_a_process_is_killed_while_a_producer_goes_on_and_tells_no_secret(
    spark: SparkSession, kafka: Client, tmp_path: Path
) -> None:
    """A whole process, with a Spark of its own; its password is in nothing that it leaves, nor in Spark's event log."""
    topic = kafka.create_topic(partitions=2)
    options = {"sasl.mechanism": "PLAIN", "sasl.username": "ana", "sasl.password": "${env:SHOP_WORD}"}
    pipeline = pipeline_on(tmp_path, kafka, topic, options=options, max_rows_per_batch=60)
    file = tmp_path / "pipeline.yaml"
    file.write_text(yaml.safe_dump(pipeline.model_dump(mode="json", by_alias=True, exclude_none=True)))
    environment = {**os.environ, **quick_start(), "SHOP_WORD": "open-sesame-17"}
    (tmp_path / "history").mkdir()
    history = {"enabled": "true", "dir": (tmp_path / "history").as_uri(), "compress": "false"}
    outcome = " ".join(f"--conf spark.eventLog.{name}={value}" for name, value in history.items())
    environment["PYSPARK_SUBMIT_ARGS"] = f"{outcome} {environment['PYSPARK_SUBMIT_ARGS']}"
    said = b""
    for nth, place in enumerate(("events.committed@0", "watermarks.committed@1", "")):
        kafka.produce(topic, ((row["txn"], row) for row in payments(100 * nth, 100)))
        ended = subprocess.run(
            [sys.executable, "-c", SCRIPT, "run", str(file), "--once"],
            env={**environment, failpoints.VARIABLE: place} if place else environment,
            capture_output=True,
            timeout=5 * PATIENCE,
            check=False,
        )
        assert ended.returncode == (-signal.SIGKILL if place else 0), ended.stderr.decode()
        said += ended.stdout + ended.stderr
    assert totals(pipeline)[0] < 300, "what is still open has not been published"
    os.environ["SHOP_WORD"] = "open-sesame-17"
    try:
        run(pipeline, drain=True, spark=spark)
    finally:
        del os.environ["SHOP_WORD"]
    assert totals(pipeline) == (300, sum(range(300)))
    assert check_ledger(pipeline, spark) == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "spark.log" for path in files)
    assert any(
        b"SparkListenerEnvironmentUpdate" in path.read_bytes()
        for path in (tmp_path / "history").rglob("events*")
    )
    assert not [path for path in files if b"open-sesame" in path.read_bytes()]
    assert b"open-sesame" not in said
