"""A real Spark cluster of this machine's: a master and workers, each a process of its own with a folder of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyspark

from latecomer.testing.servers import free_ports

PATIENCE = 60.0
_HOME = Path(pyspark.__file__).parent
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1"}
"""For processes that soon end, and for the executors that workers start: only Java's quick compiler."""
_JAVA = "-XX:+UseSerialGC -Dspark.decommission.enabled=true"


class Process:
    """A Java process of Spark's, in a folder and a process group of its own: what it starts ends with it."""

    def __init__(self, folder: Path, name: str, *command: str, python: Path) -> None:
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        self.log = folder / f"{name}.log"
        environment = {
            **os.environ,
            **QUICK_JAVA,
            "SPARK_HOME": str(_HOME),
            "SPARK_DAEMON_JAVA_OPTS": _JAVA,
            "SPARK_DAEMON_MEMORY": "256m",
            "PYSPARK_PYTHON": str(python),
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
            "TMPDIR": str(folder / "tmp"),
        }
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(_HOME / "bin" / "spark-class"), *command],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )

    def wait_for(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if found := re.search(pattern, self.log.read_text(errors="replace")):
                return found
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise AssertionError(
            f"{pattern} is not in {self.log}: {self.log.read_text(errors='replace')[-2000:]}"
        )

    def executors(self) -> list[psutil.Process]:
        """The executors that a worker has started, with their Python workers."""
        started = psutil.Process(self.process.pid).children(recursive=True)
        backends = [each for each in started if _runs(each, "CoarseGrainedExecutorBackend")]
        return [each for backend in backends for each in (backend, *backend.children(recursive=True))]

    def stall(self) -> list[psutil.Process]:
        """Have the executors stand still in what they are at, until they are resumed or killed."""
        deadline, stalled = time.monotonic() + PATIENCE, self.executors()
        while not stalled and time.monotonic() < deadline:
            stalled = self.executors()
        assert stalled
        for each in stalled:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        time.sleep(1.0)  # whatever task the driver has for them it gives them now
        return stalled

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Cluster:
    """A master, and workers with one core each."""

    def __init__(self, folder: Path, workers: int, python: Path) -> None:
        self.folder, self.python = folder, python
        self.port, *ports = free_ports(2 + workers)
        self.url = f"spark://127.0.0.1:{self.port}"
        self._ports = iter(ports)
        self.master = Process(
            folder / "master",
            "master",
            "org.apache.spark.deploy.master.Master",
            *("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(next(self._ports))),
            python=python,
        )
        self.master.wait_for("I have been elected leader|ALIVE")
        self.workers = [self._worker(nth) for nth in range(workers)]
        for worker in self.workers:
            worker.wait_for("Successfully registered with master")

    def _worker(self, nth: int) -> Process:
        return Process(
            self.folder / f"worker-{nth}",
            "worker",
            "org.apache.spark.deploy.worker.Worker",
            # No task is attempted twice on one host.
            *("--host", f"127.0.0.{nth + 1}", "--cores", "1", "--memory", "1g"),
            *("--work-dir", str(self.folder / f"worker-{nth}" / "work")),
            *("--webui-port", str(next(self._ports)), self.url),
            python=self.python,
        )

    def close(self) -> None:
        for each in (*self.workers, self.master):
            each.kill()


@contextmanager
def running_cluster(folder: Path, workers: int = 2, python: Path = Path(sys.executable)) -> Iterator[Cluster]:
    cluster = Cluster(folder, workers, python)
    try:
        yield cluster
    finally:
        cluster.close()


def _runs(process: psutil.Process, what: str) -> bool:
    """Whether it is a process of that kind, and has not ended meanwhile."""
    try:
        return what in " ".join(process.cmdline())
    except psutil.Error:
        return False
