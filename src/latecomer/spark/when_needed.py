"""A session that is started on first use: what needs no Spark does not wait for it (ADR 0073)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Waiting:
    """Starts the session on first use, and passes everything on to it."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self.__start = start
        self.__lock = Lock()
        self.__session: SparkSession | None = None

    def __getattr__(self, name: str) -> Any:
        with self.__lock:
            if self.__session is None:
                self.__session = self.__start()
        return getattr(self.__session, name)

    def _is_started(self) -> bool:
        return self.__session is not None


def when_needed(start: Callable[[], SparkSession]) -> SparkSession:
    """A session that `start` makes on first use.

    >>> asked = when_needed(lambda: print("starting") or "a session")
    >>> is_started(asked)
    False
    >>> asked.upper()
    starting
    'A SESSION'
    >>> is_started(asked)
    True
    """
    return cast("SparkSession", _Waiting(start))


def is_started(spark: SparkSession) -> bool:
    """Whether the session has been started."""
    return spark._is_started() if isinstance(spark, _Waiting) else True
