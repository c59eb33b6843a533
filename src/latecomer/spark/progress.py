"""How far Spark has come with what it is computing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

from pyspark.sql import SparkSession

from latecomer.spark.when_needed import is_started


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


@contextmanager
def watched(spark: SparkSession, rows: int, watch: Watch) -> Iterator[None]:
    """Report how much of the log has been read, by the tasks that Spark has done."""
    began, done = time.monotonic(), Event()

    def look() -> None:
        seen: dict[int, tuple[int, int]] = {}
        share = 0.0
        while not done.wait(0.25):
            if not is_started(spark):
                continue
            tracker = spark.sparkContext.statusTracker()
            for stage in tracker.getActiveStageIds():
                info = tracker.getStageInfo(stage)
                if info is not None:
                    seen[stage] = info.numCompletedTasks, info.numTasks
            total = sum(tasks for _, tasks in seen.values())
            done_so_far = sum(completed for completed, _ in seen.values())
            # Stages become known one after the other: what has been reported is not taken back.
            share = max(share, min(done_so_far / total, 0.99) if total else 0.0)
            watch(Progress(rows, share, time.monotonic() - began))

    watch(Progress(rows, 0.0, 0.0))
    thread = Thread(target=look, name="latecomer-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    watch(Progress(rows, 1.0, time.monotonic() - began))
