"""Rebuild: windows of a range computed anew from the log, and what changed published as CORRECTION panes.

    plan:   log → windows of the range → what differs from what stands → a plan, kept in the store
    apply:  a plan → published by the run that holds the store, between two batches; else by us

A plan rests on the batches up to one. If the store goes on in what it changes before it is published, it is
not published: it is computed again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.config import checks
from latecomer.config.load import check_against
from latecomer.config.models import Output, Pipeline
from latecomer.errors import NoStore, PipelineError, Problem, StoreError, StoreInUse, did_you_mean
from latecomer.firing.choose import output_logic
from latecomer.firing.output import OutputLogic
from latecomer.firing.rebuilt import (
    AFTER,
    BEFORE,
    CHANGE,
    CHANGED,
    NEW,
    WITHDRAWN,
    Range,
    computed,
    units,
    write_changes,
    write_open,
    write_panes,
)
from latecomer.log.events import EventLog
from latecomer.model.durations import iso, to_micros
from latecomer.model.panes import Accumulation
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import Session
from latecomer.overflow import overflow_told
from latecomer.pipeline import BatchReport, Engine
from latecomer.running import check_predicates
from latecomer.session import build_session, own_session
from latecomer.store.layout import PaneLayout
from latecomer.store.lock import exclusive
from latecomer.store.rebuilds import Rebuild, Rebuilds, Record
from latecomer.store.sql import quoted
from latecomer.store.store import Store, definition_of, open_store
from latecomer.store.table import DataFile
from latecomer.timeline.keeper import TimelineKeeper
from latecomer.windowing.assign import END, START
from latecomer.windowing.merge import Merger
from latecomer.windowing.states import EVENTS

LARGEST = 10
ATTEMPTS = 20
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Progress:
    """How far the reading has come."""

    rows: int
    """How many rows of the log there are to read."""
    share: float
    seconds: float

    @property
    def rate(self) -> float:
        """Rows a second so far."""
        return self.rows * self.share / self.seconds if self.seconds else 0.0

    @property
    def left(self) -> float | None:
        """How many seconds are left at this rate; None while nothing is known."""
        return self.seconds * (1 - self.share) / self.share if self.share else None


@dataclass(frozen=True)
class Applied:
    """What became of a rebuild."""

    rebuild: Rebuild
    batch: int | None
    """The batch that published it; None where there was nothing to change."""
    beside: bool
    """Whether a running pipeline published it."""


Watch = Callable[[Progress], None]


def plan(
    pipeline: Pipeline,
    output: str,
    since: int | None = None,
    until: int | None = None,
    *,
    spark: SparkSession | None = None,
    watch: Watch = lambda _: None,
) -> Rebuild:
    """What computing the windows that start in [since, until) anew would change. Nothing is published."""
    store = _opened(pipeline, output)
    session = _session(pipeline, store, spark)
    return _Planner(session, store, output, watch).plan(_first(since), _end(until))


def apply(
    pipeline: Pipeline,
    output: str,
    since: int | None = None,
    until: int | None = None,
    *,
    planned: str | None = None,
    spark: SparkSession | None = None,
    watch: Watch = lambda _: None,
) -> Applied:
    """Execute a plan: the one that is named, else one for the range, else one that is made now.

    Beside a running pipeline the run publishes it; otherwise it is published here.
    """
    store = _opened(pipeline, output)
    session = _session(pipeline, store, spark)
    planner = _Planner(session, store, output, watch)
    rebuild = planner.named(planned) if planned is not None else planner.of_range(_first(since), _end(until))
    for _ in range(ATTEMPTS):
        applied = _published(session, planner, rebuild)
        if applied is not None:
            return applied
        if planned is not None:
            raise StoreError(
                f"plan {planned} is out of date: the pipeline has published windows in its range since batch "
                f"{rebuild.record.through}; plan again, or apply the range without --plan"
            )
        rebuild.remove()
        rebuild = planner.plan(rebuild.record.since, rebuild.record.until)
    raise StoreError(
        f"the range kept getting new events while it was computed, {ATTEMPTS} times in a row; nothing was "
        "changed; rebuild it when fewer come, or stop the pipeline first"
    )


def newest(pipeline: Pipeline) -> int:
    """How far the store has come: its watermark; where that was drained, its newest event."""
    store = open_store(pipeline)
    reached = TimelineKeeper(store.watermarks, pipeline.watermark).reached(store.ledger.last_batch())
    if reached is not None and BEGIN_OF_TIME < reached.watermark < END_OF_TIME:
        return reached.watermark
    newest = [to_micros(file.maximum["event_time"]) for file in store.events.files()]
    if not newest:
        raise NoStore(f"store {store.root} has no event yet; run the pipeline first")
    return max(newest) + 1


def _first(since: int | None) -> int:
    return BEGIN_OF_TIME if since is None else since


def _end(until: int | None) -> int:
    return END_OF_TIME if until is None else until


def _opened(pipeline: Pipeline, output: str) -> Store:
    """The store, fit to be rebuilt; every reason why not is told before Spark starts."""
    problems = checks.check(pipeline)
    if problems:
        raise PipelineError(problems)
    if output not in pipeline.outputs:
        mend, place = did_you_mean(output, pipeline.outputs), f"pipeline {pipeline.name}"
        raise PipelineError([Problem("output", "the pipeline has no such output", output, mend, place)])
    store = open_store(pipeline)
    check_against(pipeline, store.columns)
    if store.ledger.last_batch() < 0:
        raise NoStore(f"store {store.root} has no complete batch yet; run the pipeline first")
    pinned = store.pinned_definition(output)
    if pinned is None:
        raise NoStore(f"output {output} has not been computed yet; run the pipeline first")
    if pinned != definition_of(pipeline.outputs[output]):
        _require_redefinable(store, output, pinned)
        store.redefining = output
    store.pins()
    return store


def _require_redefinable(store: Store, name: str, pinned: Mapping[str, Any]) -> None:
    """What an output means may change in its filter and its aggregates, as far as its columns stay."""
    output = store.pipeline.outputs[name]
    before = Output.model_validate(
        {**dict(output), **{key: value for key, value in pinned.items() if key != "discarding"}}
    )
    old, new = (PaneLayout(each, store.layout) for each in (before, output))
    states = [Merger(layout, store.measures()).state_columns for layout in (old, new)]
    wrong = [
        key
        for key, changed in {
            "window": before.window != output.window,
            "by": before.by != output.by,
            "accumulation": pinned["discarding"] != (output.accumulation is Accumulation.DISCARDING),
            "aggregates": old.values != new.values
            or any(states[1].get(column, kind) != kind for column, kind in states[0].items()),
        }.items()
        if changed
    ]
    reason = f"changed its {' and '.join(wrong)}" if wrong else ""
    if not wrong and isinstance(output.window, Session):
        reason = "has session windows"
    if not wrong and output.accumulation is Accumulation.DISCARDING:
        reason = "is discarding"
    if reason:
        raise PipelineError(
            [
                Problem(
                    f"outputs.{name}",
                    f"cannot be rebuilt under another definition: it {reason}",
                    mend="give the changed output a new name, and it is computed from the log",
                )
            ]
        )


def _session(pipeline: Pipeline, store: Store, spark: SparkSession | None) -> SparkSession:
    session = own_session(spark or build_session(pipeline.name, store.root / "logs" / "rebuild.log"))
    check_predicates(session, store, None)
    return session


class _Planner:
    """Computes plans for one output."""

    def __init__(self, spark: SparkSession, store: Store, output: str, watch: Watch) -> None:
        self.spark = spark
        self.store = store
        self.name = output
        self.watch = watch
        self.rebuilds = Rebuilds(store.root, output)

    @property
    def definition(self) -> Mapping[str, Any] | None:
        """What the output is to mean from here on, where that changes."""
        return definition_of(self.store.pipeline.outputs[self.name]) if self.store.redefining else None

    def named(self, plan: str) -> Rebuild:
        found = [each for each in self.rebuilds if each.id.startswith(plan)] if plan else []
        if len(found) != 1:
            there = ", ".join(each.id for each in self.rebuilds if each.batch is None) or "none"
            raise StoreError(
                f"{'no plan' if not found else 'more than one plan'} of output {self.name} is called {plan}; "
                f"there are: {there}"
            )
        return found[0]

    def of_range(self, since: int, until: int) -> Rebuild:
        """The plan that there is for a range, if the output still means the same; else a new one."""
        wanted = since, until, self.definition
        for each in self.rebuilds:
            record = each.record
            if each.batch is None and (record.since, record.until, record.definition) == wanted:
                return each
        return self.plan(since, until)

    def plan(self, since: int, until: int) -> Rebuild:
        store = open_store(self.store.pipeline)
        store.redefining = self.store.redefining
        logic = output_logic(self.spark, store, self.name)
        with overflow_told(self.name, logic.layout, store.measures()):
            return self._computed(store, logic, since, until)

    def _computed(self, store: Store, logic: OutputLogic, since: int, until: int) -> Rebuild:
        through = store.ledger.last_batch()
        reached = TimelineKeeper(store.watermarks, store.pipeline.watermark).reached(through)
        watermark = BEGIN_OF_TIME if reached is None else reached.watermark
        range_ = Range(logic, since, until, through, watermark, self.definition is not None)
        log = EventLog(self.spark, store)
        read = range_.files(store.events.files())
        panes = logic.tables.panes
        told = panes.paths(range_.panes(panes.files())) if panes.exists else []
        draft = self.rebuilds.draft()
        with _watched(self.spark, sum(file.rows for file in read), self.watch):
            truth = computed(range_, log.of_files(read))
            changes = write_changes(range_, truth, told, draft / "changes")
            write_panes(range_, changes, draft / "panes")
            if range_.redefined:
                write_open(range_, truth, told, draft / "partials")
        record = _recorded(range_, changes, read, self.definition, draft)
        return self.rebuilds.keep(draft, record)


def _recorded(
    range_: Range,
    changes: DataFrame,
    read: Sequence[DataFile],
    definition: Mapping[str, Any] | None,
    draft: Path,
) -> Record:
    """A plan in figures."""
    logic = range_.logic
    keys = [F.col(quoted(key)) for key in logic.layout.keys]
    additive = [name for name, each in logic.output.aggregates.items() if each.function in ("sum", "count")]
    held = units(logic)
    key = F.struct(*keys) if keys else F.lit(1)
    found = (
        changes.agg(
            *(F.count_if(F.col(CHANGE) == kind).alias(kind) for kind in (NEW, CHANGED, WITHDRAWN)),
            F.count_distinct(F.struct(START, END)).alias("windows"),
            F.count_distinct(key).alias("keys"),
            F.min(START).alias("low"),
            F.max(END).alias("high"),
            *(
                _total(side, name).alias(f"{side}{name}")
                for side in (BEFORE, AFTER)
                for name in (*additive, *held.values())
            ),
        )
        .toArrow()
        .to_pylist()[0]
    )
    counts = {name: found[name] for name in (NEW, CHANGED, WITHDRAWN, "windows", "keys")}
    counts |= {
        "files": len(read),
        "bytes": sum(file.size for file in read),
        "rows": sum(file.rows for file in read),
    }
    taken_in = {
        unit: (found[f"{AFTER}{column}"] or Decimal(0)) - (found[f"{BEFORE}{column}"] or Decimal(0))
        for unit, column in held.items()
    }
    if range_.redefined:
        for unit, difference in _open_difference(range_, draft).items():
            taken_in[unit] += difference
    gap = logic.output.window.gap if isinstance(logic.output.window, Session) else 0
    return Record(
        logic.name,
        range_.since,
        range_.until,
        range_.through,
        range_.watermark,
        range_.since if found["low"] is None else found["low"] - gap,
        range_.since if found["high"] is None else found["high"],
        definition,
        {unit: format(amount, "f") for unit, amount in taken_in.items()},
        counts,
        {name: (_shown(found[f"{BEFORE}{name}"]), _shown(found[f"{AFTER}{name}"])) for name in additive},
        tuple(_largest(range_, changes, additive)),
        int(time.time() * 1_000_000),
    )


def _total(side: str, column: str) -> Any:
    return F.sum(F.col(f"{side}.{quoted(column)}").cast("decimal(38,6)"))


def _open_difference(range_: Range, draft: Path) -> dict[str, Decimal]:
    """What the open windows hold more under the new definition than under the one before."""
    logic, held = range_.logic, units(range_.logic)
    partials = logic.tables.partials
    before = partials.paths(partials.files()) if partials.exists else []
    sides = {1: [str(draft / "partials")], -1: before}
    difference = dict.fromkeys(held, Decimal(0))
    for sign, paths in sides.items():
        if paths:
            rows = logic.spark.read.schema(logic.merger.ddl()).parquet(*paths)
            sums = [
                F.sum(F.col(quoted(column)).cast("decimal(38,6)")).alias(unit)
                for unit, column in held.items()
            ]
            found = rows.agg(*sums).toArrow().to_pylist()[0]
            for unit, amount in found.items():
                difference[unit] += sign * (amount or Decimal(0))
    return difference


def _largest(range_: Range, changes: DataFrame, additive: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The rows that change most: by the first sum or count, else by the events they rest on."""
    logic = range_.logic
    column = additive[0] if additive else EVENTS
    by = F.abs(
        F.coalesce(F.col(f"{AFTER}.{quoted(column)}").cast("double"), F.lit(0.0))
        - F.coalesce(F.col(f"{BEFORE}.{quoted(column)}").cast("double"), F.lit(0.0))
    )
    keys = [F.col(quoted(key)).cast("string").alias(key) for key in logic.layout.keys]
    sides = [
        F.col(f"{side}.{quoted(name)}").cast("string").alias(f"{word} {name}")
        for name in logic.layout.values
        for side, word in ((BEFORE, "before"), (AFTER, "after"))
    ]
    rows = changes.orderBy(by.desc(), START, *map(quoted, logic.layout.keys)).limit(LARGEST)
    for row in rows.select(START, END, CHANGE, *keys, *sides).toArrow().to_pylist():
        yield {
            "window_start": iso(row[START]),
            "window_end": iso(row[END]),
            "change": row[CHANGE],
            "key": {key: row[key] for key in logic.layout.keys},
            "before": {name: row[f"before {name}"] for name in logic.layout.values},
            "after": {name: row[f"after {name}"] for name in logic.layout.values},
        }


def _shown(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount.normalize():f}"


# Publishing


def _published(spark: SparkSession, planner: _Planner, rebuild: Rebuild) -> Applied | None:
    """Have a plan published; None where the store has gone on in what it changes."""
    if rebuild.batch is None and not rebuild.record.changes and rebuild.record.definition is None:
        if not _still_nothing(planner, rebuild):
            return None
        rebuild.remove()
        return Applied(rebuild, None, False)
    store = planner.store
    asked = False
    while True:
        try:
            with exclusive(store.root):
                return _published_here(spark, planner, rebuild)
        except StoreInUse:
            if store.redefining:
                raise StoreInUse(
                    f"output {planner.name} is to mean something else, and a pipeline is running with what it "
                    "meant before; stop that first (kill -INT), then apply"
                ) from None
        if rebuild.stale:
            return None
        if not asked:
            rebuild.ask()
            asked = True
        batch = rebuild.batch
        if batch is not None and _complete(store, batch):
            return Applied(rebuild, batch, True)
        time.sleep(POLL_SECONDS)


def _still_nothing(planner: _Planner, rebuild: Rebuild) -> bool:
    """A plan that changes nothing is as good as new where no batch has come since."""
    ledger = planner.store.ledger
    ledger.refresh()
    return ledger.last_batch() == rebuild.record.through


def _complete(store: Store, batch: int) -> bool:
    store.ledger.refresh()
    return store.ledger.last_batch() >= batch


def _published_here(spark: SparkSession, planner: _Planner, rebuild: Rebuild) -> Applied | None:
    store = open_store(planner.store.pipeline)
    store.redefining = planner.store.redefining if rebuild.batch is None else None
    reports: list[BatchReport] = []
    with closing(Engine(spark, store, reports.append)) as engine:
        engine.start()
        if rebuild.batch is None and not engine.rebuild(rebuild):
            return None
    planner.store.redefining = None
    return Applied(rebuild, rebuild.batch, not any(report.kind == "rebuild" for report in reports))


# How far it has come


@contextmanager
def _watched(spark: SparkSession, rows: int, watch: Watch) -> Iterator[None]:
    """Tell how much of the log has been read, by the tasks that Spark has done."""
    began, done = time.monotonic(), Event()

    def look() -> None:
        tracker = spark.sparkContext.statusTracker()
        seen: dict[int, tuple[int, int]] = {}
        while not done.wait(0.25):
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    seen[stage] = info.numCompletedTasks, info.numTasks
            total = sum(tasks for _, tasks in seen.values())
            share = sum(completed for completed, _ in seen.values()) / total if total else 0.0
            watch(Progress(rows, min(share, 0.99), time.monotonic() - began))

    thread = Thread(target=look, name="latecomer-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    watch(Progress(rows, 1.0, time.monotonic() - began))
