"""Serves the metrics of a run, and its health and readiness: to this machine only, or to clients with a token."""

from __future__ import annotations

import hmac
import json
import os
import re
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from latecomer.config.models import Pipeline
from latecomer.errors import MachineError
from latecomer.errors.redacting import conceal
from latecomer.model.hosts import bind_problem, is_loopback, is_own_name
from latecomer.observe.figures import Figures

TOKEN = "LATECOMER_METRICS_TOKEN"  # noqa: S105
LOOPBACK = "127.0.0.1"
SHORTEST_TOKEN = 16
PATIENCE_SECONDS = 10.0
"""A client may take so long to send a request."""
_ADDRESS = re.compile(r"(?:(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):)?([0-9]{1,5})")


def address_of(written: str) -> tuple[str, int]:
    """Host and port, from the value of --metrics.

    >>> address_of("9464"), address_of("0.0.0.0:9464"), address_of("[::1]:0")
    (('127.0.0.1', 9464), ('0.0.0.0', 9464), ('::1', 0))
    """
    match = _ADDRESS.fullmatch(written.strip())
    if match is None or int(match[2]) > 65535:
        raise ValueError("is not a port")
    return (match[1] or LOOPBACK).strip("[]"), int(match[2])


@dataclass(frozen=True)
class Offer:
    """Something that is served, and how error messages name it."""

    what: str
    """With its verb."""
    token: str
    """The environment variable with the token."""
    option: str
    """The option of the command line with host and port."""


METRICS_OFFER = Offer("metrics are", TOKEN, "--metrics")


def token_for(host: str, offer: Offer = METRICS_OFFER) -> str | None:
    """The token that clients must send: required where other machines can connect, else optional."""
    token = os.environ.get(offer.token) or None
    if token is None and not is_loopback(host):
        raise MachineError(
            f"{offer.what} served to this machine only unless there is a token, and {host!r} is not loopback; set "
            f"{offer.token} to a secret of at least {SHORTEST_TOKEN} characters, or write {offer.option} PORT"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise MachineError(
            f"{offer.token} is shorter than {SHORTEST_TOKEN} characters; choose a longer secret"
        )
    return None if token is None else conceal(token)


def lets_in(authorization: str, token: str | None) -> bool:
    """Whether a request's Authorization header has the token."""
    if token is None:
        return True
    kind, _, sent = authorization.partition(" ")
    return kind.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), token.encode())


class Server:
    """Serves from a thread of its own while a block lasts. The port is taken at once."""

    def __init__(
        self, name: str, host: str, port: int, handler: type[BaseHTTPRequestHandler], offer: Offer
    ) -> None:
        self._http = _bound(host, port, handler, offer)
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.1,), name=f"latecomer-{name}", daemon=True
        )

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{shown}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    def wait(self) -> None:
        """Wait until the server is stopped."""
        while self._thread.is_alive():
            self._thread.join(1.0)


class Handler(BaseHTTPRequestHandler):
    """What the answers of all servers have in common. A subclass has `do_GET`."""

    timeout = PATIENCE_SECONDS
    server_version, sys_version = "latecomer", ""
    realm: ClassVar[str]

    def do_HEAD(self) -> None:
        self.do_GET()  # type: ignore[attr-defined]

    def send(self, status: HTTPStatus, body: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        if status is HTTPStatus.UNAUTHORIZED:
            headers = {**headers, "WWW-Authenticate": f'Bearer realm="{self.realm}"'}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


def _bound(host: str, port: int, handler: type[BaseHTTPRequestHandler], offer: Offer) -> ThreadingHTTPServer:
    """A server that is bound to its port, and does not answer yet."""
    try:
        return _Listener((host, port), handler)
    except (OSError, UnicodeError) as error:
        raise MachineError(bind_problem(error, host, port, offer.option, offer.option)) from None


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        self.address_family = family
        super().__init__(address, handler)

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client has disconnected: that is not logged."""


class ServedMetrics(Server):
    """The metrics of one run, from before it starts until it has ended: /metrics, /healthz and /readyz, read-only."""

    def __init__(self, pipeline: Pipeline, host: str, port: int) -> None:
        token = token_for(host)
        self.figures = Figures(pipeline)
        self.failed = False
        """Whether the run has ended with an error."""
        super().__init__("metrics", host, port, _handler(self, token), METRICS_OFFER)

    @property
    def url(self) -> str:
        return f"{super().url}/metrics"

    def __exit__(self, *raised: object) -> None:
        self.failed = any(raised)
        self.figures.close()
        super().__exit__()


def _handler(served: ServedMetrics, token: str | None) -> type[Handler]:
    registry = CollectorRegistry()
    registry.register(served.figures)

    class MetricsHandler(Handler):
        realm = "metrics"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if token is None and not is_own_name(self.headers.get("Host", "")):
                self._answer(HTTPStatus.MISDIRECTED_REQUEST, "this host is not served")
            elif path == "/healthz":
                self._answer_whether(not served.failed, "ok", "failed")
            elif path == "/readyz":
                self._answer_whether(served.figures.is_ready and not served.failed, "ready", "not ready")
            elif path != "/metrics":
                self._answer(HTTPStatus.NOT_FOUND, "ask for /metrics, /healthz or /readyz")
            elif not lets_in(self.headers.get("Authorization", ""), token):
                self._answer(HTTPStatus.UNAUTHORIZED, "send Authorization: Bearer TOKEN")
            else:
                encode, kind = choose_encoder(self.headers.get("Accept", ""))
                self._send(HTTPStatus.OK, encode(registry), kind)

        def _answer_whether(self, well: bool, yes: str, no: str) -> None:
            self._answer(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, yes if well else no)

        def _answer(self, status: HTTPStatus, text: str) -> None:
            self._send(status, json.dumps({"status": text}).encode() + b"\n", "application/json")

        def _send(self, status: HTTPStatus, body: bytes, kind: str) -> None:
            headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store"}
            self.send(status, body, headers)

    return MetricsHandler
