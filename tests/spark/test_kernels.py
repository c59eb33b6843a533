"""Kernels are functions of Arrow tables: they are loaded where neither Spark nor Delta is installed."""

from __future__ import annotations

import subprocess
import sys

KERNELS = (
    "latecomer.log.log_task",
    "latecomer.windowing.firing.merge_bucket",
    "latecomer.windowing.log_computation",
)
ALONE = """
import sys
from importlib import import_module
sys.modules["pyspark"] = sys.modules["deltalake"] = None
for name in sys.argv[1:]:
    import_module(name)
print(sorted({"latecomer.store.store", "latecomer.store.delta.table"} & set(sys.modules)))
"""


def test_kernels_are_loaded_without_spark_and_delta() -> None:
    """The import contract leaves out what users write for Spark; what is loaded in the end is seen here."""
    ended = subprocess.run(
        [sys.executable, "-c", ALONE, *KERNELS], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip() == "[]"
