"""A real Postgres for the tests, started from its binaries in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER, PASSWORD = "ana", "s3cret"


@dataclass(frozen=True)
class Postgres:
    port: int

    @property
    def url(self) -> str:
        return f"postgresql://{USER}@127.0.0.1:{self.port}/postgres"

    @property
    def url_with_password(self) -> str:
        return self.url.replace("@", f":{PASSWORD}@")


def binaries() -> Path | None:
    """Where initdb and pg_ctl are: in the folder LATECOMER_TEST_POSTGRES, on the PATH, or where Debian
    puts them."""
    named = os.environ.get("LATECOMER_TEST_POSTGRES")
    on_path = shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    places = [Path(named)] if named else [*([Path(on_path).parent] if on_path else []), *debian]
    return next((place for place in places if (place / "initdb").exists()), None)


@contextmanager
def running(bin_folder: Path) -> Iterator[Postgres]:
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
        port = _free_port()
        settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        control = [str(bin_folder / "pg_ctl"), "-D", data, "-w", "-l", str(folder / "log")]
        _as_nobody(folder, [*control, "-o", settings, "start"])
        try:
            yield Postgres(port)
        finally:
            _as_nobody(folder, [*control, "-m", "immediate", "stop"])
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
