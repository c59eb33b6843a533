"""The one aggregation behind every pane: new events and earlier states, merged per window and key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.outputs import Output
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.panes import Timing
from latecomer.model.verdicts import Fate
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import PaneLayout, arrow_type
from latecomer.store.private_columns import (
    EVENTS,
    NEW_ASSIGNMENTS,
    NEW_BEHIND,
    NEW_PARTLY,
    late_column,
    measure_column,
    new_column,
)
from latecomer.store.state_types import beyond_column, beyond_halves
from latecomer.windowing.aggregates import states_of
from latecomer.windowing.aggregates.base import Columns, Events, Groups, State, alike, column_of, only
from latecomer.windowing.aggregates.exact import SHORT, with_room
from latecomer.windowing.fate_counts import CODES, ENTERS
from latecomer.windowing.private_columns import (
    END,
    FATE,
    KEY,
    LAST_ARRIVAL,
    LAST_SEQUENCE,
    LAST_WATERMARK,
    START,
)

_LASTS = (LAST_ARRIVAL, LAST_WATERMARK, LAST_SEQUENCE)
_MOMENTS = ("window_start", "window_end", "fired_at", "watermark")
"""Of a stored pane: START, END, LAST_ARRIVAL and LAST_WATERMARK."""
_MOST_HELD = 1_000_000
"""If more merged rows of parts are held, they are merged again."""


@dataclass(frozen=True)
class Merger:
    """How an output's events and states are merged, and the columns that come out."""

    layout: PaneLayout
    measures: Mapping[str, str]

    @property
    def output(self) -> Output:
        return self.layout.output

    @cached_property
    def states(self) -> list[State]:
        return states_of(self.layout, self.measures)

    @cached_property
    def state_columns(self) -> dict[str, str]:
        """The private columns of a pane, and their types."""
        return {column: kind for state in self.states for column, kind in state.columns.items()}

    @cached_property
    def schema(self) -> pa.Schema:
        """A pane as stored: what is published, then the state behind it."""
        private = [(name, arrow_type(kind)) for name, kind in self.state_columns.items()]
        return pa.schema([*self.layout.published, *private])

    @cached_property
    def columns(self) -> list[str]:
        """The columns of events that are needed: also ORIGIN and POSITION, where a state or the trigger depends on the
        order of events."""
        used = (each.column for each in self.output.aggregates.values() if each.column is not None)
        in_order = self.output.fires_within or any(state.in_order for state in self.states)
        place = (ORIGIN, POSITION) if in_order else ()
        return list(dict.fromkeys([*self.layout.keys, *self.measures, *used, *place]))

    @cached_property
    def input_keys(self) -> list[str]:
        """The columns of inputs that hold the keys."""
        return [KEY + key for key in self.layout.keys]

    def or_empty(self, rows: pa.Table | None) -> pa.Table:
        """Stored panes or states, or an empty table."""
        return self.schema.empty_table() if rows is None else rows

    # What is merged

    def of_events(self, events: Events) -> pa.Table:
        """Events as inputs. Those that enter no window lose window and key: only their count matters."""
        out = events.fate > ENTERS
        keys = [events.columns[key] for key in self.layout.keys]
        if out.any():
            keys = [only(key, ~out) for key in keys]
        return self._inputs(
            [pa.array(each, mask=out) for each in (events.start, events.end)],
            keys,
            pa.array(events.fate),
            [pa.array(events.arrival), pa.array(events.watermark), pa.nulls(len(events), pa.int64())],
            self._of_each(lambda state: state.init(events)),
        )

    def of_states(self, panes: pa.Table, fate: Fate | None = None, fresh: bool = False) -> pa.Table:
        """Stored states as inputs. `fresh` ones still count as added by this batch.

        Without a `fate`, a state whose timing is LATE is of late events, all others are of events on time.
        """
        if fate is None:
            late = pc.fill_null(pc.equal(column_of(panes, "timing"), Timing.LATE.value), False)
            codes = pc.if_else(late, CODES[Fate.LATE_ACCEPTED], CODES[Fate.ON_TIME]).cast(pa.int8())
        else:
            codes = _same(CODES[fate], panes.num_rows)
        start, end, came, met = (column_of(panes, name).cast(pa.int64()) for name in _MOMENTS)
        last = [came, met, column_of(panes, "sequence")]
        return self._inputs([start, end], self._keys(panes), codes, last, self._stored(panes, fresh))

    def of_nothing(self, places: pa.Table) -> pa.Table:
        """Windows and keys without any event, as inputs; `places` has START, END and the keys."""
        rows = places.num_rows
        return self._inputs(
            [column_of(places, START), column_of(places, END)],
            self._keys(places),
            _same(CODES[Fate.ON_TIME], rows),
            [pa.nulls(rows, pa.int64()) for _ in _LASTS],
            self._of_each(lambda state: state.nothing(rows)),
        )

    def as_inputs(self, merged: pa.Table) -> pa.Table:
        """Merged rows as inputs of another merge. What is new in them stays new."""
        start, end, fate, *last = (column_of(merged, name) for name in (START, END, FATE, *_LASTS))
        return self._inputs([start, end], self._keys(merged), fate, last, self._stored(merged, fresh=True))

    def _inputs(
        self,
        window: Sequence[pa.Array],
        keys: Sequence[pa.Array],
        fate: pa.Array,
        last: Sequence[pa.Array],
        made: Columns,
    ) -> pa.Table:
        names = (START, END, *self.input_keys, FATE, *_LASTS)
        columns = (*window, *keys, fate, *last)
        return pa.table({**dict(zip(names, columns, strict=True)), **made})

    def _keys(self, rows: pa.Table) -> list[pa.Array]:
        return [column_of(rows, key) for key in self.layout.keys]

    def _stored(self, rows: pa.Table, fresh: bool) -> Columns:
        return self._of_each(lambda state: state.stored(rows, fresh))

    def _of_each(self, made: Callable[[State], Columns]) -> Columns:
        """The columns of all states."""
        return {name: column for state in self.states for name, column in made(state).items()}

    # Merged

    def merge(self, inputs: Sequence[pa.Table], within: str | None = None) -> pa.Table:
        """One row per window, key and fate: START, END, keys, FATE, the last ones, values and states.

        Rows with the same START and END are of one window. Where `within` names a column of the inputs, rows with the
        same value in it are; the window then spans them all, and the result has that column too.
        """
        place = [START, END] if within is None else [within]
        folds = dict.fromkeys(_LASTS, "max")
        folds |= {} if within is None else {START: "min", END: "max"}
        names = [*place, *self.input_keys, FATE]
        by, merged = merge_states(self.states, self._together(inputs), names, folds)
        made = self._of_each(lambda state: state.value(merged))
        if within is not None:
            made[within] = by.column(within)
        return pa.table(
            {
                **{name: by.column(name) if within is None else merged[name] for name in (START, END)},
                **{key: by.column(KEY + key) for key in self.layout.keys},
                FATE: by.column(FATE),
                **{name: merged[name] for name in _LASTS},
                **made,
            }
        )

    def _together(self, inputs: Sequence[pa.Table]) -> pa.Table:
        """All inputs. Keys that are floating point numbers have one zero and one NaN."""
        together = pa.concat_tables(inputs, promote_options="default")
        for name in self.input_keys:
            if pa.types.is_floating(together.schema.field(name).type):
                together = with_columns(together, {name: alike(column_of(together, name))})
        return together

    def merge_parts(self, parts: Iterable[Events]) -> pa.Table | None:
        """Events that come in parts, merged as if they came at once; None where there are none. In memory are a row for
        each window, key and fate, and the rows of one part."""
        held: list[pa.Table] = []
        for part in parts:
            if len(part):
                held.append(self.as_inputs(self.merge([self.of_events(part)])))
            if len(held) > 1 and sum(rows.num_rows for rows in held) > _MOST_HELD:
                held = [self.as_inputs(self.merge(held))]
        return self.merge(held) if held else None

    # As panes

    def published(self, merged: pa.Table, firing: Mapping[str, pa.Array]) -> pa.Table:
        """Merged rows in the shape of panes, with these firing columns."""
        given = {"window_start": merged.column(START), "window_end": merged.column(END), **firing}
        columns = [
            flat(given[each.name] if each.name in given else merged.column(each.name)).cast(each.type)
            for each in self.schema
        ]
        return pa.table(columns, schema=self.schema)

    def emptied(self, rows: pa.Table, where: Flags | None = None) -> pa.Table:
        """Panes with the values and states of no events, as after a discarding pane: all of them, or only `where` it is
        true."""
        zero = {name for name, each in self.output.aggregates.items() if each.function == "count"}
        zero |= {EVENTS, *map(measure_column, self.measures)}
        names = (*self.layout.values, EVENTS, *map(measure_column, self.measures))
        kept = [column for name in names for column in (beyond_column(name), *beyond_halves(name))]
        for name in (*names, *(column for column in kept if column in self.state_columns)):
            rows = replaced(rows, name, 0 if name in zero else None, where)
        return rows

    # For the ledger

    def uncounted(self, rows: pa.Table, where: Flags | None = None) -> pa.Table:
        """Panes that add nothing to what a batch counts: all of them, or only `where` it is true."""
        for name in self.new_columns:
            rows = replaced(rows, name, 0, where)
        return rows

    @cached_property
    def new_columns(self) -> list[str]:
        """The private columns that count what a batch added, for the ledger."""
        summed = (EVENTS, *map(measure_column, self.measures))
        some = [NEW_BEHIND, NEW_ASSIGNMENTS, NEW_PARTLY, *map(late_column, summed)]
        some += map(beyond_column, (*map(new_column, summed), *map(late_column, summed)))
        return [*map(new_column, summed), *(column for column in some if column in self.state_columns)]

    def exact_columns(self, column: str) -> list[str]:
        """The columns that add up to a private sum: the column itself, and the one for sums that do not fit it."""
        beyond = beyond_column(column)
        return [column, beyond] if beyond in self.state_columns else [column]


def _same(code: int, rows: int) -> pa.Array:
    return pa.array(np.full(rows, code, np.int8))


def replaced(rows: pa.Table, name: str, value: int | None, where: Flags | None = None) -> pa.Table:
    """Rows with this value in a column: all of them, or only `where` it is true."""
    column = flat(rows.column(name))
    made = pa.nulls(len(column), column.type)
    if value is not None:
        made = pa.array(np.full(len(column), value, np.int64)).cast(column.type)
    return with_columns(rows, {name: made if where is None else pc.if_else(pa.array(where), made, column)})


def with_columns(rows: pa.Table, columns: Mapping[str, Any]) -> pa.Table:
    """Rows with other columns of these names, in the types that they have."""
    for name, column in columns.items():
        place = rows.schema.get_field_index(name)
        values = pa.array(column) if isinstance(column, np.ndarray) else column
        rows = rows.set_column(place, rows.schema.field(place), values.cast(rows.schema.field(place).type))
    return rows


# Groups


_ROW = "row"


def merge_states(
    states: Sequence[State], inputs: pa.Table, by: Sequence[str], more: Mapping[str, str] | None = None
) -> tuple[pa.Table, Columns]:
    """Merge rows that are equal in the columns `by`, which come out; and the merged inputs of each group. Arrow folds
    what it can in one pass over all inputs, and the columns of `more`; each state merges the rest."""
    folds = {name: fold for state in states for name, fold in state.folds.items()} | dict(more or {})
    aggregations = list(folds.items())
    for place, field in enumerate(inputs.schema):
        if field.type == SHORT and folds.get(field.name) == "sum":
            inputs = inputs.set_column(place, field.name, with_room(inputs.column(place)))
    grouping = [state for state in states if state.needs_groups]
    if grouping:
        inputs = inputs.append_column(_ROW, pa.array(np.arange(inputs.num_rows)))
        aggregations.append((_ROW, "list"))
    found = inputs.group_by(list(by), use_threads=False).aggregate(aggregations)
    merged: Columns = {name: flat(found.column(f"{name}_{fold}")) for name, fold in folds.items()}
    if grouping:
        groups = _groups(flat(found.column(f"{_ROW}_list")))
        for state in grouping:
            merged |= state.merge({name: column_of(inputs, name) for name in state.kinds}, groups)
    return found.select(list(by)), merged


def _groups(lists: pa.Array) -> Groups:
    offsets = np.asarray(lists.offsets).astype(np.int64)
    return Groups(np.asarray(lists.flatten()), offsets - offsets[0])
