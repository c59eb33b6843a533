"""A real Postgres for the tests, started from its binaries in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

USER, PASSWORD = "ana", "s3cret-9f2c"
MISSING = "no Postgres here; LATECOMER_TEST_POSTGRES names the folder of its binaries"


@dataclass(frozen=True)
class Postgres:
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

    def ask(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        return ask_at(self.url_with_password, sql, *values)

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
        return (self.folder / "data" / "postmaster.pid").exists() and psutil.pid_exists(self.pid)

    def kill(self) -> None:
        """SIGKILL to all of the server's processes."""
        server = psutil.Process(self.pid)
        doomed = [server, *server.children(recursive=True)]
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(doomed, timeout=10)

    def kill_backends(self, name: str = "latecomer") -> int:
        """SIGKILL to the processes that serve one program: with them the server restarts itself."""
        pids = [
            row["pid"]
            for row in self.ask("select pid from pg_stat_activity where application_name = %s", name)
        ]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)

    def end_backends(self, name: str = "latecomer") -> int:
        return len(
            self.ask(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", name
            )
        )

    def _control(self, *options: str) -> None:
        control = [str(self.binaries / "pg_ctl"), "-D", str(self.folder / "data"), "-w"]
        _as_nobody(self.folder, [*control, "-l", str(self.folder / "log"), *options])


def ask_at(target: str, sql: str, *values: Any) -> list[dict[str, Any]]:
    """The rows of an answer; nothing where a statement gives none."""
    with psycopg.connect(target, autocommit=True, options="-c timezone=UTC") as connection:
        cursor = connection.execute(sql.encode(), values or None)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else []


def binaries() -> Path | None:
    """Where initdb and pg_ctl are: in the folder LATECOMER_TEST_POSTGRES, on the PATH, or where Debian
    puts them."""
    named = os.environ.get("LATECOMER_TEST_POSTGRES")
    on_path = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places = [Path(named)] if named else [*([Path(on_path).parent] if on_path else []), *debian]
    return next((place for place in places if (place / "initdb").exists()), None)


def required_binaries() -> Path:
    """The binaries; without them a test is skipped, and where CI is set it fails."""
    found = binaries()
    if found is None and os.environ.get("CI"):
        pytest.fail(MISSING, pytrace=False)
    return found or pytest.skip(MISSING)


@contextmanager
def running(bin_folder: Path, durable: bool = False) -> Iterator[Postgres]:
    """A server that asks for a password, until the block ends. Postgres refuses to run as root."""
    folder = Path(tempfile.mkdtemp(prefix="latecomer-postgres-"))
    try:
        (folder / "password").write_text(PASSWORD)
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            for path in (folder, folder / "password"):
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
        data = str(folder / "data")
        asks = ["--auth=scram-sha-256", f"--username={USER}", f"--pwfile={folder / 'password'}"]
        _as_nobody(folder, [str(bin_folder / "initdb"), "-D", data, "--no-sync", "--encoding=UTF8", *asks])
        server = Postgres(_free_port(), folder, bin_folder, durable)
        server.start()
        try:
            yield server
        finally:
            if server.is_up:
                server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_nobody(folder: Path, command: Sequence[str]) -> None:
    unprivileged = ["runuser", "-u", "nobody", "--"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*unprivileged, *command], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])
