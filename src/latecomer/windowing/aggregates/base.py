"""What every mergeable state has: the columns it is stored in, what events and stored states bring, how they merge, and
the value."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model.array_types import Doubles, Flags, Integers
from latecomer.model.arrays import flat
from latecomer.store.layout import arrow_type
from latecomer.store.private_columns import state_column
from latecomer.windowing.judge import JudgedEvents

Columns: TypeAlias = dict[str, pa.Array]
Events: TypeAlias = JudgedEvents


@dataclass(frozen=True)
class Groups:
    """Which rows of the inputs are merged together."""

    rows: Integers
    """The numbers of the rows, group after group."""
    offsets: Integers
    """Where each group begins in `rows`, and the last one ends."""

    @property
    def count(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def of_row(self) -> Integers:
        """The number of the group that each row is in."""
        found = np.empty(len(self.rows), np.int64)
        found[self.rows] = np.repeat(np.arange(self.count, dtype=np.int64), np.diff(self.offsets))
        return found


class State(ABC):
    """One aggregate, or one number that the engine keeps for itself, as a state that can be merged.

    Events and stored states become *inputs*, rows of the same columns. Arrow aggregates those in `folds`; `merge` does
    the rest.
    """

    name: str
    """The column of its value, or of the number itself."""
    columns: Mapping[str, str]
    """The private columns in which it is stored and their types; none where the value is the state."""
    folds: Mapping[str, str]
    """Input → the aggregation of Arrow's that folds it."""
    kinds: Mapping[str, pa.DataType]
    """The types of all its inputs: those in `folds`, and those that `merge` takes."""
    counts: Iterable[str] = ()
    """The inputs that are 0 where there is nothing; all others are null."""
    needs_groups: ClassVar[bool] = False
    """Whether `merge` has something to do."""
    in_order: ClassVar[bool] = False
    """Whether it takes ORIGIN and POSITION of events."""

    @abstractmethod
    def init(self, events: Events) -> Columns:
        """The inputs that events bring."""

    def stored(self, panes: pa.Table, fresh: bool) -> Columns:
        """The inputs that stored states bring: most have a column for each. `fresh` ones still count as added by this
        batch."""
        return {name: column_of(panes, name, kind) for name, kind in self.kinds.items()}

    def nothing(self, rows: int) -> Columns:
        """The inputs of windows without any event."""
        zero = set(self.counts)
        return {
            name: zeros(rows, kind) if name in zero else pa.nulls(rows, kind)
            for name, kind in self.kinds.items()
        }

    def merge(self, inputs: Mapping[str, pa.Array], groups: Groups) -> Columns:
        """Merge the inputs of each group that Arrow does not fold."""
        raise NotImplementedError(f"Arrow folds all inputs of {self.name}: needs_groups is false")

    @abstractmethod
    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        """The state and the value, from the merged inputs."""


class OwnValue(State):
    """A state that is its value: one column, which stored panes have."""

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        return {self.name: merged[self.name]}


class Gathered(State):
    """A state of many values: an event brings a single one, a stored state several."""

    needs_groups = True
    folds: Mapping[str, str] = {}

    def __init__(self, name: str, single: str, held: pa.DataType, several: str, stored: str) -> None:
        """`single` is the input of single values, of the type `held`; `several` the column of states, of the type
        `stored`."""
        self.name, self.single, self.held, self.several = name, single, held, several
        self.columns, self.held_several = {several: stored}, arrow_type(stored)
        self.kinds = {single: held, several: self.held_several}

    @abstractmethod
    def of_events(self, events: Events) -> pa.Array:
        """The value that each event brings; null where it brings none."""

    def init(self, events: Events) -> Columns:
        return {self.single: self.of_events(events), self.several: pa.nulls(len(events), self.held_several)}

    def stored(self, panes: pa.Table, fresh: bool) -> Columns:
        none = pa.nulls(panes.num_rows, self.held)
        return {self.single: none, self.several: column_of(panes, self.several, self.held_several)}


def zeros(rows: int, kind: pa.DataType) -> pa.Array:
    """So many zeros of a type."""
    return pa.array(np.zeros(rows, np.int8)).cast(kind)


def column_of(rows: pa.Table, name: str, kind: pa.DataType | None = None) -> pa.Array:
    """A column as one array, of this type."""
    column = flat(rows.column(name))
    return column if kind is None or column.type == kind else column.cast(kind)


def part(name: str, which: str) -> str:
    """The name of an input that is never stored."""
    return state_column(name, f".{which}")


def valid(column: pa.Array) -> Flags:
    """Where a column is not null."""
    return np.asarray(column.is_valid())


def as_count(flags: Flags) -> pa.Array:
    """1 where a flag is true, else 0."""
    return pa.array(flags.astype(np.int64))


def as_doubles(column: pa.Array) -> pa.Array:
    """Numbers as doubles, rounded to the nearest."""
    return column.cast(pa.float64(), safe=False)


def only(column: pa.Array, where: Flags) -> pa.Array:
    """A column, null where `where` is false."""
    return pc.if_else(pa.array(where), column, pa.scalar(None, column.type))


_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)


def float_ranks(numbers: Doubles) -> Integers:
    """Whole numbers in the order of floating point numbers. All NaN are equal, and larger than all others."""
    bits = np.where(np.isnan(numbers), np.nan, numbers).view(np.int64)
    return bits ^ ((bits >> 63) & _SIGN)


def ranked_floats(ranks: Integers) -> Doubles:
    """The inverse of `float_ranks`."""
    return (ranks ^ ((ranks >> 63) & _SIGN)).view(np.float64)


def alike(column: pa.Array) -> pa.Array:
    """A key in the form in which equal values have equal bits."""
    return one_zero(column) if pa.types.is_floating(column.type) else column


def one_zero(column: pa.Array) -> pa.Array:
    """Floating point numbers with one zero and one NaN, so that equal ones have equal bits."""
    empty = ~valid(column)
    numbers = np.asarray(column.fill_null(0)) + column.type.to_pandas_dtype()(0)
    return pa.array(np.where(np.isnan(numbers), np.nan, numbers), column.type, mask=empty)
