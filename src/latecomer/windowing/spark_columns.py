"""What only Spark computes of an output, as columns of the log's events: the one place where users' SQL is evaluated.

files of the log → what `spark_expressions` names, beside the log's own columns → files that tasks read instead
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
from latecomer.log.columns import LOGGED
from latecomer.log.logged import Logged, LogSplit
from latecomer.spark.at_url import frame_of, write_frame
from latecomer.spark.base import Runner, shared_out
from latecomer.spark.trying import VALUE, tried
from latecomer.store.files import Location, footer, new_token, remove_all
from latecomer.store.layout import EventLayout
from latecomer.store.sql import ddl, quoted
from latecomer.windowing.columns import BATCH
from latecomer.windowing.seen import spark_column, spark_expressions


@contextmanager
def computed(
    logged: Logged, outputs: Sequence[Output], layout: EventLayout, runner: Runner, root: Location
) -> Iterator[Logged]:
    """Events with what Spark alone computes of these outputs, for as long as this lasts; as they are, where there is no
    such thing. `root` is the store's folder."""
    if not any(spark_expressions(output, layout) for output in outputs):
        yield logged
        return
    folder = root / "staging" / new_token()
    try:
        alike: dict[tuple[int, int | None], list[LogSplit]] = {}
        for split in logged.splits:
            alike.setdefault((split.after, split.last), []).append(split)
        splits = [
            each for some in alike.values() for each in _computed(some, outputs, layout, runner, folder)
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
    """Splits that differ in their files alone, in one query."""
    read = [file for split in splits for file in split.files]
    if not read:
        return list(splits)
    place = folder / new_token()
    events = frame_of(runner.spark, read, ddl(layout.stored))
    rows = with_spark_columns(events, layout.schema.names, outputs, layout)
    found = {file: footer(file).num_rows for file in write_frame(rows, place)}
    if not found:
        return [replace(splits[0], files=[], rows=0)]
    schema = pa.schema([*splits[0].schema, *_more(next(iter(found)), layout)])
    return [
        replace(splits[0], files=files, rows=sum(found[file] for file in files), schema=schema)
        for files in shared_out(found, found.__getitem__, len(splits))
    ]


def _more(file: Location, layout: EventLayout) -> list[pa.Field]:
    """The columns that a file has beside those of the log."""
    schema = footer(file).schema.to_arrow_schema()
    return [field for field in schema if field.name not in layout.schema.names]


def with_spark_columns(
    events: DataFrame, columns: Sequence[str], outputs: Sequence[Output], layout: EventLayout
) -> DataFrame:
    """Some columns of the log, with what Spark computes of these outputs: a struct with the value, which is null where
    that cannot be computed."""
    seen = events.selectExpr(
        *(f"{quoted(name)} as {quoted(LOGGED + name)}" for name in columns),
        *(f"{quoted(stored)} as {quoted(column)}" for column, stored in layout.view.items()),
        f"batch as {BATCH}",
    )
    made: list[str] = []
    wanted: list[str] = []
    for output in outputs:
        asked = spark_expressions(output, layout)
        wanted += asked
        kinds = derived_types(output.columns, layout.types)
        new = {column: sql for column, sql in asked.items() if column not in made}
        structs = {
            spark_column(output, name): tried(seen.sparkSession, each.sql, kinds[name], BATCH)
            for name, each in output.columns.items()
            if spark_column(output, name) not in made
        }
        seen = seen.withColumns(structs)
        values = {
            name: F.col(spark_column(output, name)).getField(VALUE) for name in output.columns
        }  # what `where` may name
        condition = {
            column: tried(seen.sparkSession, sql, "boolean", BATCH)
            for column, sql in new.items()
            if column not in structs
        }
        seen = seen.withColumns(values).withColumns(condition).drop(*values)
        made += [*structs, *condition]
    return seen.selectExpr(
        *(f"{quoted(LOGGED + name)} as {quoted(name)}" for name in columns),
        *map(quoted, dict.fromkeys(wanted)),
    )
