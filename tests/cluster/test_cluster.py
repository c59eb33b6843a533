"""On a real cluster, with a master and two workers that are processes of their own: the same tables as in one process,
also where a worker is killed in the middle of a job."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from cluster_kit import PATIENCE, Cluster, running_cluster
from latecomer.after.reading.reader import Reader
from latecomer.config.load import load_pipeline
from latecomer.running import run

PIPELINE = """
name: rides
store: ./{store}
source:
  files: {{path: ./in, format: json, order_by: seen}}
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


def pipeline(folder: Path, store: str) -> Path:
    file = folder / f"{store}.yaml"
    file.write_text(PIPELINE.format(store=store))
    return file


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def on(cluster: Cluster, python: str = sys.executable, options: str = "") -> dict[str, str]:
    """The environment of a driver on a cluster."""
    conf = "--conf spark.executor.memory=512m --conf spark.driver.host=127.0.0.1"
    return {
        **os.environ,
        "LATECOMER_MASTER": cluster.url,
        "LATECOMER_MEMORY": "512m",
        "PYSPARK_PYTHON": python,
        "PYSPARK_SUBMIT_ARGS": f"{conf} {options} pyspark-shell",
    }


def started(file: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "latecomer", "run", str(file), "--drain"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=4 * PATIENCE)
    assert process.returncode == 0, said
    return said


def tables(file: Path) -> dict[str, list[str]]:
    """Everything that was published and accounted for, in one order."""
    reader = Reader(load_pipeline(file))
    found: dict[str, pa.Table] = {"ledger": reader.ledger()}
    for name in ("minutes", "visits"):
        found[name] = reader.panes(name)
        found[f"late of {name}"] = reader.late(name)
    return {
        name: sorted(map(repr, rows.drop_columns(_of_the_run(rows)).to_pylist()))
        for name, rows in found.items()
    }


def _of_the_run(rows: pa.Table) -> list[str]:
    """What says when a run was."""
    return [name for name in rows.column_names if name in ("published_at", "origin", "position")]


def test_a_cluster_leaves_the_same_tables_and_the_doctor_looks_at_it(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    rides(tmp_path, files=4, rows=1_000)
    on_cluster, here = pipeline(tmp_path, "cluster"), pipeline(tmp_path, "here")
    said = ended(started(on_cluster, on(cluster)))
    run(load_pipeline(here), drain=True, spark=spark)
    assert tables(on_cluster) == tables(here)
    assert "Spark ran" in said
    looked_at(on(cluster))  # here, since a cluster takes long to start


@pytest.mark.long
@pytest.mark.parametrize("job", ["log", "windows"])
def test_a_worker_killed_in_a_job_leaves_the_same_tables(
    spark: SparkSession, tmp_path: Path, job: str
) -> None:
    rides(tmp_path, files=8, rows=100_000)
    on_cluster, here = pipeline(tmp_path, "cluster"), pipeline(tmp_path, "here")
    begun: dict[str, Callable[[], bool]] = {
        "log": lambda: any((tmp_path / "cluster" / "events").rglob("*.parquet")),
        "windows": lambda: any((tmp_path / "cluster" / "watermarks" / "_delta_log").glob("*.json")),
    }
    with running_cluster(tmp_path / "machines") as machines:
        process = started(on_cluster, on(machines))
        deadline = time.monotonic() + PATIENCE
        while not begun[job]() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        assert process.poll() is None, process.communicate()[0]
        machines.workers[0].kill()
        ended(process)
    run(load_pipeline(here), drain=True, spark=spark)
    assert tables(on_cluster) == tables(here)


def looked_at(environment: dict[str, str]) -> None:
    """The doctor looks at every executor."""
    said = subprocess.run(
        [sys.executable, "-m", "latecomer", "doctor", "--cluster"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    ).stdout
    found = [line for line in said.splitlines() if "executor on" in line]
    assert len(found) == 2, said
    assert all(line.startswith("ok") and "pyarrow" in line for line in found), said


@pytest.mark.long
def test_executors_get_by_with_a_packed_environment(spark: SparkSession, tmp_path: Path) -> None:
    """As docs/cluster.md has it; the machines themselves have no Python that could run a task."""
    packed, root = tmp_path / "packed", Path(__file__).parents[2]
    pip = [packed / "bin" / "pip", "install", "--quiet"]
    for command in (
        [sys.executable, "-m", "venv", "--copies", packed],
        [*pip, "--require-hashes", "-r", root / "requirements" / "run.txt"],
        [*pip, "--no-deps", "--no-build-isolation", root],
        ["tar", "-czf", tmp_path / "packed.tar.gz", "--exclude", "pyspark/jars", "-C", packed, "."],
    ):
        subprocess.run(command, check=True)
    shutil.rmtree(packed)
    rides(tmp_path, files=4, rows=1_000)
    on_cluster, here = pipeline(tmp_path, "cluster"), pipeline(tmp_path, "here")
    with running_cluster(tmp_path / "machines", python=tmp_path / "none") as machines:
        environment = on(machines, "./packed/bin/python", f"--archives {tmp_path}/packed.tar.gz#packed")
        looked_at(environment)
        ended(started(on_cluster, environment))
    run(load_pipeline(here), drain=True, spark=spark)
    assert tables(on_cluster) == tables(here)
