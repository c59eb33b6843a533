"""The truth by the log: every event in its windows, no matter when it came.

    all events → windows → one aggregation, as if nothing had ever been late

The log has no dead letters. It has duplicates only where an id was forgotten; they are left out. `where`
filters as it does in the stream. The log is read as it stood after the last complete batch, so a pipeline may
be running on it.
"""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from latecomer.after.reading.accounts import Accounts
from latecomer.log.logged_events import Logged
from latecomer.log.readable import ReadableLog
from latecomer.log.timeline.keeper import TimelineKeeper
from latecomer.model.arrays import flat
from latecomer.model.durations import to_micros
from latecomer.model.verdicts import Fate
from latecomer.spark.errors import explained
from latecomer.spark.predicates import check_predicates
from latecomer.spark.runner import runner_for
from latecomer.spark.session import build_session, own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.coverage import require_windows
from latecomer.store.files import log_file, scratch
from latecomer.store.layout import TIMESTAMP, PaneLayout
from latecomer.store.past_store import ReplayStore
from latecomer.windowing.fate_counts import CODES, Periods
from latecomer.windowing.firing.output import FiringBatch, OutputLogic
from latecomer.windowing.firing.session_output import SessionLogic, output_logic
from latecomer.windowing.firing.stopping import stopping_in_words
from latecomer.windowing.judge import JudgedEvents
from latecomer.windowing.log_computation import only_on_time
from latecomer.windowing.merge import Merger
from latecomer.windowing.private_columns import END, START
from latecomer.windowing.session_judge import SessionArrivals, session_of
from latecomer.windowing.spark_columns import computed

LOG = logging.getLogger(__name__)


@explained("computing from the log")
def truth(accounts: Accounts, last: int, spark: SparkSession | None = None) -> tuple[pa.Table, pa.Table]:
    """The numbers of an output by the log up to a batch: window, key, and every aggregate over all events. And what its
    policies dropped and no rebuild has included since: window, key, and the sums and counts of these events."""
    store, book = accounts.store, accounts.book
    since = None if accounts.span.since is None else to_micros(accounts.span.since)
    require_windows(store, "reconciling with the log", since, book.output.window)
    with scratch("latecomer-truth-") as root, stopping_in_words(book.name, book.layout):
        log = log_file(root, "spark.log")
        session = when_needed(lambda: own_session(spark or build_session(store.pipeline.name, log)))
        check_predicates(session, store)
        runner = runner_for(store.events.rows(), session)
        recomputed = store.pipeline.model_copy(update={"store": str(root / "store")})
        past = ReplayStore(recomputed, store, last, new_timeline=False)
        LOG.info("computing output %s from the whole log", book.name)
        logic = output_logic(runner, past, book.name)
        periods = [(since, under) for since, under in store.policies(book.name) if since <= last]
        outputs = [logic.output, *(under for _, under in periods)]
        every_event = ReadableLog(runner, past).each_once(last)
        with computed(every_event, outputs, store.layout, runner, past.root) as logged:
            if isinstance(logic, SessionLogic):
                merged: pa.Table | None = logic.whole(logged)
            else:
                merged = logic.computation(last).aggregated(runner, f"the truth of {logic.name}", logged)
            rows, dropped = _as_rows(logic.merger, merged), pa.table({})
            if accounts.any_dropped():
                dropped = _dropped(logic, logged, last, periods, accounts)
    return rows, dropped


def _dropped(logic: OutputLogic, logged: Logged, last: int, periods: Periods, accounts: Accounts) -> pa.Table:
    """The sums and counts of the dropped events, judged by the watermarks and policies of their time."""
    store = logic.store
    section = TimelineKeeper(store.watermarks, store.pipeline.watermark).section(0, last)
    adding = logic.output.model_copy(update={"aggregates": accounts.additive}).without_sinks()
    computation = replace(
        logic.computation(last, periods, timeline=section.watermarks, fate=Fate.DROPPED),
        panes=PaneLayout(adding, store.layout.portable),
        measures={},
        left_out=accounts.included,
    )
    merger = computation.merger
    if isinstance(logic, SessionLogic):
        log = FiringBatch(last, section, logged, history=True)
        judged = logic.judged(log, merger.columns, periods)
        dropped = (_only_dropped(part, events, accounts) for part, events in judged)
        return _as_rows(merger, merger.merge_parts(dropped))
    return _as_rows(merger, computation.aggregated(logic.runner, f"what {logic.name} dropped", logged))


def _only_dropped(part: SessionArrivals, events: JudgedEvents, accounts: Accounts) -> JudgedEvents:
    output, batch = accounts.book.output, np.asarray(flat(part.rows(["batch"]).column(0)))
    included = accounts.included_in_sessions(batch, part.places(output.by, session_of(output)))
    return only_on_time(events, (events.fate == CODES[Fate.DROPPED]) & ~included)


def _as_rows(merger: Merger, merged: pa.Table | None) -> pa.Table:
    """Window, key and values."""
    names = ("window_start", "window_end", *merger.layout.keys, *merger.layout.values)
    schema = pa.schema([merger.schema.field(name) for name in names])
    if merged is None:
        return schema.empty_table()
    moments = {"window_start": merged.column(START), "window_end": merged.column(END)}
    columns = [moments[name].cast(TIMESTAMP) if name in moments else merged.column(name) for name in names]
    return pa.table(dict(zip(names, columns, strict=True))).cast(schema)
