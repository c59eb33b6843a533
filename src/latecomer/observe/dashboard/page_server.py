"""The server of the page: for this machine only, or for clients with a token. It is read-only."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Sequence
from http import HTTPStatus
from typing import Self

from latecomer.config.models import Pipeline
from latecomer.errors import BUG, LatecomerError, PipelineError
from latecomer.errors.redacting import without_secrets
from latecomer.model.hosts import is_own_name
from latecomer.observe.dashboard.answers import ROUTES, Answer, Answers
from latecomer.observe.dashboard.page import PAGE, POLICY
from latecomer.observe.dashboard.parameters import LONGEST, WrongRequest
from latecomer.observe.metrics_server import Handler, Offer, Server, lets_in, token_for

LOG = logging.getLogger(__name__)
TOKEN = "LATECOMER_DASHBOARD_TOKEN"  # noqa: S105
OFFER = Offer("the dashboard is", TOKEN, "--listen")
AT_ONCE = 16
"""So many requests are answered at once; others are refused and may be sent again."""
_SAFETY = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PATH = re.compile(r"/api/(0|[1-9][0-9]{0,3})/([a-z]+)")


class Dashboard(Server):
    """Serves the page and its answers."""

    def __init__(self, pipelines: Sequence[Pipeline], host: str, port: int, zone: str | None = None) -> None:
        self.answers = Answers(pipelines, zone=zone)
        self._listening = self.answers.progress.listening()
        super().__init__("dashboard", host, port, _handler(self.answers, token_for(host, OFFER)), OFFER)

    @property
    def url(self) -> str:
        return f"{super().url}/"

    def __enter__(self) -> Self:
        self._listening.__enter__()
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self._listening.__exit__(None, None, None)


def _handler(answers: Answers, token: str | None) -> type[Handler]:
    places = threading.BoundedSemaphore(AT_ONCE)

    class PageHandler(Handler):
        protocol_version = "HTTP/1.1"
        realm = "dashboard"

        def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
            path, _, query = self.path.partition("?")
            # The body of a request is not read, so the connection is closed after it.
            self.close_connection |= "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
            if len(self.path) > LONGEST:
                self._refuse(HTTPStatus.REQUEST_URI_TOO_LONG, f"ask for less than {LONGEST} characters")
            elif token is None and not is_own_name(self.headers.get("Host", "")):
                self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this host is not served")
            elif path == "/":
                self._send(HTTPStatus.OK, PAGE, "text/html; charset=utf-8")
            elif path == "/healthz":
                self._send(HTTPStatus.OK, b'{"status": "ok"}\n', "application/json")
            elif not path.startswith("/api/"):
                self._refuse(HTTPStatus.NOT_FOUND, "there is no such page; open /")
            elif self.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
                self._refuse(HTTPStatus.FORBIDDEN, "other web pages may not read this one")
            elif not lets_in(self.headers.get("Authorization", ""), token):
                self._refuse(
                    HTTPStatus.UNAUTHORIZED, f"send the token of {TOKEN}: Authorization: Bearer TOKEN"
                )
            elif not places.acquire(blocking=False):
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; ask again")
            else:
                try:
                    self._reply(path, query)
                finally:
                    places.release()

        def _reply(self, path: str, query: str) -> None:
            try:
                answer = self._answer(path, query)
            except (WrongRequest, PipelineError) as error:
                self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            except LatecomerError as error:
                self._refuse(HTTPStatus.CONFLICT, str(error))
            except Exception as error:
                LOG.warning(
                    "%s cannot be answered: %s", path, without_secrets(f"{type(error).__name__}: {error}")
                )
                self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}; {BUG}")
            else:
                if answer is None:
                    self._refuse(HTTPStatus.NOT_FOUND, "there is no such answer")
                elif answer.tag in self.headers.get("If-None-Match", ""):
                    self._send(HTTPStatus.NOT_MODIFIED, b"", None, answer.tag)
                else:
                    self._send(HTTPStatus.OK, answer.body, "application/json", answer.tag)

        def _answer(self, path: str, query: str) -> Answer | None:
            if path == "/api/pipelines":
                return answers.listing()
            match = _PATH.fullmatch(path)
            if match is None or int(match[1]) >= len(answers.pipelines):
                return None
            number, route = int(match[1]), match[2]
            if route == "progress":
                return answers.under_way(number)
            return answers.answer(number, route, query) if route in ROUTES else None

        def _refuse(self, status: HTTPStatus, reason: str) -> None:
            body = json.dumps({"error": without_secrets(reason)}).encode() + b"\n"
            self._send(status, body, "application/json")

        def _send(self, status: HTTPStatus, body: bytes, kind: str | None, tag: str | None = None) -> None:
            content = {} if kind is None else {"Content-Type": kind, "Content-Length": str(len(body))}
            cached = (
                {"Cache-Control": "no-store"} if tag is None else {"ETag": tag, "Cache-Control": "no-cache"}
            )
            self.send(status, body, {**content, **cached, **_SAFETY})

    return PageHandler
