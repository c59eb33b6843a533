"""The tables of a store as DataFrames: registers the data source, and makes its options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from latecomer.after.dataframes.filters import in_utc
from latecomer.after.dataframes.options import wanted, written
from latecomer.after.dataframes.stream import FORMAT, LatecomerSource
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
    """Register the format in a Spark session, for `spark.read.format("latecomer")` and `USING latecomer`."""
    if not hasattr(spark, "dataSource"):
        problem = Problem("spark", "is not a Spark session", spark, "give a SparkSession", "register()")
        raise PipelineError([problem])
    with _active(spark), own_python(getattr(spark, "_sc", None)):
        spark.dataSource.register(LatecomerSource)
    _KNOWING.add(spark)


@contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Make a session the active one meanwhile. Spark looks in the active session whether a format is registered, and
    then registers nothing. Spark Connect has no active session."""
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
    """The results of an output, as a DataFrame that Spark's tasks read: the number that stands for each window and key.

    `table` names another table: "panes", "late", "corrections", or, without an output, "dead_letters", "ledger" and
    "watermarks". `as_of` and `as_of_arrival` are as for `Reader.results`, also for panes.
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
    """The panes as a streaming DataFrame: every published pane once, inserts and retracts.

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
    """The options of a call. They are checked here, so that errors come without Spark's text around them."""
    require_kind(call, (Pipeline, str, Path), "a Pipeline, or the path of its file", pipeline=pipeline)
    if spark not in _KNOWING:  # Spark warns where a format is registered again
        register(spark)
    options = {
        name: in_utc(value).isoformat() if isinstance(value, datetime) else str(value)
        for name, value in asked.items()
        if value is not None
    }
    options["pipeline"] = (
        written(pipeline) if isinstance(pipeline, Pipeline) else str(Path(pipeline).absolute())
    )
    request = wanted(options)
    _ = plan_of(Reader(request.pipeline), request.asked).schema  # an error where the store does not have it
    return options
