"""What the engine needs from a source: what is new, slices of it, and their rows.

A slice can be read again, with the same rows, until it is in the log. Rows have the source's columns, under the names
that the pipeline gives them, and the private columns of `private_columns.py`.
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

from latecomer.config.for_tasks import portable
from latecomer.config.models import Pipeline
from latecomer.model.source_order import ReadTo
from latecomer.source.decode.base import Split as Split
from latecomer.source.decode.framing import UnknownSchemas
from latecomer.store.files import Location

if TYPE_CHECKING:
    from latecomer.source.letters import RecordLetters
    from latecomer.source.staging import Staging


_SEPARATOR = ", "


@dataclass(frozen=True)
class Slice:
    """A part of a source that can be read again with the same rows."""

    newest: int
    """When its newest row arrived, in microseconds: the arrival of rows that have none of their own."""
    partitions: Mapping[str, bool] | None = field(default=None, kw_only=True)
    """The source's partitions, and whether each has rows beyond this slice; None if the source does not know them."""
    unread: int | None = field(default=None, kw_only=True)
    """How many rows the source had beyond this slice, if it knows that."""
    source: str = field(default="", kw_only=True)
    """The name of its source, or the names of several; empty if the pipeline has only one source."""
    read_to: Mapping[str, ReadTo] = field(default_factory=dict, kw_only=True)
    """How far each source is read with it, where it has slices of several."""

    @property
    def sources(self) -> Sequence[str]:
        """The names of its sources; an only source has the empty name."""
        return self.source.split(_SEPARATOR)

    def landings(self, origins: Iterable[str]) -> dict[str, int]:
        """When each of the origins landed. Rows with the same arrival time are ordered by it."""
        return dict.fromkeys(origins, 0)


@dataclass(frozen=True)
class BatchPart:
    """What a batch reads of a slice: all of it, or the events that arrived within an interval. The last part has the
    dead letters of the slice."""

    slice: Slice
    after: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class MergedSlice(Slice):
    """Slices of several sources, or parts of them, that one batch reads in the order of arrival."""

    parts: Sequence[BatchPart]

    @classmethod
    def of(
        cls, parts: Sequence[BatchPart], read_to: Mapping[str, ReadTo], partitions: Mapping[str, bool] | None
    ) -> MergedSlice:
        unread = [each.slice.unread for each in parts]
        return cls(
            max(each.slice.newest for each in parts),
            parts,
            read_to=read_to,
            partitions=partitions,
            unread=None if None in unread else sum(each or 0 for each in unread),
            source=_SEPARATOR.join(sorted({each.slice.source for each in parts})),
        )

    def landings(self, origins: Iterable[str]) -> dict[str, int]:
        names = list(origins)
        landings = [each.slice.landings(names) for each in self.parts]
        return {origin: max(each[origin] for each in landings) for origin in names}


def parts_of(slice_: Slice) -> Sequence[BatchPart]:
    """The parts that a batch reads for a slice."""
    return slice_.parts if isinstance(slice_, MergedSlice) else [BatchPart(slice_)]


class Clock(IntFlag):
    """Which clock the arrival times of rows are from. Stores have the numbers."""

    COLUMN = 1
    """A column of the rows."""
    FILE = 2
    """When their file was last written."""
    SOURCE = 4
    """A user's own source."""
    BROKER = 8
    READ = 16
    """The clock of the run, when it read them."""

    @property
    def in_words(self) -> str | None:
        """As the timeline shows it.

        >>> Clock.READ.in_words, (Clock.BROKER | Clock.READ).in_words, Clock(0).in_words
        ('read', 'broker, read', None)
        """
        return ", ".join(str(clock.name).lower() for clock in self) or None

    @classmethod
    def of_words(cls, words: str | None) -> Clock:
        """From what the timeline shows.

        >>> Clock.of_words("broker, read") == Clock.BROKER | Clock.READ, Clock.of_words(None) == NO_CLOCK
        (True, True)
        """
        return reduce(or_, (cls[word.upper()] for word in words.split(", ")), cls(0)) if words else cls(0)


NO_CLOCK = Clock(0)


@dataclass(frozen=True)
class Chunk:
    """Some rows of a split."""

    rows: pa.Table
    """The source's columns under the pipeline's names, ORIGIN, POSITION and, where they are known, the other columns of
    `source/private_columns.py` and `source/decode/private_columns.py`. LANDED is in microseconds."""
    clock: Clock
    """The clock of their arrival times."""
    letters: RecordLetters
    """How dead letters among them are shown."""
    skipped: int = 0
    """How many records were left out: they are only counted."""
    landed: int = 0
    """When their origin landed: of events with the same id and arrival, the first to land counts."""
    long_lines: Mapping[str, int] = field(default_factory=dict)
    """How many of them are lines that are too long, by file."""

    @classmethod
    def joined(cls, chunks: Sequence[Chunk]) -> Chunk:
        """Several chunks as one. A column that some of them lack is null in their rows."""
        return cls(
            pa.concat_tables([each.rows for each in chunks], promote_options="default"),
            reduce(or_, (each.clock for each in chunks), NO_CLOCK),
            chunks[0].letters,
            sum(each.skipped for each in chunks),
            long_lines=summed(each.long_lines for each in chunks),
        )


def summed(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The sum of several counts, by key."""
    return dict(sum(map(Counter, counts), Counter[str]()))


@dataclass(frozen=True)
class Source(ABC):
    """Where events come from. It is read slice by slice, with the columns pinned for it."""

    pipeline: Pipeline
    columns: Mapping[str, str]

    @cached_property
    def read_columns(self) -> dict[str, str]:
        """The columns by their names in the source."""
        return {self.pipeline.source_name(column): kind for column, kind in self.columns.items()}

    @property
    def looks_for_unknown(self) -> bool:
        """Whether rows report their unknown fields."""
        return self.pipeline.source.unknown_fields != "ignore"

    @abstractmethod
    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        """The splits of a slice. Together they have the same rows whenever this is called. Rows that only Spark can
        compute are computed here, and staged."""

    @abstractmethod
    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        """The rows of some splits, a chunk at a time. Called in a task."""

    def portable(self) -> Self:
        """The source as it is sent to tasks: without what only the driver needs."""
        return replace(self, pipeline=portable(self.pipeline))

    def require_few(self, long_lines: Mapping[str, int]) -> None:  # noqa: B027
        """Refuse files with too many lines that are too long, counted over all splits of a slice."""

    def prepare(self) -> None:  # noqa: B027
        """Ask again for schemas that could not be fetched last time; `SchemaOutage` if one still cannot."""

    def learn(self, unknown: UnknownSchemas) -> None:
        """Fetch the schemas that records name; `SchemaOutage` if one cannot be fetched."""
        raise unknown

    def close(self) -> None:  # noqa: B027
        """Close what is kept open between slices. The source can still be read afterwards."""


class FollowedSource(Source):
    """A source that a run can follow."""

    pause: ClassVar[float] = 0.0
    """Seconds between two calls of `next_slice`, at least."""

    @property
    def stamps_arrivals(self) -> bool:
        """Whether every row has an arrival time: only then can the source be merged with others by arrival."""
        return False

    def arrivals(self, slice_: Slice) -> tuple[int, int] | None:
        """When the first and the last row of a slice arrived, if that is known without reading it."""
        return None

    def session(self) -> Mapping[str, str]:
        """The settings that Spark must be started with to read this source."""
        return {}

    @abstractmethod
    def require(self) -> None:
        """Refuse a source that cannot be used, as far as Spark is not needed to see it."""

    @abstractmethod
    def resume(self, home: Location, accepted: int, logged: bool, parts: int = 1) -> None:
        """Go on after the batch of the source that was `accepted` last. The source's answers are below `home`, its
        folder in the store. Refuse them if that batch is missing, or the next one while it is already `logged`.
        `parts` is how many parts of that batch are on the timeline: stores of earlier versions cut batches."""

    @abstractmethod
    def find_all(self, home: Location, number: int) -> None:
        """Find all that is there now, and write it down. The batches before this `number` are accepted."""

    @abstractmethod
    def has_slice(self, home: Location, number: int) -> bool:
        """Whether the content of a batch is written down."""

    @abstractmethod
    def slice_of(self, home: Location, number: int) -> Slice | None:
        """The slice of a batch, if it is written down: always the same."""

    @abstractmethod
    def next_slice(self, home: Location, number: int) -> Slice | None:
        """The slice of the next batch, written down; None if nothing is new. Called often. `SourceOutage` if the source
        cannot be reached."""
