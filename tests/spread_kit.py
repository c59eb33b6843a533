"""A runner that treats this process as a cluster of four: what a task is given, or hands on, is pickled in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pyspark import cloudpickle

from latecomer.pipeline import Engine
from latecomer.spark.base import Buckets, InProcess, Made, Shared
from latecomer.spark.tasks import by_bucket, done, merged


class Spread(InProcess):
    """Runs each task as a Spark worker does, one after the other."""

    cores = 4

    def run(
        self, what: str, kernel: Callable[[Any], Any], tasks: Sequence[Any], buckets: Buckets | None = None
    ) -> Made:
        if buckets is None:
            found = [each for task in tasks for each in _sent(list(done(_sent(kernel), [_sent(task)])))]
        else:
            parted = [pair for task in tasks for pair in _sent(list(by_bucket(_sent(kernel), [_sent(task)])))]
            found = [
                each
                for nth in range(len(buckets.tasks))
                for each in _sent(
                    list(merged(_sent(buckets), nth, [pair for pair in parted if pair[0] == nth]))
                )
            ]
        for each in found:
            if each.error is not None:
                raise each.error
        return Made(
            [each.result for each in found if not each.of_bucket],
            [each.result for each in found if each.of_bucket],
        )


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
