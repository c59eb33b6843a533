"""The truth by the log: every event in its windows, whatever the hour it came.

    all events → windows → one aggregation, as if nothing had ever been late

The log holds no dead letters, and duplicates only where an id had been forgotten: they are left out. `where`
filters as it does in the stream. The log is read as it stood after the last complete batch, so a pipeline may
be running on it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from latecomer.after.reading.accounts import Accounts
from latecomer.after.rebuild.sessions import whole_sessions
from latecomer.config.models import Output
from latecomer.firing.batch import Batch
from latecomer.firing.choose import output_logic
from latecomer.firing.output import OutputLogic
from latecomer.firing.overflow import overflow_in_words
from latecomer.firing.sessions import SessionLogic
from latecomer.log.events import EventLog
from latecomer.log.logged import Logged
from latecomer.log.repeats import repeats_in
from latecomer.model.aggregates import Aggregate
from latecomer.model.durations import to_micros
from latecomer.model.verdicts import Fate
from latecomer.spark.errors import explained
from latecomer.spark.predicates import check_predicates
from latecomer.spark.session import build_session, own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.coverage import require_windows
from latecomer.store.files import Location, scratch
from latecomer.store.layout import TIMESTAMP, EventLayout, PaneLayout
from latecomer.store.past import ReplayStore
from latecomer.store.store import Store
from latecomer.timeline.keeper import Stretch, TimelineKeeper
from latecomer.windowing.columns import END, START
from latecomer.windowing.derived_in_process import stored_columns
from latecomer.windowing.fates import CODES, Periods
from latecomer.windowing.judge_in_process import Judged, NothingLate, Timeline, in_parts, judged
from latecomer.windowing.merging import Merger
from latecomer.windowing.spark_columns import event_tables
from latecomer.windowing.tally_in_process import by_period

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
        rows = _everything(logic, computing.logged)
        dropped = pa.table({})
        if accounts.any_dropped():
            periods = [(since, under) for since, under in store.policies(name) if since <= last]
            dropped = computing.dropped(logic, periods, accounts.additive)
    return Truth(rows, dropped)


def _everything(logic: OutputLogic, logged: Logged) -> pa.Table:
    """Every aggregate over all events: judged by a timeline on which nothing is ever late."""
    merger = Merger(logic.layout, logic.store.measures())
    if logic.output.window.merges:
        return _as_rows(merger, whole_sessions(logic, logged))
    layout, output = logic.store.layout, logic.output
    parts = event_tables(logged, stored_columns(layout, [output], merger.columns), [output], layout)
    found = ((output, part) for part in parts)
    return _as_rows(
        merger, merger.merge_parts(_with_fate(Fate.ON_TIME, found, layout, NothingLate(), merger))
    )


def _with_fate(
    fate: Fate,
    parts: Iterator[tuple[Output, pa.Table]],
    layout: EventLayout,
    timeline: Timeline,
    merger: Merger,
) -> Iterator[Judged]:
    """The events that meet a fate, each as if it had been on time."""
    for output, part in parts:
        for few in in_parts(part, output.window):
            yield _only(fate, judged(few, layout, output, timeline, merger.columns))


def _only(fate: Fate, events: Judged) -> Judged:
    found = events.only(events.fate == CODES[fate])
    return replace(found, fate=np.full(len(found), CODES[Fate.ON_TIME], np.int8))


def _as_rows(merger: Merger, merged: pa.Table | None) -> pa.Table:
    """Window, key and values."""
    names = ("window_start", "window_end", *merger.layout.keys, *merger.layout.values)
    schema = pa.schema([merger.schema.field(name) for name in names])
    if merged is None:
        return schema.empty_table()
    moments = {"window_start": merged.column(START), "window_end": merged.column(END)}
    columns = [moments[name].cast(TIMESTAMP) if name in moments else merged.column(name) for name in names]
    return pa.table(dict(zip(names, columns, strict=True))).cast(schema)


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

    @cached_property
    def stretch(self) -> Stretch:
        keeper = TimelineKeeper(self.store.watermarks, self.store.pipeline.watermark)
        return keeper.stretch(0, self.last)

    def dropped(self, logic: OutputLogic, periods: Periods, additive: Mapping[str, Aggregate]) -> pa.Table:
        """What the dropped events would have added, judged by the watermarks and policies of their time."""
        adding = logic.output.model_copy(update={"aggregates": dict(additive)})
        layout = self.store.layout
        merger = Merger(PaneLayout(adding, layout), {})
        if isinstance(logic, SessionLogic):
            log = Batch(self.last, self.stretch, self.logged, history=True)
            events = (found for _, found in logic.judged(log, merger.columns, periods))
            return _as_rows(merger, merger.merge_parts(_only(Fate.DROPPED, found) for found in events))
        outputs = [under for _, under in periods]
        parts = event_tables(self.logged, stored_columns(layout, outputs, merger.columns), outputs, layout)
        found = (each for part in parts for each in by_period(part, periods, self.last))
        gone = _with_fate(Fate.DROPPED, found, layout, self.stretch.by_batch, merger)
        return _as_rows(merger, merger.merge_parts(gone))


@contextmanager
def _recomputing(store: Store, last: int, spark: SparkSession | None) -> Iterator[_Computing]:
    with scratch("latecomer-truth-") as root:
        log = root / "logs" / "spark.log"
        session = when_needed(lambda: own_session(spark or build_session(store.pipeline.name, log)))
        check_predicates(session, store)
        there = store.pipeline.model_copy(update={"store": str(root / "store")})
        past = ReplayStore(there, store, last, new_timeline=False)
        yield _Computing(session, past, last, root)
