"""Connections to the Postgres server that a target names: every wait has a limit, and errors have clear messages."""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from latecomer.config.secrets import is_reference, reference_problems, resolved
from latecomer.errors import first_line
from latecomer.errors.redacting import conceal, is_torn, without_secrets

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

CONNECT_SECONDS = 10
LIMITS = {"statement_timeout": "5min", "lock_timeout": "30s", "idle_in_transaction_session_timeout": "5min"}
"""The limits that the server enforces, unless the target, the role or the database set others."""
_SET_LIMITS = "SELECT " + ", ".join(
    f"CASE current_setting('{name}') WHEN '0' THEN set_config('{name}', '{limit}', true) END"
    for name, limit in LIMITS.items()
)
SILENT_SECONDS = 900.0
"""How long a transaction may take. A server that hangs does not enforce its own limits."""
OLDEST = 120000
"""Postgres 12."""

_URL = re.compile(r"postgres(ql)?://", re.IGNORECASE)
_SPECIAL = re.compile(r"(['\\\s])")
_DEFAULTS = {
    "connect_timeout": str(CONNECT_SECONDS),
    "application_name": "latecomer",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}


class Unreachable(Exception):
    """The target does not lead to a server."""


class Reason(NamedTuple):
    """Why Postgres refused, the fix, and whether the reason may pass."""

    text: str
    fix: str
    passes: bool


def connect(target: str, base: Path) -> Connection:
    """A new connection, in which every statement is committed at once unless a transaction has begun."""
    psycopg = driver()
    settings = {**_DEFAULTS, **parameters(target, base), "client_encoding": "UTF8"}
    # Prepared statements belong to a session, and a pooler may change it between two transactions.
    connection: Connection = psycopg.connect(**settings, autocommit=True, prepare_threshold=None)
    return connection


def driver() -> Any:
    """The package psycopg; raises `Unreachable` where it is not installed."""
    try:
        import psycopg
    except ImportError:
        raise Unreachable(
            "Postgres needs the package psycopg; install it: pip install 'latecomer[postgres]'"
        ) from None
    return psycopg


def parameters(target: str, base: Path) -> dict[str, str]:
    """The connection parameters in the target, with its secrets, which may hold any character."""
    psycopg = driver()
    for problem in reference_problems([("target", target)], base):
        raise Unreachable(f"{problem.value}: {problem.message}; {problem.fix}")
    encoded = str if is_reference(target) else partial(quote, safe="") if _URL.match(target) else _escaped
    text = resolved(target, base, encoded)
    fix = (
        "write postgresql://user@host:port/database with special characters as %XX, or host=… user=… dbname=…"
    )
    if _URL.match(text) and is_torn(text):
        raise Unreachable(f"the target is not a URL that Postgres can read; {fix}")
    try:
        settings: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(text)
    except psycopg.Error:  # its message may quote a password
        raise Unreachable(
            f"the target is neither a URL nor key=value pairs that Postgres can read; {fix}"
        ) from None
    for name, value in settings.items():
        if name.endswith("password"):
            conceal(str(value))
    return {name: str(value) for name, value in settings.items() if value is not None}


def _escaped(secret: str) -> str:
    """A secret as a value in key=value pairs, inside quotes or not."""
    return _SPECIAL.sub(r"\\\1", secret)


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """One transaction in which every wait has a limit."""
    with _watched(connection), connection.transaction():
        connection.execute(_SET_LIMITS)
        yield


def answers(connection: Connection) -> bool:
    """Whether the server still answers on this connection."""
    try:
        with _watched(connection):
            connection.execute("SELECT 1")
    except driver().Error:
        return False
    return True


@contextmanager
def _watched(connection: Connection) -> Iterator[None]:
    """Shut the socket down after `SILENT_SECONDS`: the thread that waits for an answer then gets an error."""
    line = socket.socket(fileno=os.dup(connection.fileno()))
    watch = threading.Timer(SILENT_SECONDS, _cut, (line,))
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
        line.close()


def _cut(line: socket.socket) -> None:
    with suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


# Errors in words

_PASSING = {
    "08": ("the connection broke", "see that the server is up and can be reached"),
    "40": ("another transaction was in its way", "nothing need be done"),
    "53": ("the server lacks room, memory or connections", "make room there"),
    "57": ("the server ended the statement", "see that the server is up, and not too busy"),
    "58": ("the server met an error of its system", "check its disk and its log"),
}
_PASSING_STATES = {
    "25006": ("the server can only be read", "name the primary server, or wait until it is one"),
    "53100": ("the disk of the server is full", "make room there"),
    "53300": ("the server has no connection left", "close others, or raise max_connections"),
    "55P03": ("another program held the table", "close it or let it finish"),
    "55006": ("another program uses it", "close it or let it finish"),
    "57014": ("it took too long", "see what the server is doing, or raise statement_timeout in the target"),
    "3F000": ("the schema is gone", "bring it back, or it is made anew and filled from the store"),
    "42P01": ("the table is gone", "bring it back, or it is made anew and filled from the store"),
}
_NOT_LET_IN = (
    (
        r"password authentication failed|no password supplied",
        "the password was not accepted",
        "correct it: a target takes ${env:NAME} and ${file:PATH}",
    ),
    (
        r"no pg_hba\.conf entry",
        "the server does not let this user in from here",
        "allow it in its pg_hba.conf",
    ),
    (r'role "[^"]*" does not exist', "there is no such user", "correct the user in the target"),
    (r'database "[^"]*" does not exist', "there is no such database", "create it, or correct the target"),
    (r"permission denied for database", "the user may not connect to the database", "grant it CONNECT"),
)
"""Messages of a server that refuses a connection; these errors have no code."""


def reason_of(error: Exception, worked: bool) -> Reason:
    """Why Postgres refused. `worked` says that the sink worked before: then a lost permission may come back."""
    state, message = getattr(error, "sqlstate", None), without_secrets(first_line(error))
    if state in _PASSING_STATES or (state or "")[:2] in _PASSING:
        text, fix = _PASSING_STATES.get(str(state)) or _PASSING[str(state)[:2]]
        return Reason(f"{text} ({message})", fix, True)
    if state == "42501":
        return Reason(f"a permission is missing ({message})", "grant it to the user of the target", worked)
    if not isinstance(error, driver().OperationalError):
        fix = "correct what it names, or give the sink another table"
        return Reason(f"the server refused ({message})", fix, False)
    for pattern, text, fix in _NOT_LET_IN:
        if re.search(pattern, str(error)):
            return Reason(f"{text} ({message})", fix, worked)
    return Reason(
        f"the server cannot be reached ({message})", "see that it is up, and that the target is right", True
    )
