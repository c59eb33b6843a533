"""States that keep values: tallies (each value, and how often it came) and events in their order.

A tally is sorted by value, so that the same events give the same state however they were cut into batches. It grows
with the number of different values. An ordered state holds only as many events as its aggregate needs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.model import types
from latecomer.model.array_types import Integers
from latecomer.model.arrays import flat
from latecomer.model.json_text import json_text
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import arrow_type
from latecomer.store.private_columns import state_column
from latecomer.store.state_types import event_type, held_type, tally_type
from latecomer.windowing.aggregates.base import (
    Columns,
    Events,
    Gathered,
    Groups,
    State,
    float_ranks,
    one_zero,
    part,
    valid,
)
from latecomer.windowing.aggregates.exact import as_type, wholes

_GROUP, _VALUE, _COUNT = "group", "v", "n"


def _offsets(group: Integers, count: int) -> Integers:
    """Where each group begins among sorted numbers of groups, and the last one ends."""
    return np.concatenate([[0], np.cumsum(np.bincount(group, minlength=count))]).astype(np.int64)


def _first_of_each(group: Integers, most: int) -> Integers:
    """The places of the first rows of each group, at most `most`, among sorted numbers of groups."""
    begins = np.append(True, group[1:] != group[:-1]) if len(group) else np.zeros(0, bool)
    place = np.arange(len(group), dtype=np.int64)
    return (place - np.maximum.accumulate(np.where(begins, place, 0)) < most).nonzero()[0]


def _lists(kind: pa.DataType, group: Integers, count: int, values: pa.Array) -> pa.Array:
    offsets = pa.array(_offsets(group, count).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, values, type=kind)


def _texts(group: Integers, count: int, values: list[Any]) -> pa.Array:
    """The values of each group as a list in JSON; null where there is none."""
    offsets = _offsets(group, count).tolist()
    made = [json_text(values[begin:end]) if end > begin else None for begin, end in pairwise(offsets)]
    return pa.array(made, pa.string())


# Tallies


class ValueTally(Gathered):
    """How often each value came. Each function computes its own value from that."""

    def __init__(self, name: str, column: str, kind: str) -> None:
        self.column, self.kind = column, kind
        held = arrow_type(held_type(kind))
        super().__init__(name, part(name, "single"), held, state_column(name, "tally"), tally_type(kind))

    def of_events(self, events: Events) -> pa.Array:
        values = events.columns[self.column].cast(self.held)
        return one_zero(values) if pa.types.is_floating(self.held) else values

    def merge(self, inputs: Mapping[str, pa.Array], groups: Groups) -> Columns:
        single, tally = inputs[self.single], inputs[self.several]
        alone = valid(single)
        lengths = np.asarray(pc.fill_null(pc.list_value_length(tally), 0))
        inside = tally.flatten()
        every = pa.table(
            {
                _GROUP: np.concatenate([groups.of_row[alone], np.repeat(groups.of_row, lengths)]),
                _VALUE: pa.chunked_array(
                    [single.filter(pa.array(alone)), pc.struct_field(inside, _VALUE)], self.held
                ),
                _COUNT: pa.chunked_array(
                    [pa.array(np.ones(np.count_nonzero(alone), np.int64)), pc.struct_field(inside, _COUNT)],
                    pa.int64(),
                ),
            }
        )
        counted = every.group_by([_GROUP, _VALUE], use_threads=False).aggregate([(_COUNT, "sum")])
        counted = counted.rename_columns([_GROUP, _VALUE, _COUNT])
        counted = counted.take(pc.sort_indices(counted, [(_GROUP, "ascending"), (_VALUE, "ascending")]))
        group, value, count = (flat(column) for column in counted.columns)
        pairs = pa.StructArray.from_arrays([value, count], fields=list(self.held_several.value_type))
        return {self.several: _lists(self.held_several, np.asarray(group), groups.count, pairs)}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        tally = merged[self.several]
        return {self.several: tally, self.name: self.of_tally(tally)}

    @abstractmethod
    def of_tally(self, tally: pa.Array) -> pa.Array:
        """The value of sorted tallies, none of which is null."""


class CountDistinct(ValueTally):
    """How many different values there were."""

    def of_tally(self, tally: pa.Array) -> pa.Array:
        return pc.list_value_length(tally).cast(pa.int64())


class Median(ValueTally):
    """The value in the middle; of an even number of values, the mean of the two in the middle."""

    def of_tally(self, tally: pa.Array) -> pa.Array:
        inside = tally.flatten()
        value, counts = (pc.struct_field(inside, field) for field in (_VALUE, _COUNT))
        offsets = np.asarray(tally.offsets) - tally.offsets[0].as_py()
        upto = np.concatenate([[0], np.cumsum(np.asarray(counts))]).astype(np.int64)
        before = upto[offsets[:-1]]
        held = upto[offsets[1:]] - before
        some = held > 0
        low, high = (
            value.take(pa.array(np.searchsorted(upto, before + rank, side="right") - 1, mask=~some))
            for rank in ((held - 1) // 2, held // 2)
        )
        if pa.types.is_floating(self.held):
            return pc.divide(pc.add(low, high), 2.0)
        both = pc.add(*(wholes(each, pa.decimal256(38, 0)) for each in (low, high)))
        five_times = pc.multiply(both, pa.scalar(Decimal(5), pa.decimal256(1, 0)))
        return as_type(five_times, arrow_type(f"decimal(38,{types.scale_of(self.kind) + 1})"))


class TopK(ValueTally):
    """The most frequent values with their counts; of equally frequent ones the smaller first."""

    def __init__(self, name: str, column: str, kind: str, most: int) -> None:
        super().__init__(name, column, kind)
        self.most = most

    def of_tally(self, tally: pa.Array) -> pa.Array:
        inside = tally.flatten()
        value, counts = (pc.struct_field(inside, field) for field in (_VALUE, _COUNT))
        lengths = np.asarray(pc.list_value_length(tally))
        group = np.repeat(np.arange(len(tally), dtype=np.int64), lengths)
        # The values of a tally are sorted: a stable sort keeps their order where counts are equal.
        order = np.lexsort((-np.asarray(counts), group))
        order = order[_first_of_each(group[order], self.most)]
        chosen = zip(value.take(pa.array(order)).to_pylist(), np.asarray(counts)[order].tolist(), strict=True)
        return _texts(group[order], len(tally), [{"value": each, "count": count} for each, count in chosen])


# Events in their order


class Ordered(State):
    """Events in order of event time, arrival time, origin and position; those without a value are left out."""

    needs_groups = True
    in_order = True

    def __init__(self, name: str, column: str, kind: str) -> None:
        self.name, self.column = name, column
        self.event, self.struct = state_column(name, "event"), arrow_type(event_type(kind))
        self.folds = {}

    def of_events(self, events: Events) -> pa.Array:
        values = events.columns[self.column].cast(self.struct.field("v").type)
        place = [
            pa.array(events.time),
            pa.array(events.arrival),
            events.columns[ORIGIN].cast(pa.string()),
            events.columns[POSITION].cast(pa.int64()),
        ]
        return pa.StructArray.from_arrays([*place, values], fields=list(self.struct), mask=values.is_null())

    def sorted(self, group: Integers, events: pa.Array) -> Integers:
        """The places of events, in the order of their groups and their own."""
        columns = {_GROUP: pa.array(group), **dict(zip("taopv", events.flatten(), strict=True))}
        if pa.types.is_floating(columns["v"].type):  # Arrow does not order NaN among numbers
            columns["v"] = pa.array(float_ranks(np.asarray(columns["v"].fill_null(0.0))))
        keys = [(name, "ascending", "at_start") for name in columns]
        return np.asarray(pc.sort_indices(pa.table(columns), keys)).astype(np.int64)


class EndEvent(Ordered):
    """The first or the last event that has a value."""

    def __init__(self, name: str, column: str, kind: str, function: str) -> None:
        super().__init__(name, column, kind)
        self.last, self.published = function == "last", arrow_type(kind)
        self.columns, self.kinds = {self.event: event_type(kind)}, {self.event: self.struct}

    def init(self, events: Events) -> Columns:
        return {self.event: self.of_events(events)}

    def merge(self, inputs: Mapping[str, pa.Array], groups: Groups) -> Columns:
        events = inputs[self.event]
        rows = valid(events).nonzero()[0]
        group = groups.of_row[rows]
        time = np.asarray(events.field("t").take(pa.array(rows)).fill_null(0))
        ends = np.full(groups.count, -(1 << 63) if self.last else (1 << 63) - 1, np.int64)
        (np.maximum if self.last else np.minimum).at(ends, group, time)
        rows = rows[time == ends[group]]  # only few remain to be sorted
        group = groups.of_row[rows]
        order = self.sorted(group, events.take(pa.array(rows)))
        in_order = group[order]
        edge = in_order[1:] != in_order[:-1]
        chosen = order[np.append(edge, True) if self.last else np.append(True, edge)] if len(order) else order
        place, has_value = np.zeros(groups.count, np.int64), np.zeros(groups.count, bool)
        place[group[chosen]], has_value[group[chosen]] = rows[chosen], True
        return {self.event: events.take(pa.array(place, mask=~has_value))}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        event = merged[self.event]
        return {self.event: event, self.name: pc.struct_field(event, "v").cast(self.published)}


class Collect(Ordered, Gathered):
    """The first so many events that have a value."""

    def __init__(self, name: str, column: str, kind: str, most: int) -> None:
        Ordered.__init__(self, name, column, kind)
        stored = f"array<{event_type(kind)}>"
        Gathered.__init__(self, name, self.event, self.struct, state_column(name, "events"), stored)
        self.most = most

    def merge(self, inputs: Mapping[str, pa.Array], groups: Groups) -> Columns:
        event, events = inputs[self.event], inputs[self.several]
        alone = valid(event)
        lengths = np.asarray(pc.fill_null(pc.list_value_length(events), 0))
        every = pa.concat_arrays([event.filter(pa.array(alone)), events.flatten()])
        group = np.concatenate([groups.of_row[alone], np.repeat(groups.of_row, lengths)])
        order = self.sorted(group, every)
        order = order[_first_of_each(group[order], self.most)]
        kept = every.take(pa.array(order))
        return {self.several: _lists(self.held_several, group[order], groups.count, kept)}

    def value(self, merged: Mapping[str, pa.Array]) -> Columns:
        events = merged[self.several]
        lengths = np.asarray(pc.list_value_length(events))
        group = np.repeat(np.arange(len(events), dtype=np.int64), lengths)
        values = pc.struct_field(events.flatten(), "v").to_pylist()
        return {self.several: events, self.name: _texts(group, len(events), values)}
