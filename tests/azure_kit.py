"""An Azure Blob server for tests, with a container for each: Microsoft's own emulator, Azurite.

It is installed by npm, in the versions and with the hashes of `azurite/package-lock.json`, into the user's cache.
`shared_server` is one for all processes of a test run.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
import shutil
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import urlsplit

from latecomer.errors import MachineError
from latecomer.objects.locations import Storage, Url, reached_by
from latecomer.spark.archive import cache_folder
from latecomer.testing.servers import free_ports
from server_guard import shared

PATIENCE = 60.0
WANTED = Path(__file__).with_name("azurite")
ACCOUNT = "latecomer"
KEY = base64.b64encode(b"a key for tests").decode()
KEYS = {"AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT, "AZURE_STORAGE_ACCOUNT_KEY": KEY}
EMULATED = {"AZURE_STORAGE_USE_EMULATOR": "true"}
"""Azurite does not know how to list from a name on, which Azure does: the client leaves that out for it."""
VERSION = "2021-08-06"
"""Of Azure's interface."""


@dataclass(frozen=True)
class Container:
    """A container of a test's own."""

    endpoint: str
    name: str

    @property
    def url(self) -> Url:
        return reached_by(Url(f"az://{self.name}"), Storage(endpoint=self.endpoint, allow_http=True))

    @property
    def environment(self) -> Mapping[str, str]:
        """By what it is reached, in this process and those below it."""
        return {**KEYS, **EMULATED, "AZURITE_BLOB_STORAGE_URL": self.endpoint.rpartition("/")[0]}

    @property
    def options(self) -> Mapping[str, object]:
        """What a pipeline file says of it."""
        return {"endpoint": self.endpoint, "allow_http": True}


def require_server() -> None:
    """Have the emulator installed: `MachineError` where that cannot be done."""
    _installed()


def _installed() -> Path:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        raise MachineError("Azurite needs Node and npm; install them (Debian: apt install nodejs npm)")
    lock = (WANTED / "package-lock.json").read_bytes()
    folder = cache_folder("azurite") / hashlib.sha256(lock).hexdigest()[:16]
    program = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "installing.lock", "w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            for each in WANTED.iterdir():
                shutil.copy(each, folder)
            command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise MachineError(f"npm cannot install Azurite: {done.stderr[-500:]}")
            (folder / "installed").touch()
    return program


def new_container(endpoint: str) -> Container:
    container = Container(endpoint, f"test-{uuid.uuid4().hex[:12]}")
    moment = format_datetime(datetime.now(UTC), usegmt=True)
    signed = "\n".join(
        [
            *("PUT", *[""] * 11),
            f"x-ms-date:{moment}",
            f"x-ms-version:{VERSION}",
            f"/{ACCOUNT}/{ACCOUNT}/{container.name}",
            "restype:container",
        ]
    )
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), signed.encode(), "sha256")).decode()
    request = urllib.request.Request(
        f"{endpoint}/{container.name}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": moment,
            "x-ms-version": VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{signature}",
            "Content-Length": "0",
        },
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        answer.read()
    return container


def shared_server(folder: Path) -> str:
    """The endpoint of the server that the processes of a test run share."""
    return shared(folder, _start, _await_answer)


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    (port,) = free_ports(1)
    where = ("--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder / "data"))
    with open(folder / "azure.log", "w") as log:
        process = subprocess.Popen(
            ["node", str(_installed()), *where, "--silent", "--disableTelemetry"],
            env={**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{KEY}"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return process, f"http://127.0.0.1:{port}/{ACCOUNT}"


def _await_answer(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    port = urlsplit(endpoint).port
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("Azurite does not answer; see azure.log")
