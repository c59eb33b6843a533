"""Runs kernels in Spark's Python workers, on all cores or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock, Thread
from typing import Any

from pyspark import RDD, cloudpickle
from pyspark.sql import SparkSession

from latecomer.errors import LatecomerError
from latecomer.spark.base import Buckets, InProcess, JobResults, Runner, Shared, TaskTotals
from latecomer.spark.errors import SPARK_ERRORS
from latecomer.spark.session import own_python
from latecomer.spark.tasks import TaskResult, by_bucket, in_one, merged, run_kernel

Shared.pickler = cloudpickle.dumps  # it sends users' classes along

DESCRIPTION = "spark.job.description"
LARGE = 10_000_000
"""How many rows of the log one process computes in the time that Spark takes to start."""


class SparkRunner:
    """Runs kernels in Spark's tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.work = TaskTotals()
        self._counting = Lock()

    def warm_up(self) -> None:
        """Start workers while the driver prepares: their imports take a second."""
        Thread(target=self._start_workers, name="warm-up", daemon=True).start()

    def _start_workers(self) -> None:
        with suppress(*SPARK_ERRORS):  # the run may end first; else the first job reports it
            self._collected("workers start", id, range(self.cores), None)

    @property
    def cores(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    def run(
        self, what: str, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None = None
    ) -> JobResults:
        """Run a kernel on tasks, and that of the buckets on these. `what` is shown in Spark's UI. An error that a
        kernel raised is raised here."""
        if not tasks and buckets is None:
            return JobResults([], [])
        all_done = self._collected(what, kernel, tasks, buckets)
        with self._counting:
            self.work.jobs += 1
            self.work.tasks += len(all_done)
            self.work.seconds += sum(each.seconds for each in all_done)
        errors = [each.error for each in all_done if each.error is not None]
        if errors:
            first, *others = errors
            raise first.joined(others) if isinstance(first, LatecomerError) else first
        return JobResults(
            [each.result for each in all_done if not each.of_bucket],
            [each.result for each in all_done if each.of_bucket],
        )

    def _collected(
        self, what: str, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None
    ) -> list[TaskResult]:
        """The results of a job. The session may be a user's: its job description is restored."""
        context = self.spark.sparkContext
        before = context.getLocalProperty(DESCRIPTION)
        context.setJobDescription(what)
        try:
            with own_python(context):
                rows = self._rows(kernel, tasks, buckets)
                _ = rows._jrdd  # built here, so that it runs with this Python
            return rows.collect()
        finally:
            context.setLocalProperty(DESCRIPTION, before)  # type: ignore[arg-type]

    def _rows(
        self, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None
    ) -> RDD[TaskResult]:
        context = self.spark.sparkContext
        if buckets is None:
            return context.parallelize(tasks, len(tasks)).mapPartitions(partial(run_kernel, kernel))
        count = len(buckets.tasks)
        if count == 1 and len(tasks) <= 1:
            return context.parallelize(tasks, 1).mapPartitions(partial(in_one, kernel, buckets))
        parted = context.parallelize(tasks, max(len(tasks), 1)).mapPartitionsWithIndex(
            partial(by_bucket, kernel)
        )
        return parted.partitionBy(count, int).mapPartitionsWithIndex(partial(merged, buckets))


def runner_for(rows: int, spark: SparkSession) -> Runner:
    """Spark where there is much to compute; else this process, which is done before a session has started."""
    return SparkRunner(spark) if rows > LARGE else InProcess(spark)
