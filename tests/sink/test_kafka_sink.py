"""The Kafka sink against a real broker: what consumers with read_committed see, whatever happens to the writer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sink_kit import SHAPE, apply, insert, retract

from kafka_kit import Client, Record
from latecomer.config.sinks import KafkaSink
from latecomer.sink import PaneShape, SinkLogic, open_sink
from latecomer.testing import check_sink

HERE = Path(".")


def kafka_sink(kafka: Client, topic: str | None = None, **settings: Any) -> KafkaSink:
    return KafkaSink(servers=kafka.servers, topic=topic or kafka.new_name(), **settings)


def opened(sink: KafkaSink, pipeline: str = "upi", shape: PaneShape = SHAPE) -> SinkLogic:
    return open_sink(sink, HERE, pipeline, shape)


def rows_of(kafka: Client, sink: KafkaSink) -> list[dict[str, Any]]:
    """What a consumer has who reads all: every change, or the last value of each key."""
    assert sink.topic is not None
    found = kafka.consume(sink.topic)
    if sink.compacted:
        last = {record.key: record for record in found}
        found = [record for record in last.values() if record.value is not None]
    return [json.loads(record.value or b"") for record in found]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_kafka_topic_keeps_what_every_sink_promises(kafka: Client, compacted: bool) -> None:
    check_sink(
        lambda: kafka_sink(kafka, compacted=compacted, partitions=1),
        read=lambda sink: rows_of(kafka, sink),
    )
