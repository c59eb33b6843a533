"""Which packages executors have: asked by tasks that need nothing but Python."""

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
"""How many tasks are started for each core, so that every executor gets one. Each takes a moment."""


@dataclass(frozen=True)
class Executor:
    """The Python and the packages of an executor."""

    host: str
    folder: str
    python: str
    versions: dict[str, str | None]
    """Package → version; None where it is missing."""

    def lacks(self, wanted: dict[str, str | None]) -> dict[str, str | None]:
        """The packages that are missing or of another version, with the version on the executor."""
        return {name: self.versions[name] for name in wanted if self.versions[name] != wanted[name]}


def executors_of(spark: SparkSession) -> list[Executor]:
    """Ask every executor. The session must not use latecomer's own daemon, which needs latecomer on executors."""
    context = spark.sparkContext
    cloudpickle.register_pickle_by_value(this)  # type: ignore[no-untyped-call]  # executors may have no latecomer to find it in
    try:
        count = max(context.defaultParallelism, 1) * TASKS_EACH
        with own_python(context):
            rows = (
                context.parallelize(range(count), count)
                .mapPartitions(partial(_installed, PACKAGES))
                .collect()
            )
    except SPARK_ERRORS as error:
        raise MachineError(f"no task could be run on the cluster: {first_line(error)}") from error
    finally:
        cloudpickle.unregister_pickle_by_value(this)  # type: ignore[no-untyped-call]
    by_place = {
        (host, folder): (host, folder, python, dict(versions)) for host, folder, python, versions in rows
    }
    return [Executor(*each) for _, each in sorted(by_place.items())]


def _installed(
    packages: Iterable[str], _tasks: Iterable[int]
) -> Iterator[tuple[str, str, str, list[tuple[str, str | None]]]]:
    """The executor that this runs on, and the versions of its packages."""
    import platform
    import socket
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    def version_of(name: str) -> str | None:
        try:
            return version(name)
        except PackageNotFoundError:
            return None

    time.sleep(0.2)
    yield (
        socket.gethostname(),
        str(Path.cwd()),
        platform.python_version(),
        [(name, version_of(name)) for name in packages],
    )
