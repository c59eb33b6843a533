"""The Spark session that latecomer starts."""

from __future__ import annotations

import ipaddress
import os
import stat
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from latecomer.spark.base import Buckets, Parted
from latecomer.spark.runner import SparkRunner
from latecomer.spark.session import own_session


def test_spark_and_its_workers_listen_on_loopback_alone(spark: SparkSession) -> None:
    SparkRunner(spark).run("a task", abs, [1])  # so that there are workers
    listening = _listening(psutil.Process().children(recursive=True))
    java = [ip for name, ip in listening if name.endswith("java")]
    python = [ip for name, ip in listening if "latecomer.spark.daemon" in name]
    assert len(java) >= 2, "the driver and its blocks have a port each"
    assert python, "Spark asks there for workers"
    assert [ip for ip in [*java, *python] if not _of_loopback(ip)] == []
    assert spark.sparkContext.uiWebUrl is None


def _listening(processes: Sequence[psutil.Process]) -> list[tuple[str, str]]:
    """The command and the address of each port; a process that ends meanwhile has none."""
    found = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            command = process.cmdline()
            if not command:  # a zombie has none
                continue
            name = next((word for word in command if word == "latecomer.spark.daemon"), command[0])
            for port in process.net_connections(kind="inet"):
                if port.status == psutil.CONN_LISTEN:
                    found.append((name, port.laddr.ip))
    return found


def test_a_process_that_has_ended_listens_nowhere() -> None:
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is still in the list
    try:
        assert _listening([psutil.Process(ended.pid)]) == []
    finally:
        ended.wait()


def test_what_tasks_shuffle_and_are_given_is_for_this_user_alone(spark: SparkSession) -> None:
    """Spark gives its folders the modes of the umask: rows of users stand in the files there."""
    with_buckets = Buckets(lambda _task, parts: parts, [0, 1])
    SparkRunner(spark).run("a shuffle", lambda nth: Parted(nth, {0: "row", 1: "row"}), [1, 2], with_buckets)
    found = spark._jvm.org.apache.spark.SparkEnv.get().blockManager().diskBlockManager().localDirs()
    folders = [Path(str(each)) for each in found]
    assert any(file.name.startswith("shuffle") for folder in folders for file in folder.rglob("*"))
    folders.append(Path(spark.sparkContext._temp_dir).parent)
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in folders] == [0o700] * len(folders)


def _of_loopback(address: str) -> bool:
    found = ipaddress.ip_address(address)
    return (getattr(found, "ipv4_mapped", None) or found).is_loopback


def test_java_classes_are_looked_up_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    session, asked = own_session(spark), list[str]()
    look_up = JVMView.__getattr__

    def counted(jvm: JVMView, name: str) -> object:
        asked.append(name)
        return look_up(jvm, name)

    monkeypatch.setattr(JVMView, "__getattr__", counted)
    session.range(3).select(F.col("id"), F.expr("id + 1 as more")).groupBy("more").agg(F.max("id")).toArrow()
    assert asked == []


def test_the_tests_session_has_forgotten_about_other_storage(spark: SparkSession) -> None:
    """Otherwise every test pays for it."""
    state = own_session(spark)._jsparkSession.sessionState()
    names = set(map(str, state.newHadoopConf().getPropsWithPrefix("").keySet()))
    assert not {name for name in names if name.startswith(("yarn.", "fs.s3a.", "ipc."))}
    assert "mapreduce.fileoutputcommitter.algorithm.version" in names


def test_jobs_of_many_threads_run_in_this_python(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session may be a user's, whose Python is set back after each job is made, and not while another is."""
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/not/there/python3")
    runner = SparkRunner(spark)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda nth: runner.run(f"task {nth}", abs, [-nth]).tasks, range(12)))
    assert made == [[nth] for nth in range(12)]
    assert spark.sparkContext.pythonExec == "/not/there/python3"
