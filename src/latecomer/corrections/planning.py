"""A plan: what computing a range of windows anew would change, staged to be published, and in figures."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

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
from latecomer.model.durations import iso
from latecomer.model.verdicts import BEGIN_OF_TIME
from latecomer.model.windows import Session
from latecomer.overflow import overflow_told
from latecomer.store.rebuilds import Rebuild, Rebuilds, Record
from latecomer.store.sql import quoted
from latecomer.store.table import DataFile
from latecomer.timeline.keeper import TimelineKeeper
from latecomer.upkeep.coverage import covered_since, require_windows
from latecomer.windowing.assign import END, START
from latecomer.windowing.states import EVENTS

LARGEST = 10


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


Watch = Callable[[Progress], None]


def planned(
    logic: OutputLogic,
    since: int,
    until: int,
    through: int,
    definition: Mapping[str, Any] | None,
    watch: Watch = lambda _: None,
    log: EventLog | None = None,
) -> Rebuild:
    """A plan for the windows of an output that start in [since, until), by the log up to a batch.

    `definition` is what the output means from here on, where that changes; the logic has it already.
    """
    store, spark = logic.store, logic.spark
    reached = TimelineKeeper(store.watermarks, store.pipeline.watermark).reached(through)
    watermark = BEGIN_OF_TIME if reached is None else reached.watermark
    range_ = Range(
        logic, since, until, through, watermark, definition is not None, covered_since(store) or BEGIN_OF_TIME
    )
    for first, _ in range_.spans if not range_.session else [(since, until)]:
        require_windows(
            store,
            f"a rebuild of output {logic.name}",
            None if first == BEGIN_OF_TIME else first,
            logic.output.window,
            "--from",
        )
    read = range_.files(store.events.files())
    panes = logic.tables.panes
    told = panes.paths(range_.panes(panes.files())) if panes.exists else []
    rebuilds = Rebuilds(store.root, logic.name)
    draft = rebuilds.draft()
    with (
        overflow_told(logic.name, logic.layout, store.measures()),
        _watched(spark, sum(file.rows for file in read), watch),
    ):
        truth = computed(range_, (log or EventLog(spark, store)).of_files(read))
        changes = write_changes(range_, truth, told, draft / "changes")
        write_panes(range_, changes, draft / "panes")
        if range_.redefined:
            write_open(range_, truth, told, draft / "partials")
        record = _recorded(range_, changes, read, definition, draft)
    shutil.rmtree(draft / "changes")
    return rebuilds.keep(draft, record)


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
