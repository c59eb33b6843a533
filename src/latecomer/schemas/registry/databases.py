"""The database of a registry: reading transactions, and writing transactions, which run one at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from latecomer.errors import RegistryError

Row = tuple[Any, ...]


class StorageError(RegistryError):
    """The database refused, or cannot be reached. A later try may succeed."""

    def __init__(self, message: str) -> None:
        super().__init__(message, 50001)


@dataclass(frozen=True)
class Session:
    """A transaction. Values replace the question marks of a statement."""

    execute: Callable[[str, tuple[Any, ...]], Any]

    def rows(self, sql: str, *values: Any) -> list[Row]:
        return list(self.execute(sql, values).fetchall())

    def run(self, sql: str, *values: Any) -> None:
        self.execute(sql, values)


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
