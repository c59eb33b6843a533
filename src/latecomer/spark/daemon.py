"""The process from which Spark forks its Python workers (`spark.python.daemon.module`, ADR 0073).

For every task a worker drops its cache of `sys.path`, and reads the directories of all zips and jars on it again. That
takes 150 ms a task, even if nothing is imported. So Spark's own zips and jars are removed from the path: pyspark is
installed. What every task needs is imported before the first fork, and frozen: the garbage collector skips it.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

_NEEDED = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.dataset",
    "pyarrow.json",
    "pyarrow.parquet",
    "pyspark.worker",
    "latecomer.notebook",
    "latecomer.spark.tasks",
    "latecomer.source.file_source",
    "latecomer.log.log_task",
    "latecomer.windowing.firing.merge_bucket",
)


def without_archives(path: list[str]) -> list[str]:
    """A search path without Spark's own zips and jars; zips that users ship stay.

    >>> without_archives(["", "/spark/python/lib/pyspark.zip", "/spark/jars/spark-core_2.13-4.1.1.jar", "/mine.zip"])
    ['', '/mine.zip']
    """
    return [each for each in path if not (each.endswith(".jar") or _is_sparks(each.rpartition("/")[2]))]


def _is_sparks(name: str) -> bool:
    return name.endswith(".zip") and name.startswith(("pyspark", "py4j"))


def main() -> None:
    """Import what tasks need, then hand out workers."""
    sys.path[:] = without_archives(sys.path)
    for archive in sys.path_importer_cache.keys() - without_archives([*sys.path_importer_cache]):
        del sys.path_importer_cache[archive]  # these would be read again
    for name in _NEEDED:
        import_module(name)
    import_module("pyarrow").set_cpu_count(int(os.environ.get("OMP_NUM_THREADS", "1")))  # a task's cores
    gc.collect()
    gc.freeze()
    import_module("pyspark.daemon").manager()


if __name__ == "__main__":
    main()
