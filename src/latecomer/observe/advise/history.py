"""A history of arrivals: the interface that a log and raw files share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.computed import kept_by
from latecomer.log.hashes import hash_ids
from latecomer.model.array_types import Doubles, Flags, Integers, Unsigned
from latecomer.model.lateness.course import Course
from latecomer.model.lateness.sweep import mixed
from latecomer.model.strategies import Strategy
from latecomer.model.windows import AnyWindow

AT_ONCE = 1 << 18
"""So many rows are in memory at a time."""
_NULL = np.uint64(0x27D4EB2F165667C5)


@dataclass(frozen=True)
class ArrivalsPart:
    """Some events. `row` is the place of their tick in the course, `age` arrival less event time, in microseconds."""

    row: Integers
    times: Integers
    age: Integers
    partition: Integers
    batch: Integers
    columns: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.times)

    def only(self, chosen: Flags) -> ArrivalsPart:
        """Those of the events that are chosen."""
        if chosen.all():
            return self
        columns = (self.row, self.times, self.age, self.partition, self.batch)
        row, times, age, partition, batch = (each[chosen] for each in columns)
        return ArrivalsPart(row, times, age, partition, batch, self.columns.filter(pa.array(chosen)))


@dataclass(frozen=True)
class MeasuredAggregate:
    """An aggregate of which the bias can be computed."""

    name: str
    function: str
    column: str | None
    """As it is stored; None counts events."""
    written: str


@dataclass(frozen=True)
class Where:
    """A condition, and the columns that it needs: their types, and how they are stored."""

    sql: str
    kinds: Mapping[str, str]
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Subject:
    """An output, or the windows that are assumed for raw files."""

    name: str
    window: AnyWindow
    keys: tuple[str, ...] = ()
    accepts: bool = True
    """Whether late events are added to the number."""
    drops_late: bool = False
    drops_too_late: bool = False
    lateness: int = 0
    aggregates: tuple[MeasuredAggregate, ...] = ()
    state_bytes: float = 0.0
    where: Where | None = None

    @property
    def columns(self) -> set[str]:
        """The columns that have to be read for it, as they are stored."""
        measured = {each.column for each in self.aggregates if each.column is not None}
        return {*self.keys, *measured, *(self.where.columns.values() if self.where else ())}


class RecordedArrivals(ABC):
    """Recorded arrivals, which can be read several times."""

    title: str
    kind: str
    """`log` or `files`."""
    course: Course
    strategy: Strategy
    subjects: Sequence[Subject]
    producer: str | None
    """The column, as it is stored, that names who made an event."""
    by: Mapping[str, str]
    """The columns to group by: their names, and as they are stored."""
    notes: list[str]
    total: int

    @abstractmethod
    def parts(self, columns: Sequence[str]) -> Iterator[ArrivalsPart]:
        """All events, part by part, with these columns."""


@dataclass
class Codes:
    """Values as numbers, in the order in which they were first seen. Of more than `most`, the rest are one."""

    most: int = 1_000
    names: list[str | None] = field(default_factory=list)
    others: bool = False
    _codes: dict[object, int] = field(default_factory=dict)

    @property
    def room(self) -> int:
        """How many codes there may be."""
        return self.most + 1

    def of(self, values: pa.Array) -> Integers:
        encoded = values.dictionary_encode(null_encoding="encode")
        codes = [self._code(value) for value in encoded.dictionary.to_pylist()]
        return np.asarray(np.array(codes, np.int64)[encoded.indices.to_numpy()], np.int64)

    def _code(self, value: object) -> int:
        if value not in self._codes and len(self._codes) >= self.most:
            if not self.others:
                self.others = True
                self.names.append(OTHERS)
            return self.most
        if value not in self._codes:
            self.names.append(None if value is None else str(value))
        return self._codes.setdefault(value, len(self._codes))


OTHERS = "(all others)"


def hashed(columns: pa.RecordBatch, keys: Sequence[str]) -> Unsigned:
    """A number for each row that depends on its key."""
    hashes = [_hashed(columns.column(name)) for name in keys]
    return mixed(*hashes) if hashes else np.zeros(columns.num_rows, np.uint64)


def _hashed(values: pa.Array) -> Unsigned:
    encoded = values.dictionary_encode()
    known = encoded.dictionary
    texts = known if pa.types.is_binary(known.type) else known.cast(pa.string())
    hashes = np.append(hash_ids(texts), _NULL)[np.asarray(encoded.indices.fill_null(-1))]
    return np.asarray(hashes, np.uint64)


def kept(part: ArrivalsPart, subject: Subject) -> ArrivalsPart:
    """The events that an output's `where` keeps."""
    if subject.where is None or not len(part):
        return part
    where = subject.where
    columns = {name: part.columns.column(stored) for name, stored in where.columns.items()}
    return part.only(kept_by(where.sql, where.kinds, columns, len(part)))


def numbers(values: pa.Array) -> tuple[Doubles, Flags]:
    """A numeric column, and where it has a value."""
    has_value = values.is_valid().to_numpy(zero_copy_only=False)
    filled = pc.fill_null(values.cast(pa.float64(), safe=False), 0.0).to_numpy(zero_copy_only=False)
    return np.nan_to_num(filled, nan=0.0, posinf=0.0, neginf=0.0), has_value
