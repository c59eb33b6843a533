"""Servers for a test: a Kafka broker and a Postgres, each in a folder and on free ports.

    with running_kafka(folder / "kafka") as broker, running_postgres() as database:
        ...broker.servers, database.url_with_password

The broker is one node; its jars are downloaded once (`latecomer.spark.packages`). Postgres is started from the
binaries of the machine. Both are set up to start quickly, not to keep data.
"""

from __future__ import annotations

import atexit
import base64
import contextlib
import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from latecomer.errors import MachineError
from latecomer.spark.java import spark_jars
from latecomer.spark.packages import MavenPackage, Package, jars

KAFKA_VERSION = "4.1.1"
KAFKA = Package(
    f"Kafka {KAFKA_VERSION}",
    (
        MavenPackage(f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}"),
        MavenPackage("org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"),
    ),
)
PATIENCE = 60.0
"""The seconds that a server may take to start or to end."""
USER, PASSWORD = "ana", "s3cret-9f2c"
NO_POSTGRES = (
    "no Postgres here: neither initdb on the PATH nor /usr/lib/postgresql; install Postgres (Debian: apt install "
    "postgresql), or name the folder of its binaries in LATECOMER_TEST_POSTGRES"
)
SMALL_JAVA = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""Quick to start and small, but slow under load."""
_KAFKA_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "num.network.threads": "1",
    "num.io.threads": "2",
}


class KafkaServer:
    """A broker with its data in a folder: it can be stopped or killed, and started again with the same data."""

    def __init__(
        self, folder: Path, settings: Mapping[str, str] | None = None, java: Sequence[str] = SMALL_JAVA
    ) -> None:
        port, controller = free_ports(2)
        self.java = java
        self.port, self.controller_port, self.folder = port, controller, folder
        self.servers = f"127.0.0.1:{port}"
        self.process: subprocess.Popen[bytes] | None = None
        self.settings = {
            **_KAFKA_SETTINGS,
            "log.dirs": str(folder / "data"),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            **(settings or {}),
        }

    def launch(self) -> subprocess.Popen[bytes]:
        """Start its process; it does not answer yet."""
        if not (self.folder / "data").exists():
            self._format()
        self.process = self._java("kafka.Kafka", str(self.folder / "server.properties"))
        return self.process

    def wait_until_it_answers(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        client = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.process is not None and self.process.poll() is None:
            with contextlib.suppress(KafkaException):
                if client.list_topics(timeout=1).brokers:
                    return
        raise MachineError(f"the Kafka broker does not start; it said: {self._log_tail()}")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(PATIENCE)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(PATIENCE)

    def _format(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = self.folder / "server.properties"
        properties.write_text("\n".join(f"{name}={value}" for name, value in self.settings.items()))
        # An id with a hyphen at the beginning would be read as an option.
        cluster = "L" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        tool = ("kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(properties))
        if self._java(*tool).wait(PATIENCE) != 0:
            raise MachineError(f"the folder of the Kafka broker cannot be made; it said: {self._log_tail()}")

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        scala = next(spark_jars().glob("scala-library-*.jar"))
        classpath = os.pathsep.join([*map(str, jars(KAFKA)), str(scala)])
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home, "bin", "java")) if home else "java"
        with open(self.folder / "broker.log", "ab") as log:
            return subprocess.Popen(
                [java, *self.java, "-cp", classpath, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log_tail(self) -> str:
        return (self.folder / "broker.log").read_text(errors="replace")[-2000:]


@contextlib.contextmanager
def running_kafka(folder: Path) -> Iterator[KafkaServer]:
    """A broker that answers, until the block ends."""
    server = KafkaServer(folder)
    try:
        server.launch()
        server.wait_until_it_answers()
        yield server
    finally:
        server.kill()


@dataclass(frozen=True)
class PostgresServer:
    """A server that asks for a password, in a folder."""

    port: int
    folder: Path
    binaries: Path
    durable: bool = False
    """Whether what it commits survives a power cut, which costs time."""

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    @property
    def url_with_password(self) -> str:
        return self.url.replace("@", f":{PASSWORD}@")

    def start(self) -> None:
        fsync = "on" if self.durable else "off"
        settings = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync={fsync}"
        self._control("-o", settings, "start")

    def stop(self, how: str = "immediate") -> None:
        self._control("-m", how, "stop")

    @property
    def pid(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])

    @property
    def is_up(self) -> bool:
        try:
            os.kill(self.pid, 0)
        except PermissionError:
            return True
        except (OSError, ValueError):
            return False
        return True

    def make(self) -> None:
        """Make its files. Postgres refuses to run as root: then it runs as nobody."""
        (self.folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in (self.folder, self.folder / "password"):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        asks = ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={self.folder / 'password'}"]
        initdb, data = str(self.binaries / "initdb"), str(self.folder / "data")
        self._run([initdb, "-D", data, "--no-sync", "--encoding=UTF8", *asks])

    def _control(self, *options: str) -> None:
        control = [str(self.binaries / "pg_ctl"), "-D", str(self.folder / "data"), "-w"]
        self._run([*control, "-l", str(self.folder / "log"), *options])

    def _run(self, command: Sequence[str]) -> None:
        unprivileged = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
        done = subprocess.run(
            [*unprivileged, *command],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise MachineError(f"{Path(command[0]).name} of Postgres failed; it said: {done.stdout[-2000:]}")


def postgres_binaries() -> Path | None:
    """Where initdb and pg_ctl are: in the folder LATECOMER_TEST_POSTGRES, on the PATH, or where Debian
    puts them."""
    named = os.environ.get("LATECOMER_TEST_POSTGRES")
    on_path = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places = [Path(named)] if named else [*([Path(on_path).parent] if on_path else []), *debian]
    return next((place for place in places if (place / "initdb").exists()), None)


@contextlib.contextmanager
def running_postgres(binaries: Path | None = None, durable: bool = False) -> Iterator[PostgresServer]:
    """A server with an empty database in a temporary folder, until the block ends."""
    binaries = binaries or postgres_binaries()
    if binaries is None:
        raise MachineError(NO_POSTGRES)
    folder = Path(tempfile.mkdtemp(prefix="latecomer-postgres-"))
    (port,) = free_ports(1)
    server = PostgresServer(port, folder, binaries, durable)
    try:
        server.make()
        server.start()
        yield server
    finally:
        if server.is_up:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Ports that are free, and reserved until this process ends. They are below the range of outgoing connections,
    which could take the port of a server that is down."""
    ports: list[int] = []
    while len(ports) < count:
        port = random.randrange(10_000, 16_000)  # noqa: S311
        if _claim(port):
            ports.append(port)
    return ports


_claims = contextlib.ExitStack()
atexit.register(_claims.close)


def _claim(port: int) -> bool:
    """Reserve a port until this process ends, and say whether it was free. Servers need the TCP port, so the UDP port
    of the same number is the reservation."""
    address = ("127.0.0.1", port)
    claim = socket.socket(type=socket.SOCK_DGRAM)
    try:
        claim.bind(address)
        with socket.socket() as server:
            server.bind(address)
    except OSError:
        claim.close()
        return False
    _claims.enter_context(claim)
    return True
