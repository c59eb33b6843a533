"""What executors have of what tasks need: asked by a task on each of them that needs nothing but Python."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from pyspark import cloudpickle
from pyspark.sql import SparkSession

import latecomer.spark.executors as this
from latecomer.errors import MachineError
from latecomer.spark.errors import SPARK_ERRORS, first_line
from latecomer.spark.session import own_python

PACKAGES = ("latecomer", "pyspark", "pyarrow", "numpy")
"""What a task imports."""
TASKS_EACH = 4
"""So many tasks for each core, each of which takes a moment: so that no executor is left out."""


@dataclass(frozen=True)
class Executor:
    """What was found on an executor."""

    host: str
    folder: str
    python: str
    versions: dict[str, str | None]
    """Package → version; None where it is not there."""

    def lacks(self, wanted: dict[str, str | None]) -> dict[str, str | None]:
        """The packages that are not there, or not as wanted, with what is there."""
        return {name: self.versions[name] for name in wanted if self.versions[name] != wanted[name]}


def executors_of(spark: SparkSession) -> list[Executor]:
    """Ask every executor. Sessions with latecomer's own daemon need latecomer there, so this has to be one without."""
    context = spark.sparkContext
    cloudpickle.register_pickle_by_value(this)  # type: ignore[no-untyped-call]  # executors may have no latecomer to find it in
    try:
        count = max(context.defaultParallelism, 1) * TASKS_EACH
        with own_python(context):
            found = (
                context.parallelize(range(count), count).mapPartitions(partial(_found, PACKAGES)).collect()
            )
    except SPARK_ERRORS as error:
        raise MachineError(f"no task could be run on the cluster: {first_line(error)}") from error
    finally:
        cloudpickle.unregister_pickle_by_value(this)  # type: ignore[no-untyped-call]
    by_place = {
        (host, folder): (host, folder, python, dict(versions)) for host, folder, python, versions in found
    }
    return [Executor(*each) for _, each in sorted(by_place.items())]


def _found(
    packages: Iterable[str], _tasks: Iterable[int]
) -> Iterator[tuple[str, str, str, list[tuple[str, str | None]]]]:
    """What there is where this runs."""
    import platform
    import socket
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    def there(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    time.sleep(0.2)
    yield (
        socket.gethostname(),
        str(Path.cwd()),
        platform.python_version(),
        [(name, there(name)) for name in packages],
    )
