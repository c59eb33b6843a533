"""Payments as Avro: schemas, messages in Confluent's framing, object files, and pipelines over them."""

from __future__ import annotations

import io
import json
import pickle
import struct
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro

from avro_data import number, text
from kafka_kit import Client
from latecomer.config.models import Pipeline
from latecomer.schemas.avro import parse_schema, reading
from latecomer.source.decode.avro_messages import AvroMessages
from source.kafka_source_kit import payments_from

NOON = datetime(2026, 4, 25, 12, tzinfo=UTC)
MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))
FIRST = [{"name": "txn", "type": "string"}, {"name": "at", "type": MILLIS}, {"name": "amount", "type": "int"}]
"""The oldest writers: whole rupees under another name, times in milliseconds."""
SECOND = [
    {"name": "txn", "type": "string"},
    {"name": "at", "type": MILLIS},
    {"name": "paise", "type": "long", "aliases": ["amount"]},
    {"name": "shop", "type": "string", "default": "none"},
]
THIRD = [
    {"name": "txn", "type": "string"},
    {"name": "at", "type": MICROS},
    {"name": "paise", "type": "long", "aliases": ["amount"]},
    {"name": "shop", "type": ["null", "string"], "default": None},
    {"name": "note", "type": "string", "default": ""},
]


def record(fields: list[dict[str, Any]], name: str = "Payment") -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "shop", "fields": fields})


def payload(schema: str, row: Mapping[str, Any]) -> bytes:
    written = io.BytesIO()
    fastavro.schemaless_writer(written, fastavro.parse_schema(json.loads(schema)), row)
    return written.getvalue()


def framed(number: int, schema: str, row: Mapping[str, Any]) -> bytes:
    return struct.pack(">bI", 0, number) + payload(schema, row)


def payment(nth: int, **more: Any) -> dict[str, Any]:
    """The nth payment of a day: one a second."""
    return {"txn": f"t{nth}", "at": NOON + timedelta(seconds=nth), **more}


def avro_pipeline(
    folder: Path, broker: Client, topic: str, avro: Mapping[str, Any], **changes: Any
) -> Pipeline:
    kafka = {"servers": broker.servers, "topics": [topic], **changes.pop("kafka", {})}
    source = {"kafka": kafka, "format": {"avro": dict(avro)}, **changes.pop("source", {})}
    return payments_from(folder, source, **changes)


def pipeline_for(folder: Path, source: dict[str, Any]) -> Pipeline:
    return Pipeline.model_validate(
        {
            "name": "payments",
            "base": folder,
            "store": str(folder / "store"),
            "source": source,
            "event": {"time": "at", "id": "txn"},
            "watermark": {"delay": "1m", "max_future": None},
            "outputs": {"minutes": {"window": {"tumbling": "1m"}, "aggregates": {"payments": "count(*)"}}},
        }
    )


def decoder(reader: str, writers: dict[int, str]) -> AvroMessages:
    return AvroMessages(
        {number: parse_schema(text) for number, text in writers.items()}, reader=parse_schema(reader)
    )


def decoded(by: AvroMessages, messages: list[bytes]) -> list[dict[str, Any]]:
    """As a task does it."""
    task: AvroMessages = pickle.loads(pickle.dumps(by))
    return task.decode(messages, reading(by.reader).columns).to_pylist()


def object_file(schema: str, rows: list[bytes]) -> bytes:
    body, sync = b"".join(rows), bytes(range(1, 17))
    head = {"avro.schema": schema.encode(), "avro.codec": b"null"}
    meta = number(len(head)) + b"".join(text(key.encode()) + text(each) for key, each in head.items())
    block = number(len(rows)) + number(len(body)) + body
    return b"Obj\x01" + meta + b"\0" + sync + block + sync
