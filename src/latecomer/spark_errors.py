"""Spark's errors, in few words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from latecomer.errors import StoreError

SPARK_ERRORS = (PySparkException, Py4JJavaError)
LONGEST = 300


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """What went wrong on Spark, or with the files under it, in one sentence of ours."""
    try:
        yield
    except (*SPARK_ERRORS, OSError, pa.ArrowException) as error:
        reason = root_cause(error) if isinstance(error, SPARK_ERRORS) else str(error)
        raise StoreError(f"{doing} failed: {_line(reason)}") from error


def first_line(error: BaseException) -> str:
    """What Spark says, without the plan and the trace after it."""
    told = error.java_exception.getMessage() if isinstance(error, Py4JJavaError) else error
    return _line(str(told))


def root_cause(error: BaseException) -> str:
    """What was behind it all: the kind of the innermost exception, and its message."""
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if java is None:
        return first_line(error)
    while java.getCause() is not None:
        java = java.getCause()
    return _line(f"{java.getClass().getSimpleName()}: {java.getMessage()}")


def _line(text: str) -> str:
    line = text.strip().splitlines()[0]
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
