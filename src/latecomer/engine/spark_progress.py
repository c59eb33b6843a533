"""Reports each batch to Spark: to a streaming query listener, and to Spark's own metrics."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, cast

from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    SinkProgress,
    SourceProgress,
    StreamingQueryListener,
    StreamingQueryProgress,
)

from latecomer.config.arguments import require_kind
from latecomer.config.models import Pipeline
from latecomer.engine.ledger.report import BatchProgress, BatchReport, by_output, progress_of
from latecomer.model.verdicts import Fate
from latecomer.model.written_values import json_seconds
from latecomer.spark.errors import SPARK_ERRORS

LOG = logging.getLogger(__name__)
Watch = Callable[[BatchReport], None]


# A listener of Spark's


def watch_of(call: str, pipeline: Pipeline, watch: object) -> Watch:
    """The function that is called after every batch: the user's own, or one that reports each batch to the user's
    listener as the progress of a query. Values for which Spark has no field are in `observedMetrics["latecomer"]`. The
    query's id is made from the store's path, the run's id is new each time."""
    wanted = "a function of one BatchReport, or a StreamingQueryListener"
    require_kind(call, (Callable, StreamingQueryListener), wanted, watch=watch)  # type: ignore[arg-type]
    if not isinstance(watch, StreamingQueryListener):
        return cast("Watch", watch)
    listener, query, run = watch, uuid.uuid5(uuid.NAMESPACE_URL, str(pipeline.store_path)), uuid.uuid4()

    def report_to_listener(report: BatchReport) -> None:
        listener.onQueryProgress(QueryProgressEvent(_as_query(progress_of(report), pipeline, query, run)))

    return report_to_listener


def _as_query(
    progress: BatchProgress, pipeline: Pipeline, query: uuid.UUID, run: uuid.UUID
) -> StreamingQueryProgress:
    durations = {stage: round(seconds * 1000) for stage, seconds in progress["stages"].items()}
    rows, speed = progress["rows"], float(progress["rows_per_second"])
    kind = next((name for name in ("kafka", "dataframe") if getattr(pipeline.source, name, None)), "files")
    source = SourceProgress(f"latecomer {kind}", "", "", "", rows, speed, speed, {})
    counts = {name: value for name, value in progress.items() if name not in ("outputs", "stages", "holding")}
    fates = {
        f"{output}_{fate}": count
        for output, each in progress["outputs"].items()
        for fate, count in each.items()
    }
    return StreamingQueryProgress(
        id=query,
        runId=run,
        name=pipeline.name,
        timestamp=progress["published_at"] or "",
        batchId=progress["batch"],
        batchDuration=round(progress["seconds"] * 1000),
        durationMs=durations,
        eventTime={} if progress["watermark"] is None else {"watermark": progress["watermark"]},
        stateOperators=[],
        sources=[source],
        sink=SinkProgress("latecomer", -1, {}),
        numInputRows=rows,
        inputRowsPerSecond=speed,
        processedRowsPerSecond=speed,
        observedMetrics={"latecomer": Row(**counts, **fates)},
    )


# Spark's metrics


class SparkMetrics:
    """Gauges under names such as `latecomer.NAME.lag_seconds`, in the source `AccumulatorSource` of the driver."""

    def __init__(self, spark: SparkSession, prefix: str, names: Iterable[str]) -> None:
        self.values = dict.fromkeys(names, 0.0)
        self._gauges = _registered(spark, prefix, tuple(self.values))

    def set(self, values: Mapping[str, float]) -> None:
        """Set some of the numbers."""
        for name, value in values.items():
            if value != self.values[name]:
                self._gauges[name].setValue(float(value))
        self.values |= values


def _registered(spark: SparkSession, prefix: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The gauges of a prefix. A Spark context registers a name only once: the gauges of an earlier run are reused."""
    context, jvm = spark.sparkContext, spark._jvm
    assert jvm is not None  # noqa: S101
    known: dict[str, dict[str, Any]] = context.__dict__.setdefault("_latecomer_gauges", {})
    if prefix not in known:
        java = context._jsc.sc()
        gauges = {name: java.doubleAccumulator(f"{prefix}.{name}") for name in names}
        listed = jvm.java.util.HashMap()
        for name, gauge in gauges.items():
            listed.put(f"{prefix}.{name}", gauge)
        source = getattr(jvm, "org.apache.spark.metrics.source.DoubleAccumulatorSource$")
        getattr(source, "MODULE$").register(java, jvm.PythonUtils.toScalaMap(listed))
        known[prefix] = gauges
    for gauge in known[prefix].values():
        gauge.setValue(0.0)
    return known[prefix]


def watched(pipeline: Pipeline, spark: SparkSession, watch: Watch) -> Watch:
    """A function that counts each batch in Spark's metrics, and then calls `watch`."""
    metrics = SparkMetrics(spark, f"latecomer.{pipeline.name}", _NAMES)

    def each(report: BatchReport) -> None:
        try:
            metrics.set(dict(_values(report, metrics.values)))
        except SPARK_ERRORS as error:  # Spark may be stopping; no result depends on its metrics
            LOG.info("Spark's metrics: %s", error)
        watch(report)

    return each


_TOTALS: dict[str, Callable[[BatchReport], int]] = {
    "rows_total": lambda report: report.received.rows,
    "duplicates_total": lambda report: report.received.duplicates,
    "dead_letters_total": lambda report: report.received.dead_letters,
}
_FATES = {
    "late_accepted_total": Fate.LATE_ACCEPTED,
    "side_output_total": Fate.SIDE_OUTPUT,
    "dropped_total": Fate.DROPPED,
}
_NAMES = ("batch", "batch_seconds", "lag_seconds", *_TOTALS, *_FATES)


def _values(report: BatchReport, before: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """Gauges as they are now, and totals since the run began; of all outputs together."""
    yield "batch", report.batch
    yield "batch_seconds", report.seconds
    if report.lag is not None:
        yield "lag_seconds", json_seconds(report.lag)
    for name, count in _TOTALS.items():
        yield name, before[name] + count(report)
    fates = [each for _, each in by_output(report).values()]
    for name, fate in _FATES.items():
        yield name, before[name] + float(sum(each.get(fate, Decimal(0)) for each in fates))
