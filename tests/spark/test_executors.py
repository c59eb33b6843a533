"""What is asked of executors: here of one, in this process's own session. tests/cluster asks those of a cluster."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from latecomer.spark.executors import PACKAGES, Executor, executors_of


@pytest.mark.long  # what counts coverage cannot be sent to tasks
def test_an_executor_says_what_it_has(spark: SparkSession) -> None:
    (found,) = executors_of(spark)
    here: dict[str, str | None] = {name: version(name) for name in PACKAGES}
    assert found.python == platform.python_version()
    assert found.versions == here
    assert Path(found.folder).is_dir()
    assert found.lacks(here) == {}


def test_what_is_missing_or_another_version_is_lacking() -> None:
    found = Executor("host", "/work", "3.11.9", {"pyarrow": "1.0", "numpy": None, "pyspark": "4.1.0"})
    assert found.lacks({"pyarrow": "2.0", "numpy": "2.1", "pyspark": "4.1.0"}) == {
        "pyarrow": "1.0",
        "numpy": None,
    }
