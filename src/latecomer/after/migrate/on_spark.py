"""The expressions of a migration that only Spark computes, as columns of the log's events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter

import pyarrow as pa

from latecomer.after.migrate.columns import BY_SPARK, ENVELOPE
from latecomer.log.columns import LOGGED
from latecomer.model.expressions import Expression
from latecomer.model.predicates import with_paths_quoted
from latecomer.schemas.migrations import Checks
from latecomer.spark.errors import explained
from latecomer.spark.session import build_session, own_session
from latecomer.spark.trying import VALUE, tried
from latecomer.store.files import log_file
from latecomer.store.sql import ddl, quoted
from latecomer.store.store import Store
from latecomer.windowing.columns import BATCH


@explained("comparing the two shapes")
def computed_by_spark(
    store: Store, checks: Checks, names: Sequence[str]
) -> tuple[Iterator[pa.RecordBatch], Checks]:
    """The columns of the log that are needed, with the expressions of these columns; and the checks that find them
    there."""
    spark = own_session(build_session(store.pipeline.name, log_file(store.root, "spark.log")))
    table, layout = store.events, store.layout
    made = {name: f"{BY_SPARK}{number}" for number, name in enumerate(names)}
    kept = list(dict.fromkeys([*ENVELOPE, *(layout.view[column] for column in checks.columns)]))
    seen = spark.read.schema(ddl(layout.stored)).parquet(*table.paths(table.files()))
    seen = seen.selectExpr(
        *(f"{quoted(name)} as {quoted(LOGGED + name)}" for name in kept),
        *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
        f"batch as {BATCH}",
    )
    computed = {
        made[name]: tried(
            spark, with_paths_quoted(checks.sql[name]), checks.expressions[name].kind, BATCH
        ).getField(VALUE)
        for name in names
    }
    logged = (f"{quoted(LOGGED + name)} as {quoted(name)}" for name in kept)
    rows = seen.withColumns(computed).selectExpr(*logged, *made.values()).toArrow()
    given = {name: Expression(checks.expressions[name].kind, itemgetter(made[name])) for name in names}
    return iter(rows.to_batches()), replace(checks, expressions={**checks.expressions, **given})
