"""Opens the database of a registry at the path or URL in `--store`."""

from __future__ import annotations

import re
from pathlib import Path

from latecomer.errors import RegistryError
from latecomer.schemas.registry.databases import Database
from latecomer.schemas.registry.postgres_store import PostgresDatabase
from latecomer.schemas.registry.sqlite import SqliteDatabase

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
