"""What a store holds as DataFrames: the data source, registered, and called without its options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from latecomer.after.dataframes.options import wanted, written
from latecomer.after.dataframes.source import FORMAT, LatecomerSource
from latecomer.after.dataframes.tables import STREAMED, Table, plan_of
from latecomer.after.reading.reader import Reader
from latecomer.config.arguments import require_kind
from latecomer.config.models import Pipeline
from latecomer.errors import PipelineError, Problem
from latecomer.spark.session import own_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Moment = datetime | str
_KNOWING: WeakSet[Any] = WeakSet()
"""The sessions that know the format."""


def register(spark: SparkSession) -> None:
    """Have a Spark session know the format `latecomer`, for `spark.read.format("latecomer")` and `USING latecomer`."""
    if not hasattr(spark, "dataSource"):
        problem = Problem("spark", "is not a Spark session", spark, "give a SparkSession", "register()")
        raise PipelineError([problem])
    with _active(spark), own_python(getattr(spark, "_sc", None)):
        spark.dataSource.register(LatecomerSource)
    _KNOWING.add(spark)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Have a session be the active one meanwhile. While another one is that knows the format, Spark says that it is
    there already, and registers nothing. With Spark Connect there is none of that."""
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        yield
        return
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def results(
    spark: SparkSession,
    pipeline: Pipeline | str | Path,
    output: str | None = None,
    *,
    table: str = Table.RESULTS,
    as_of: Moment | None = None,
    as_of_arrival: Moment | None = None,
) -> DataFrame:
    """What stands for each window and key of an output, as a DataFrame that Spark's tasks read.

    `table` gives something else: "panes", "late", "corrections", or, without an output, "dead_letters", "ledger" and
    "watermarks". `as_of` and `as_of_arrival` are as for `Reader.results`, and may be asked of panes, too.
    """
    asked = {"table": table, "output": output, "as_of": as_of, "as_of_arrival": as_of_arrival}
    options = _options("results", spark, pipeline, asked)
    return spark.read.format(FORMAT).options(**options).load()


def changes(
    spark: SparkSession,
    pipeline: Pipeline | str | Path,
    output: str,
    *,
    table: str = STREAMED[0],
    starting_batch: int | str | None = None,
    max_batches_per_trigger: int | None = None,
) -> DataFrame:
    """What is published from here on, as a streaming DataFrame: every pane once, inserts and retracts.

    It begins with the first batch, or with `starting_batch`: a number, or "latest". `table` may be "late", for the side
    output.
    """
    asked = {
        "table": table,
        "output": output,
        "startingBatch": starting_batch,
        "maxBatchesPerTrigger": max_batches_per_trigger,
    }
    options = _options("changes", spark, pipeline, asked)
    return spark.readStream.format(FORMAT).options(**options).load()


def _options(
    call: str, spark: SparkSession, pipeline: Pipeline | str | Path, asked: dict[str, Any]
) -> dict[str, str]:
    """The options of a call. What is wrong with them is said here, without Spark's words around it."""
    require_kind(call, (Pipeline, str, Path), "a Pipeline, or the path of its file", pipeline=pipeline)
    if spark not in _KNOWING:  # Spark warns where a format is registered again
        register(spark)
    options = {name: _text(value) for name, value in asked.items() if value is not None}
    options["pipeline"] = (
        written(pipeline) if isinstance(pipeline, Pipeline) else str(Path(pipeline).absolute())
    )
    found = wanted(options)
    _ = plan_of(Reader(found.pipeline), found.asked).schema  # that there is a store which has it
    return options


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) if value.tzinfo is None else value).isoformat()
    return str(value)
