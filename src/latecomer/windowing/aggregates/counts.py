"""Counts, and the part of a count or a sum that this batch added."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.model.array_types import Flags, Integers
from latecomer.windowing.aggregates.base import Columns, Events, OwnValue, State, as_count, valid


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
