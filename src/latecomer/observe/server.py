"""A small HTTP server in a thread beside everything else: for this machine only, or for clients with a token. What it
serves is read-only."""

from __future__ import annotations

import hmac
import json
import os
import re
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Self, cast

from latecomer.errors import MachineError
from latecomer.errors.redacting import conceal, without_secrets
from latecomer.model.hosts import bind_problem, is_loopback, is_own_name

LOOPBACK = "127.0.0.1"
SHORTEST_TOKEN = 16
LONGEST = 4096
"""A request's path with its parameters may have so many characters."""
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
class Reply:
    """An answer to a request."""

    body: bytes
    kind: str = "application/json"
    status: HTTPStatus = HTTPStatus.OK
    headers: Mapping[str, str] = field(default_factory=lambda: {"Cache-Control": "no-store"})

    @classmethod
    def of(cls, status: HTTPStatus, /, **words: str) -> Reply:
        """A few words, as JSON."""
        return cls(json.dumps(words).encode() + b"\n", status=status)

    @classmethod
    def refusal(cls, status: HTTPStatus, reason: str) -> Reply:
        return cls.of(status, error=without_secrets(reason))


class Server(ABC):
    """Serves from a thread of its own while a block lasts. The port is taken at once.

    A request that is too long, or that calls this machine by a name that is not its own, is refused. `public` is for
    everybody who may connect, `answer` only for those with the token, where there is one.
    """

    name: ClassVar[str]
    what: ClassVar[str]
    """What is served, with its verb, for errors."""
    token_name: ClassVar[str]
    """The environment variable with the token."""
    option: ClassVar[str]
    """The option of the command line with host and port."""
    path: ClassVar[str] = "/"
    """What a person is told to open."""
    headers: ClassVar[Mapping[str, str]] = {}
    """Those of every reply."""

    def __init__(self, host: str, port: int) -> None:
        self._token = self._required_token(host)
        try:
            self._http = _Listener((host, port), self)
        except (OSError, UnicodeError) as error:
            raise MachineError(bind_problem(error, host, port, self.option, self.option)) from None
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(0.1,), name=f"latecomer-{self.name}", daemon=True
        )

    def _required_token(self, host: str) -> str | None:
        """The token that clients must send: required where other machines can connect, else optional."""
        token = os.environ.get(self.token_name) or None
        if token is None and not is_loopback(host):
            raise MachineError(
                f"{self.what} served to this machine only unless there is a token, and {host!r} is not loopback; set "
                f"{self.token_name} to a secret of at least {SHORTEST_TOKEN} characters, or write {self.option} PORT"
            )
        if token is not None and len(token) < SHORTEST_TOKEN:
            raise MachineError(
                f"{self.token_name} is shorter than {SHORTEST_TOKEN} characters; choose a longer secret"
            )
        return None if token is None else conceal(token)

    @property
    def url(self) -> str:
        host, port = self._http.server_address[:2]
        shown = f"[{host!s}]" if ":" in str(host) else str(host)
        return f"http://{shown}:{port}{self.path}"

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

    @abstractmethod
    def public(self, path: str) -> Reply | None:
        """What everybody gets, also that there is no such path; None where the token is needed."""

    @abstractmethod
    def answer(self, path: str, query: str, headers: Message) -> Reply:
        """What clients with the token get."""

    def reply(self, target: str, headers: Message) -> Reply:
        path, _, query = target.partition("?")
        if len(target) > LONGEST:
            return Reply.refusal(HTTPStatus.REQUEST_URI_TOO_LONG, f"ask for less than {LONGEST} characters")
        if self._token is None and not is_own_name(headers.get("Host", "")):
            return Reply.refusal(HTTPStatus.MISDIRECTED_REQUEST, "this host is not served")
        if (public := self.public(path)) is not None:
            return public
        if not self._lets_in(headers.get("Authorization", "")):
            reason = f"send the token of {self.token_name}: Authorization: Bearer TOKEN"
            return Reply.refusal(HTTPStatus.UNAUTHORIZED, reason)
        return self.answer(path, query, headers)

    def _lets_in(self, authorization: str) -> bool:
        """Whether a request's Authorization header has the token."""
        if self._token is None:
            return True
        kind, _, sent = authorization.partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), self._token.encode())


class _Handler(BaseHTTPRequestHandler):
    timeout = PATIENCE_SECONDS
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "latecomer", ""

    def do_GET(self) -> None:
        # The body of a request is not read, so the connection is closed after it.
        self.close_connection |= "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        owner = cast(_Listener, self.server).owner
        reply = owner.reply(self.path, self.headers)
        self.send_response(reply.status)
        headers = {**reply.headers, **owner.headers}
        if reply.status is not HTTPStatus.NOT_MODIFIED:
            headers |= {"Content-Type": reply.kind, "Content-Length": str(len(reply.body))}
        if reply.status is HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = f'Bearer realm="{owner.name}"'
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], owner: Server) -> None:
        self.owner = owner
        self.address_family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0][0]
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client has disconnected: that is not logged."""
