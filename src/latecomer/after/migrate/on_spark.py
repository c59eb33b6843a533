"""The expressions of a migration that only Spark computes, as columns of the log's events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter

import pyarrow as pa
from pyspark.sql import SparkSession

from latecomer.after.migrate.private_columns import BY_SPARK, ENVELOPE
from latecomer.log.private_columns import LOGGED
from latecomer.model.expressions import Expression
from latecomer.model.predicates import with_paths_quoted
from latecomer.schemas.migrations import Checks
from latecomer.spark.base import in_turn_together
from latecomer.spark.errors import explained
from latecomer.spark.session import build_session, own_session
from latecomer.spark.value_or_null import VALUE, value_or_null
from latecomer.store.data_files import DataFile
from latecomer.store.files import log_file
from latecomer.store.sql import ddl, quoted
from latecomer.store.store import Store
from latecomer.windowing.private_columns import BATCH

ROWS_AT_ONCE = 1_000_000
"""Files of about so many rows are read at once: the driver's memory does not grow with the log."""


@explained("comparing the two shapes")
def computed_by_spark(
    store: Store, checks: Checks, names: Sequence[str]
) -> tuple[Iterator[pa.RecordBatch], Checks]:
    """The columns of the log that are needed, with the expressions of these columns; and the checks that look for the
    expressions there."""
    spark = own_session(build_session(store.pipeline.name, log_file(store.root, "spark.log")))
    made = {name: f"{BY_SPARK}{number}" for number, name in enumerate(names)}
    given = {name: Expression(checks.expressions[name].kind, itemgetter(made[name])) for name in names}
    groups = in_turn_together(store.events.files(), lambda file: file.rows, ROWS_AT_ONCE)
    batches = (
        batch for files in groups for batch in _computed(store, spark, checks, made, files).to_batches()
    )
    return batches, replace(checks, expressions={**checks.expressions, **given})


@explained("comparing the two shapes")
def _computed(
    store: Store, spark: SparkSession, checks: Checks, made: Mapping[str, str], files: Sequence[DataFile]
) -> pa.Table:
    """The rows of some files of the log; `made` maps a column to that of its expression."""
    table, layout = store.events, store.layout
    kept = list(dict.fromkeys([*ENVELOPE, *(layout.view[column] for column in checks.columns)]))
    log = spark.read.schema(ddl(layout.stored)).parquet(*table.paths(files))
    rows = log.selectExpr(
        *(f"{quoted(name)} as {quoted(LOGGED + name)}" for name in kept),
        *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
        f"batch as {BATCH}",
    )
    computed = {
        column: value_or_null(
            spark, with_paths_quoted(checks.sql[name]), checks.expressions[name].kind, BATCH
        ).getField(VALUE)
        for name, column in made.items()
    }
    logged = (f"{quoted(LOGGED + name)} as {quoted(name)}" for name in kept)
    return rows.withColumns(computed).selectExpr(*logged, *made.values()).toArrow()
