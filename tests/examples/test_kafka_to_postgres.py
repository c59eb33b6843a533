"""The example from Kafka to Postgres: what stands is a plain count of what was sent, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import SparkSession

from examples.script_kit import loaded
from kafka_kit import Client
from latecomer import load_pipeline, run
from latecomer.after.reading.reader import Reader
from latecomer.engine.ledger.check import check_ledger
from postgres_kit import Postgres

EXAMPLE = Path(__file__).parents[2] / "examples" / "kafka-to-postgres"
DELAY, ALLOWED = timedelta(minutes=2), timedelta(minutes=6)


@pytest.fixture
def produce() -> ModuleType:
    """The example's own producer; it is a script beside its files and no package."""
    return loaded("kafka_to_postgres_produce", EXAMPLE / "produce.py")


def example_in(folder: Path, name: str) -> Path:
    """A copy of the pipeline file with topics and a schema of the test's own."""
    text = (EXAMPLE / "pipeline.yaml").read_text(encoding="utf-8")
    assert text.count("shop-payments") == 3
    assert text.count("schema: shops}") == 1
    changed = text.replace("shop-payments", name).replace("schema: shops}", f'schema: "{name}"}}')
    (folder / "pipeline.yaml").write_text(changed, encoding="utf-8")
    return folder / "pipeline.yaml"


def window_of(payment: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(payment["at"]).replace(second=0)


def counted(payments: list[tuple[str, dict[str, Any]]]) -> dict[tuple[datetime, str], tuple[int, int]]:
    """How many payments there are in each minute and shop, and what they come to."""
    numbers: Counter[tuple[datetime, str]] = Counter()
    paise: Counter[tuple[datetime, str]] = Counter()
    for shop, payment in payments:
        numbers[window_of(payment), shop] += 1
        paise[window_of(payment), shop] += payment["paise"]
    return {place: (count, paise[place]) for place, count in numbers.items()}


def watermarks(sent: list[Any], partition_of: dict[str, int]) -> dict[int, datetime | None]:
    """The watermark before each minute of the story, and after the last one: the slowest partition's newest time,
    less the delay."""
    newest: dict[int, datetime] = {}
    found: dict[int, datetime | None] = {}
    minute = 0
    for minute, records in groupby(sent, key=lambda each: each.minute):
        found[minute] = min(newest.values()) - DELAY if len(newest) == 3 else None
        for record in records:
            at = datetime.fromisoformat(json.loads(record.value)["at"])
            partition = partition_of[record.key]
            newest[partition] = max(at, newest.get(partition, at))
    return {**found, minute + 1: min(newest.values()) - DELAY}


def certainly_and_perhaps_too_late(
    sent: list[Any], partition_of: dict[str, int]
) -> tuple[set[str], set[str]]:
    """What was too late when its minute began to be sent, and what would have been when the minute had been sent."""
    marks = watermarks(sent, partition_of)
    after = {minute: marks[later] for minute, later in zip(marks, [*marks][1:], strict=False)}
    certainly, perhaps = set(), set()
    for record in sent:
        payment = json.loads(record.value)
        closes = window_of(payment) + timedelta(minutes=1) + ALLOWED
        for mark, found in ((marks[record.minute], certainly), (after[record.minute], perhaps)):
            if mark is not None and mark >= closes:
                found.add(payment["txn"])
    return certainly, perhaps


def test_what_stands_in_postgres_is_a_plain_count_of_what_was_sent(
    spark: SparkSession,
    kafka: Client,
    postgres: Postgres,
    produce: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = kafka.create_topic(partitions=3, message_timestamp_type="LogAppendTime")
    monkeypatch.setenv("KAFKA_SERVERS", kafka.servers)
    monkeypatch.setenv("POSTGRES", postgres.url_with_password)
    pipeline = load_pipeline(example_in(tmp_path, topic))
    order = produce.records(payments_a_minute=30)
    assert produce.send(kafka.servers, topic, order, pace=0.1) == len(order)
    run(pipeline, drain=True, spark=spark)

    too_late = [json.loads(record.value or b"") for record in kafka.consume(f"{topic}-too-late")]
    dead = [json.loads(record.value or b"") for record in kafka.consume(f"{topic}-unreadable")]
    rows = postgres.ask(f'select * from "{topic}".shop_minutes')
    aside = {row["event_id"] for row in too_late}
    payments = [(each.key, json.loads(each.value)) for each in order if each.kind == "payment"]
    in_time = [(shop, payment) for shop, payment in payments if payment["txn"] not in aside]
    assert {
        (row["window_start"], row["shop"]): (row["payments"], int(row["paise"])) for row in rows
    } == counted(in_time)

    kinds = Counter(each.kind for each in order)
    reasons = Counter(row["reason"] for row in dead)
    assert (reasons["tombstone"], len(dead)) == (kinds["tombstone"], kinds["tombstone"] + kinds["unreadable"])
    duplicates = Reader(pipeline).ledger_totals().to_pylist()[0]["duplicate"]
    assert duplicates == kinds["repeat"]
    assert len(in_time) + len(too_late) + len(dead) + duplicates == len(order)
    assert check_ledger(pipeline, spark) == []

    valued = [each for each in order if each.kind in ("payment", "repeat")]
    places = {(record.key or b"").decode(): record.partition for record in kafka.consume(topic)}
    certainly, perhaps = certainly_and_perhaps_too_late(valued, places)
    assert certainly <= aside <= perhaps
    assert sum(row["shop"] == "tea" for row in too_late) >= 10, "what the tunnel held back"
    assert {row["timing"] for row in rows} == {"ON_TIME", "LATE"}


def test_the_same_seed_makes_the_same_records(produce: ModuleType) -> None:
    assert produce.records(3) == produce.records(3) != produce.records(4)


@pytest.mark.long
def test_the_one_command(kafka: Client, postgres: Postgres, tmp_path: Path) -> None:
    """On servers that are there: what it made is gone in the end, and it does not touch what was there before."""
    own = {"KAFKA_SERVERS": kafka.servers, "POSTGRES": postgres.url_with_password}

    def command(folder: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(EXAMPLE / "run.py"), "--folder", str(tmp_path / folder)],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
        )

    said = command("first")
    assert said.returncode == 0, said.stderr
    assert "1230 sent = " in said.stdout
    assert not {topic for topic in kafka.topics() if topic.startswith("shop-payments")}
    assert not postgres.ask("select 1 from pg_namespace where nspname = 'shops'")
    kafka.create_topic("shop-payments-too-late")
    again = command("second")
    assert again.returncode == 1
    assert "there is a topic shop-payments-too-late already" in again.stderr
    assert "shop-payments-too-late" in kafka.topics()
    kafka.delete_topic("shop-payments-too-late")
