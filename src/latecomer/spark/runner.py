"""Spark runs kernels: one task each, in its Python workers, on all cores or on a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from threading import Lock
from typing import Any

from pyspark import RDD, cloudpickle
from pyspark.sql import SparkSession

from latecomer.runner import Buckets, Made, Shared, Work
from latecomer.spark.session import is_local
from latecomer.spark.tasks import Done, by_bucket, done, in_one, merged

Shared.pickler = cloudpickle.dumps  # classes of users are sent along


class SparkRunner:
    """Runs kernels in Spark's tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        context = spark.sparkContext
        if is_local(context.master or "") and "PYSPARK_PYTHON" not in os.environ:
            context.pythonExec = sys.executable  # not whatever `python3` is on the PATH
        self.work = Work()
        self._counting = Lock()

    @property
    def cores(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    def run(
        self, what: str, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None = None
    ) -> Made:
        """What kernels make of tasks and buckets. `what` stands in Spark's UI; an error of a task's is raised here."""
        if not tasks and buckets is None:
            return Made([], [])
        context = self.spark.sparkContext
        context.setJobDescription(what)
        try:
            found = self._rows(kernel, tasks, buckets).collect()
        finally:
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
        with self._counting:
            self.work.jobs += 1
            self.work.tasks += len(found)
            self.work.seconds += sum(each.seconds for each in found)
        for each in found:
            if each.error is not None:
                raise each.error
        return Made(
            [each.result for each in found if not each.of_bucket],
            [each.result for each in found if each.of_bucket],
        )

    def _rows(self, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None) -> RDD[Done]:
        context = self.spark.sparkContext
        if buckets is None:
            return context.parallelize(tasks, len(tasks)).mapPartitions(partial(done, kernel))
        count = len(buckets.tasks)
        if count == 1 and len(tasks) <= 1:
            return context.parallelize([tasks], 1).mapPartitions(partial(_in_one, kernel, buckets))
        parted = context.parallelize(tasks, max(len(tasks), 1)).mapPartitions(partial(by_bucket, kernel))
        return parted.partitionBy(count, _itself).mapPartitionsWithIndex(partial(merged, buckets))


def _in_one(kernel: Callable[[Any], Any], buckets: Buckets, tasks: Iterable[Sequence[Any]]) -> Iterator[Done]:
    return in_one(kernel, buckets, next(iter(tasks)))


def _itself(bucket: int) -> int:
    return bucket
