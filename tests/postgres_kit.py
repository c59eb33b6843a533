"""A real Postgres for the tests, started from its binaries in a folder of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from latecomer.testing.servers import PASSWORD as PASSWORD
from latecomer.testing.servers import PostgresServer, postgres_binaries, running_postgres

MISSING = "no Postgres here; LATECOMER_TEST_POSTGRES names the folder of its binaries"


class Postgres(PostgresServer):
    """What tests do with a server."""

    def ask(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        return ask_at(self.url_with_password, sql, *values)

    def kill(self) -> None:
        """SIGKILL to all of the server's processes."""
        server = psutil.Process(self.pid)
        doomed = [server, *server.children(recursive=True)]
        for process in doomed:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        psutil.wait_procs(doomed, timeout=10)

    def kill_backends(self, name: str = "latecomer") -> int:
        """SIGKILL to the processes that serve one program: with them the server restarts itself."""
        pids = [
            row["pid"]
            for row in self.ask("select pid from pg_stat_activity where application_name = %s", name)
        ]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return len(pids)

    def end_backends(self, name: str = "latecomer") -> int:
        return len(
            self.ask(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = %s", name
            )
        )


def ask_at(target: str, sql: str, *values: Any) -> list[dict[str, Any]]:
    """The rows of an answer; nothing where a statement gives none."""
    with psycopg.connect(target, autocommit=True, options="-c timezone=UTC") as connection:
        cursor = connection.execute(sql.encode(), values or None)
        names = [column.name for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()] if names else []


def required_binaries() -> Path:
    """The binaries; without them a test is skipped, and where CI is set it fails."""
    found = postgres_binaries()
    if found is None and os.environ.get("CI"):
        pytest.fail(MISSING, pytrace=False)
    return found or pytest.skip(MISSING)


@contextmanager
def running(bin_folder: Path, durable: bool = False) -> Iterator[Postgres]:
    """A server that asks for a password, until the block ends."""
    with running_postgres(bin_folder, durable) as server:
        yield Postgres(server.port, server.folder, server.binaries, server.durable)
