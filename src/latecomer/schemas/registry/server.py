"""The server: checks before it starts, its socket, and uvicorn."""

from __future__ import annotations

import logging
import os
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

from latecomer.errors import MachineError, RegistryError
from latecomer.model.hosts import bind_problem, is_loopback
from latecomer.schemas.registry.bodies import LARGEST_HEAD, MEDIA
from latecomer.schemas.registry.core import Registry
from latecomer.schemas.registry.refusals import Refused
from latecomer.schemas.registry.tokens import ENVIRONMENT, Tokens

KEEP_ALIVE_SECONDS = 15
BACKLOG = 512


def require_packages() -> None:
    """Raise an error that says what to install, if the extra is missing."""
    try:
        import fastapi  # noqa: F401
        import h11  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MachineError(
            f"the registry needs the package {error.name}; install it: pip install 'latecomer[registry]'"
        ) from None


def require_safe(host: str, tokens: Tokens | None) -> None:
    """Refuse to let everybody in from everywhere."""
    if tokens is None and not is_loopback(host):
        raise RegistryError(
            f"without tokens the registry serves this machine alone, and {host!r} is not loopback; give --tokens FILE "
            f"or set {ENVIRONMENT} (latecomer registry token new makes one), or leave --host out"
        )


def bound_socket(host: str, port: int) -> socket.socket:
    """A listening socket. Port 0 means any free port."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except BaseException:
            listening.close()
            raise
    except (OSError, UnicodeError) as error:
        raise RegistryError(bind_problem(error, host, port, "--port", "--host or --port")) from None
    return listening


def require_certificate(certificate: Path | None, key: Path | None) -> None:
    """Refuse a certificate and key that cannot be used."""
    if certificate is None:
        if key is not None:
            raise RegistryError("--tls-key needs a certificate; give --tls-cert too")
        return
    try:  # an empty password, so that OpenSSL does not ask for one on the terminal
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            certificate, key, password=lambda: ""
        )
    except (OSError, ValueError) as error:
        raise RegistryError(
            f"{certificate}: the certificate or its key cannot be used ({getattr(error, 'strerror', None) or error}); "
            "give both as PEM files, the key without a password"
        ) from None


def serve(
    registry: Registry,
    tokens: Tokens | None,
    listening: socket.socket,
    certificate: Path | None = None,
    key: Path | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. Running requests are finished first."""
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    # Uvicorn shuts down cleanly, and then raises the signal again, which would kill the process.
    signal.signal(signal.SIGTERM, _end)
    uvicorn_server(registry, tokens, certificate, key).run(sockets=[listening])


def _end(*_: object) -> None:
    raise SystemExit(0)


def uvicorn_server(
    registry: Registry, tokens: Tokens | None, certificate: Path | None = None, key: Path | None = None
) -> Any:
    """Uvicorn, ready to run on a socket."""
    import uvicorn

    from latecomer.schemas.registry.app import build_app

    settings = uvicorn.Config(
        build_app(registry, tokens),
        http=_protocol(),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # clients could forge their address
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=30,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        ssl_certfile=None if certificate is None else os.fspath(certificate),
        ssl_keyfile=None if key is None else os.fspath(key),
    )
    return uvicorn.Server(settings)


def _protocol() -> Any:
    """Uvicorn's HTTP protocol, with refusals as JSON."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class JsonRefusals(H11Protocol):  # type: ignore[misc]
        def send_400_response(self, msg: str) -> None:
            body = Refused(400, "This is no HTTP request that can be read.").body()
            head = (
                f"HTTP/1.1 400 Bad Request\r\ncontent-type: {MEDIA[0]}\r\ncontent-length: {len(body)}\r\n"
                "connection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
            self.transport.close()

    return JsonRefusals
