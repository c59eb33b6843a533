"""A real registry for the tests: on a port that was free, in a process of its own or in a thread."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SENT = "application/vnd.schemaregistry.v1+json"
_NUMBERS = count(1)


def record(*fields: str, name: str = "Order", **more: Any) -> str:
    """An Avro record: `id:long` is a field, `id:long=0` one with a default, `id:long?` one that may be null."""
    return json.dumps({"type": "record", "name": name, "fields": [_field(each) for each in fields], **more})


def _field(written: str) -> dict[str, Any]:
    name, _, kind = written.partition(":")
    kind, _, default = kind.partition("=")
    if kind.endswith("?"):
        return {"name": name, "type": ["null", kind[:-1]], "default": None}
    return {"name": name, "type": kind, **({"default": json.loads(default)} if default else {})}


def fresh(name: str = "orders") -> str:
    """A subject that no other test has."""
    return f"{name}-{next(_NUMBERS)}-{os.getpid()}-value"


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Mapping[str, str] = field(repr=False)

    @property
    def code(self) -> int:
        assert set(self.body) == {"error_code", "message"}, self.body
        return int(self.body["error_code"])

    @property
    def message(self) -> str:
        return str(self.body["message"])


class Asking:
    """Sends requests as they are; nothing is encoded or corrected on the way."""

    def __init__(self, url: str, headers: Mapping[str, str] | None = None) -> None:
        self.url, self.headers = url, dict(headers or {})
        parts = urlsplit(url)
        self.host, self.port = str(parts.hostname), int(parts.port or 0)

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        raw: bytes | None = None,
    ) -> Answer:
        sent = raw if raw is not None else None if body is None else json.dumps(body).encode()
        kind = {"Content-Type": SENT} if sent is not None else {}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        try:
            connection.request(method, path, sent, {**kind, **self.headers, **(headers or {})})
            response = connection.getresponse()
            text = response.read()
        finally:
            connection.close()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, json.loads(text), found)

    def get(self, path: str) -> Any:
        answer = self("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def register(self, subject: str, schema: str, query: str = "", **more: Any) -> int:
        answer = self("POST", f"/subjects/{subject}/versions{query}", {"schema": schema, **more})
        assert answer.status == 200, answer
        return int(answer.body["id"])

    def refused(self, method: str, path: str, body: Any = None, **more: Any) -> Answer:
        answer = self(method, path, body, **more)
        assert answer.status >= 400, answer
        assert answer.headers["content-type"] in (
            SENT,
            "application/json",
            "application/vnd.schemaregistry+json",
        )
        assert answer.code
        assert "Traceback" not in answer.message
        return answer


@dataclass
class Server:
    """A registry that runs."""

    url: str
    asking: Asking


@dataclass
class Process(Server):
    """One in a process of its own."""

    process: subprocess.Popen[str]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(20)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "latecomer", "registry", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("LATECOMER_")}
    return {**plain, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


@contextmanager
def serving(store: str | Path, *options: object, token: str | None = None, **more: str) -> Iterator[Process]:
    """The command line in a process of its own, until the block ends."""
    process = subprocess.Popen(
        command("serve", "--port", 0, "--store", store, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**more),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"registry at (http\S+),", line)
        if found is None:
            process.wait(20)
            raise AssertionError(f"no registry: {line!r} {process.stderr.read()!r}")
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        yield Process(found[1], Asking(found[1], headers), process)
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()
        process.stderr.close()


@contextmanager
def beside(
    store: str | Path, tokens: Path | None = None, token: str | None = None, port: int = 0
) -> Iterator[Server]:
    """The same server in a thread, which starts sooner; until the block ends."""
    from latecomer.schemas.registry import server as real
    from latecomer.schemas.registry.core import Registry
    from latecomer.schemas.registry.databases import open_database
    from latecomer.schemas.registry.tokens import Tokens

    with (
        closing(real.bound_socket("127.0.0.1", port)) as listening,
        closing(Registry(open_database(str(store)))) as registry,
    ):
        server = real.uvicorn_server(registry, None if tokens is None else Tokens.of_file(tokens))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            yield Server(url, Asking(url, {} if token is None else {"Authorization": f"Bearer {token}"}))
        finally:
            server.should_exit = True
            thread.join(30)
