"""An S3 server for tests, with a bucket for each: `s3_server.py`, one for all processes of a test run."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path

from obstore.store import S3Store

from latecomer.errors import MachineError
from latecomer.objects.locations import Storage, Url, reached_by
from latecomer.testing.servers import free_ports
from server_guard import shared

PATIENCE = 60.0
WITHOUT_CONDITIONS = "plain"
"""Begins the names of buckets that know no conditions."""
KEYS = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-secret", "AWS_REGION": "us-east-1"}


@dataclass(frozen=True)
class Bucket:
    """A bucket of a test's own."""

    endpoint: str
    name: str

    @property
    def url(self) -> Url:
        return reached_by(Url(f"s3://{self.name}"), Storage(endpoint=self.endpoint, allow_http=True))

    @property
    def options(self) -> dict[str, object]:
        """What a pipeline file says of it."""
        return {"endpoint": self.endpoint, "allow_http": True}

    @property
    def store(self) -> S3Store:
        """What is in it, without latecomer."""
        return S3Store(
            self.name,
            endpoint=self.endpoint,
            access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            region=KEYS["AWS_REGION"],
            client_options={"allow_http": True},
        )


def require_server() -> None:
    if importlib.util.find_spec("moto") is None:
        raise MachineError("moto is not installed; make setup installs it")


def new_bucket(endpoint: str, name: str = "bucket") -> Bucket:
    bucket = Bucket(endpoint, f"{name}-{uuid.uuid4().hex[:12]}")
    _request(f"{endpoint}/{bucket.name}", "PUT")
    return bucket


def shared_server(folder: Path) -> str:
    """The endpoint of the server that the processes of a test run share."""
    return shared(folder, _start, _await_answer)


def _start(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    (port,) = free_ports(1)
    with open(folder / "s3.log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("s3_server.py")), str(port)],
            stdout=log,
            stderr=log,
        )
    return process, f"http://127.0.0.1:{port}"


def _await_answer(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            _request(f"{endpoint}/", "GET")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the S3 server does not answer; see s3.log")


def _request(url: str, method: str) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
        answer.read()


def write_keys(folder: Path) -> Path:
    """A file of credentials, as AWS has it."""
    keys = folder / "keys"
    keys.write_text(
        "[default]\n"
        + "".join(f"{name.lower()} = {value}\n" for name, value in KEYS.items() if "KEY" in name)
    )
    return keys


def moved_to(file: Path, bucket: Bucket, endpoint: str | None = None) -> Path:
    """A pipeline file whose store is in a bucket, with its credentials in a file beside it."""
    write_keys(file.parent)
    options = {
        "endpoint": endpoint or bucket.endpoint,
        "allow_http": True,
        "region": "us-east-1",
        "credentials": "keys",
    }
    text = file.read_text(encoding="utf-8")
    assert "store: ./store\n" in text
    stored = f"store: s3://{bucket.name}/lake\nstorage: {json.dumps(options)}\n"
    file.write_text(text.replace("store: ./store\n", stored), encoding="utf-8")
    return file
