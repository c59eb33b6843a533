"""The registry in Postgres. Several servers may share it: a write locks out every other."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from latecomer.config import postgres_server as server
from latecomer.errors import RegistryError
from latecomer.errors.redacting import redacted
from latecomer.schemas.registry import tables
from latecomer.schemas.registry.tables import StorageError, Transaction

FRESH_SECONDS = 1.0
"""A connection that was idle for longer is tested before use."""
_DURABLE = (
    "SELECT CASE current_setting('synchronous_commit') WHEN 'off' "
    "THEN set_config('synchronous_commit', 'on', true) END"
)
_FIX = "see that the server is up, and that --store is right"


class PostgresDatabase:
    """A database on a server. The tables are in the first schema of the search path."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.shown = redacted(target)
        self._idle: queue.LifoQueue[tuple[float, server.Connection]] = queue.LifoQueue()
        self._was_reached = False
        self._prepare()
        self._was_reached = True

    def close(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait()[1].close()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._transaction("REPEATABLE_READ") as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        # Reads after the lock must see the commit before it: the snapshot of a transaction may be older.
        with self._transaction("READ_COMMITTED") as session:
            session.run("LOCK TABLE registry_format IN EXCLUSIVE MODE")
            session.rows(_DURABLE)
            yield session

    @contextmanager
    def _transaction(self, isolation: str) -> Iterator[Transaction]:
        from psycopg import IsolationLevel

        with self._errors_explained():
            connection = self._borrowed()
            try:
                connection.isolation_level = IsolationLevel[isolation]
                with server.transaction(connection):
                    yield Transaction(partial(_execute, connection))
            except server.driver().Error:
                connection.close()
                raise
            except BaseException:
                self._give_back(connection)
                raise
            self._give_back(connection)

    def _borrowed(self) -> server.Connection:
        with suppress(queue.Empty):
            while True:
                since, connection = self._idle.get_nowait()
                if time.monotonic() - since < FRESH_SECONDS or server.answers(connection):
                    return connection
                connection.close()
        return server.connect(self._target, Path.cwd())

    def _give_back(self, connection: server.Connection) -> None:
        if not connection.closed:
            self._idle.put((time.monotonic(), connection))

    def _prepare(self) -> None:
        with self._transaction("READ_COMMITTED") as session:
            # Two servers may start at the same time, and there is no table to lock yet.
            session.rows("SELECT pg_advisory_xact_lock(hashtext('latecomer registry'))")
            is_new = session.rows("SELECT to_regclass('registry_format')")[0][0] is None
            tables.prepare(session, self.shown, is_new=is_new, triggers=_TRIGGERS, to_format_2=_TO_FORMAT_2)

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except server.Unreachable as error:
            raise RegistryError(str(error)) from None
        except Exception as error:
            if not isinstance(error, server.driver().Error):
                raise
            reason = server.reason_of(error, self._was_reached)
            fix = reason.fix if reason.passes else _FIX
            raise StorageError(f"the database {self.shown} refused: {reason.text}; {fix}") from None


def _execute(connection: server.Connection, sql: str, values: tuple[Any, ...]) -> Any:
    return connection.execute(sql.replace("?", "%s").encode(), values or None)


_TO_FORMAT_2 = (
    "ALTER TABLE registry_schemas DROP CONSTRAINT registry_schemas_identity_key",
    tables.SCHEMAS_BY_IDENTITY,
    "UPDATE registry_format SET version = 2",
)
"""An identity may have several ids."""
_TRIGGERS = (
    "CREATE FUNCTION registry_audit_stays() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'the audit is only added to'; END $$",
    "CREATE TRIGGER registry_audit_stays BEFORE UPDATE OR DELETE OR TRUNCATE ON registry_audit "
    "FOR EACH STATEMENT EXECUTE FUNCTION registry_audit_stays()",
)
