"""Merging without Spark: what `merge.py` says in SQL, with Arrow, for the common case (ADR 0056)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.fast import MOST_ROWS, Declined, flat
from latecomer.model import types
from latecomer.model.panes import Timing
from latecomer.model.verdicts import Fate
from latecomer.store.columns import EVENTS, measure_column
from latecomer.windowing.columns import END, FATE, KEY, LAST_ARRIVAL, LAST_SEQUENCE, LAST_WATERMARK, START
from latecomer.windowing.judge import CODES
from latecomer.windowing.judge_in_process import Flags, Judged
from latecomer.windowing.merge import Merger
from latecomer.windowing.states_in_process import ArrowState, Columns, nulls, states_of, stored

_LASTS = (LAST_ARRIVAL, LAST_WATERMARK, LAST_SEQUENCE)
_ENTERS = CODES[Fate.LATE_ACCEPTED]
"""Events of this fate and those below enter a window."""


@dataclass(frozen=True)
class ArrowMerger:
    """The one aggregation of events and earlier states, as `Merger` has it in SQL."""

    merger: Merger
    states: Sequence[ArrowState] = field(init=False)

    def __post_init__(self) -> None:
        if any(kind in types.FLOATS for kind in self.merger.layout.keys.values()):
            raise Declined("a key of floating point numbers")
        object.__setattr__(self, "states", states_of(self.merger.layout, self.merger.measures))

    @cached_property
    def columns(self) -> list[str]:
        """The columns of events that are needed."""
        layout = self.merger.layout
        used = (each.column for each in layout.output.aggregates.values() if each.column is not None)
        return list(dict.fromkeys([*layout.keys, *self.merger.measures, *used]))

    def of_events(self, events: Judged) -> pa.Table:
        """Events as inputs. Those that enter no window lose their group."""
        enters = pa.array(events.fate <= _ENTERS)
        keys = {
            KEY + key: pc.if_else(enters, events.columns[key], pa.scalar(None, events.columns[key].type))
            for key in self.merger.layout.keys
        }
        made: Columns = {}
        for state in self.states:
            made |= state.of_event(events)
        return pa.table(
            {
                START: pa.array(events.start, mask=events.fate > _ENTERS),
                END: pa.array(events.end, mask=events.fate > _ENTERS),
                **keys,
                FATE: pa.array(events.fate),
                LAST_ARRIVAL: pa.array(events.arrival),
                LAST_WATERMARK: pa.array(events.watermark),
                LAST_SEQUENCE: nulls(len(events), pa.int64()),
                **made,
            }
        )

    def of_states(self, panes: pa.Table, fate: Fate | None = None, fresh: bool = False) -> pa.Table:
        """Stored states as inputs. Without a `fate` their timing says which."""
        if panes.num_rows > MOST_ROWS:
            raise Declined(f"more than {MOST_ROWS:,} rows")
        if fate is None:
            late = pc.fill_null(pc.equal(stored(panes, "timing"), Timing.LATE.value), False)
            codes = pc.if_else(late, CODES[Fate.LATE_ACCEPTED], CODES[Fate.ON_TIME]).cast(pa.int8())
        else:
            codes = pa.array(np.full(panes.num_rows, CODES[fate], np.int8))
        made: Columns = {}
        for state in self.states:
            made |= state.of_state(panes, fresh)
        keys = {KEY + key: stored(panes, key) for key in self.merger.layout.keys}
        moments = {
            START: "window_start",
            END: "window_end",
            LAST_ARRIVAL: "fired_at",
            LAST_WATERMARK: "watermark",
        }
        times = {name: stored(panes, column).cast(pa.int64()) for name, column in moments.items()}
        return pa.table(
            {
                START: times[START],
                END: times[END],
                **keys,
                FATE: codes,
                LAST_ARRIVAL: times[LAST_ARRIVAL],
                LAST_WATERMARK: times[LAST_WATERMARK],
                LAST_SEQUENCE: stored(panes, "sequence"),
                **made,
            }
        )

    def emptied(self, rows: pa.Table, where: Flags | None = None) -> pa.Table:
        """Values and states as they stand when a discarding pane has said them, in all rows or `where` that is so."""
        output = self.merger.output
        counts = {name for name, each in output.aggregates.items() if each.function == "count"}
        sums = {EVENTS, *map(measure_column, self.merger.measures)}
        for name in self.merger.emptied:
            rows = replaced(rows, name, 0 if name in counts | sums else None, where)
        return rows

    def merge(self, inputs: Sequence[pa.Table]) -> pa.Table:
        """One row per window, key and fate: START, END, keys, FATE, the last ones, values and states."""
        together = pa.concat_tables(inputs)
        keys = [KEY + key for key in self.merger.layout.keys]
        group = [START, END, *keys, FATE]
        folds = {**dict.fromkeys(_LASTS, "max")}
        for state in self.states:
            folds |= state.fold
        found = together.group_by(group, use_threads=False).aggregate(list(folds.items()))
        folded = {name: flat(found.column(f"{name}_{fold}")) for name, fold in folds.items()}
        made: Columns = {}
        for state in self.states:
            made |= state.finish(folded)
        return pa.table(
            {
                START: found.column(START),
                END: found.column(END),
                **{key: found.column(KEY + key) for key in self.merger.layout.keys},
                FATE: found.column(FATE),
                **{name: folded[name] for name in _LASTS},
                **made,
            }
        )

    def merge_parts(self, parts: Iterable[Judged]) -> pa.Table | None:
        """Events that come in parts, merged as if they came at once; None where there are none. So many rows are held
        as there are windows, keys and fates, and those of a part."""
        held: list[pa.Table] = []
        for part in parts:
            if len(part):
                held.append(self.again(self.merge([self.of_events(part)])))
            if sum(rows.num_rows for rows in held) > MOST_ROWS:
                held = [self.again(self.merge(held))]
                if held[0].num_rows > MOST_ROWS:
                    raise Declined(f"more than {MOST_ROWS:,} windows and keys")
        return self.merge(held) if held else None

    def again(self, merged: pa.Table) -> pa.Table:
        """Merged rows as inputs once more."""
        made: Columns = {}
        for state in self.states:
            made |= state.of_state(merged, True)
        keys = {KEY + key: stored(merged, key) for key in self.merger.layout.keys}
        rest = {name: stored(merged, name) for name in (FATE, *_LASTS)}
        return pa.table({START: stored(merged, START), END: stored(merged, END), **keys, **rest, **made})

    def published(self, merged: pa.Table, firing: Mapping[str, pa.Array]) -> pa.Table:
        """Merged rows in the shape of panes, with these firing columns."""
        moments = {"window_start": START, "window_end": END}
        made = {}
        for each in self.merger.schema:
            if each.name in firing:
                column = firing[each.name]
            elif each.name in moments:
                column = flat(merged.column(moments[each.name]))
            else:
                column = flat(merged.column(each.name))
            made[each.name] = column.cast(each.type)
        return pa.table(made, schema=self.merger.schema)


def replaced(rows: pa.Table, name: str, value: int | None, where: Flags | None = None) -> pa.Table:
    """Rows with this value in a column, in all of them or `where` that is so."""
    place, column = rows.schema.get_field_index(name), flat(rows.column(name))
    made = pa.nulls(len(column), column.type)
    if value is not None:
        made = pa.array(np.full(len(column), value, np.int64)).cast(column.type)
    kept = made if where is None else pc.if_else(pa.array(where), made, column)
    return rows.set_column(place, rows.schema.field(place), kept)
