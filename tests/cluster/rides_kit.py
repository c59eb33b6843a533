"""Rides in files, a pipeline over them, and a run of it on a cluster by a driver of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pyarrow as pa

from cluster_kit import PATIENCE, QUICK_JAVA, Cluster
from latecomer.after.reading.reader import Reader
from latecomer.config.load import load_pipeline
from latecomer.store.delta.table import Table

PIPELINE = """
name: rides
store: "{at}/{store}"
source:
  files: {{path: "{at}/in", format: json, order_by: seen, max_files_per_batch: {most}}}
  columns: {{at: timestamp, seen: timestamp, id: string, city: string, paise: bigint}}
event: {{time: at, id: id, partition: city}}
watermark: {{delay: 20s, idle_after: 2m}}
ledger: [paise]
outputs:
  minutes:
    window: {{tumbling: 1m}}
    by: [city]
    aggregates: {{n: count(*), paise: sum(paise), riders: approx_count_distinct(id)}}
    allowed_lateness: 5m
    late: retract
    too_late: side_output
    sinks: [{{delta: "{at}/{store}-results"}}]
  visits:
    window: {{session: 30s}}
    by: [city]
    aggregates: {{n: count(*), paise: sum(paise)}}
    late: update
"""


def rides(folder: Path, files: int, rows: int) -> None:
    chance = Random(7)
    (folder / "in").mkdir(parents=True)
    for nth in range(files):
        with open(folder / "in" / f"{nth:03d}.json", "w", encoding="utf-8") as lines:
            for place in range(rows):
                seen = 1_700_000_000 + (nth * rows + place) * 3600 / (files * rows)
                at = seen - chance.choice((0, 1, 2, 5, 40, 100, 2000))
                ride = {
                    "at": _moment(at),
                    "seen": _moment(seen),
                    "id": f"{nth}-{place if place % 50 else 0}",
                    "city": chance.choice(("pune", "agra", "delhi", "kochi", None)),
                    "paise": chance.randrange(10_000),
                }
                lines.write("{broken\n" if place % 97 == 96 else json.dumps(ride) + "\n")


def _moment(seconds: float) -> str:
    whole = int(seconds)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f".{int((seconds - whole) * 1e6):06d}Z"


def pipeline(folder: Path, store: str, at: str = ".", most: int = 1000, more: str = "") -> Path:
    """A pipeline file whose store, source and sink are in one place."""
    file = folder / f"{store}.yaml"
    file.write_text(PIPELINE.format(store=store, at=at, most=most) + more)
    return file


def on(cluster: Cluster, python: str = sys.executable, options: str = "") -> dict[str, str]:
    """The environment of a driver on a cluster."""
    conf = "--conf spark.executor.memory=512m --conf spark.driver.host=127.0.0.1"
    return {
        **os.environ,
        **QUICK_JAVA,
        "LATECOMER_MASTER": cluster.url,
        "LATECOMER_MEMORY": "512m",
        "PYSPARK_PYTHON": python,
        "PYSPARK_SUBMIT_ARGS": f"{conf} {options} pyspark-shell",
    }


class EventLog:
    """What Spark says of its jobs and tasks while a driver runs."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        settings = {
            "enabled": "true",
            "dir": folder.as_uri(),
            "compress": "false",
            "rolling.enabled": "false",
        }
        self.options = " ".join(f"--conf spark.eventLog.{name}={value}" for name, value in settings.items())

    def says(self, pattern: str) -> int:
        """How often it says something."""
        said = b"".join(file.read_bytes() for file in self._folder.iterdir())
        return len(re.findall(pattern.encode(), said))

    def wait_for(self, batch: int, job: str, driver: subprocess.Popen[str], executors: int = 2) -> None:
        """Wait until a job of a batch has begun, and has its executors for itself."""

        def begun() -> bool:
            jobs = self.says('"SparkListenerJobStart"') - self.says('"SparkListenerJobEnd"')
            there = self.says('"SparkListenerExecutorAdded"') >= executors
            return there and jobs <= 1 and self.says(f'"batch {batch} [^"]+ {job}"') > 0

        deadline = time.monotonic() + 10 * PATIENCE
        while not begun() and driver.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert driver.poll() is None, driver.communicate()[0]


def started(file: Path, environment: dict[str, str], *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "latecomer", "run", str(file), "--drain", *options],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=10 * PATIENCE)
    assert process.returncode == 0, said
    return said


def tables(file: Path) -> dict[str, list[str]]:
    """Everything that was published and accounted for, in one order."""
    asked = load_pipeline(file)
    reader = Reader(asked)
    found: dict[str, pa.Table] = {"ledger": reader.ledger()}
    for name in asked.outputs:
        found[name] = reader.panes(name)
        found[f"late of {name}"] = reader.late(name)
    (sink,) = asked.outputs["minutes"].sinks
    found["sink"] = Table(asked.place(sink.place), None).query("select * from t")
    return {
        name: sorted(map(repr, rows.drop_columns(_of_the_run(rows)).to_pylist()))
        for name, rows in found.items()
    }


def _of_the_run(rows: pa.Table) -> list[str]:
    """What says when a run was, and where its files were."""
    return [name for name in rows.column_names if name in ("published_at", "origin", "position")]
