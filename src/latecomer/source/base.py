"""What the engine needs of a source: what is new, slices of it, and their rows.

A slice is a part of a source that can be read again, with the same rows, until it is in the log. Rows have the
source's columns, under the names that the pipeline has for them, and those of `columns.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntFlag
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa

from latecomer.config.models import Pipeline
from latecomer.config.portable import portable
from latecomer.model.merging import ReadTo
from latecomer.source.decode.frames import UnknownSchemas
from latecomer.store.files import Location

if TYPE_CHECKING:
    from latecomer.source.staging import Staging


_BETWEEN = ", "


@dataclass(frozen=True)
class Slice:
    """A part of a source that can be read again, and has the same rows then."""

    newest: int
    """When the newest of it came, in microseconds; for rows that do not say so themselves."""
    partitions: Mapping[str, bool] | None = field(default=None, kw_only=True)
    """The partitions that the source has, and whether there is more of them than was read with this slice; None where
    it does not know them."""
    unread: int | None = field(default=None, kw_only=True)
    """How many rows the source had beyond this slice, where it knows that."""
    source: str = field(default="", kw_only=True)
    """The source that it is of, where there are several; their names, where it is of more than one."""

    @property
    def sources(self) -> Sequence[str]:
        """The names of its sources; one that is alone has none."""
        return self.source.split(_BETWEEN)

    def landings(self, origins: Iterable[str]) -> dict[str, int]:
        """When each of the origins landed: of rows with one arrival time, the first to land goes first."""
        return dict.fromkeys(origins, 0)


@dataclass(frozen=True)
class Part:
    """What a batch reads of a slice: all of it, or the events that came after a moment and until another. Its dead
    letters are read with the last of it."""

    slice: Slice
    after: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class Together(Slice):
    """Slices of several sources, or parts of them, that are read in one batch: in the order of arrival."""

    parts: Sequence[Part]
    read_to: Mapping[str, ReadTo]
    """How far each source is read with it."""

    @classmethod
    def of(
        cls, parts: Sequence[Part], read_to: Mapping[str, ReadTo], partitions: Mapping[str, bool] | None
    ) -> Together:
        unread = [each.slice.unread for each in parts]
        return cls(
            max(each.slice.newest for each in parts),
            parts,
            read_to,
            partitions=partitions,
            unread=None if None in unread else sum(each or 0 for each in unread),
            source=_BETWEEN.join(sorted({each.slice.source for each in parts})),
        )

    def landings(self, origins: Iterable[str]) -> dict[str, int]:
        asked = list(origins)
        found = [each.slice.landings(asked) for each in self.parts]
        return {origin: max(each[origin] for each in found) for origin in asked}


def parts_of(slice_: Slice) -> Sequence[Part]:
    """What a batch of a slice, or of several, reads."""
    return slice_.parts if isinstance(slice_, Together) else [Part(slice_)]


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


class Split(ABC):
    """A part of a slice that one task reads. It is small, and can be sent to another process."""

    @property
    @abstractmethod
    def size(self) -> int:
        """About how many bytes it has."""


@dataclass(frozen=True)
class Chunk:
    """Some rows of a split."""

    rows: pa.Table
    """The source's columns under the pipeline's names, ORIGIN, POSITION and, where they are known, the other columns of
    `source/columns.py` and `source/decode/columns.py`. LANDED is in microseconds."""
    clock: Clock
    """What said when they came."""
    letters: Letters
    """How dead letters among them are filed."""
    skipped: int = 0
    """How many records were left out, and are only counted."""
    landed: int = 0
    """When what they come from has landed: of events with one id and one arrival, the first to land counts."""
    long_lines: Mapping[str, int] = field(default_factory=dict)
    """How many of them are lines that are too long, by their files."""

    @classmethod
    def joined(cls, chunks: Sequence[Chunk]) -> Chunk:
        """Several as one. A column that some of them lack is null there."""
        return cls(
            pa.concat_tables([each.rows for each in chunks], promote_options="default"),
            reduce(or_, (each.clock for each in chunks), NO_CLOCK),
            chunks[0].letters,
            sum(each.skipped for each in chunks),
            long_lines=summed(each.long_lines for each in chunks),
        )


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """What several counts come to."""
    return dict(sum(map(Counter, counts), Counter[str]()))


class Letters(ABC):
    """How dead letters of a slice are shown."""

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

    @cached_property
    def read_columns(self) -> dict[str, str]:
        """The columns under the names that the source has for them."""
        return {self.pipeline.source_name(column): kind for column, kind in self.columns.items()}

    @property
    def looks_for_unknown(self) -> bool:
        """Whether rows say which fields they have that are no columns."""
        return self.pipeline.source.unknown_fields != "ignore"

    @abstractmethod
    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        """The parts of a slice that can be read apart; together they have the same rows, whenever it is asked. What
        only Spark can compute of them is computed by then, and staged."""

    @abstractmethod
    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        """The rows of some splits, a chunk at a time. It is called in a task."""

    def portable(self) -> Self:
        """The source as tasks are given it: without what only the driver needs."""
        return replace(self, pipeline=portable(self.pipeline))

    def require_few(self, long_lines: Mapping[str, int]) -> None:  # noqa: B027
        """Refuse files with too many lines that are too long, of what all splits of a slice have."""

    def prepare(self) -> None:  # noqa: B027
        """Learn what could not be had when it was asked for last; `SchemaOutage` while it still cannot."""

    def learn(self, unknown: UnknownSchemas) -> None:
        """Learn the schemas that records name; `SchemaOutage` while one cannot be had."""
        raise unknown

    def close(self) -> None:  # noqa: B027
        """Let go of what is kept open between slices; it may be read on."""


class FollowedSource(Source):
    """A source that a run can follow."""

    pause: ClassVar[float] = 0.0
    """Seconds between two questions, at least."""

    @property
    def stamps_arrivals(self) -> bool:
        """Whether every row says when it came, so that it can be read in the order of arrival beside other sources."""
        return False

    def arrivals(self, slice_: Slice) -> tuple[int, int] | None:
        """When the first and the last of a slice came, where that is known without reading it."""
        return None

    def session(self) -> Mapping[str, str]:
        """What Spark needs to be started with, so that it can read."""
        return {}

    @abstractmethod
    def require(self) -> None:
        """Refuse a source that cannot be used, as far as that can be seen without Spark."""

    @abstractmethod
    def resume(self, home: Location, accepted: int, logged: bool, parts: int = 1) -> None:
        """Go on after the batch of the source that was `accepted` last. What the source has answered is below `home`,
        its folder in the store. It is refused where it does not say what was accepted, or what is `logged` after that.
        `parts` is how many parts of that batch are on the timeline: stores of earlier versions cut batches."""

    @abstractmethod
    def ask_for_all(self, home: Location, number: int) -> None:
        """Ask for all that is there now, when the batches before this `number` are accepted, and write it down."""

    @abstractmethod
    def has_answered(self, home: Location, number: int) -> bool:
        """Whether it is written down what a batch is made of."""

    @abstractmethod
    def answered(self, home: Location, number: int) -> Slice | None:
        """What a batch is made of, if that is written down: the same whenever it is asked."""

    @abstractmethod
    def news(self, home: Location, number: int) -> Slice | None:
        """What the next batch is made of, if there is anything new; it is written down. It is asked often. A
        `SourceOutage` where it cannot be asked."""
