"""The truth by the log: every event in its windows, no matter when it came.

    all events → windows → one aggregation, as if nothing had ever been late

The log has no dead letters. It has duplicates only where an id was forgotten; they are left out. `where`
filters as it does in the stream. The log is read as it stood after the last complete batch, so a pipeline may
be running on it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from pyspark.sql import SparkSession

from latecomer.after.reading.accounts import Accounts
from latecomer.after.rebuild.sessions import whole_sessions
from latecomer.log.events import EventLog
from latecomer.log.logged import Logged
from latecomer.log.timeline.keeper import Section, TimelineKeeper
from latecomer.model.aggregates import Aggregate
from latecomer.model.durations import to_micros
from latecomer.model.verdicts import Fate
from latecomer.spark.base import Runner
from latecomer.spark.errors import explained
from latecomer.spark.predicates import check_predicates
from latecomer.spark.runner import runner_for
from latecomer.spark.session import build_session, own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.coverage import require_windows
from latecomer.store.files import Location, scratch
from latecomer.store.layout import TIMESTAMP, PaneLayout
from latecomer.store.past import ReplayStore
from latecomer.store.store import Store
from latecomer.windowing.columns import END, START
from latecomer.windowing.fates import CODES, Periods
from latecomer.windowing.firing.batch import Batch
from latecomer.windowing.firing.choose import output_logic
from latecomer.windowing.firing.output import OutputLogic
from latecomer.windowing.firing.sessions import SessionLogic
from latecomer.windowing.firing.stopping import stopping_in_words
from latecomer.windowing.log_computation import only_on_time
from latecomer.windowing.merge import Merger
from latecomer.windowing.spark_columns import computed

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Truth:
    """The numbers of an output by the log."""

    rows: pa.Table
    """Window, key, and every aggregate over all events."""
    dropped: pa.Table
    """Window, key, and the sums and counts of the dropped events."""


@explained("computing from the log")
def truth(accounts: Accounts, last: int, spark: SparkSession | None = None) -> Truth:
    """The numbers of an output by the log up to a batch, and what its policies dropped."""
    store, book = accounts.store, accounts.book
    since = None if accounts.span.since is None else to_micros(accounts.span.since)
    require_windows(store, "reconciling with the log", since, book.output.window)
    with (
        _recomputing(store, last, spark) as computing,
        stopping_in_words(book.name, book.layout),
    ):
        LOG.info("computing output %s from the whole log", book.name)
        logic = output_logic(computing.runner, computing.store, book.name)
        periods = [(since, under) for since, under in store.policies(book.name) if since <= last]
        outputs = [logic.output, *(under for _, under in periods)]
        with computed(
            computing.logged, outputs, store.layout, computing.runner, computing.store.root
        ) as logged:
            rows = _everything(logic, logged, last)
            dropped = pa.table({})
            if accounts.any_dropped():
                dropped = computing.dropped(logic, logged, periods, accounts.additive)
    return Truth(rows, dropped)


def _everything(logic: OutputLogic, logged: Logged, last: int) -> pa.Table:
    """Every aggregate over all events, as if nothing were ever late."""
    if logic.output.window.merges:
        return _as_rows(logic.merger, whole_sessions(logic, logged))
    merged = logic.computation(last).aggregated(logic.runner, f"the truth of {logic.name}", logged)
    return _as_rows(logic.merger, merged)


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
    runner: Runner
    store: ReplayStore
    last: int
    folder: Location

    @cached_property
    def logged(self) -> Logged:
        """Every event, once."""
        return EventLog(self.runner, self.store).each_once(self.last)

    @cached_property
    def section(self) -> Section:
        keeper = TimelineKeeper(self.store.watermarks, self.store.pipeline.watermark)
        return keeper.section(0, self.last)

    def dropped(
        self, logic: OutputLogic, logged: Logged, periods: Periods, additive: Mapping[str, Aggregate]
    ) -> pa.Table:
        """The sums and counts of the dropped events, judged by the watermarks and policies of their time."""
        adding = logic.output.model_copy(update={"aggregates": dict(additive)}).without_sinks()
        computation = replace(
            logic.computation(self.last, periods, timeline=self.section.by_batch, fate=Fate.DROPPED),
            panes=PaneLayout(adding, self.store.layout.portable),
            measures={},
        )
        merger = computation.merger
        if isinstance(logic, SessionLogic):
            log = Batch(self.last, self.section, logged, history=True)
            judged = (events for _, events in logic.judged(log, merger.columns, periods))
            dropped = (only_on_time(events, events.fate == CODES[Fate.DROPPED]) for events in judged)
            return _as_rows(merger, merger.merge_parts(dropped))
        return _as_rows(merger, computation.aggregated(self.runner, f"what {logic.name} dropped", logged))


@contextmanager
def _recomputing(store: Store, last: int, spark: SparkSession | None) -> Iterator[_Computing]:
    with scratch("latecomer-truth-") as root:
        log = root / "logs" / "spark.log"
        session = when_needed(lambda: own_session(spark or build_session(store.pipeline.name, log)))
        check_predicates(session, store)
        runner = runner_for(store.events.rows(), lambda: session)
        recomputed = store.pipeline.model_copy(update={"store": str(root / "store")})
        past = ReplayStore(recomputed, store, last, new_timeline=False)
        yield _Computing(runner, past, last, root)
