"""The same events as files of JSON and of Avro messages, and from topics as JSON, as JSON with its schema and as Avro:
`python -m bench.avro_source`.

Each is read three times, in turn, in one session that is warm by then; the best of the last two counts.
"""

from __future__ import annotations

import argparse
import io
import json
import struct
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
from confluent_kafka import Producer

from bench.kafka_source import JAVA, send
from bench.usage import processor_seconds
from latecomer.config.models import Pipeline
from latecomer.engine.running import run
from latecomer.spark.session import build_session

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kafka_kit import Broker
from schemas.registry.registry_kit import beside

PARTITIONS, FILES = 8, 8
COLUMNS = {"at": "timestamp", "tower": "string", "merchant": "string", "paise": "bigint", "status": "string"}
FIELDS = [
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "tower", "type": "string"},
    {"name": "merchant", "type": "string"},
    {"name": "paise", "type": "long"},
    {"name": "status", "type": {"type": "enum", "name": "Status", "symbols": ["SUCCESS", "FAILED"]}},
]
SCHEMA = {"type": "record", "name": "Payment", "fields": FIELDS}
RULES = {
    "type": "object",
    "properties": {
        "at": {"type": "string", "maxLength": 40},
        "tower": {"type": "string", "minLength": 1},
        "merchant": {"type": "string"},
        "paise": {"type": "integer", "minimum": 0, "maximum": 10**9},
        "status": {"enum": ["SUCCESS", "FAILED"]},
    },
    "required": ["at", "paise"],
    "additionalProperties": False,
}
"""A rule for each field of the same events as JSON."""


def rows(count: int) -> Iterator[dict[str, Any]]:
    began = datetime(2026, 4, 25, 12, tzinfo=UTC)
    for nth in range(count):
        yield {
            "at": began + timedelta(milliseconds=nth),
            "tower": f"tower-{nth % PARTITIONS}",
            "merchant": f"merchant-{nth * 7919 % 10_000}",
            "paise": nth % 50_000,
            "status": "FAILED" if nth % 50 == 0 else "SUCCESS",
        }


def as_json(row: dict[str, Any]) -> bytes:
    return json.dumps({**row, "at": row["at"].isoformat().replace("+00:00", "Z")}).encode()


def head(number: int) -> bytes:
    return struct.pack(">bI", 0, number)


def as_avro(row: dict[str, Any], number: int, schema: Any) -> bytes:
    written = io.BytesIO(head(number))
    written.seek(0, io.SEEK_END)
    fastavro.schemaless_writer(written, schema, row)
    return written.getvalue()


def pipeline(work: Path, source: dict[str, Any]) -> Pipeline:
    minutes = {"window": {"tumbling": "1m"}, "by": ["merchant"], "aggregates": {"paise": "sum(paise)"}}
    return Pipeline.model_validate(
        {
            "name": "bench",
            "store": str(work),
            "source": source,
            "event": {"time": "at"},
            "watermark": {"delay": "30s", "max_future": None},
            "outputs": {"minutes": minutes},
            "ledger": ["paise"],
        }
    )


def measured(count: int, work: Path, batch: int) -> dict[str, tuple[float, float]]:
    """Seconds by the clock, and of the processor without the broker's."""
    broker = Broker(work / "kafka", java=JAVA).start()
    topics = {kind: broker.create_topic(partitions=PARTITIONS) for kind in ("json", "checked", "avro")}
    schema, folder = fastavro.parse_schema(SCHEMA), work / "in"
    messages = work / "messages"
    folder.mkdir()
    messages.mkdir()
    texts: list[list[bytes]] = [[] for _ in range(FILES)]
    copied: list[list[bytes]] = [[] for _ in range(FILES)]
    producer = Producer({**broker.settings, "linger.ms": 50, "compression.type": "lz4"})
    with beside(work / "registry.db") as registry:
        number = registry.asking.register("payments-value", json.dumps(SCHEMA))
        rules = registry.asking.register("checked-value", json.dumps(RULES), schemaType="JSON")
        for nth, row in enumerate(rows(count)):
            text = as_json(row)
            texts[nth * FILES // count].append(text)
            send(producer, topics["json"], text, nth % PARTITIONS)
            send(producer, topics["checked"], head(rules) + text, nth % PARTITIONS)
            message = as_avro(row, number, schema)
            copied[nth * FILES // count].append(message)
            send(producer, topics["avro"], message, nth % PARTITIONS)
        producer.flush()
        for nth, lines in enumerate(texts):
            (folder / f"part-{nth}.json").write_bytes(b"\n".join(lines) + b"\n")
            (messages / f"part-{nth}.bin").write_bytes(b"".join(copied[nth]))
        kafka = {
            kind: {"servers": broker.servers, "topics": [topic], "max_rows_per_batch": batch}
            for kind, topic in topics.items()
        }
        avro = {"registry": registry.url, "subject": "payments-value"}
        sources = {
            "json files": {"files": {"path": str(folder)}, "schema": COLUMNS},
            "json topic": {"kafka": kafka["json"], "schema": COLUMNS},
            "checked json topic": {
                "kafka": kafka["checked"],
                "format": {"json": {"registry": registry.url}},
                "schema": COLUMNS,
            },
            "files of avro messages": {
                "files": {"path": str(messages), "format": {"avro": {**avro, "messages": "joined"}}}
            },
            "avro topic": {"kafka": kafka["avro"], "format": {"avro": avro}},
        }
        spark = build_session("bench", work / "spark.log")
        others = [broker.process.pid] if broker.process else []
        found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in sources}
        for attempt in range(3):
            for kind, source in sources.items():
                began, worked = time.monotonic(), processor_seconds(others)
                run(pipeline(work / f"{kind}-{attempt}".replace(" ", "-"), source), once=True, spark=spark)
                found[kind].append((time.monotonic() - began, processor_seconds(others) - worked))
    broker.kill()
    clocks, work_done = (
        {kind: min(each[nth] for each in found[kind][1:]) for kind in found} for nth in (0, 1)
    )
    return {kind: (clocks[kind], work_done[kind]) for kind in found}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.avro_source", description=__doc__)
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--rows", type=int, default=100_000, help="of a topic in a batch; files are one")
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    asked.work.mkdir(parents=True)
    seconds = measured(asked.events, asked.work, asked.rows)
    clock, worked = ({kind: each[nth] for kind, each in seconds.items()} for nth in (0, 1))
    for kind in seconds:
        ratios = [round(of["json files"] / of[kind], 2) for of in (clock, worked)]
        print(
            f"{kind}: {clock[kind]:.2f} s, {asked.events / clock[kind]:,.0f} events/s, {ratios[0]} of files; "
            f"processor {worked[kind]:.2f} s, {ratios[1]} of files",
            flush=True,
        )


if __name__ == "__main__":
    main()
