"""The one aggregation behind every pane: new events and earlier states, folded per window and key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Output
from latecomer.model.verdicts import Fate
from latecomer.store.layout import PaneLayout, arrow_type
from latecomer.store.sql import ddl, quoted
from latecomer.windowing.judge import ARRIVAL, CODES, END, FATE, START, WATERMARK
from latecomer.windowing.states import EVENTS, StateLogic, measure_column, new_column, states_of

LAST_ARRIVAL = f"{PRIVATE}last_arrival"
LAST_WATERMARK = f"{PRIVATE}last_watermark"
LAST_SEQUENCE = f"{PRIVATE}last_sequence"
_KEY = f"{PRIVATE}key_"


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

    @cached_property
    def schema(self) -> pa.Schema:
        """A pane as stored: what is published, then the state behind it."""
        private = [(name, arrow_type(kind)) for name, kind in self.state_columns.items()]
        return pa.schema([*self.layout.published, *private])

    def of_events(self, judged: DataFrame) -> DataFrame:
        """Each event as inputs. Events that enter no window lose their group: only their count matters."""
        enters = f"{FATE} <= {CODES[Fate.LATE_ACCEPTED]}"
        return judged.select(
            F.expr(f"if({enters}, {START}, null)").alias(START),
            F.expr(f"if({enters}, {END}, null)").alias(END),
            *(F.expr(f"if({enters}, {quoted(key)}, null)").alias(_KEY + key) for key in self.layout.keys),
            F.col(FATE),
            F.col(ARRIVAL).alias(LAST_ARRIVAL),
            F.col(WATERMARK).alias(LAST_WATERMARK),
            F.lit(None).cast("bigint").alias(LAST_SEQUENCE),
            *self._inputs("from_event"),
        )

    def of_states(
        self, panes: DataFrame, fate: Fate, fresh: bool = False, more: Column | None = None
    ) -> DataFrame:
        """Stored states as inputs; `fresh` ones still count as what this batch added."""
        kept = [F.col(quoted(name)).alias(name) for name in self.new_columns] if fresh else []
        return panes.select(
            F.unix_micros("window_start").alias(START),
            F.unix_micros("window_end").alias(END),
            *(F.col(quoted(key)).alias(_KEY + key) for key in self.layout.keys),
            F.expr(f"cast({CODES[fate]} as tinyint)").alias(FATE),
            F.unix_micros("fired_at").alias(LAST_ARRIVAL),
            F.unix_micros("watermark").alias(LAST_WATERMARK),
            F.col("sequence").alias(LAST_SEQUENCE),
            *kept,
            *self._inputs("from_state", without=self.new_columns if fresh else ()),
            *([] if more is None else [more]),
        )

    def merge(self, inputs: DataFrame, first: str | None = None) -> DataFrame:
        """One row per window, key and fate: START, END, keys, FATE, values and states.

        `first` names an input column of which the one value that is not null is kept.
        """
        kept = [] if first is None else [F.first(first, ignorenulls=True).alias(first)]
        keys = [_KEY + key for key in self.layout.keys]
        merged = inputs.groupBy(START, END, *keys, FATE).agg(
            F.max(LAST_ARRIVAL).alias(LAST_ARRIVAL),
            F.max(LAST_WATERMARK).alias(LAST_WATERMARK),
            F.max(LAST_SEQUENCE).alias(LAST_SEQUENCE),
            *(F.expr(sql).alias(name) for state in self.states for name, sql in state.merge.items()),
            *kept,
        )
        finished = {
            name: sql
            for state in self.states
            for name, sql in (state.finish or {name: quoted(name) for name in state.merge}).items()
        }
        return merged.select(
            START,
            END,
            *(F.col(_KEY + key).alias(key) for key in self.layout.keys),
            FATE,
            LAST_ARRIVAL,
            LAST_WATERMARK,
            LAST_SEQUENCE,
            *(F.expr(sql).alias(name) for name, sql in finished.items()),
            *([] if first is None else [F.col(first)]),
        )

    def published(self, merged: DataFrame, **columns: str) -> DataFrame:
        """Merged rows in the shape of panes; `columns` gives the SQL of the firing columns."""
        return merged.select(
            F.timestamp_micros(START).alias("window_start"),
            F.timestamp_micros(END).alias("window_end"),
            *(F.col(quoted(name)) for name in (*self.layout.keys, *self.layout.values)),
            *(F.expr(columns[name]).alias(name) for name in FIRING),
            *(F.col(quoted(name)) for name in self.state_columns),
            *(F.expr(sql).alias(name) for name, sql in columns.items() if name not in FIRING),
        )

    @cached_property
    def new_columns(self) -> list[str]:
        """The private columns that hold what a batch added, for the ledger."""
        return [new_column(column) for column in (EVENTS, *map(measure_column, self.measures))]

    def _inputs(
        self, origin: Literal["from_event", "from_state"], without: Sequence[str] = ()
    ) -> list[Column]:
        return [
            F.expr(sql).alias(name)
            for state in self.states
            for name, sql in getattr(state, origin).items()
            if name not in without
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
            "batch": "bigint",
            "fired_at": "timestamp",
            "watermark": "timestamp",
        }
        return ddl({**published, **self.state_columns})


FIRING = ("sequence", "timing", "op", "batch", "fired_at", "watermark")
