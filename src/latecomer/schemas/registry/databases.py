"""The database of a registry: reading transactions, and writing transactions, which run one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from latecomer.errors import RegistryError

Row = tuple[Any, ...]
FORMAT = 3
"""The format of the tables. Earlier ones are migrated; later ones are refused."""


class StorageError(RegistryError):
    """The database refused, or cannot be reached. A later try may succeed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 50001)


class Session(Protocol):
    """A transaction. Values replace the question marks of a statement."""

    def rows(self, sql: str, *values: Any) -> list[Row]: ...

    def run(self, sql: str, *values: Any) -> None: ...


class Database(Protocol):
    """Where a registry stores its tables."""

    shown: str
    """Its location in messages, without secrets."""

    def reading(self) -> AbstractContextManager[Session]:
        """A transaction that reads one snapshot."""
        ...

    def writing(self) -> AbstractContextManager[Session]:
        """A transaction without concurrent writes. It is on disk when the block has ended."""
        ...

    def close(self) -> None: ...


TO_FORMAT_3 = (
    "ALTER TABLE registry_schemas ADD COLUMN contract TEXT",
    "UPDATE registry_format SET version = 3",
)
"""From format 2 to 3: a schema may have metadata and rules."""


def require_format(rows: Sequence[Row], shown: str) -> None:
    """Refuse tables of a later version."""
    if rows and rows[0][0] > FORMAT:
        raise RegistryError(
            f"{shown} was written by a later version of latecomer (format {rows[0][0]}; this version reads up to "
            f"format {FORMAT}); install the later version"
        )
