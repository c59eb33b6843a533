"""Expressions of outputs that only Spark can compute. Only here Spark evaluates the SQL of users.

files of the log → the log's columns and those of `spark_expressions` → files that tasks read instead
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from latecomer.config.derived import derived_types
from latecomer.config.outputs import Output
from latecomer.log.logged_events import Logged, LogSplit
from latecomer.log.private_columns import LOGGED
from latecomer.spark.at_url import frame_of, write_frame
from latecomer.spark.base import Runner, shared_out
from latecomer.spark.value_or_null import VALUE, value_or_null
from latecomer.store.files import Location, footer, new_token, remove_all
from latecomer.store.layout import EventLayout
from latecomer.store.sql import ddl, quoted
from latecomer.windowing.private_columns import BATCH
from latecomer.windowing.visible_events import spark_column, spark_expressions


@contextmanager
def computed(
    logged: Logged, outputs: Sequence[Output], layout: EventLayout, runner: Runner, root: Location
) -> Iterator[Logged]:
    """Events with the columns that only Spark computes for these outputs; the files are removed at the end. The events
    stay as they are where there are no such columns. `root` is the store's folder."""
    if not any(spark_expressions(output, layout) for output in outputs):
        yield logged
        return
    folder = root / "staging" / new_token()
    try:
        by_batches: dict[tuple[int, int | None], list[LogSplit]] = {}
        for split in logged.splits:
            by_batches.setdefault((split.after, split.last), []).append(split)
        splits = [
            each for some in by_batches.values() for each in _computed(some, outputs, layout, runner, folder)
        ]
        yield Logged(splits, logged.on_read)
    finally:
        remove_all(folder)


def _computed(
    splits: Sequence[LogSplit],
    outputs: Sequence[Output],
    layout: EventLayout,
    runner: Runner,
    folder: Location,
) -> list[LogSplit]:
    """Splits that differ only in their files, computed in one query."""
    read = [file for split in splits for file in split.files]
    if not read:
        return list(splits)
    place = folder / new_token()
    events = frame_of(runner.spark, read, ddl(layout.stored))
    rows = with_spark_columns(events, layout.schema.names, outputs, layout)
    counts = {file: footer(file).num_rows for file in write_frame(rows, place)}
    if not counts:
        return [replace(splits[0], files=[], rows=0)]
    written = footer(next(iter(counts))).schema.to_arrow_schema()
    more = [field for field in written if field.name not in layout.schema.names]
    schema = pa.schema([*splits[0].schema, *more])
    return [
        replace(splits[0], files=files, rows=sum(counts[file] for file in files), schema=schema)
        for files in shared_out(counts, counts.__getitem__, len(splits))
    ]


def with_spark_columns(
    events: DataFrame, columns: Sequence[str], outputs: Sequence[Output], layout: EventLayout
) -> DataFrame:
    """Some columns of the log, and those that Spark computes for these outputs: each is a struct with the value, and
    the struct is null where the value cannot be computed."""
    seen = events.selectExpr(
        *(f"{quoted(name)} as {quoted(LOGGED + name)}" for name in columns),
        *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
        f"batch as {BATCH}",
    )
    made: list[str] = []
    wanted: list[str] = []
    for output in outputs:
        expressions = spark_expressions(output, layout)
        wanted += expressions
        kinds = derived_types(output.columns, layout.types)
        new = {column: sql for column, sql in expressions.items() if column not in made}
        structs = {
            spark_column(output, name): value_or_null(seen.sparkSession, each.sql, kinds[name], BATCH)
            for name, each in output.columns.items()
            if spark_column(output, name) not in made
        }
        seen = seen.withColumns(structs)
        # `where` may name the derived columns.
        values = {name: F.col(spark_column(output, name)).getField(VALUE) for name in output.columns}
        condition = {
            column: value_or_null(seen.sparkSession, sql, "boolean", BATCH)
            for column, sql in new.items()
            if column not in structs
        }
        seen = seen.withColumns(values).withColumns(condition).drop(*values)
        made += [*structs, *condition]
    return seen.selectExpr(
        *(f"{quoted(LOGGED + name)} as {quoted(name)}" for name in columns),
        *map(quoted, dict.fromkeys(wanted)),
    )
