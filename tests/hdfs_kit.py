"""An HDFS for tests: a NameNode and two DataNodes of Hadoop in one process, with a folder for each test.

`shared_server` is one for all processes of a test run. Its jars come through the resolver of
`latecomer.spark.packages`, and are those of `CHECKSUMS`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from latecomer.errors import MachineError
from latecomer.objects.locations import Url
from latecomer.spark.packages import MavenPackage, Package, jars
from latecomer.testing.servers import SMALL_JAVA, free_ports
from server_guard import shared

HADOOP_VERSION = "3.4.2"
HADOOP = Package(
    f"Hadoop {HADOOP_VERSION}",
    (MavenPackage(f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}"),),
)
CHECKSUMS = {
    "hadoop-client-api": "607c0299f4df33013bd0a0f37c8cf255c635bbaddd247b8fec68c210cc17d19f",
    "hadoop-client-minicluster": "ae2406c544825b7734b8aad4f87eff60d9ec422284f0b16c2856032083b63c77",
    "hadoop-client-runtime": "18d071c7f72f8a946677b398a57af9c7afa2dd41a81023c310f99373fec200b3",
}
"""SHA-256 of the jars that have Hadoop's classes."""
CLUSTER = "org.apache.hadoop.test.MiniDFSClusterManager"
PATIENCE = 60.0


@dataclass(frozen=True)
class Folder:
    """A folder of a test's own."""

    authority: str
    name: str = field(default_factory=lambda: f"test-{uuid.uuid4().hex[:12]}")

    @property
    def url(self) -> Url:
        return Url(f"hdfs://{self.authority}/{self.name}")

    @property
    def options(self) -> Mapping[str, object]:
        """What a pipeline file says of it: nothing."""
        return {}


def require_server() -> None:
    """Have what it needs at hand: `MachineError` where that cannot be had."""
    if importlib.util.find_spec("hdfs_native") is None:
        raise MachineError("hdfs-native is not installed; make setup installs it")
    _classpath()


def _classpath() -> str:
    found = jars(HADOOP)
    for artifact, checksum in CHECKSUMS.items():
        (jar,) = (each for each in found if each.name.endswith(f"{artifact}-{HADOOP_VERSION}.jar"))
        with open(jar, "rb") as opened:
            actual = hashlib.file_digest(opened, "sha256").hexdigest()
        if actual != checksum:
            raise MachineError(f"{jar} is not the one that was released; remove its folder, and try again")
    return os.pathsep.join(map(str, found))


def shared_server(folder: Path) -> str:
    """Host and port of the NameNode that the processes of a test run share."""
    return shared(folder, start_server, lambda _, process: _await_answer(folder, process))


def start_server(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Have its process started; it does not answer yet."""
    (port,) = free_ports(1)
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    about = (f"-Dtest.build.data={folder / 'data'}", "-Xmx512m", *SMALL_JAVA[1:])
    asked = ("-format", "-datanodes", "2", "-nnport", str(port), "-httpport", "0")
    command = [java, *about, "-cp", _classpath(), CLUSTER, *asked, "-writeDetails", "details.json"]
    with open(folder / "hdfs.log", "w") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return process, f"127.0.0.1:{port}"


def _await_answer(folder: Path, process: subprocess.Popen[bytes]) -> None:
    """It writes its details once NameNode and DataNodes answer."""
    until, details = time.monotonic() + PATIENCE, folder / "details.json"
    while time.monotonic() < until and process.poll() is None:
        if details.exists() and details.stat().st_size:
            return
        time.sleep(0.1)
    raise AssertionError("HDFS does not answer; see hdfs.log")
