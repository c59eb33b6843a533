"""Counts, and the part of a count or a sum that this batch added."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.windowing.aggregates.base import Columns, Events, Flags, Integers, OwnValue, State, as_count


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


def once(events: Events) -> Flags:
    """Each event once."""
    return events.leading


def behind(events: Events) -> Flags:
    """Each event that came behind the watermark, once."""
    return events.leading & (events.time < events.watermark)


def partly(events: Events) -> Flags:
    """Each event whose windows give it different fates."""
    return events.partly


class Earliest(OwnValue):
    """The smallest value of a number that every event has, such as its arrival."""

    def __init__(self, name: str, of: Callable[[Events], Integers]) -> None:
        self.name, self.of = name, of
        self.columns, self.folds, self.kinds = {name: "bigint"}, {name: "min"}, {name: pa.int64()}

    def init(self, events: Events) -> Columns:
        return {self.name: pa.array(self.of(events))}


class Flagged:
    """Each event for which a column is true."""

    def __init__(self, column: str) -> None:
        self.column = column

    def __call__(self, events: Events) -> Flags:
        return np.asarray(events.columns[self.column])


class Having:
    """Each event that has a value in a column."""

    def __init__(self, column: str) -> None:
        self.column = column

    def __call__(self, events: Events) -> Flags:
        return np.asarray(events.columns[self.column].is_valid())


class WithFate:
    """Each event with a fate."""

    def __init__(self, code: int) -> None:
        self.code = code

    def __call__(self, events: Events) -> Flags:
        found: Flags = events.fate == self.code
        return found
