"""The page: one document with its style and script, the policy with which a browser runs nothing else, and its
server."""

from __future__ import annotations

import logging
import re
import threading
from base64 import b64encode
from collections.abc import Sequence
from email.message import Message
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import ClassVar

from latecomer.config.models import Pipeline
from latecomer.errors import BUG, LatecomerError, PipelineError
from latecomer.errors.redacting import without_secrets
from latecomer.observe.dashboard.answers import ROUTES, Answer, Answers
from latecomer.observe.dashboard.parameters import WrongRequest
from latecomer.observe.server import Reply, Server

LOG = logging.getLogger(__name__)
TOKEN = "LATECOMER_DASHBOARD_TOKEN"  # noqa: S105
AT_ONCE = 16
"""So many requests are answered at once; others are refused and may be sent again."""
_PATH = re.compile(r"/api/(0|[1-9][0-9]{0,3})/([a-z]+)")


def _part(name: str) -> str:
    return files("latecomer.observe.dashboard").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


STYLE, SCRIPT = _part("style.css"), _part("script.js")
PAGE = _part("page.html").replace("/*style*/", STYLE).replace("/*script*/", SCRIPT).encode()
POLICY = "; ".join(
    [
        "default-src 'none'",
        f"style-src {_hash(STYLE)}",
        f"script-src {_hash(SCRIPT)}",
        "connect-src 'self'",
        "img-src blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


class Dashboard(Server):
    """Serves the page and its answers."""

    name, what, token_name, option = "dashboard", "the dashboard is", TOKEN, "--listen"
    headers: ClassVar = {
        "Content-Security-Policy": POLICY,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
    }

    def __init__(self, pipelines: Sequence[Pipeline], host: str, port: int, zone: str | None = None) -> None:
        self.answers = Answers(pipelines, zone=zone)
        self._places = threading.BoundedSemaphore(AT_ONCE)
        super().__init__(host, port)

    def public(self, path: str) -> Reply | None:
        if path == "/":
            return Reply(PAGE, "text/html; charset=utf-8")
        if path == "/healthz":
            return Reply.of(HTTPStatus.OK, status="ok")
        if not path.startswith("/api/"):
            return Reply.refusal(HTTPStatus.NOT_FOUND, "there is no such page; open /")
        return None

    def answer(self, path: str, query: str, headers: Message) -> Reply:
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return Reply.refusal(HTTPStatus.FORBIDDEN, "other web pages may not read this one")
        if not self._places.acquire(blocking=False):
            return Reply.refusal(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once; ask again")
        try:
            found = self._found(path, query)
        except (WrongRequest, PipelineError) as error:
            return Reply.refusal(HTTPStatus.BAD_REQUEST, str(error))
        except LatecomerError as error:
            return Reply.refusal(HTTPStatus.CONFLICT, str(error))
        except Exception as error:
            reason = without_secrets(f"{type(error).__name__}: {error}")
            LOG.warning("%s cannot be answered: %s", path, reason)
            return Reply.refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}; {BUG}")
        finally:
            self._places.release()
        if found is None:
            return Reply.refusal(HTTPStatus.NOT_FOUND, "there is no such answer")
        kept = {"ETag": found.tag, "Cache-Control": "no-cache"}
        if found.tag in headers.get("If-None-Match", ""):
            return Reply(b"", status=HTTPStatus.NOT_MODIFIED, headers=kept)
        return Reply(found.body, headers=kept)

    def _found(self, path: str, query: str) -> Answer | None:
        if path == "/api/pipelines":
            return self.answers.listing()
        match = _PATH.fullmatch(path)
        if match is None or int(match[1]) >= len(self.answers.pipelines) or match[2] not in ROUTES:
            return None
        return self.answers.answer(int(match[1]), match[2], query)
