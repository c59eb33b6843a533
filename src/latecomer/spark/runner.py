"""Spark runs kernels: one task each, in its Python workers, on all cores or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any

from pyspark import RDD, cloudpickle
from pyspark.sql import SparkSession

from latecomer.errors import LatecomerError
from latecomer.spark.base import Buckets, InProcess, Made, Runner, Shared, Work
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.spark.session import own_python
from latecomer.spark.tasks import Done, by_bucket, done, in_one, merged

Shared.pickler = cloudpickle.dumps  # classes of users are sent along

DESCRIPTION = "spark.job.description"
LARGE = 10_000_000
"""So many rows of the log are computed anew in the time that Spark takes to start."""


class SparkRunner:
    """Runs kernels in Spark's tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.work = Work()
        self._counting = Lock()

    def warm_up(self) -> None:
        """Have workers started while the driver prepares: what they import takes a second."""
        Thread(target=self._start_workers, name="warm-up", daemon=True).start()

    def _start_workers(self) -> None:
        with suppress(*SPARK_ERRORS):  # a run that ends before it has begun; else the first job says it
            self._collected("workers start", id, range(self.cores), None)

    @property
    def cores(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    def run(
        self, what: str, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None = None
    ) -> Made:
        """What kernels make of tasks and buckets. `what` stands in Spark's UI; an error of a task's is raised here."""
        if not tasks and buckets is None:
            return Made([], [])
        found = self._collected(what, kernel, tasks, buckets)
        with self._counting:
            self.work.jobs += 1
            self.work.tasks += len(found)
            self.work.seconds += sum(each.seconds for each in found)
        errors = [each.error for each in found if each.error is not None]
        if errors:
            first, *others = errors
            raise first.joined(others) if isinstance(first, LatecomerError) else first
        return Made(
            [each.result for each in found if not each.of_bucket],
            [each.result for each in found if each.of_bucket],
        )

    def _collected(
        self, what: str, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None
    ) -> list[Done]:
        """What a job makes. The session may be a user's: what is set for the job is set back."""
        context = self.spark.sparkContext
        before = context.getLocalProperty(DESCRIPTION)
        context.setJobDescription(what)
        try:
            with own_python(context):
                rows = self._rows(kernel, tasks, buckets)
                _ = rows._jrdd  # with this Python, whoever runs it when
            return rows.collect()
        finally:
            context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]

    def _rows(self, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None) -> RDD[Done]:
        context = self.spark.sparkContext
        if buckets is None:
            return context.parallelize(tasks, len(tasks)).mapPartitions(partial(done, kernel))
        count = len(buckets.tasks)
        if count == 1 and len(tasks) <= 1:
            return context.parallelize([tasks], 1).mapPartitions(partial(_in_one, kernel, buckets))
        every = context.parallelize(tasks, max(len(tasks), 1))
        parted = every.mapPartitionsWithIndex(partial(by_bucket, kernel))
        return parted.partitionBy(count, _itself).mapPartitionsWithIndex(partial(merged, buckets))


def runner_for(rows: int, start: Callable[[], SparkSession]) -> Runner:
    """Spark's where there is much to compute; else this process, which is done before a session has started."""
    return SparkRunner(start()) if rows > LARGE else InProcess(start)


def _in_one(kernel: Callable[[Any], Any], buckets: Buckets, tasks: Iterable[Sequence[Any]]) -> Iterator[Done]:
    return in_one(kernel, buckets, next(iter(tasks)))


def _itself(bucket: int) -> int:
    return bucket
