"""Counts, sums, smallest and largest values; and the part of a count or a sum that this batch added."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.model import types
from latecomer.model.array_types import Flags, Integers
from latecomer.store.layout import arrow_type
from latecomer.store.state_types import LOW_DIGITS, WHOLE, beyond_column, beyond_halves
from latecomer.windowing.aggregates.base import (
    Columns,
    Events,
    OwnValue,
    State,
    as_count,
    as_doubles,
    column_of,
    float_ranks,
    only,
    part,
    ranked_floats,
    valid,
)
from latecomer.windowing.aggregates.exact import (
    SHORT,
    as_type,
    decimals,
    fits_64_bits,
    fits_decimal,
    integers,
    wholes,
)


class SumOverflow(OverflowError):
    """A sum that no decimal holds: the name of its state, and the column that is summed."""

    def __init__(self, name: str, column: str) -> None:
        super().__init__(name, column)
        self.name, self.column = name, column

    def __str__(self) -> str:
        return f"the sum {self.name} has more than {types.MOST_DIGITS} digits"


class Column:
    """The values of a column."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, events: Events) -> pa.Array:
        return events.columns[self.name]


class Amount:
    """What events add to a measure of the ledger: 0 where they have no value, or where `when` is false."""

    def __init__(self, name: str, when: Callable[[Events], Flags] | None = None) -> None:
        self.name, self.when = name, when

    def __call__(self, events: Events) -> pa.Array:
        column = events.columns[self.name]
        zero = pa.scalar(0, column.type) if pa.types.is_integer(column.type) else _zero(column.type)
        amounts = pc.fill_null(column, zero)
        return amounts if self.when is None else pc.if_else(pa.array(self.when(events)), amounts, zero)


def _zero(kind: pa.DataType) -> pa.Scalar:
    return pa.scalar(Decimal(0).scaleb(-kind.scale), kind)


Term: TypeAlias = Column | Amount
_HALF = pa.decimal256(types.MOST_DIGITS, 0)
_LOW = pa.scalar(Decimal(10**LOW_DIGITS), pa.decimal256(LOW_DIGITS + 1, 0))


class ExactSum(State):
    """A sum of whole numbers or decimals, in a column that is wide enough for it."""

    def __init__(self, name: str, term: Term, kind: str, zero: bool = False) -> None:
        """`kind` is the type of the sum. The sum of no numbers is 0 if `zero`, else null."""
        self.name, self.term, self.kind, self.held = name, term, kind, arrow_type(kind)
        self.columns = {name: kind} if name.startswith(PRIVATE) else {}
        self.whole = part(name, "whole")
        self.folds, self.kinds = {self.whole: "sum"}, {self.whole: SHORT}
        self.counts = (self.whole,) if zero else ()

    def init(self, events: Events) -> Columns:
        return {self.whole: wholes(self.term(events))}

    def stored(self, panes: pa.Table, fresh: bool) -> Columns:
        return {self.whole: wholes(column_of(panes, self.name))}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        total = merged[self.whole]
        if not np.all(fits_decimal(total)):
            raise SumOverflow(self.name, self.term.name)
        return {self.name: as_type(total, self.held)}


class NarrowSum(ExactSum):
    """A sum of whole numbers in a column of 64 bits, as in stores of earlier versions. A larger sum is null there, and
    kept in a column beside it."""

    def __init__(self, name: str, term: Term, kind: str, zero: bool = False) -> None:
        super().__init__(name, term, kind, zero)
        self.beyond = beyond_column(name)
        self.columns = {**self.columns, self.beyond: WHOLE}

    def stored(self, panes: pa.Table, fresh: bool) -> Columns:
        beyond = column_of(panes, self.beyond)
        return {self.whole: pc.coalesce(beyond, column_of(panes, self.name).cast(beyond.type))}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        total = merged[self.whole]
        beyond = as_type(total, arrow_type(WHOLE), ~fits_64_bits(total))
        return {self.name: as_type(total, self.held), self.beyond: beyond}


class LongSum(ExactSum):
    """A sum of decimals of nearly 38 digits. A longer sum is null, and kept beside it in two halves."""

    def __init__(self, name: str, term: Term, kind: str) -> None:
        super().__init__(name, term, kind)
        self.high, self.low = beyond_halves(name)
        self.columns = {self.high: WHOLE, self.low: kind}
        self.folds = {**self.folds, self.high: "sum"}
        self.kinds = {**self.kinds, self.high: SHORT}

    def init(self, events: Events) -> Columns:
        return {**super().init(events), self.high: pa.nulls(len(events), SHORT)}

    def stored(self, panes: pa.Table, fresh: bool) -> Columns:
        whole = pc.coalesce(column_of(panes, self.name), column_of(panes, self.low))
        return {self.whole: wholes(whole), self.high: column_of(panes, self.high)}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        total, high = merged[self.whole], merged[self.high]
        if high.null_count < len(high):
            more = pc.multiply(pc.fill_null(high, 0).cast(_HALF), _LOW)
            total = pc.add(total.cast(more.type), more)
        made = {
            self.name: as_type(total, self.held),
            self.high: pa.nulls(len(total), arrow_type(WHOLE)),
            self.low: pa.nulls(len(total), self.held),
        }
        outgrown = only(total, ~fits_decimal(total))
        if outgrown.null_count < len(outgrown):
            halves = [(None, None) if each is None else _halves(each) for each in integers(outgrown)]
            made[self.high] = decimals([high for high, _ in halves], arrow_type(WHOLE))
            made[self.low] = decimals([low for _, low in halves], self.held)
        return made


def _halves(number: int) -> tuple[int, int]:
    high, low = divmod(abs(number), 10**LOW_DIGITS)
    return (high, low) if number >= 0 else (-high, -low)


class FloatSum(OwnValue):
    """A sum of floating point numbers."""

    columns: Mapping[str, str] = {}

    def __init__(self, name: str, column: str) -> None:
        self.name, self.column = name, column
        self.folds, self.kinds = {name: "sum"}, {name: pa.float64()}

    def init(self, events: Events) -> Columns:
        return {self.name: as_doubles(events.columns[self.column])}


class Extreme(OwnValue):
    """The smallest or the largest value."""

    columns: Mapping[str, str] = {}

    def __init__(self, name: str, column: str, kind: str, function: str) -> None:
        self.name, self.column = name, column
        self.folds, self.kinds = {name: function}, {name: arrow_type(kind)}

    def init(self, events: Events) -> Columns:
        return {self.name: events.columns[self.column]}


class FloatExtreme(State):
    """The smallest or the largest floating point number; NaN is larger than all others."""

    columns: Mapping[str, str] = {}

    def __init__(self, name: str, column: str, kind: str, function: str) -> None:
        self.name, self.column, self.held = name, column, arrow_type(kind)
        self.rank = part(name, "rank")
        self.folds, self.kinds = {self.rank: function}, {self.rank: pa.int64()}

    def init(self, events: Events) -> Columns:
        return self._ranked(events.columns[self.column])

    def stored(self, panes: pa.Table, fresh: bool) -> Columns:
        return self._ranked(column_of(panes, self.name))

    def _ranked(self, column: pa.Array) -> Columns:
        ranks = float_ranks(np.asarray(column.fill_null(0)).astype(np.float64))
        return {self.rank: pa.array(ranks, mask=~valid(column))}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        ranks = merged[self.rank]
        numbers = ranked_floats(np.asarray(ranks.fill_null(0)))
        return {self.name: pa.array(numbers, mask=~valid(ranks)).cast(self.held)}


class Count(OwnValue):
    """How many rows fulfil a condition."""

    def __init__(self, name: str, when: Callable[[Events], Flags]) -> None:
        self.name, self.when = name, when
        self.columns = {name: "bigint"} if name.startswith(PRIVATE) else {}
        self.folds, self.kinds, self.counts = {name: "sum"}, {name: pa.int64()}, (name,)

    def init(self, events: Events) -> Columns:
        return {self.name: as_count(self.when(events))}


class OfThisBatch(State):
    """A private count or sum of what this batch added; 0 where it added nothing."""

    def __init__(self, all_: State) -> None:
        self.all, self.name = all_, all_.name
        self.columns, self.folds, self.kinds = all_.columns, all_.folds, all_.kinds
        self.counts = tuple(all_.kinds)

    def init(self, events: Events) -> Columns:
        return self.all.init(events)

    def stored(self, panes: pa.Table, fresh: bool) -> Columns:
        if fresh:
            return self.all.stored(panes, fresh)
        return {name: pa.nulls(panes.num_rows, kind) for name, kind in self.kinds.items()}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        return self.all.value({name: pc.fill_null(merged[name], 0) for name in self.kinds})


def every_row(events: Events) -> Flags:
    """Each event, in each of its windows."""
    return np.ones(len(events), bool)


def no_row(events: Events) -> Flags:
    """No event."""
    return np.zeros(len(events), bool)


def behind(events: Events) -> Flags:
    """Each event that came behind the watermark, once."""
    return events.leading & (events.time < events.watermark)


def flagged(column: str, events: Events) -> Flags:
    """Each event for which a column is true."""
    return np.asarray(events.columns[column])


def having(column: str, events: Events) -> Flags:
    """Each event that has a value in a column."""
    return valid(events.columns[column])


def with_fate(code: int, events: Events) -> Flags:
    """Each event with a fate."""
    found: Flags = events.fate == code
    return found


class Earliest(OwnValue):
    """The smallest value of a number that every event has, such as its arrival."""

    def __init__(self, name: str, of: Callable[[Events], Integers]) -> None:
        self.name, self.of = name, of
        self.columns, self.folds, self.kinds = {name: "bigint"}, {name: "min"}, {name: pa.int64()}

    def init(self, events: Events) -> Columns:
        return {self.name: pa.array(self.of(events))}
