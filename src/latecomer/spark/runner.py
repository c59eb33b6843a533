"""Spark runs kernels: one task each, in its Python workers, on all cores or on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TypeVar

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from latecomer.runner import Shared
from latecomer.spark.tasks import done

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")
Shared.pickler = cloudpickle.dumps  # classes of users are sent along


@dataclass
class Work:
    """What Spark has done for a run."""

    jobs: int = 0
    tasks: int = 0
    seconds: float = 0.0
    """Spent in kernels, all tasks together."""

    @property
    def in_words(self) -> str:
        """As a report shows it.

        >>> Work(2, 4, 1.234).in_words
        'Spark ran 2 jobs with 4 tasks, 1.2 s in them'
        """
        return (
            f"Spark ran {self.jobs:,} job{'s' if self.jobs != 1 else ''} with {self.tasks:,} "
            f"task{'s' if self.tasks != 1 else ''}, {self.seconds:,.1f} s in them"
        )


class SparkRunner:
    """Runs kernels in Spark's tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.work = Work()
        self._counting = Lock()

    @property
    def cores(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    def run(self, what: str, kernel: Callable[[_Task], _Result], tasks: Sequence[_Task]) -> list[_Result]:
        """What a kernel makes of each task. `what` stands in Spark's UI; an error of a task's is raised here."""
        if not tasks:
            return []
        context = self.spark.sparkContext
        context.setJobDescription(what)
        try:
            found = context.parallelize(tasks, len(tasks)).mapPartitions(partial(done, kernel)).collect()
        finally:
            context.setLocalProperty("spark.job.description", None)  # type: ignore[arg-type]
        with self._counting:
            self.work.jobs += 1
            self.work.tasks += len(found)
            self.work.seconds += sum(each.seconds for each in found)
        for each in found:
            if each.error is not None:
                raise each.error
        return [each.result for each in found]
