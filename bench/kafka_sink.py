"""How many panes a second go to a topic: `python -m bench.kafka_sink --work FOLDER`.

A real broker on this machine, batches of panes as an output publishes them, each in one transaction. Beside it the
same bytes, ready made, through a producer that knows no transactions: what the client and the broker can do.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer

from latecomer.config.sinks import KafkaSink
from latecomer.sink import PaneShape, open_sink
from latecomer.sink.kafka_records import KafkaRecord, RecordMaker

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kafka_kit import Broker

MOMENT = pa.timestamp("us", "UTC")
START, MINUTE = 1_777_125_600_000_000, 60_000_000
COLUMNS = {
    "window_start": MOMENT,
    "window_end": MOMENT,
    "merchant": pa.string(),
    "paise": pa.decimal128(28, 0),
    "payments": pa.int64(),
    "mean": pa.float64(),
    "sequence": pa.int32(),
    "timing": pa.string(),
    "op": pa.string(),
    "is_last": pa.bool_(),
    "batch": pa.int64(),
    "fired_at": MOMENT,
}
SHAPE = PaneShape("totals", ("merchant",), ("paise", "payments", "mean"), pa.schema(list(COLUMNS.items())))


def panes(batch: int, rows: int) -> pa.Table:
    """A window that closes: a pane for each of its keys."""
    start = START + batch * MINUTE
    columns = {
        "window_start": [start] * rows,
        "window_end": [start + MINUTE] * rows,
        "merchant": [f"merchant-{nth:06d}" for nth in range(rows)],
        "paise": [Decimal(nth * 1_000_003) for nth in range(rows)],
        "payments": list(range(rows)),
        "mean": [nth / 7 for nth in range(rows)],
        "sequence": [0] * rows,
        "timing": ["ON_TIME"] * rows,
        "op": ["insert"] * rows,
        "is_last": [False] * rows,
        "batch": [batch] * rows,
        "fired_at": [start + 2 * MINUTE] * rows,
    }
    return pa.table({name: pa.array(columns[name], kind) for name, kind in COLUMNS.items()})


def through_sink(broker: Broker, batches: list[pa.Table], compacted: bool) -> list[tuple[float, float]]:
    sink = KafkaSink(servers=broker.servers, topic=broker.new_name(), partitions=4, compacted=compacted)
    logic = open_sink(sink, Path(), "bench", SHAPE)
    seconds = [timed(lambda nth=nth, each=each: logic.apply(nth, each)) for nth, each in enumerate(batches)]
    logic.close()
    assert sink.topic is not None  # noqa: S101
    found = len(broker.consume(sink.topic))
    if found != sum(map(len, batches)):
        raise SystemExit(f"{found} records can be read, and {sum(map(len, batches))} were written")
    return seconds


def bare(broker: Broker, batches: list[pa.Table]) -> list[tuple[float, float]]:
    topic = broker.create_topic(partitions=4)
    producer = Producer({**broker.settings, "compression.type": "lz4", "linger.ms": 50, "acks": "all"})
    made = [list(RecordMaker(SHAPE, "bench/totals", False).of(nth, each)) for nth, each in enumerate(batches)]
    return [timed(lambda records=records: send(producer, topic, records)) for records in made]


def send(producer: Any, topic: str, records: list[KafkaRecord]) -> None:
    for record in records:
        while True:
            try:
                producer.produce(topic, record.value, record.key, headers=record.headers)
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush()


def timed(act: Callable[[], None]) -> tuple[float, float]:
    """Seconds by the clock, and of this process's processor time."""
    began, spent = time.monotonic(), time.process_time()
    act()
    return time.monotonic() - began, time.process_time() - spent


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.kafka_sink", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    batches = [panes(batch, asked.rows) for batch in range(asked.batches)]
    broker = Broker(asked.work / "kafka").start()
    result = {
        "a producer alone": bare(broker, batches),
        "changes": through_sink(broker, batches, compacted=False),
        "compacted": through_sink(broker, batches, compacted=True),
    }
    broker.kill()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
