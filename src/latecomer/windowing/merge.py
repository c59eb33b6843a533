"""The one aggregation behind every pane: new events and earlier states, folded per window and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.models import Output
from latecomer.log.columns import ARRIVAL, TIME
from latecomer.model.panes import Timing
from latecomer.model.verdicts import Fate
from latecomer.source.columns import ORIGIN, POSITION
from latecomer.store.columns import (
    EVENTS,
    HELD,
    NEW_ASSIGNMENTS,
    NEW_BEHIND,
    NEW_PARTLY,
    SINCE,
    UNSETTLED,
    WAITING_EVENTS,
    late_column,
    measure_column,
    new_column,
)
from latecomer.store.layout import PaneLayout, arrow_type
from latecomer.store.sql import ddl, quoted
from latecomer.store.state_types import beyond_column, beyond_halves
from latecomer.windowing.columns import (
    END,
    FATE,
    KEY,
    LAST_ARRIVAL,
    LAST_SEQUENCE,
    LAST_WATERMARK,
    LEADING,
    PARTLY,
    START,
    WATERMARK,
)
from latecomer.windowing.exact_sums import HIGH, LOW, half
from latecomer.windowing.judge import CODES
from latecomer.windowing.merging import Counts
from latecomer.windowing.state_logic import StateLogic
from latecomer.windowing.states import states_of

__all__ = ["FIRING", "Counts", "Merger"]

_LASTS = (LAST_ARRIVAL, LAST_WATERMARK, LAST_SEQUENCE)


@dataclass(frozen=True)
class Merger:
    """How an output's events and states are folded, and the columns that come out."""

    layout: PaneLayout
    measures: Mapping[str, str]

    @property
    def output(self) -> Output:
        return self.layout.output

    @cached_property
    def states(self) -> list[StateLogic]:
        return states_of(self.layout, self.measures)

    @cached_property
    def state_columns(self) -> dict[str, str]:
        """The private columns of a pane, and their types."""
        return {column: kind for state in self.states for column, kind in state.columns.items()}

    @property
    def input_keys(self) -> list[str]:
        """The columns in which inputs have the keys."""
        return [quoted(KEY + key) for key in self.layout.keys]

    @cached_property
    def schema(self) -> pa.Schema:
        """A pane as stored: what is published, then the state behind it."""
        private = [(name, arrow_type(kind)) for name, kind in self.state_columns.items()]
        return pa.schema([*self.layout.published, *private])

    def of_events(self, judged: DataFrame) -> DataFrame:
        """Each event as inputs. Events that enter no window lose their group: only their count matters."""
        enters = f"{FATE} <= {CODES[Fate.LATE_ACCEPTED]}"
        return judged.selectExpr(
            f"if({enters}, {START}, null) as {START}",
            f"if({enters}, {END}, null) as {END}",
            *(f"if({enters}, {quoted(key)}, null) as {quoted(KEY + key)}" for key in self.layout.keys),
            FATE,
            f"{ARRIVAL} as {LAST_ARRIVAL}",
            f"{WATERMARK} as {LAST_WATERMARK}",
            f"cast(null as bigint) as {LAST_SEQUENCE}",
            *self._inputs("from_event"),
        )

    def of_states(
        self, panes: DataFrame, fate: Fate | None = None, fresh: bool = False, more: Sequence[str] = ()
    ) -> DataFrame:
        """Stored states as inputs; `fresh` ones still count as what this batch added.

        Without a `fate`, a state is that of late events where its timing says so, else of those on time.
        """
        code = f"if(timing = '{Timing.LATE}', {CODES[Fate.LATE_ACCEPTED]}, {CODES[Fate.ON_TIME]})"
        return panes.selectExpr(
            f"unix_micros(window_start) as {START}",
            f"unix_micros(window_end) as {END}",
            *(f"{quoted(key)} as {quoted(KEY + key)}" for key in self.layout.keys),
            f"cast({code if fate is None else CODES[fate]} as tinyint) as {FATE}",
            f"unix_micros(fired_at) as {LAST_ARRIVAL}",
            f"unix_micros(watermark) as {LAST_WATERMARK}",
            f"sequence as {LAST_SEQUENCE}",
            *self._inputs("fresh" if fresh else "from_state"),
            *more,
        )

    def of_nothing(self, places: DataFrame, more: Sequence[str] = ()) -> DataFrame:
        """Windows and keys as inputs of no event at all; `places` has START, END, the keys and `more`."""
        none = {column: f"cast(null as {kind})" for column, kind in self.layout.types.items()}
        none |= dict.fromkeys((TIME, ARRIVAL, POSITION, WATERMARK), "cast(null as bigint)")
        none |= {ORIGIN: "cast(null as string)"}
        none |= {LEADING: "false", PARTLY: "false", FATE: f"cast({CODES[Fate.ON_TIME]} as tinyint)"}
        bare = places.selectExpr(
            START,
            END,
            *(f"{quoted(key)} as {quoted(KEY + key)}" for key in self.layout.keys),
            *(f"{sql} as {quoted(name)}" for name, sql in none.items()),
            *more,
        )
        counts = {name: "0L" for name, each in self.output.aggregates.items() if each.function == "count"}
        counts |= dict.fromkeys((EVENTS, new_column(EVENTS), HELD, SINCE, UNSETTLED, WAITING_EVENTS), "0L")
        inputs = {name: sql for state in self.states for name, sql in state.from_event.items()}
        return bare.selectExpr(
            START,
            END,
            *self.input_keys,
            FATE,
            *(f"cast(null as bigint) as {name}" for name in _LASTS),
            *(f"{counts.get(name, sql)} as {quoted(name)}" for name, sql in inputs.items()),
            *more,
        )

    def again(self, merged: DataFrame) -> DataFrame:
        """Merged rows as inputs once more; what they count as new stays so."""
        return merged.selectExpr(
            START,
            END,
            *(f"{quoted(key)} as {quoted(KEY + key)}" for key in self.layout.keys),
            FATE,
            *_LASTS,
            *self._inputs("fresh"),
        )

    def merge(
        self,
        inputs: DataFrame,
        first: str | None = None,
        within: str | None = None,
        gather: str | None = None,
    ) -> DataFrame:
        """One row per window, key and fate: START, END, keys, FATE, values and states.

        Rows are of one window where START and END are the same; where `within` names a column, they are
        where that is, and the window spans them all. `first` names an input column of which the one value
        that is not null is kept, `gather` one of which all are.
        """
        kept = [] if first is None else [F.first(first, ignorenulls=True).alias(first)]
        kept += [] if gather is None else [F.collect_list(gather).alias(gather)]
        spans = [F.min(START).alias(START), F.max(END).alias(END)] if within else []
        merged = inputs.groupBy(*([within] if within else (START, END)), *self.input_keys, FATE).agg(
            *spans,
            *(F.max(name).alias(name) for name in _LASTS),
            *(F.expr(sql).alias(name) for state in self.states for name, sql in state.merge.items()),
            *kept,
        )
        finished = {
            name: sql
            for state in self.states
            for name, sql in (state.finish or {name: quoted(name) for name in state.merge}).items()
        }
        return merged.selectExpr(
            START,
            END,
            *(f"{quoted(KEY + key)} as {quoted(key)}" for key in self.layout.keys),
            FATE,
            *_LASTS,
            *(f"{sql} as {quoted(name)}" for name, sql in finished.items()),
            *(name for name in (first, gather) if name is not None),
        )

    def published(
        self, merged: DataFrame, columns: Mapping[str, str], instead: Mapping[str, str] | None = None
    ) -> DataFrame:
        """Merged rows in the shape of panes.

        `columns` gives the SQL of the firing columns, `instead` that of values or states which are not
        to be taken as they are.
        """
        changed = instead or {}

        def taken(name: str) -> str:
            return f"{changed[name]} as {quoted(name)}" if name in changed else quoted(name)

        return merged.selectExpr(
            f"timestamp_micros({START}) as window_start",
            f"timestamp_micros({END}) as window_end",
            *map(quoted, self.layout.keys),
            *map(taken, self.layout.values),
            *(f"{columns[name]} as {name}" for name in FIRING),
            *map(taken, self.state_columns),
            *(f"{sql} as {name}" for name, sql in columns.items() if name not in FIRING),
        )

    @cached_property
    def emptied(self) -> dict[str, str]:
        """Values and states as they stand when a discarding pane has said them: of no events."""
        counts = {name for name, each in self.output.aggregates.items() if each.function == "count"}
        sums = {EVENTS, *map(measure_column, self.measures)}
        kinds = {**self.layout.values, **self.state_columns}
        names = (*self.layout.values, *sums)
        kept = [column for name in names for column in (beyond_column(name), *beyond_halves(name))]
        beyond = [column for column in kept if column in self.state_columns]
        return {
            name: f"cast({0 if name in counts | sums else 'null'} as {kinds[name]})"
            for name in (*names, *beyond)
        }

    @cached_property
    def emptied_inputs(self) -> dict[str, str]:
        """The same of inputs, in which a sum may stand in two halves."""
        inputs = {name for state in self.states for name in state.from_state}
        sums = {EVENTS, *map(measure_column, self.measures)}
        found = {name: sql for name, sql in self.emptied.items() if name in inputs}
        for name in (*self.layout.values, *sums):
            halves = inputs.intersection((half(name, LOW), half(name, HIGH)))
            found |= dict.fromkeys(halves, "0L" if name in sums else "null")
        return found

    def of_sequences(self, panes: DataFrame) -> DataFrame:
        """Stored panes as inputs that say no more than which sequence was the last."""
        return self.of_states(
            panes.withColumns({name: F.expr(sql) for name, sql in self.emptied.items()}), Fate.LATE_ACCEPTED
        )

    @cached_property
    def new_columns(self) -> list[str]:
        """The private columns that hold what a batch added, for the ledger."""
        summed = (EVENTS, *map(measure_column, self.measures))
        some = [NEW_BEHIND, NEW_ASSIGNMENTS, NEW_PARTLY, *map(late_column, summed)]
        some += map(beyond_column, (*map(new_column, summed), *map(late_column, summed)))
        return [*map(new_column, summed), *(column for column in some if column in self.state_columns)]

    def exact_columns(self, column: str) -> list[str]:
        """The columns that add up to a private sum: itself, and what it has where its type is too narrow."""
        beyond = beyond_column(column)
        return [column, beyond] if beyond in self.state_columns else [column]

    def _inputs(self, origin: Literal["from_event", "from_state", "fresh"]) -> list[str]:
        return [
            f"{sql} as {quoted(name)}"
            for state in self.states
            for name, sql in (
                {**state.from_state, **state.fresh} if origin == "fresh" else getattr(state, origin)
            ).items()
        ]

    def ddl(self) -> str:
        """The schema of stored panes, for Spark's reader."""
        published = {
            "window_start": "timestamp",
            "window_end": "timestamp",
            **self.layout.keys,
            **self.layout.values,
            "sequence": "bigint",
            "timing": "string",
            "op": "string",
            "is_last": "boolean",
            "batch": "bigint",
            "fired_at": "timestamp",
            "watermark": "timestamp",
        }
        return ddl({**published, **self.state_columns})


FIRING = ("sequence", "timing", "op", "is_last", "batch", "fired_at", "watermark")
