"""A runner that treats this process as a cluster of four: what a task is given, or hands on, is pickled in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from latecomer.engine.pipeline import Engine
from latecomer.spark.base import Buckets, InProcess, JobResults, Shared
from latecomer.spark.tasks import by_bucket, merged, run_kernel


class Spread(InProcess):
    """Runs each task as a Spark worker does, one after the other."""

    cores = 4

    def run(
        self, what: str, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None = None
    ) -> JobResults:
        if buckets is None:
            found = [each for task in tasks for each in self.attempt(run_kernel, kernel, [task])]
        else:
            # A shuffle hands over in any order what tasks have made: here the last task's comes first.
            parted = [
                pair
                for nth, task in reversed(list(enumerate(tasks)))
                for pair in self.attempt(by_bucket, kernel, nth, [task])
            ]
            found = [
                each
                for nth in range(len(buckets.tasks))
                for each in self.attempt(merged, buckets, nth, [pair for pair in parted if pair[0] == nth])
            ]
        for each in found:
            if each.error is not None:
                raise each.error
        return JobResults(
            [each.result for each in found if not each.of_bucket],
            [each.result for each in found if each.of_bucket],
        )

    def attempt(self, task: Callable[..., Iterator[Any]], *given: Any) -> list[Any]:
        """What a task makes of what it is given."""
        return list(_sent(list(task(*map(_sent, given)))))


class Twice(Spread):
    """Attempts each task twice, as Spark does where an executor stands still or is lost: either attempt may count, and
    of one task another for each bucket."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self._chance = Random(30)

    def attempt(self, task: Callable[..., Iterator[Any]], *given: Any) -> list[Any]:
        both = [super(Twice, self).attempt(task, *given) for _ in range(2)]
        return [self._chance.choice(pair) for pair in zip(*both, strict=True)]


def spread_out(engine: Engine) -> Engine:
    """The engine, with as many tasks and buckets as there can be."""
    engine.firing.rows_per_bucket = 1
    for output in engine.outputs:
        output.rows_per_bucket = 1
    return engine


def _sent(thing: Any) -> Any:
    before, Shared.pickler = Shared.pickler, cloudpickle.dumps
    try:
        return cloudpickle.loads(cloudpickle.dumps(thing))
    finally:
        Shared.pickler = before
