"""An S3 server on loopback: moto's, over connections that stay open, with conditional writes one after the other.

`python s3_server.py PORT`. Moto looks whether a condition holds, and then writes: what comes in between would break the
promise that S3 makes. It asks for no credentials, but refuses some by name, for tests.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

WITHOUT_CONDITIONS = "plain"
"""Begins the names of buckets that know no conditions, as some stores do not. (As in `s3_kit.py`.)"""
EXPIRED, UNKNOWN = "EXPIRED", "UNKNOWN"
"""Access keys that are refused."""


class OneAtATime:
    """The application, in which a write with a condition is alone."""

    def __init__(self, application: Callable[..., Iterable[bytes]]) -> None:
        self._application = application
        self._turn = threading.Lock()

    def __call__(self, request: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if (refused := _refused(request)) is not None:
            start("403 Forbidden", [("Content-Type", "application/xml")])
            return [f"<Error><Code>{refused}</Code><Message>no</Message></Error>".encode()]
        if request["PATH_INFO"].startswith(f"/{WITHOUT_CONDITIONS}"):
            for condition in ("HTTP_IF_NONE_MATCH", "HTTP_IF_MATCH"):
                request.pop(condition, None)
        if request["REQUEST_METHOD"] in ("PUT", "POST", "DELETE"):
            with self._turn:
                return list(self._application(request, start))
        return self._application(request, start)


def _refused(request: dict[str, Any]) -> str | None:
    by = request.get("HTTP_AUTHORIZATION", "")
    if f"Credential={EXPIRED}/" in by:
        return "ExpiredToken"
    return "InvalidAccessKeyId" if f"Credential={UNKNOWN}/" in by else None


class Handler(MotoRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: object) -> None:
        """It says nothing of what it was asked."""


def main() -> None:
    application = OneAtATime(create_backend_app("s3"))
    make_server(
        "127.0.0.1", int(sys.argv[1]), application, threaded=True, request_handler=Handler
    ).serve_forever()


if __name__ == "__main__":
    main()
