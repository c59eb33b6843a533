"""Events of the log, for whoever computes from them: as a frame of Spark's, or as tables in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from latecomer.fast import Declined

Parts = Callable[[Sequence[str]], Iterator[pa.Table]]
"""Some columns of events, a part of the rows at a time."""


class Logged:
    """Some events of the log. No form is made before it is asked for."""

    def __init__(
        self,
        read: Callable[[], DataFrame],
        load: Callable[[], pa.Table] | None = None,
        parts: Parts | None = None,
    ) -> None:
        self._read = read
        self._load = load
        self._parts = parts

    @classmethod
    def of(cls, frame: DataFrame) -> Logged:
        """Events that only Spark has."""
        return cls(lambda: frame)

    @cached_property
    def frame(self) -> DataFrame:
        """The events, to Spark."""
        return self._read()

    @cached_property
    def table(self) -> pa.Table:
        """The events in this process, where they are few enough."""
        if self._load is None:
            raise Declined("events that only Spark has")
        return self._load()

    def parts(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Some columns of the events in this process, a part of the rows at a time: where they are not too many to go
        through."""
        if self._parts is None:
            raise Declined("events that only Spark has")
        return self._parts(columns)
