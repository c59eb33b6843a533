"""What only Spark computes of an output, as columns of the log's events: the one place where users' SQL is evaluated.

events of the log → what `spark_expressions` names, beside the columns that are needed → Arrow
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.derived import derived_types
from latecomer.config.models import Output
from latecomer.fast import MOST_AT_ONCE, Declined
from latecomer.log.columns import LOGGED
from latecomer.log.logged import Logged
from latecomer.spark.trying import tried
from latecomer.store.layout import EventLayout
from latecomer.store.sql import holds, quoted
from latecomer.windowing.columns import BATCH
from latecomer.windowing.derived_in_process import spark_column, spark_expressions


def event_tables(
    logged: Logged, columns: Sequence[str], outputs: Sequence[Output], layout: EventLayout
) -> Iterator[pa.Table]:
    """Some columns of events, and what Spark computes of these outputs, a part of the rows at a time."""
    if not any(spark_expressions(output, layout) for output in outputs):
        with suppress(Declined):  # then the log has them in another form
            return logged.parts(columns)
        with suppress(Declined):
            return iter([logged.table])
    return computed_tables(logged.frame, columns, outputs, layout)


def computed_tables(
    events: DataFrame, columns: Sequence[str], outputs: Sequence[Output], layout: EventLayout
) -> Iterator[pa.Table]:
    """The same of events that Spark has."""
    found = with_spark_columns(events, columns, outputs, layout).toArrow()
    kinds = [
        layout.schema.field(each.name) if each.name in layout.schema.names else each for each in found.schema
    ]
    found = found.cast(pa.schema(kinds))
    for start in range(0, found.num_rows, MOST_AT_ONCE):
        yield found.slice(start, MOST_AT_ONCE)


def with_spark_columns(
    events: DataFrame, columns: Sequence[str], outputs: Sequence[Output], layout: EventLayout
) -> DataFrame:
    """Some columns of the log, with what Spark computes of these outputs. What cannot be computed for a row is null,
    and keeps it out of the output."""
    seen = events.selectExpr(
        *(f"{quoted(name)} as {quoted(LOGGED + name)}" for name in columns),
        *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
        f"batch as {BATCH}",
    )
    made: list[str] = []
    for output in outputs:
        asked = spark_expressions(output, layout)
        kinds = derived_types(output.columns, layout.types)
        derived = {
            name: tried(seen.sparkSession, each.sql, kinds[name], BATCH)
            for name, each in output.columns.items()
        }
        both = seen.withColumns(derived)
        private = {spark_column(output, name): F.col(quoted(name)) for name in derived}
        for column, sql in asked.items():
            if column not in made:
                known = private.get(column)
                both = both.withColumn(column, F.expr(holds(sql, BATCH)) if known is None else known)
                made.append(column)
        seen = both.drop(*derived)
    return seen.selectExpr(
        *(f"{quoted(LOGGED + name)} as {quoted(name)}" for name in columns), *map(quoted, made)
    )
