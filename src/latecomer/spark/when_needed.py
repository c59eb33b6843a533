"""A session that is started when something is asked of it: what needs no Spark does not wait for one (ADR 0073)."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, cast

from pyspark.sql import SparkSession


class _Waiting:
    """Stands in for a session until something is asked of it."""

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
    """A session that `start` makes when it is first asked for anything.

    >>> asked = when_needed(lambda: print("starting") or "a session")
    >>> is_started(asked)
    False
    >>> asked.upper()
    starting
    'A SESSION'
    >>> is_started(asked)
    True
    """
    return cast(SparkSession, _Waiting(start))


def is_started(spark: SparkSession) -> bool:
    """Whether a session is there already."""
    return spark._is_started() if isinstance(spark, _Waiting) else True
