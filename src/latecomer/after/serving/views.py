"""Serving as a view for other engines: `create view … as base and corrections`.

DuckDB and Spark read the store's own files. Without their Delta extensions they cannot tell which files of
a table count, so the view names them: it shows the store as it was when the view was printed, and says how
to see more. Postgres reads the table that a sink keeps there, and a table of corrections beside it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, TypeVar

from latecomer.after.reading.choices import Engine
from latecomer.after.reading.reader import Reader
from latecomer.after.serving.correcting import Corrections, corrections_of
from latecomer.after.serving.served import by_grain, corrections, row_schema, served_schema
from latecomer.after.serving.statement import (
    DUCKDB,
    POSTGRES,
    SPARK,
    Sql,
    counting,
    dated_columns,
    merged_columns,
    served,
    standing_numbers,
)
from latecomer.config.models import Pipeline
from latecomer.config.sinks import PostgresSink
from latecomer.errors import LatecomerError, NoStore, PipelineError, Problem
from latecomer.model import types
from latecomer.model.panes import Accumulation
from latecomer.sink.postgres_serving import CorrectionsLogic
from latecomer.store.delta.table import Table
from latecomer.store.sql import text_literal

LOG = logging.getLogger(__name__)
_Report = TypeVar("_Report")
_OVER_FILES = {
    Engine.DUCKDB: (
        "create or replace view",
        "with DuckDB's delta extension (install delta; load delta), put delta_scan('FOLDER') for\n"
        "-- read_parquet([…]), ",
    ),
    Engine.SPARK: (
        "create or replace temporary view",
        "in a session with Delta Lake, put delta.`FOLDER` for each parquet.`…`,\n-- ",
    ),
}
"""The statement that makes a view over files, and how a view is made that need not be printed again."""


def view(
    reader: Reader, output: str, engine: Engine, name: str | None = None, table: str | None = None
) -> str:
    """The statements that make the view. `table` is the base in Postgres; by default it has the output's name."""
    ours = corrections_of(reader, output)
    name = name or f"{output}_serving"
    match engine:
        case Engine.DUCKDB:
            lines = _over_files(DUCKDB, ours, name, _duckdb_files, engine)
        case Engine.SPARK:
            lines = _over_files(SPARK, ours, name, _spark_files, engine)
        case Engine.POSTGRES:
            lines = _postgres(ours, name, table or output)
    return "\n".join([*lines, ""])


def _over_files(
    sql: Sql, ours: Corrections, name: str, files_of: Callable[[Corrections, Table], str], engine: Engine
) -> Iterator[str]:
    """A view over the files of now, and how it is made to show what came later."""
    make, with_delta = _OVER_FILES[engine]
    yield from _remarks(sql, ours)
    yield "-- The files as they are now. To see what came later, print the view again:"
    yield f"--   latecomer serving FILE {ours.name} --sql {engine}"
    yield f"-- or, {with_delta}for {_line(ours.tables.panes)} and {_line(ours.table)}."
    panes, corrections = (files_of(ours, table) for table in (ours.tables.panes, ours.table))
    base, later = standing_numbers(sql, ours, panes), counting(sql, ours, panes, corrections)
    yield f"{make} {_qualified(sql, name)} as"
    yield served(sql, ours, base, later) + ";"


def _duckdb_files(ours: Corrections, table: Table) -> str:
    paths = [text_literal(path) for path in table.paths(table.files())]
    if not paths:
        return _no_rows(DUCKDB, ours)
    return f"read_parquet([{', '.join(paths)}], union_by_name = true, hive_partitioning = false)"


def _spark_files(ours: Corrections, table: Table) -> str:
    """The files as one pattern, as Spark's SQL takes one path. The path of a store has no characters of patterns."""
    files = [file.path for file in table.files()]
    if not files:
        return _no_rows(SPARK, ours)
    root, listed = table.root, ",".join(files)
    return "parquet." + SPARK.quote(f"{root}/{{{listed}}}" if len(files) > 1 else f"{root}/{listed}")


def _postgres(ours: Corrections, name: str, table: str) -> Iterator[str]:
    check_postgres(ours)
    corrections = f"{table}_corrections"
    yield from _remarks(POSTGRES, ours)
    yield f"-- Base: table {_comment(table)}, upserted by window and key, with the columns of the panes."
    yield f"-- Corrections: table {_comment(corrections)}. Each call of correct prints what it added; load it with"
    yield f"--   latecomer correct FILE {ours.name} --format csv |"
    yield f"--     psql -c 'copy {_comment(_qualified(POSTGRES, corrections))} from stdin csv header'"
    yield "-- To start over, as after a rebuild: truncate the table, and load what correct --all prints."
    kinds = {column: ours.kinds.get(column, "bigint") for column in row_schema(ours).names}
    columns = ",\n".join(
        f"  {POSTGRES.quote(column)} {POSTGRES.kind(kind)}" for column, kind in kinds.items()
    )
    yield f"create table if not exists {_qualified(POSTGRES, corrections)} (\n{columns}\n);"
    yield f"create or replace view {_qualified(POSTGRES, name)} as"
    yield postgres_statement(ours, _qualified(POSTGRES, table), _qualified(POSTGRES, corrections)) + ";"


def postgres_statement(ours: Corrections, table: str, corrections: str) -> str:
    """The query of the view over a table of results and one of corrections, both named as in SQL."""
    base = f"select {POSTGRES.listed(dated_columns(ours))} from {table}"
    return served(POSTGRES, ours, base, corrections)


def check_postgres(ours: Corrections) -> None:
    """An error where Postgres cannot serve the output."""
    if ours.output.accumulation is Accumulation.DISCARDING:
        message = "a table keeps one row for each window and key, and discarding panes are many"
        fix = "use --sql duckdb or --sql spark, which read all panes"
        field, value = f"outputs.{ours.name}.accumulation", ours.output.accumulation.value
        raise PipelineError([Problem(field, message, value, fix)])
    for name, aggregate in ours.added.items():
        if aggregate.function in ("min", "max") and ours.layout.values[name] == "binary":
            field, message = (
                f"outputs.{ours.name}.aggregates.{name}",
                f"Postgres has no {aggregate.function} of bytes",
            )
            raise PipelineError([Problem(field, message, str(aggregate), "use --sql duckdb or --sql spark")])


def _remarks(sql: Sql, ours: Corrections) -> Iterator[str]:
    """Comments on what the view lacks."""
    notes = ours.notes()
    elsewhere = [name for name in ours.stated if name not in sql.merges(ours)]
    elsewhere += [name for name in ours.derived if types.is_decimal(ours.layout.values[name])]
    if elsewhere:
        notes.append(
            f"{', '.join(elsewhere)}: made by latecomer results --serving alone; here empty where there is a "
            "correction"
        )
    if rough := [name for name, each in sql.merges(ours).items() if each.function != "avg"]:
        notes.append(f"{', '.join(rough)}: where there is a correction, computed here in floating point")
    yield from (f"-- {_comment(note)}" for note in notes)


def _no_rows(sql: Sql, ours: Corrections) -> str:
    """An empty relation with every column that may be needed, for a table without files."""
    rest = {"sequence": "bigint", "timing": "string", "op": "string"}
    kinds: Mapping[str, str] = {**ours.kinds, **ours.layout.values, **rest, **merged_columns(sql, ours)}
    columns = ", ".join(f"{sql.nothing(kind)} as {sql.quote(name)}" for name, kind in kinds.items())
    return f"(select {columns} where false)"


def _qualified(sql: Sql, name: str) -> str:
    """A name, or a schema's name and one in it."""
    return ".".join(map(sql.quote, name.split(".")))


def _line(table: Table) -> str:
    return _comment(str(table.root))


def _comment(text: str) -> str:
    """Text in one line, so that it cannot end a comment."""
    return " ".join(text.splitlines())


# Serving kept in Postgres: the corrections that count, and the view, beside the table of each sink with `serving`


def serving_sinks(pipeline: Pipeline, output: str) -> list[PostgresSink]:
    """The sinks of an output with `serving`."""
    return [
        sink for sink in pipeline.outputs[output].sinks if isinstance(sink, PostgresSink) and sink.serving
    ]


def keep_served(reader: Reader, output: str) -> None:
    """Bring the corrections and the view of an output to each of its sinks with `serving`."""
    for sink in serving_sinks(reader.pipeline, output):
        ours = corrections_of(reader, output)
        check_postgres(ours)
        logic = CorrectionsLogic(sink, reader.pipeline.base, reader.pipeline.name, output, row_schema(ours))
        with closing(logic):
            logic.replace(
                lambda table, beside, ours=ours: postgres_statement(ours, table, beside),  # type: ignore[misc]
                served_schema(ours).names,
                lambda batch: by_grain(reader, output, corrections(reader, output, batch)),
            )


def beside_a_run(run: Callable[..., _Report], pipeline: Pipeline, **options: Any) -> _Report:
    """A run that keeps serving up to date: before the run, where there is a store; after its first batch, which makes
    the store; and after the run."""
    watch = options.get("watch", lambda _: None)
    if not callable(watch):
        return run(pipeline, **options)
    served = keep_all_served(pipeline)

    def watched(report: Any) -> None:
        nonlocal served
        watch(report)
        if not served:
            keep_all_served(pipeline)
            served = True

    report = run(pipeline, **{**options, "watch": watched})
    keep_all_served(pipeline)
    return report


def keep_all_served(pipeline: Pipeline) -> bool:
    """Whether serving could be brought up to date everywhere. What is in the way is logged; the run goes on."""
    if not any(serving_sinks(pipeline, output) for output in pipeline.outputs):
        return True
    reader = Reader(pipeline)
    try:
        for output in pipeline.outputs:
            keep_served(reader, output)
    except NoStore:
        return False
    except LatecomerError as error:
        LOG.warning("what is served could not be brought up: %s", error)
        return False
    return True
