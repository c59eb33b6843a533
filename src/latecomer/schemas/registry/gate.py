"""Checks every request before a route gets it: its path, host, token and accepted content types."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.responses import Response

from latecomer.model.hosts import is_own_name
from latecomer.schemas.registry.bodies import LARGEST_HEAD, MEDIA
from latecomer.schemas.registry.records import NOBODY, Actor
from latecomer.schemas.registry.refusals import Refused
from latecomer.schemas.registry.tokens import Scope, StoredToken, Tokens

Environment = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Environment, Receive, Send], Awaitable[None]]

HEALTH = "/health"
LARGEST_REST, LONGEST_REST = 16 * 2**20, 5.0
"""Limits, in bytes and seconds, for reading the rest of a body before a refusal."""
LONGEST_PATH = 8192
_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


class Gate:
    """The ASGI app in front of the routes. It gives each request an actor and a scope."""

    def __init__(self, app: App, tokens: Tokens | None) -> None:
        self._app, self._tokens = app, tokens

    async def __call__(self, scope: Environment, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = headers_of(scope)
        rest = _Rest(receive, send, waits="expect" in headers)
        try:
            if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > LARGEST_HEAD:
                raise Refused(431, f"The headers have more than {LARGEST_HEAD} bytes.")
            if "transfer-encoding" in headers and "content-length" in headers:
                # A proxy and this server could disagree on where the body ends and the next request begins.
                raise Refused(400, "The body has two lengths; send Content-Length or Transfer-Encoding.")
            scope["path"] = _raw_path(scope)
            scope["latecomer.answer"] = answer_kind(headers.get("accept"))
            scope["latecomer.actor"], scope["latecomer.scope"] = self._let_in(scope, headers)
        except Refused as refusal:
            headers = {"content-type": scope.get("latecomer.answer", MEDIA[0]), "connection": "close"}
            if refusal.status == 401:
                headers["www-authenticate"] = 'Bearer realm="registry"'
            await Response(refusal.body(), refusal.status, headers)(scope, rest.receive, rest.send)
            return
        await self._app(scope, rest.receive, rest.send)

    def _let_in(self, scope: Environment, headers: Mapping[str, str]) -> tuple[Actor, Scope]:
        client = scope.get("client")
        address = str(client[0]) if client else "unknown"
        if self._tokens is None:
            if not is_own_name(headers.get("host", "")):
                raise Refused(
                    421, "Without tokens this registry answers to localhost, 127.0.0.1 and [::1] alone."
                )
            return Actor(NOBODY, address), Scope.ADMIN
        if scope["path"] == HEALTH:
            return Actor(NOBODY, address), Scope.READ
        token = _token(self._tokens, headers.get("authorization", ""))
        if token is None:
            raise Refused(401, "Send a token that this registry knows: Authorization: Bearer TOKEN.")
        return Actor(token.name, address), token.scope


class _Rest:
    """Reads the rest of a body, within limits, before the answer is sent.

    A client whose connection is closed while it still sends does not see the answer.
    """

    def __init__(self, receive: Receive, send: Send, waits: bool) -> None:
        self._receive, self._send = receive, send
        self._read_all = waits  # the client sends its body only when asked to

    async def receive(self) -> Any:
        message = await self._receive()
        if not message.get("more_body", False):
            self._read_all = True
        return message

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            with suppress(TimeoutError):
                async with asyncio.timeout(LONGEST_REST):
                    await self._pass_over()
        await self._send(message)

    async def _pass_over(self) -> None:
        allowed = LARGEST_REST
        while not self._read_all and allowed > 0:
            allowed -= len((await self.receive()).get("body", b""))


def _raw_path(scope: Environment) -> str:
    """The path as it was sent, without a slash at its end. It is split before it is decoded: a name may contain %2F."""
    raw = bytes(scope.get("raw_path") or b"").partition(b"?")[0]
    if len(raw) + len(scope.get("query_string", b"")) > LONGEST_PATH:
        raise Refused(414, f"The path is longer than {LONGEST_PATH} bytes.")
    if not raw.startswith(b"/") or not raw.isascii():
        raise Refused(400, "The path must begin with / and be percent-encoded.")
    path = raw.decode("ascii")
    return path.removesuffix("/") if len(path) > 1 else path


def decoded(segment: str) -> str:
    """A segment of a path, decoded.

    >>> decoded("a%2Fb")
    'a/b'
    """
    if _ESCAPE.search(segment):
        raise Refused(400, "The path has a % without two hexadecimal digits after it; write it as %25.")
    try:
        return unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise Refused(400, "The path is not UTF-8 once it is decoded.") from None


def _token(tokens: Tokens, authorization: str) -> StoredToken | None:
    """The token in `Bearer TOKEN`, or in `Basic` with its name as the user and the token as the password."""
    kind, _, rest = authorization.partition(" ")
    if kind.lower() == "bearer":
        return tokens.token_of(rest.strip())
    if kind.lower() != "basic":
        return None
    try:
        name, colon, secret = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    token = tokens.token_of(secret) if colon else None
    return token if token and hmac.compare_digest(token.name.encode(), name.encode()) else None


def headers_of(scope: Environment) -> dict[str, str]:
    """Headers by lower-case name. Repeated ones are joined, so that none of them is lost."""
    headers: dict[str, str] = {}
    for name, value in scope.get("headers", ()):
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def answer_kind(accept: str | None) -> str:
    """The content type of the answer.

    >>> answer_kind("application/json"), answer_kind("text/html, */*;q=0.8")
    ('application/json', 'application/vnd.schemaregistry.v1+json')
    """
    if not accept or not accept.strip():
        return MEDIA[0]
    wanted = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    for kind in wanted:
        if kind in MEDIA:
            return kind
    if any(kind in ("*/*", "application/*") for kind in wanted):
        return MEDIA[0]
    raise Refused(406, f"Answers are JSON; accept {' or '.join(MEDIA)}.")
