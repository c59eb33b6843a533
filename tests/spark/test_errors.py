"""Errors in one sentence, whatever they say themselves."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from latecomer.errors import StoreError
from latecomer.spark.errors import explained, first_line


@pytest.mark.parametrize(
    ("error", "reason"),
    [(TimeoutError(), "TimeoutError"), (pa.ArrowInvalid(" "), "ArrowInvalid"), (OSError("lost"), "lost")],
)
def test_an_error_without_a_message_is_called_by_its_kind(error: Exception, reason: str) -> None:
    @explained("reading")
    def fail() -> None:
        raise error

    with pytest.raises(StoreError, match=f"^reading failed: {reason}$"):
        fail()
    assert first_line(error) == reason


def test_an_executor_without_packages_names_what_helps() -> None:
    error = PySparkException(
        "Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, most recent failure: Lost task 0.3 in "
        "stage 1.0 (TID 11) (host executor 2): org.apache.spark.SparkException: \nError from python worker:\n"
        "  /usr/bin/python3: Error while finding module specification for 'latecomer.spark.daemon' "
        "(ModuleNotFoundError: No module named 'latecomer')\nPYTHONPATH was:\n  /tmp/spark-core.jar\n"
    )
    assert first_line(error) == (
        "an executor's Python does not start (/usr/bin/python3: Error while finding module specification for "
        "'latecomer.spark.daemon' (ModuleNotFoundError: No module named 'latecomer')); give executors the driver's "
        "packages: latecomer cluster pack makes an archive of them and prints what to pass to Spark (docs/cluster.md)"
    )
