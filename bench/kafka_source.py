"""Topics of a real broker as a source: `python -m bench.kafka_source throughput|load … --work FOLDER`.

`throughput` reads the events of a folder from a topic of eight partitions that has them all. `load` reads a topic of
many partitions while a producer, a process of its own, writes so many events a second to it.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from bench.contenders import output
from bench.usage import Memory, processor_seconds
from bench.workload import COLUMNS
from latecomer.after.reading.reader import Reader
from latecomer.config.kafka import KafkaTopics
from latecomer.config.models import Event, Pipeline
from latecomer.config.outputs import Output
from latecomer.config.sources import Source
from latecomer.engine.ledger.report import BatchReport
from latecomer.engine.running import run
from latecomer.model.strategies import Bounded
from latecomer.source.choose import source_of
from latecomer.spark.session import build_session

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kafka_kit import Broker, Client

TOWERS = 8
JAVA = ("-Xmx1g",)
"""The broker shares the cores with what is measured: as users run it, with the better compiler."""


def pipeline(work: Path, servers: str, topic: str, rows: int, out: Output) -> Pipeline:
    return Pipeline(
        name="bench",
        store=str(work / "store"),
        source=Source(
            kafka=KafkaTopics(servers=servers, topics=(topic,), max_rows_per_batch=rows), columns=COLUMNS
        ),
        event=Event(time="event_time"),
        watermark=Bounded("30s"),
        outputs={"minute": out},
        ledger=("paise",),
    )


def session(made: Pipeline, work: Path) -> Any:
    settings = {"spark.driver.memory": "4g", **source_of(made, COLUMNS).session()}
    return build_session("bench", work / "spark.log", **settings)


def throughput(source: Path, rows: int, work: Path) -> dict[str, Any]:
    broker = Broker(work / "kafka", java=JAVA).start()
    topic = broker.create_topic(partitions=TOWERS, retention_ms="-1")
    producer = Producer({**broker.settings, "linger.ms": 50, "compression.type": "lz4"})
    events = 0
    for file in sorted(source.glob("part-*.json")):
        for line in file.read_bytes().splitlines():
            send(producer, topic, line, int(json.loads(line)["tower"][-1]))
            events += 1
    producer.flush()
    made = pipeline(work, broker.servers, topic, rows, output("tumbling"))
    spark, batches = session(made, work), list[float]()
    others = [broker.process.pid] if broker.process else []
    marks = [processor_seconds(others)]

    def watch(report: BatchReport) -> None:
        if report.kind == "data":
            batches.append(report.seconds)
            marks.append(processor_seconds(others))

    began = time.monotonic()
    run(made, drain=True, spark=spark, watch=watch)
    seconds = time.monotonic() - began
    broker.kill()
    worked = [after - before for before, after in pairwise(marks)]
    return {"seconds": seconds, "worked": worked, "batches": batches, "events": events}


def send(producer: Any, topic: str, value: bytes, partition: int) -> None:
    while True:
        try:
            producer.produce(topic, value, partition=partition)
            return
        except BufferError:
            producer.poll(0.05)


def load(seconds: float, rate: int, partitions: int, work: Path) -> dict[str, Any]:
    broker = Broker(work / "kafka", java=JAVA, log_retention_minutes="15").start()
    topic = broker.create_topic(partitions=partitions)
    made = pipeline(work, broker.servers, topic, 2_000_000, output("tumbling"))
    spark, memory, stop = session(made, work), Memory(), threading.Event()
    samples = list[dict[str, float]]()
    began = time.monotonic()

    def watch(report: BatchReport) -> None:
        if report.kind == "data":
            samples.append(
                {
                    "at": time.monotonic() - began,
                    "rows": report.received.rows,
                    "seconds": report.seconds,
                    "unread": report.unread or 0,
                    "memory": memory.now,
                }
            )
            tell(samples)

    def tell(samples: list[dict[str, float]]) -> None:
        last = samples[-1]
        speed, unread = last["rows"] / last["seconds"], f"{last['unread']:,}"
        told = f"{last['at']:.0f} s: {last['rows']:,} rows at {speed:,.0f}/s, {unread} unread"
        print(told, flush=True)

    command = [sys.executable, "-m", "bench.kafka_source", "produce", broker.servers, topic]
    writing = subprocess.Popen(
        [*command, str(seconds), str(rate), "--work", str(work)], stdout=subprocess.PIPE
    )

    def end() -> None:
        told, _ = writing.communicate()
        samples.append({"written": json.loads(told)["written"]})
        stop.set()

    threading.Thread(target=end).start()
    run(made, spark=spark, stop=stop, watch=watch)
    print(f"{time.monotonic() - began:.0f} s: reading the rest", flush=True)
    run(made, drain=True, spark=spark)
    print(f"{time.monotonic() - began:.0f} s: all is read", flush=True)
    written = next(each["written"] for each in samples if "written" in each)
    stands = Reader(made).ledger_totals().to_pylist()
    received = next(int(row["received"]) for row in stands if row["unit"] == "events")
    broker.kill()
    return {
        "written": written,
        "received": received,
        "samples": [each for each in samples if "at" in each],
    }


def produce(servers: str, topic: str, seconds: float, rate: int) -> dict[str, int]:
    """So many events a second, a tenth of a second's at a time; one in 200 is minutes late."""
    producer = Producer({**Client(servers).settings, "linger.ms": 200, "compression.type": "lz4"})
    partitions, chance, written = len(Client(servers).partitions(topic)), random.Random(1), 0  # noqa: S311
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        now = datetime.now(UTC)
        times = [(now - timedelta(seconds=behind)).isoformat() for behind in (0.1, 0.5, 1, 2, 5, 300)]
        for _ in range(max(0, int(passed * rate) - written)):
            at = times[5 if chance.random() < 0.005 else written % 5]
            value = (
                f'{{"event_time":"{at}","arrival_time":"{times[0]}","tower":"tower-{written % TOWERS}",'
                f'"merchant":"merchant-{chance.randrange(10_000)}","paise":{written % 50_000},"status":"SUCCESS"}}'
            )
            send(producer, topic, value.encode(), written % partitions)
            written += 1
        producer.poll(0)
        time.sleep(0.02)
    producer.flush()
    return {"written": written}


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.kafka_source", description=__doc__)
    parser.add_argument("what", choices=["throughput", "load", "produce"])
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--rows", type=int, default=250_000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=int, default=50_000)
    parser.add_argument("--partitions", type=int, default=256)
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    if asked.what == "throughput":
        result: dict[str, Any] = throughput(Path(asked.rest[0]), asked.rows, asked.work)
    elif asked.what == "load":
        result = load(asked.seconds, asked.rate, asked.partitions, asked.work)
    else:
        servers, topic, seconds, rate = asked.rest
        result = produce(servers, topic, float(seconds), int(rate))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
