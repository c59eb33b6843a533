"""Averages, variances and deviations."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.array_types import Doubles, Flags, Integers
from latecomer.store.layout import arrow_type
from latecomer.store.private_columns import state_column
from latecomer.store.state_types import WHOLE
from latecomer.windowing.aggregates.base import (
    Columns,
    Events,
    Groups,
    State,
    as_count,
    as_doubles,
    column_of,
    only,
    part,
    valid,
)
from latecomer.windowing.aggregates.exact import (
    SHORT,
    as_type,
    decimals,
    doubles,
    fits_decimal,
    integers,
    quotient,
    squares,
    wholes,
)


class LosableSum:
    """An exact sum. Once it has more than 38 digits, it is null and stays null."""

    def __init__(self, name: str, kind: str) -> None:
        self.name, self.held = name, arrow_type(kind)
        self.whole, self.lost = part(name, "whole"), part(name, "lost")
        self.folds = {self.whole: "sum", self.lost: "any"}
        self.kinds = {self.whole: SHORT, self.lost: pa.bool_()}

    def of(self, column: pa.Array) -> Columns:
        return self.of_wholes(wholes(column), np.zeros(len(column), bool))

    def of_wholes(self, numbers: pa.Array, lost: Flags) -> Columns:
        return {self.whole: pc.fill_null(numbers, 0), self.lost: pa.array(lost)}

    def stored(self, panes: pa.Table, unless: Flags) -> Columns:
        """From stored sums. A null is a lost sum, `unless` there was no value."""
        column = column_of(panes, self.name)
        return self.of_wholes(wholes(column), ~valid(column) & ~unless)

    def known(self, merged: Mapping[str, pa.Array]) -> Flags:
        """Where no term is lost. A sum of more than 38 digits is exact here, but cannot be stored."""
        lost: Flags = np.asarray(pc.fill_null(merged[self.lost], False))
        return valid(merged[self.whole]) & ~lost


class Average(State):
    """The average of whole numbers: their sum and count."""

    def __init__(self, name: str, column: str, kind: str) -> None:
        self.name, self.column = name, column
        self.count = state_column(name, "count")
        held = f"decimal(38,{types.scale_of(kind)})"
        self.sum = LosableSum(state_column(name, "sum"), held)
        self.columns = {self.sum.name: held, self.count: "bigint"}
        self.folds = {**self.sum.folds, self.count: "sum"}
        self.kinds = {**self.sum.kinds, self.count: pa.int64()}
        self.counts = tuple(self.kinds)

    def init(self, events: Events) -> Columns:
        numbers = events.columns[self.column]
        return {**self.sum.of(numbers), self.count: as_count(valid(numbers))}

    def stored(self, panes: pa.Table, fresh: bool) -> Columns:
        counted = column_of(panes, self.count)
        return {**self.sum.stored(panes, unless=_none(counted)), self.count: counted}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        counted = merged[self.count]
        some = np.asarray(pc.fill_null(pc.greater(counted, 0), False))
        total = merged[self.sum.whole]
        usable = self.sum.known(merged) & some & fits_decimal(total)
        held = as_type(total, self.sum.held, usable)
        return {self.sum.name: held, self.count: counted, self.name: self.ratio(total, counted, usable)}

    def ratio(self, total: pa.Array, counted: pa.Array, where: Flags) -> pa.Array:
        some = as_doubles(pc.if_else(pa.array(where), counted, 1))
        return only(pc.divide(doubles(total), some), where)


class DecimalAverage(Average):
    """The average of decimals, rounded as Spark does."""

    def __init__(self, name: str, column: str, kind: str, value: str) -> None:
        super().__init__(name, column, kind)
        self.scale, self.published = types.scale_of(kind), arrow_type(value)

    def ratio(self, total: pa.Array, counted: pa.Array, where: Flags) -> pa.Array:
        wanted = self.published.scale
        rows = zip(integers(total), counted.to_pylist(), where.tolist(), strict=True)
        found = [
            quotient(number, count, self.scale, wanted) if known and number is not None else None
            for number, count, known in rows
        ]
        return decimals(found, self.published)


class FloatAverage(State):
    """The average of floating point numbers: their sum and count."""

    def __init__(self, name: str, column: str) -> None:
        self.name, self.column = name, column
        self.sum, self.count = state_column(name, "sum"), state_column(name, "count")
        self.columns = {self.sum: "double", self.count: "bigint"}
        self.folds = {self.sum: "sum", self.count: "sum"}
        self.kinds = {self.sum: pa.float64(), self.count: pa.int64()}
        self.counts = (self.sum, self.count)

    def init(self, events: Events) -> Columns:
        numbers = events.columns[self.column]
        return {self.sum: as_doubles(numbers), self.count: as_count(valid(numbers))}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        counted = merged[self.count]
        some = np.asarray(pc.fill_null(pc.greater(counted, 0), False))
        total = only(merged[self.sum], some)
        ratio = pc.divide(total, as_doubles(pc.if_else(pa.array(some), counted, 1)))
        return {self.sum: total, self.count: counted, self.name: ratio}


def _none(counted: pa.Array) -> Flags:
    """Where a state has seen no value."""
    return np.asarray(pc.fill_null(pc.equal(counted, 0), False))


def _less(function: str) -> int:
    """For a sample, the divisor is one less than the count."""
    return 1 if function in ("variance", "stddev") else 0


def _finished(variances: Doubles, known: Flags, function: str) -> pa.Array:
    found = np.sqrt(variances) if function.startswith("stddev") else variances
    return pa.array(found, mask=~known)


class ExactMoment(State):
    """A variance or a deviation of whole numbers or decimals: count, sum and sum of squares as whole numbers, so that
    no digit is lost; and the same as doubles, for where 38 digits are not enough."""

    def __init__(self, name: str, column: str, kind: str, function: str) -> None:
        self.name, self.column, self.function = name, column, function
        self.scale = types.scale_of(kind)
        parts = ("count", "sum", "squares", "rough_sum", "rough_squares")
        self.count, total, powers, *rough = (state_column(name, part) for part in parts)
        self.rough = rough
        self.sum, self.squares = LosableSum(total, WHOLE), LosableSum(powers, WHOLE)
        self.columns = {self.count: "bigint", total: WHOLE, powers: WHOLE, **dict.fromkeys(rough, "double")}
        plain = dict.fromkeys((self.count, *rough), "sum")
        self.folds = {**plain, **self.sum.folds, **self.squares.folds}
        self.kinds = {
            self.count: pa.int64(),
            **dict.fromkeys(rough, pa.float64()),
            **self.sum.kinds,
            **self.squares.kinds,
        }
        self.counts = (self.count, *self.sum.kinds, *self.squares.kinds)

    def init(self, events: Events) -> Columns:
        numbers = events.columns[self.column]
        rough = as_doubles(numbers)
        return {
            self.count: as_count(valid(numbers)),
            **self.sum.of(numbers),
            **self.squares.of_wholes(*squares(numbers)),
            **dict(zip(self.rough, (rough, pc.multiply(rough, rough)), strict=True)),
        }

    def stored(self, panes: pa.Table, fresh: bool) -> Columns:
        none = _none(column_of(panes, self.count))
        return {
            **{name: column_of(panes, name) for name in (self.count, *self.rough)},
            **self.sum.stored(panes, unless=none),
            **self.squares.stored(panes, unless=none),
        }

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        total, powers = merged[self.sum.whole], merged[self.squares.whole]
        total_known, powers_known = self.sum.known(merged), self.squares.known(merged)
        counted = np.asarray(pc.fill_null(merged[self.count], 0))
        rough_sum, rough_squares = (np.asarray(pc.fill_null(merged[name], 0.0)) for name in self.rough)
        less = _less(self.function)
        known = counted > less
        with np.errstate(over="ignore", invalid="ignore"):
            spread = counted.astype(np.float64) * rough_squares - rough_sum * rough_sum
        exact = (known & total_known & powers_known).nonzero()[0]
        sums, squared = integers(total), integers(powers)
        for row in exact.tolist():
            whole = int(counted[row]) * (squared[row] or 0) - (sums[row] or 0) ** 2
            spread[row] = float(whole) / 10.0 ** (2 * self.scale)
        spread = np.where(spread < 0, 0.0, spread)
        size = counted.astype(np.float64)
        variance = spread / np.where(known, size * (size - less), 1.0)
        return {
            **{name: merged[name] for name in (self.count, *self.rough)},
            self.sum.name: as_type(total, self.sum.held, total_known),
            self.squares.name: as_type(powers, self.squares.held, powers_known),
            self.name: _finished(variance, known, self.function),
        }


class FloatMoment(State):
    """A variance or a deviation of floating point numbers: count, mean and summed squared distance from it."""

    needs_groups = True

    def __init__(self, name: str, column: str, function: str) -> None:
        self.name, self.column, self.function = name, column, function
        self.count, self.mean, self.spread = (
            state_column(name, part) for part in ("count", "mean", "spread")
        )
        self.columns = {self.count: "bigint", self.mean: "double", self.spread: "double"}
        self.folds = {self.count: "sum"}
        self.kinds = {self.count: pa.int64(), self.mean: pa.float64(), self.spread: pa.float64()}
        self.counts = (self.count,)

    def init(self, events: Events) -> Columns:
        numbers = as_doubles(events.columns[self.column])
        nothing = only(pa.array(np.zeros(len(numbers))), valid(numbers))
        return {self.count: as_count(valid(numbers)), self.mean: numbers, self.spread: nothing}

    def merge(self, inputs: Mapping[str, pa.Array], groups: Groups) -> Columns:
        counted = np.asarray(pc.fill_null(inputs[self.count], 0)).astype(np.float64)
        some = (counted > 0) & valid(inputs[self.mean])
        group, counted = groups.of_row[some], counted[some]
        mean, spread = (
            np.asarray(pc.fill_null(inputs[name], 0.0))[some] for name in (self.mean, self.spread)
        )
        known = np.zeros(groups.count, bool)
        known[group] = True
        with np.errstate(over="ignore", invalid="ignore"):
            size = np.where(known, _sums(group, counted, groups), 1.0)
            # Distances from one value of the group: so large values that are close to each other lose no digits.
            near = np.zeros(groups.count)
            near[group[::-1]] = mean[::-1]
            away = _sums(group, (mean - near[group]) * counted, groups) / size
            plain = _sums(group, mean * counted, groups) / size
            middle = np.where(np.isfinite(away), near + away, plain)
            distance = mean - middle[group]
            around = _sums(group, spread + counted * distance * distance, groups)
        return {self.mean: pa.array(middle, mask=~known), self.spread: pa.array(around, mask=~known)}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        counted = np.asarray(pc.fill_null(merged[self.count], 0))
        less = _less(self.function)
        known = counted > less
        spread = np.asarray(pc.fill_null(merged[self.spread], math.nan))
        variance = spread / np.where(known, counted - less, 1)
        return {
            **{name: merged[name] for name in self.columns},
            self.name: _finished(variance, known, self.function),
        }


def _sums(group: Integers, numbers: Doubles, groups: Groups) -> Doubles:
    """The sum of the numbers of each group."""
    return np.bincount(group, numbers, groups.count).astype(np.float64)
