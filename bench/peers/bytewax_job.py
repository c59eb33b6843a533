"""The job as a Bytewax dataflow, with a worker a core. Late events go to a stream of their own."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bytewax.operators as op
from bytewax._bytewax import cluster_main
from bytewax.connectors.files import DirSink, FileSource
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing

from bench.peers.feed import CORES, DELAY, WINDOW, lanes, micros, parsed, run_job, total

Event = tuple[datetime, int]
Sums = tuple[int, int]
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def job(source: Path, work: Path) -> None:
    cluster_main(dataflow(source, work), [], 0, worker_count_per_proc=CORES)


def dataflow(source: Path, work: Path) -> Dataflow:
    flow = Dataflow("totals")
    # The clocks of its keys know nothing of each other's files: what is read ahead of another would make that late.
    (lane,) = lanes(source, work / "lane", 1).iterdir()
    lines = op.input("lines", flow, FileSource(lane))
    events = op.map("events", lines, by_merchant)
    windows = windowing.fold_window(
        "minutes",
        events,
        # Events are of the past, and the time at which their windows would have closed wakes nobody.
        windowing.EventClock(lambda event: event[0], DELAY, to_system_utc=lambda _: None),
        windowing.TumblingWindower(length=WINDOW, align_to=BEGIN),
        lambda: (0, 0),
        lambda sums, event: (sums[0] + 1, sums[1] + event[1]),
        lambda one, other: (one[0] + other[0], one[1] + other[1]),
        ordered=False,
    )
    op.output("totals", op.map("text", windows.down, as_line), sink(work / "totals"))
    late = op.map("late text", windows.late, lambda item: (item[0], f"{item[0]} {item[1][1][0].isoformat()}"))
    (work / "late").mkdir()
    op.output("late", late, sink(work / "late"))
    return flow


def sink(folder: Path) -> DirSink:
    return DirSink(folder, CORES)


def by_merchant(line: str) -> tuple[str, Event]:
    merchant, at, paise = parsed(line)
    return merchant, (at, paise)


def as_line(item: tuple[str, tuple[int, Sums]]) -> tuple[str, Any]:
    merchant, (window, sums) = item
    return merchant, total(micros(BEGIN + window * WINDOW), merchant, *sums)


if __name__ == "__main__":
    run_job(job)
