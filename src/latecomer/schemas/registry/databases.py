"""The database of a registry at the path or URL in `--store`: a SQLite file, or Postgres (`postgres_store.py`).

A commit is on the disk before it is reported.
"""

from __future__ import annotations

import queue
import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from latecomer.errors import RegistryError, first_line
from latecomer.schemas.registry import tables
from latecomer.schemas.registry.postgres_store import PostgresDatabase
from latecomer.schemas.registry.tables import Database, StorageError, Transaction

BUSY_SECONDS = 30.0
APPLICATION = 0x4C637267
"""The application id in the header of the file."""
_FIX = "give another file with --store"
_POSTGRES = re.compile(r"postgres(ql)?://|\$\{|.*\b(host|dbname|service)\s*=", re.IGNORECASE)
_URL = re.compile("[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def open_database(where: str, *, create: bool = True) -> Database:
    """The database at a path, or at the server that a URL names."""
    if is_server(where):
        return PostgresDatabase(where)
    if (other := _URL.match(where)) is not None:
        raise RegistryError(
            f"--store names {other[0]}…, and the registry knows no such database; give the path of a file, or "
            "postgresql://USER@HOST/DATABASE"
        )
    return SqliteDatabase(Path(where), create=create)


def is_server(where: str) -> bool:
    """Whether `--store` names a Postgres server. A reference to a secret, such as ${REGISTRY}, counts as one: a path
    needs no secret.

    >>> is_server("postgresql://db/schemas"), is_server("host=db dbname=schemas"), is_server("registry.db")
    (True, True, False)
    """
    return _POSTGRES.match(where) is not None


class SqliteDatabase:
    """A database file. Connections are reused. Writes of this process wait for a lock here, not for the file's lock."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        if "\0" in str(path):
            raise RegistryError(f"the path {str(path)!r} holds a NUL character; {_FIX}")
        self.path = path.absolute()
        self.shown = str(self.path)
        self._write_lock = threading.Lock()
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        try:
            if self.path.is_dir():
                raise RegistryError(f"{self.shown} is a folder; {_FIX}")
            if not create and not self.path.exists():
                raise RegistryError(f"there is no registry at {self.shown}; {_FIX}")
        except OSError as error:
            raise RegistryError(f"{self.shown} cannot be opened ({error.strerror}); {_FIX}") from None
        with self._errors_explained():
            self._prepare()
            self._file = self._file_now()

    def close(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._errors_explained(), self._connection() as connection:
            connection.execute("BEGIN")
            try:
                yield Transaction(connection.execute)
            finally:
                connection.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[Transaction]:
        with self._write_lock, self._errors_explained(), self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(connection.execute)
                connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """An idle connection, or a new one. Refused if the file is gone: writes to it would be lost."""
        if self._file_now() != self._file:
            self.close()
            raise StorageError(
                f"the file {self.shown} is gone or was replaced; bring it back, and start again"
            )
        try:
            connection = self._idle.get_nowait()
        except queue.Empty:
            connection = self._opened()
        try:
            yield connection
        except sqlite3.Error:
            connection.close()
            raise
        except BaseException:
            self._idle.put(connection)
            raise
        self._idle.put(connection)

    def _file_now(self) -> tuple[int, int] | None:
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return None
        return state.st_dev, state.st_ino

    def _opened(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            if connection.execute("PRAGMA journal_mode = WAL").fetchone()[0] != "wal":
                raise RegistryError(
                    f"{self.shown} is where SQLite cannot keep a write-ahead log; choose a folder on a local disk"
                )
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self) -> None:
        """Create the tables, or check that they are ours."""
        self._require_ours()
        connection = self._opened()
        try:
            # A step may recreate a table that others refer to.
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("BEGIN IMMEDIATE")
            session = Transaction(connection.execute)
            is_new = not session.rows("SELECT 1 FROM sqlite_master WHERE name = 'registry_format'")
            if is_new:
                session.run(f"PRAGMA application_id = {APPLICATION}")
            tables.prepare(session, self.shown, is_new=is_new, triggers=_TRIGGERS, to_format_2=_TO_FORMAT_2)
            connection.execute("COMMIT")
        finally:
            connection.close()

    def _require_ours(self) -> None:
        """Refuse a file of another program before anything is changed."""
        if not self.path.exists():
            if not self.path.parent.is_dir():
                raise RegistryError(f"there is no folder {self.path.parent}; make it, or {_FIX}")
            return
        connection = sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)
        try:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
            is_filled = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        finally:
            connection.close()
        if is_filled and application != APPLICATION:
            raise RegistryError(f"{self.shown} is a database of another program; {_FIX}")

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: sqlite3.Error) -> RegistryError:
        match getattr(error, "sqlite_errorcode", 0) & 0xFF:
            case sqlite3.SQLITE_NOTADB:
                return RegistryError(f"{self.shown} is no SQLite database; {_FIX}")
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                reason = f"another program held it for {BUSY_SECONDS:g} s"
            case sqlite3.SQLITE_FULL:
                reason = "the disk is full; make room there"
            case sqlite3.SQLITE_READONLY:
                reason = "it can only be read; make the file and its folder writable"
            case sqlite3.SQLITE_CANTOPEN:
                reason = "it cannot be opened; see that it is a file in a folder you may write to"
            case _:
                reason = first_line(error)
        return StorageError(f"the database {self.shown} refused: {reason}")


_TO_FORMAT_2 = (
    "CREATE TABLE registry_schemas_2 (id INTEGER PRIMARY KEY, identity TEXT NOT NULL, type TEXT NOT NULL, text TEXT)",
    "INSERT INTO registry_schemas_2 SELECT id, identity, type, text FROM registry_schemas",
    "DROP TABLE registry_schemas",
    "ALTER TABLE registry_schemas_2 RENAME TO registry_schemas",
    tables.SCHEMAS_BY_IDENTITY,
    "UPDATE registry_format SET version = 2",
)
"""An identity may have several ids. SQLite cannot take a constraint from a table."""
_TRIGGERS = tuple(
    f"CREATE TRIGGER registry_audit_no_{what.lower()} BEFORE {what} ON registry_audit "
    "BEGIN SELECT RAISE(ABORT, 'the audit is only added to'); END"
    for what in ("UPDATE", "DELETE")
)
