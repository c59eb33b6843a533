"""The truth by the log: every event in its windows, whatever the hour it came. In this process where that is the
common case, else on Spark.

    all events → windows → one aggregation, as if nothing had ever been late

The log holds no dead letters, and duplicates only where an id had been forgotten: they are left out. `where`
filters as it does in the stream. The log is read as it stood after the last complete batch, so a pipeline may
be running on it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.after.reading.accounts import Accounts
from latecomer.after.reconcile.truth_in_process import (
    dropped_from_sessions,
    dropped_here,
    rows_here,
    session_rows,
)
from latecomer.config.checks import PRIVATE
from latecomer.config.models import Output
from latecomer.firing.choose import output_logic
from latecomer.firing.output import OutputLogic
from latecomer.firing.overflow import overflow_in_words
from latecomer.firing.sessions import SessionLogic
from latecomer.log.events import EventLog
from latecomer.log.logged import Logged
from latecomer.log.repeats import repeats_in
from latecomer.model import types
from latecomer.model.aggregates import Aggregate
from latecomer.model.durations import to_micros
from latecomer.model.verdicts import BEGIN_OF_TIME, Fate
from latecomer.spark.errors import explained
from latecomer.spark.predicates import check_predicates
from latecomer.spark.session import build_session, own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.coverage import require_windows
from latecomer.store.files import Location, read_table, scratch, url
from latecomer.store.past import ReplayStore
from latecomer.store.sql import quoted
from latecomer.store.store import Store
from latecomer.timeline.keeper import Stretch, TimelineKeeper
from latecomer.windowing.columns import BATCH, END, FATE, START
from latecomer.windowing.judge import CODES, Periods, as_seen, judged

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Truth:
    """What the log says of an output."""

    rows: pa.Table
    """Window, key, and every aggregate over all events."""
    dropped: pa.Table
    """Window, key, and what the events that were dropped would have added to sums and counts."""


@explained("computing from the log")
def truth(accounts: Accounts, last: int, spark: SparkSession | None = None) -> Truth:
    """The numbers of an output by the log up to a batch, and what its policies dropped."""
    store, name = accounts.store, accounts.name
    since = None if accounts.span.since is None else to_micros(accounts.span.since)
    require_windows(store, "reconciling with the log", since, accounts.output.window)
    with (
        _recomputing(store, last, spark) as computing,
        overflow_in_words(name, accounts.layout, store.measures()),
    ):
        LOG.info("computing output %s from the whole log", name)
        logic = output_logic(computing.spark, computing.store, name)
        choice, logged, stretch = logic.choice, computing.logged, computing.stretch
        rows = (
            session_rows(logic, logged)
            if isinstance(logic, SessionLogic)
            else choice.take(
                "rows",
                lambda: rows_here(logic, logged, stretch),
                lambda: computing.written(computing.everything(logic), "rows"),
            )
        )
        dropped = pa.table({})
        if accounts.any_dropped():
            periods = [(since, under) for since, under in store.policies(name) if since <= last]
            added = accounts.additive
            dropped = (
                dropped_from_sessions(logic, logged, stretch, periods, last, added)
                if isinstance(logic, SessionLogic)
                else choice.take(
                    "dropped events",
                    lambda: dropped_here(logic, logged, stretch, periods, last, added),
                    lambda: computing.written(computing.dropped(logic, periods, added), "dropped"),
                )
            )
        LOG.info("computed from the log: %s", choice.in_words())
    return Truth(rows, dropped)


@dataclass(frozen=True)
class _Computing:
    spark: SparkSession
    store: ReplayStore
    last: int
    folder: Location

    @cached_property
    def logged(self) -> Logged:
        """Every event, once."""
        logged = EventLog(self.spark, self.store).everything()
        return repeats_in(logged, self.store.pipeline, self.last).left_out_of(logged)

    @property
    def events(self) -> DataFrame:
        return self.logged.frame

    @cached_property
    def stretch(self) -> Stretch:
        keeper = TimelineKeeper(self.store.watermarks, self.store.pipeline.watermark)
        return keeper.stretch(0, self.last)

    def everything(self, logic: OutputLogic) -> DataFrame:
        """Every aggregate over all events: judged by a timeline on which nothing is ever late."""
        rows = [(batch, replace(row, watermark=BEGIN_OF_TIME)) for batch, row in self.stretch.rows]
        timeline = Stretch(rows).frame(self.spark, with_batch=True)
        seen, merger = as_seen(self.events, self.store.layout, logic.output), logic.merger
        merged = merger.merge(merger.of_events(judged(seen, timeline, logic.output)))
        kept = merged.where(F.col(FATE) == CODES[Fate.ON_TIME])
        return kept.select(*_place(logic), *map(quoted, logic.layout.values))

    def dropped(self, logic: OutputLogic, periods: Periods, additive: dict[str, Aggregate]) -> DataFrame:
        """What the dropped events would have added, judged by the watermarks and policies of their time."""
        gone = self._judged(periods).where(F.col(FATE) == CODES[Fate.DROPPED])
        keys = [quoted(key) for key in logic.layout.keys]
        sums = [F.expr(_summed(each, logic.layout.types)).alias(name) for name, each in additive.items()]
        grouped = gone.groupBy(START, END, *keys).agg(*(sums or [F.lit(0).alias(f"{PRIVATE}none")]))
        return grouped.select(*_place(logic), *map(quoted, additive))

    def _seen(self, output: Output) -> DataFrame:
        return as_seen(self.events, self.store.layout, output)

    def _judged(self, periods: Periods) -> DataFrame:
        timeline = self.stretch.frame(self.spark, with_batch=True)
        untils = [since for since, _ in periods[1:]] + [self.last + 1]
        parts = [
            judged(self._seen(under).where(f"{BATCH} >= {since} and {BATCH} < {until}"), timeline, under)
            for (since, under), until in zip(periods, untils, strict=True)
        ]
        whole, *more = parts
        for part in more:
            whole = whole.unionByName(part)
        return whole

    def written(self, rows: DataFrame, name: str) -> pa.Table:
        """The rows, by way of a file: the driver's memory is for plans, not for numbers."""
        rows.write.parquet(url(self.folder / name))
        return read_table(self.folder / name)


@contextmanager
def _recomputing(store: Store, last: int, spark: SparkSession | None) -> Iterator[_Computing]:
    with scratch("latecomer-truth-") as root:
        log = root / "logs" / "spark.log"
        session = when_needed(lambda: own_session(spark or build_session(store.pipeline.name, log)))
        check_predicates(session, store)
        there = store.pipeline.model_copy(update={"store": str(root / "store")})
        past = ReplayStore(there, store, last, new_timeline=False)
        yield _Computing(session, past, last, root)


def _place(logic: OutputLogic) -> list[Column]:
    keys = [F.col(quoted(key)) for key in logic.layout.keys]
    return [
        F.timestamp_micros(START).alias("window_start"),
        F.timestamp_micros(END).alias("window_end"),
        *keys,
    ]


def _summed(aggregate: Aggregate, kinds: dict[str, str]) -> str:
    if aggregate.column is None:
        return "count(1)"
    column = quoted(aggregate.column)
    if aggregate.function == "count":
        return f"count({column})"
    kind = kinds[aggregate.column]
    wide = f"decimal(38,{types.scale_of(kind)})" if types.is_exact(kind) else "double"
    return f"sum(cast({column} as {wide}))"
