"""A database as the registry needs one: transactions that read, and transactions that write, one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from latecomer.errors import RegistryError

Row = tuple[Any, ...]
FORMAT = 3
"""Of the tables. Those of an earlier one are brought to it; what a later version wrote is refused."""


class StorageError(RegistryError):
    """The database refused, or cannot be reached. It may pass."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 50001)


class Session(Protocol):
    """A transaction. Values stand for the question marks of a statement."""

    def rows(self, sql: str, *values: Any) -> list[Row]: ...

    def run(self, sql: str, *values: Any) -> None: ...


class Database(Protocol):
    """Where a registry keeps what it knows."""

    shown: str
    """What people may read of where it is."""

    def reading(self) -> AbstractContextManager[Session]:
        """A transaction that sees one moment."""
        ...

    def writing(self) -> AbstractContextManager[Session]:
        """A transaction that no other write runs beside. It is on the disk once the block has ended."""
        ...

    def close(self) -> None: ...


TO_FORMAT_3 = (
    "ALTER TABLE registry_schemas ADD COLUMN contract TEXT",
    "UPDATE registry_format SET version = 3",
)
"""A schema may have metadata and rules."""


def require_format(found: Sequence[Row], shown: str) -> None:
    """Refuse tables of a later version."""
    if found and found[0][0] > FORMAT:
        raise RegistryError(
            f"{shown} was written by a later version of latecomer (format {found[0][0]}, and this one knows {FORMAT}); "
            "install that version"
        )
