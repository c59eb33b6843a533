"""The marks of a punctuated watermark whose condition only Spark can evaluate: from the logged files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from latecomer.log.private_columns import LOGGED
from latecomer.model.strategies import Needs
from latecomer.store.layout import Reading
from latecomer.store.sql import ddl, is_true_sql, quoted

_MARKED = "marked"


def marks_by_spark(
    spark: SparkSession, paths: Sequence[str], ticks: pa.Table, reading: Reading, needs: Needs
) -> pa.Table:
    """The ticks of a batch with their largest marks, from the files of its events."""
    layout = reading.log
    events = (
        spark.read.schema(ddl(layout.stored))
        .parquet(*paths)
        .selectExpr(
            *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
            *(f"{quoted(stored)} as {quoted(LOGGED + stored)}" for stored in ("batch", "event_time")),
            f"tick as {LOGGED}tick",
            f"coalesce(source_partition, '') as {LOGGED}partition",
        )
    )
    marks = events.where(F.expr(is_true_sql(str(needs.where), f"{LOGGED}batch")))
    largest = marks.groupBy(f"{LOGGED}tick", f"{LOGGED}partition").agg(
        F.max(F.unix_micros(f"{LOGGED}event_time")).alias(_MARKED)
    )
    by_place = {(row[0], row[1]): row[2] for row in largest.collect()}
    places = zip(ticks.column("tick").to_pylist(), ticks.column("source_partition").to_pylist(), strict=True)
    marked = pa.array([by_place.get(place) for place in places], pa.int64())
    return ticks.set_column(ticks.schema.get_field_index(_MARKED), _MARKED, marked)
