"""On a real cluster, with a master and two workers that are processes of their own: the same tables as in one process,
also where a worker is killed in the middle of a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from cluster.rides_kit import EventLog, ended, on, pipeline, rides, started, tables
from cluster_kit import PATIENCE, Cluster, running_cluster
from latecomer.config.load import load_pipeline
from latecomer.engine.running import run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


def test_a_cluster_leaves_the_same_tables(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    rides(tmp_path, files=4, rows=1_000)
    on_cluster, here = pipeline(tmp_path, "cluster"), pipeline(tmp_path, "here")
    said = ended(started(on_cluster, on(cluster)))
    run(load_pipeline(here), drain=True, spark=spark)
    assert tables(on_cluster) == tables(here)
    assert "Spark ran" in said


@pytest.mark.long
def test_the_doctor_looks_at_every_executor(cluster: Cluster) -> None:
    """tests/spark/test_executors.py has the same of one."""
    looked_at(on(cluster))


JOBS = ("log", "windows")


def disturbed(
    spark: SparkSession, folder: Path, job: str, disturb: Callable[[Cluster], None], options: str = ""
) -> EventLog:
    """A run on a cluster to which something happens in a job leaves the tables of an undisturbed one."""
    rides(folder, files=8, rows=50_000)
    on_cluster, here = pipeline(folder, "cluster"), pipeline(folder, "here")
    log = EventLog(folder / "log")
    with running_cluster(folder / "machines") as machines:
        process = started(on_cluster, on(machines, options=f"{options} {log.options}"))
        log.wait_for(0, job, process)
        disturb(machines)
        ended(process)
    run(load_pipeline(here), drain=True, spark=spark)
    assert tables(on_cluster) == tables(here)
    return log


TASK_LOST = '"Reason":"ExecutorLostFailure"'


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_a_worker_killed_in_a_job_leaves_the_same_tables(
    spark: SparkSession, tmp_path: Path, job: str
) -> None:
    def kill(machines: Cluster) -> None:
        machines.workers[0].stall()  # it cannot be done with its task
        machines.workers[0].kill()

    assert disturbed(spark, tmp_path, job, kill).says(TASK_LOST)


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_an_executor_that_is_lost_is_replaced_and_leaves_the_same_tables(
    spark: SparkSession, tmp_path: Path, job: str
) -> None:
    """Its worker lives, and starts another."""

    def lose(machines: Cluster) -> None:
        for each in machines.workers[0].stall():
            with suppress(psutil.NoSuchProcess):
                each.kill()

    assert disturbed(spark, tmp_path, job, lose).says(TASK_LOST)


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_a_task_that_ran_twice_counts_once(spark: SparkSession, tmp_path: Path, job: str) -> None:
    """Speculation: an executor stands still for a while, its tasks are run elsewhere, and then it goes on with them.
    tests/faults/test_attempts.py attempts all tasks twice, in one process."""

    def stall(machines: Cluster) -> None:
        stalled = machines.workers[0].stall()
        time.sleep(15)
        for each in stalled:
            with suppress(psutil.NoSuchProcess):
                each.resume()

    eager = (
        "interval=100ms",
        "multiplier=0.1",
        "quantile=0.1",
        "minTaskRuntime=100ms",
        "efficiency.enabled=false",
    )
    speculation = ["spark.speculation=true", *(f"spark.speculation.{each}" for each in eager)]
    log = disturbed(spark, tmp_path, job, stall, " ".join(f"--conf {each}" for each in speculation))
    assert log.says('"Speculative":true')


@pytest.mark.long
@pytest.mark.parametrize("job", JOBS)
def test_a_worker_that_is_taken_out_of_service_leaves_the_same_tables(
    spark: SparkSession, tmp_path: Path, job: str
) -> None:
    """It is told so, as a node is whose machine goes: it takes no more tasks, and hands its blocks on."""

    def decommission(machines: Cluster) -> None:
        worker = machines.workers[0]
        worker.process.send_signal(signal.SIGPWR)
        worker.wait_for("Decommission worker")

    settings = ("spark.decommission.enabled=true", "spark.storage.decommission.enabled=true")
    disturbed(spark, tmp_path, job, decommission, " ".join(f"--conf {each}" for each in settings))
    # The executor ends once its blocks have found a place, which may be after the run.
    said = [each.read_text(errors="replace") for each in tmp_path.glob("machines/worker-0/work/*/*/stderr")]
    assert any("Will exit when finished decommissioning" in each for each in said), said


def looked_at(environment: dict[str, str], *options: str) -> None:
    """The doctor looks at every executor."""
    said = subprocess.run(
        [sys.executable, "-m", "latecomer", "doctor", "--cluster", *options],
        env=environment,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE,  # each executor unpacks an environment first
        check=False,
    ).stdout
    found = [line for line in said.splitlines() if "executor on" in line]
    assert len(found) == 2, said
    assert all(line.startswith("ok") and "pyarrow" in line for line in found), said


@pytest.mark.long
def test_executors_get_by_with_a_packed_environment(spark: SparkSession, tmp_path: Path) -> None:
    """The machines themselves have no Python that could run a task. The driver is told of Spark by its own settings."""
    latecomer = [sys.executable, "-m", "latecomer"]
    archive = tmp_path / "environment.tar.gz"
    said = subprocess.run(
        [*latecomer, "cluster", "pack", archive], check=True, capture_output=True, text=True
    )
    rides(tmp_path, files=4, rows=1_000)
    on_cluster, here = pipeline(tmp_path, "cluster"), pipeline(tmp_path, "here")
    settings = tmp_path / "conf"
    settings.mkdir()
    with running_cluster(tmp_path / "machines", python=tmp_path / "none") as machines:
        more = "spark.executor.memory 512m\nspark.driver.host 127.0.0.1\n"
        (settings / "spark-defaults.conf").write_text(f"{said.stdout}{more}")
        environment = {**os.environ, "SPARK_CONF_DIR": str(settings), "LATECOMER_MEMORY": "512m"}
        looked_at(environment, "--master", machines.url)
        ended(started(on_cluster, environment, "--master", machines.url))
    run(load_pipeline(here), drain=True, spark=spark)
    assert tables(on_cluster) == tables(here)


@pytest.mark.long
def test_an_executor_without_packages_is_told_what_helps(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    with running_cluster(tmp_path / "machines", workers=1, python=bare / "bin" / "python") as machines:
        environment = on(machines, str(bare / "bin" / "python"))
        said = subprocess.run(
            [sys.executable, "-m", "latecomer", "doctor", "--cluster"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=6 * PATIENCE,
            check=False,
        )
    assert said.returncode == 1
    assert "latecomer is missing" in said.stdout
    assert "latecomer cluster pack makes an archive of them" in said.stdout
