"""The engines, each with its job: what it takes to run it, where its numbers are, and what it does with late events."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from bench import contenders
from bench.peers import feed
from bench.peers.checking import KEYS, NUMBERS, json_rows, standing
from bench.peers.environments import NotHere, python_of
from bench.processes import answer, contend
from latecomer.after.reading.reader import Reader
from latecomer.spark.packages import MavenPackage, Package, jars
from latecomer.testing.servers import running_kafka

FLINK_VERSION = "2.3.0"
FLINK = Package(
    f"Flink {FLINK_VERSION}",
    tuple(
        MavenPackage(f"org.apache.flink:{name}:{FLINK_VERSION}")
        for name in (
            *("flink-clients", "flink-table-planner-loader", "flink-table-runtime"),
            *("flink-table-api-java-bridge", "flink-json", "flink-connector-files"),
        )
    ),
)
JAVA_OPTIONS = [
    *("-Xmx4g", "--add-opens=java.base/java.util=ALL-UNNAMED"),
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
]
LATE_REFIRE = {
    "table.exec.emit.late-fire.enabled": "true",
    "table.exec.emit.late-fire.delay": "0 s",
    "table.exec.emit.allow-lateness": f"{int(feed.LATENESS.total_seconds())} s",
}
PATIENCE = 1800.0
"""How many seconds a peer may take."""


@dataclass(frozen=True)
class Task:
    """What an engine is given: the events, how many they are, and a folder to work in."""

    source: Path
    events: int
    work: Path


@dataclass(frozen=True)
class Engine:
    run: Callable[[Task], dict[str, Any]]
    """Do the job; `seconds` is how long it took, without starting a process or a session."""
    lacks: str
    """What latecomer does in that time, and this does not."""
    numbers: Callable[[Task], pl.DataFrame] = lambda task: standing(json_rows(task.work / "totals"))
    """The number that stands for each window and key."""


# Latecomer and Spark


def _contend(name: str, **more: str) -> Callable[[Task], dict[str, Any]]:
    return lambda task: contend(name, task.source, min(task.events, 250_000), task.work, **more)


def _of_latecomer(task: Task) -> pl.DataFrame:
    rows = ["--rows", str(min(task.events, 250_000)), "--work", str(task.work)]
    asked = contenders.arguments().parse_args(["latecomer", str(task.source), *rows])
    return _as_numbers(pl.from_arrow(Reader(contenders.pipeline_of(asked)).results("minute")))


def _of_native(task: Task) -> pl.DataFrame:
    found = pl.read_parquet(task.work / "totals" / "*.parquet")
    return _as_numbers(found.with_columns(window_start=pl.col("window").struct.field("start")))


def _as_numbers(found: Any) -> pl.DataFrame:
    moment = pl.col("window_start").cast(pl.Datetime("us", "UTC"))
    made: pl.DataFrame = found.select(moment, "merchant", *(pl.col(name).cast(pl.Int64) for name in NUMBERS))
    return made.unique(KEYS, keep="last")


# Flink SQL


def _flink_sql(task: Task, **settings: str) -> dict[str, Any]:
    if not shutil.which("javac"):
        raise NotHere("Java without its compiler: install a JDK")
    path = ":".join(map(str, jars(FLINK)))
    script = task.work / "job.sql"
    script.write_text(flink_statements(feed.lanes(task.source, task.work / "lanes"), task.work / "totals"))
    every = {
        "parallelism.default": str(feed.CORES),
        "execution.checkpointing.interval": "10 s",
        "table.local-time-zone": "UTC",
        **settings,
    }
    program = str(Path(__file__).with_name("FlinkSql.java"))
    given = [f"{name}={value}" for name, value in every.items()]
    command = ["java", *JAVA_OPTIONS, "-cp", path, program, str(script), *given]
    return answer(command, task.work / "errors", PATIENCE)


def flink_statements(source: Path, totals: Path) -> str:
    """The job. Debezium's changes are what a file can take where numbers change."""
    seconds = int(feed.DELAY.total_seconds())
    window = f"moment, INTERVAL '{int(feed.WINDOW.total_seconds())}' SECOND"
    return "\n;\n".join(
        (
            f"""CREATE TABLE events (
  event_time TIMESTAMP_LTZ(6), merchant STRING, paise BIGINT,
  moment AS CAST(event_time AS TIMESTAMP_LTZ(3)),
  WATERMARK FOR moment AS moment - INTERVAL '{seconds}' SECOND
) WITH (
  'connector' = 'filesystem', 'path' = '{source}', 'format' = 'json', 'json.timestamp-format.standard' = 'ISO-8601'
)""",
            f"""CREATE TABLE totals (window_start TIMESTAMP(3), merchant STRING, payments BIGINT, paise BIGINT)
WITH ('connector' = 'filesystem', 'path' = '{totals}', 'format' = 'debezium-json')""",
            f"""INSERT INTO totals SELECT TUMBLE_START({window}), merchant, COUNT(*), SUM(paise)
FROM events GROUP BY TUMBLE({window}), merchant""",
        )
    )


# Engines for Python, each in an environment of its own


def _python(requirement: str, module: str, *more: str, **settings: str) -> Callable[[Task], dict[str, Any]]:
    """A job of this folder; `{events}` among its arguments stands for how many there are."""

    def run(task: Task) -> dict[str, Any]:
        arguments = [each.format(events=task.events) for each in more]
        return _job(task, requirement, module, arguments, settings)

    return run


def _job(
    task: Task, requirement: str, module: str, arguments: list[str], settings: dict[str, str] | None = None
) -> dict[str, Any]:
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root, **(settings or {})}
    command = [str(python_of(requirement)), "-m", f"bench.peers.{module}", str(task.source), str(task.work)]
    return answer([*command, *arguments], task.work / "errors", PATIENCE, environment)


def _quix(task: Task) -> dict[str, Any]:
    python_of(QUIX)
    with running_kafka(task.work / "kafka") as broker:
        topic = _topic(broker.servers, task.source)
        return _job(task, QUIX, "quix_job", [broker.servers, topic, str(task.events)])


def _topic(servers: str, source: Path, name: str = "events") -> str:
    """The events in a topic with a partition, keyed by merchant: Quix reads nothing else, and groups by key."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 50, "queue.buffering.max.messages": 10**6}
    )
    for file in feed.files(source):
        for line in file.read_bytes().splitlines():
            producer.produce(name, line, key=feed.parsed(line)[0])
        producer.flush()
    return name


QUIX = "quixstreams==3.28.1"
ENGINES: dict[str, Engine] = {
    "latecomer": Engine(_contend("latecomer", end="drain"), "", _of_latecomer),
    "Spark + archive": Engine(
        _contend("native"), "late re-fire, side output, ledger; drops late events", _of_native
    ),
    "Flink SQL": Engine(_flink_sql, "late re-fire, side output, archive, ledger; drops late events"),
    "Flink SQL, late re-fire": Engine(
        lambda task: _flink_sql(task, **LATE_REFIRE), "side output, archive, ledger; an experimental setting"
    ),
    "PyFlink": Engine(_python("apache-flink==2.2.1", "pyflink_job"), "archive, ledger"),
    "Bytewax": Engine(
        _python("bytewax==0.21.1", "bytewax_job"),
        "late re-fire, archive, ledger; a watermark for each key alone",
    ),
    "Pathway": Engine(
        _python("pathway==0.33.0", "pathway_job", "{events}", PATHWAY_THREADS=str(feed.CORES)),
        "side output, archive, ledger, watermarks; publishes every change",
    ),
    "Quix Streams": Engine(
        _quix, "late re-fire, archive, ledger; reads Kafka, in one process; no window closes at the end"
    ),
}
