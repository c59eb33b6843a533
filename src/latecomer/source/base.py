"""What the engine needs of a source: what is new, slices of it, and their rows.

A slice is a piece of a source that can be read again, with the same rows, until it is in the log. Rows have the
source's columns, under the names that the pipeline has for them, and those of `columns.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from functools import cached_property, reduce
from operator import or_
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, Observation, SparkSession

from latecomer.config.models import Pipeline
from latecomer.decode.columns import KEPT, SCHEMA_ID
from latecomer.fast import Declined
from latecomer.source.columns import READ, SKIPPED, STAMPED, UNKNOWN

_Written = TypeVar("_Written")


@dataclass(frozen=True)
class Slice:
    """A piece of a source that can be read again, and has the same rows then."""

    newest: int
    """When the newest of it came, in microseconds; for rows that do not say so themselves."""
    partitions: Mapping[str, bool] | None = field(default=None, kw_only=True)
    """The partitions that the source has, and whether there is more of them than was read with this slice; None where
    it does not know them."""
    unread: int | None = field(default=None, kw_only=True)
    """How many rows the source had beyond this slice, where it knows that."""
    source: str = field(default="", kw_only=True)
    """The source that it is of, where there are several."""

    @property
    def size(self) -> int:
        """How many bytes it has, where that is known before it is read; else 0."""
        return 0

    def landings(self, origins: Iterable[str]) -> dict[str, int]:
        """When each of the origins landed: of rows with one arrival time, the first to land goes first."""
        return dict.fromkeys(origins, 0)

    def parts(self) -> Sequence[Slice]:
        """Slices that can be read one by one, and together have the same rows."""
        return [self]

    def of_parts(self, parts: Sequence[Slice]) -> Slice:
        """Some of its parts as one slice."""
        (only,) = parts
        return only


class Clock(IntFlag):
    """What said when rows came. The numbers are in stores."""

    COLUMN = 1
    """A column of their own."""
    FILE = 2
    """When their file was last written."""
    SOURCE = 4
    """A clock that a source of the user's own has."""
    BROKER = 8
    READ = 16
    """Nothing: they came when they were read."""

    @property
    def in_words(self) -> str | None:
        """As the timeline says it.

        >>> Clock.READ.in_words, (Clock.BROKER | Clock.READ).in_words, Clock(0).in_words
        ('read', 'broker, read', None)
        """
        return ", ".join(str(clock.name).lower() for clock in self) or None

    @classmethod
    def of_words(cls, words: str | None) -> Clock:
        """What the timeline says.

        >>> Clock.of_words("broker, read") == Clock.BROKER | Clock.READ, Clock.of_words(None) == NO_CLOCK
        (True, True)
        """
        return reduce(or_, (cls[word.upper()] for word in words.split(", ")), cls(0)) if words else cls(0)


NO_CLOCK = Clock(0)


class Read(Protocol):
    """What is known of the rows of a slice once they have been read."""

    def counted(self) -> int:
        """How many rows there were."""

    def clocks(self) -> Clock:
        """What said when they came."""

    def skipped(self) -> int:
        """How many more there were that the source leaves out."""


@dataclass(frozen=True)
class ReadApart:
    """What is known of rows that were read in parts."""

    parts: Sequence[Read]

    def counted(self) -> int:
        return sum(part.counted() for part in self.parts)

    def clocks(self) -> Clock:
        return reduce(or_, (part.clocks() for part in self.parts), NO_CLOCK)

    def skipped(self) -> int:
        return sum(part.skipped() for part in self.parts)


@dataclass(frozen=True)
class Rows:
    """The rows of a slice, and how many were read: counted where they come in, before anything is done."""

    frame: DataFrame
    counts: Sequence[Observation]
    aside: int = 0
    """Rows that were not read but made: each stands for a file or a line that could not be read."""
    tasks: int | None = None
    """How many tasks should write them, where there would be more."""
    clock: Clock = Clock.READ
    """What says when they came; of rows that it says nothing of, they came when they were read."""

    def counted(self) -> int:
        return self.aside + sum(int(count.get[READ]) for count in self.counts)

    def clocks(self) -> Clock:
        stamped = sum(int(count.get.get(STAMPED, count.get[READ])) for count in self.counts) + self.aside
        by_it = self.clock if stamped else NO_CLOCK
        return by_it | (Clock.READ if stamped < self.counted() else NO_CLOCK)

    def unknown(self) -> int:
        """How many of them could not be decoded for want of what can be learned."""
        return sum(int(count.get.get(UNKNOWN, 0)) for count in self.counts)

    def skipped(self) -> int:
        return sum(int(count.get.get(SKIPPED, 0)) for count in self.counts)


@dataclass(frozen=True)
class Loaded:
    """The rows of a slice in this process, none of which is a dead letter so far."""

    rows: pa.Table
    """The source's columns, ORIGIN, POSITION, in microseconds LANDED and, where the source says them, PARTITION,
    SCHEMA_ID and KEPT."""
    clock: Clock
    """What said when they came."""

    def counted(self) -> int:
        return int(self.rows.num_rows)

    def clocks(self) -> Clock:
        return self.clock

    def skipped(self) -> int:
        return 0


def together(parts: Iterable[pa.Table]) -> pa.Table:
    """Rows one behind the other; null where some have a column, such as KEPT, and others do not."""
    return pa.concat_tables(parts, promote_options="default")


def beside(rows: pa.Table) -> dict[str, pa.ChunkedArray]:
    """What decoded rows have beside the source's columns: SCHEMA_ID and KEPT, where they do."""
    return {name: rows.column(name) for name in (SCHEMA_ID, KEPT) if name in rows.column_names}


class Letters(ABC):
    """How dead letters of a slice are told."""

    @abstractmethod
    def filed(
        self, raw: bytes, reason: str, origin: str, position: int
    ) -> tuple[str, bytes | None, str | None]:
        """Text that every reader can read, the bytes where the text does not say them, and what was wrong."""


@dataclass(frozen=True)
class Source(ABC):
    """Where events come from: what can be read, slice by slice, with the columns pinned for it."""

    pipeline: Pipeline
    columns: Mapping[str, str]
    settings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What the session that reads needs."""

    @cached_property
    def read_columns(self) -> dict[str, str]:
        """The columns under the names that the source has for them."""
        return {self.pipeline.source_name(column): kind for column, kind in self.columns.items()}

    @property
    def looks_for_unknown(self) -> bool:
        """Whether rows say which fields they have that are no columns."""
        return self.pipeline.source.unknown_fields != "ignore"

    @abstractmethod
    def read(self, spark: SparkSession, piece: Slice, write: Callable[[Rows], _Written]) -> _Written:
        """What `write` makes of the rows of a slice. It may be called again, with all of the rows, where the first
        attempt did not read them right; only what the last call returns counts."""

    @abstractmethod
    def letters(self, piece: Slice) -> Letters:
        """How the dead letters of a slice are told."""

    def require_fast(self) -> None:
        """`Declined` where Spark has to read this source, whatever it holds."""
        raise Declined("a source that only Spark reads")

    def load(self, piece: Slice) -> Loaded:
        """The rows of a slice in this process; `Declined` where Spark has to read them."""
        self.require_fast()
        raise NotImplementedError

    def close(self) -> None:  # noqa: B027
        """Let go of what is kept open between slices; it may be read on."""


class FollowedSource(Source):
    """A source that a run can follow."""

    def session(self) -> Mapping[str, str]:
        """What Spark needs to be started with, so that it can read."""
        return {}

    @abstractmethod
    def require(self) -> None:
        """Refuse a source that cannot be used, as far as that can be seen without Spark."""

    @abstractmethod
    def resume(self, home: Path, accepted: int, logged: bool, parts: int = 1) -> None:
        """Go on after the batch of the source that was `accepted` last. What the source has answered is below `home`,
        its folder in the store. It is refused where it does not say what was accepted, or what is `logged` after that.
        `parts` is how many parts of that batch are on the timeline: stores of earlier versions cut batches."""

    @abstractmethod
    def ask_for_all(self, home: Path, number: int) -> None:
        """Ask for all that is there now, when the batches before this `number` are accepted, and write it down."""

    @abstractmethod
    def has_answered(self, home: Path, number: int) -> bool:
        """Whether it is written down what a batch is made of."""

    @abstractmethod
    def answered(self, home: Path, number: int) -> Slice | None:
        """What a batch is made of, if that is written down: the same whenever it is asked."""

    @abstractmethod
    def news(self, home: Path, number: int) -> Slice | None:
        """What the next batch is made of, if there is anything new; it is written down. It is asked often."""
