"""Broker, database and pipeline are killed in turn, in the middle of a batch, while a producer goes on.

Afterwards everything is as after a run over the same topic that nothing disturbed, as far as it does not depend on how
rows were cut into batches. Equal must be: what stands (window, key, values, timing), in the store and in both sinks;
every ON_TIME pane; which events were set aside for which window, and which rows were dead; the ledger's totals in
every unit. How many LATE panes there were, and so `sequence` and `batch`, goes by the cuts: there each run is held
against its own store, record by record, and a pane is taken back before the one that replaces it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from pyspark.sql import SparkSession

from faults.test_kafka_outages import PATIENCE, wait_for
from kafka_kit import Broker
from latecomer.after.reading.reader import Reader
from latecomer.config.load import load_pipeline
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.check import check_ledger
from latecomer.engine.running import run
from latecomer.store.store import open_store
from postgres_kit import Postgres, required_binaries, running
from source.kafka_source_kit import NOON, iso
from spark_kit import quick_start, running_beside

SCRIPT = """
import os, signal, sys, threading
from pathlib import Path
from latecomer.store import failpoints

file, place = sys.argv[1:]
turn = threading.Lock()
def stand_still(name, batch):
    with turn:  # each sink has a thread of its own
        if batch > 0 and Path(place).exists() and Path(place).read_text() == name:
            Path(place).unlink()
            os.kill(os.getpid(), signal.SIGSTOP)
failpoints.failpoint = stand_still

from latecomer.cli import main
sys.argv = ["latecomer", "run", file]
main()
"""
"""A run that stands still where a file says, until it is told to go on."""
STANDS = ("window_start", "window_end", "shop", "paise", "payments", "timing")
TABLES = ("totals", "totals_late", "dead_letters")
IN_A_ROUND = 10
"""How many payments each partition gets at a time, one a second by event time."""


def payments_of(number: int, partition: int) -> Iterator[str | dict[str, Any]]:
    """What a partition gets in a round: prompt and delayed, late and too late, some twice, some unreadable.

    What is delayed is so by less than the delay, and what is late by far more than partitions can be out of step: the
    verdict does not depend on what is read together.
    """
    for second in range(number * IN_A_ROUND, (number + 1) * IN_A_ROUND):
        behind = 3 if second % 7 == 3 else 0
        if second % 60 >= 50:
            behind = {3: 130, 6: 600}.get(second % 10, 0)
        at = iso(NOON + timedelta(seconds=second - behind))
        payment = {
            "at": at,
            "txn": f"p{partition}-{second}",
            "shop": ("tea", "ink", None)[second // 20 % 3],
            "paise": second,
        }
        yield from [payment, payment] if second % 31 == 30 else [payment]
        if second % 41 == 40:
            yield "{not json"


@contextmanager
def producing(broker: Broker, topic: str) -> Iterator[list[int]]:
    """A producer beside the block, with a round after the other; it waits for a broker that is down. The rounds that it
    has sent."""
    done, sent = threading.Event(), list[int]()

    def produce() -> None:
        while not done.wait(0.2):
            for partition in (0, 1):
                broker.produce(topic, payments_of(len(sent), partition), partition=partition)
            sent.append(len(sent))

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield sent
    finally:
        done.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def write_pipeline(folder: Path, topic: str, servers: str) -> Path:
    """A pipeline from the topic to a schema, and to topics, that are named as the folder."""
    name = folder.name

    def sinks(table: str) -> list[dict[str, Any]]:
        return [
            {"postgres": {"target": "${env:TARGET}", "schema": name}},
            {"kafka": {"servers": servers, "topic": f"{name}-{table}", "partitions": 2}},
        ]

    totals = {
        "window": {"tumbling": "1m"},
        "by": ["shop"],
        "aggregates": {"paise": "sum(paise)", "payments": "count(*)"},
        "allowed_lateness": "5m",
        "late": "retract",
        "sinks": sinks("totals"),
        "late_to": sinks("totals_late"),
    }
    written = {
        "name": name,
        "store": "./store",
        "source": {
            "kafka": {"servers": servers, "topics": [topic], "arrival": "broker", "max_rows_per_batch": 400},
            "schema": {"at": "string", "txn": "string", "shop": "string", "paise": "bigint"},
        },
        "event": {"time": "at", "id": "txn"},
        "watermark": {"delay": "10s", "max_future": None, "every": "50ms"},
        "ledger": ["paise"],
        "outputs": {"totals": totals},
        "dead_letters_to": sinks("dead_letters"),
    }
    folder.mkdir()
    (folder / "pipeline.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
    return folder / "pipeline.yaml"


class Disturbed:
    """A process that runs a pipeline, and is found in the middle of a batch."""

    def __init__(self, file: Path) -> None:
        self._place = file.parent / "place"
        self._said = file.parent / "said"
        with open(self._said, "wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SCRIPT, str(file), str(self._place)],
                env={**os.environ, **quick_start()},
                stdout=said,
                stderr=said,
            )

    @contextmanager
    def standing_at(self, place: str) -> Iterator[None]:
        """The process stands still at a place that it comes to next; after the block it goes on."""
        self._place.write_text(place)
        wait_for(lambda: self.process.poll() is not None or self._stands, f"standing at {place}")
        assert self.process.poll() is None, self._said.read_text()
        yield
        self.process.send_signal(signal.SIGCONT)

    @property
    def _stands(self) -> bool:
        return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)


def changes(broker: Broker, topic: str) -> list[dict[str, Any]]:
    """What a consumer is told, by key: the order within a key is that of its partition."""
    records = sorted(broker.consume(topic), key=lambda record: record.key or b"")
    return [json.loads(record.value or b"") for record in records]


def in_words(rows: Iterator[dict[str, Any]] | list[dict[str, Any]], names: tuple[str, ...]) -> list[str]:
    """Rows as text, whether a moment is one or is written, and without the order."""
    return sorted(str([_text(row[name]) for name in names]) for row in rows)


def _text(value: Any) -> str:
    written = value.isoformat() if hasattr(value, "isoformat") else str(value)
    return written.replace("+00:00", "Z")


def require_sinks_hold_the_store(pipeline: Pipeline, server: Postgres, broker: Broker) -> None:
    """Every row of the store is in its topic once; Postgres has what stands, and each other row once."""
    reader, name = Reader(pipeline), pipeline.name
    tables = {"totals_late": reader.late("totals"), "dead_letters": reader.dead_letters()}
    for table, rows in {"totals": reader.panes("totals"), **tables}.items():
        assert rows.num_rows > 0, table
        outcome = changes(broker, f"{name}-{table}")
        names = tuple(column for column in rows.column_names if column in outcome[0])
        assert {"batch"} <= {*names}
        assert in_words(outcome, names) == in_words(rows.to_pylist(), names), table
    for table, rows in {"totals": reader.results("totals"), **tables}.items():
        held = server.ask(f"select * from {name}.{table}")
        names = tuple(column for column in rows.column_names if column in held[0])
        assert in_words(held, names) == in_words(rows.to_pylist(), names), table


def require_taken_back(panes: list[dict[str, Any]]) -> dict[str, Any]:
    """What stands after all changes, by place: each pane takes the place of the one before, which was taken back."""
    standing: dict[str, dict[str, Any]] = {}
    for pane in panes:
        place = str([pane[name] for name in ("window_start", "window_end", "shop")])
        if pane["op"] == "retract":
            gone = standing.pop(place)
            assert [pane[name] for name in ("paise", "payments", "sequence")] == [
                gone[name] for name in ("paise", "payments", "sequence")
            ]
        else:
            assert place not in standing, f"{place} was told twice"
            standing[place] = pane
    return standing


def settled(pipeline: Pipeline, server: Postgres, broker: Broker) -> dict[str, Any]:
    """What must be the same however rows were cut into batches."""
    reader, name = Reader(pipeline), pipeline.name
    panes = changes(broker, f"{name}-totals")
    in_time = [pane for pane in panes if pane["timing"] == "ON_TIME" and pane["op"] == "insert"]
    windows, place = ("window_start", "window_end"), ("origin", "position")
    return {
        "store": in_words(reader.results("totals").to_pylist(), STANDS),
        "postgres": in_words(server.ask(f"select * from {name}.totals"), STANDS),
        "topic": in_words(list(require_taken_back(panes).values()), STANDS),
        "in time": in_words(in_time, (*STANDS, "sequence")),
        "late": in_words(changes(broker, f"{name}-totals_late"), ("event_id", "paise", *windows, *place)),
        "dead": in_words(changes(broker, f"{name}-dead_letters"), ("raw", "reason", *place)),
        "ledger": reader.ledger_totals().to_pylist(),
    }


@pytest.mark.long
def test_broker_database_and_pipeline_are_killed_in_turn(
    spark: SparkSession, own_kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = own_kafka.create_topic(partitions=2, message_timestamp_type="LogAppendTime")
    with running(required_binaries()) as server:
        monkeypatch.setenv("TARGET", server.url_with_password)
        file = write_pipeline(tmp_path / "disturbed", topic, own_kafka.servers)
        with producing(own_kafka, topic) as sent:
            process = Disturbed(file)
            try:
                with process.standing_at("sink.kafka.sent"):
                    own_kafka.kill()
                time.sleep(1)
                own_kafka.start()
                with process.standing_at("sink.postgres.written"):
                    server.kill()
                time.sleep(1)
                server.start()
                with process.standing_at("totals.panes.committed"):
                    process.kill()
            finally:
                process.kill()
            disturbed, rounds = load_pipeline(file), len(sent)
            complete = open_store(disturbed).ledger.last_batch()
            with running_beside(disturbed, spark):
                wait_for(lambda: open_store(disturbed).ledger.last_batch() > complete + 1, "it goes on")
            assert len(sent) > rounds
        run(disturbed, drain=True, spark=spark)

        undisturbed = load_pipeline(write_pipeline(tmp_path / "undisturbed", topic, own_kafka.servers))
        run(undisturbed, drain=True, spark=spark)
        for pipeline in (disturbed, undisturbed):
            require_sinks_hold_the_store(pipeline, server, own_kafka)
            assert check_ledger(pipeline, spark) == []
        found, expected = (settled(each, server, own_kafka) for each in (disturbed, undisturbed))
        for what in expected:
            assert found[what] == expected[what], what
