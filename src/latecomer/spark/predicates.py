"""Checks each `where`, trigger and derived column with Spark, before it is used on events."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from latecomer.config.load import require_none
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.config.views import place_in
from latecomer.errors import Problem, StoreMismatch
from latecomer.model.expressions import expression
from latecomer.model.simple_predicates import NeedsSpark, predicate
from latecomer.spark.errors import first_line
from latecomer.spark.session import no_rows
from latecomer.spark.when_needed import is_started
from latecomer.store.layout import PaneLayout
from latecomer.store.pins import PINS
from latecomer.store.store import Store

_NOT_STABLE = "may say otherwise of the same event when it is asked again"
_NOW = re.compile(r"""\b(date|timestamp\w*)\s*['"]\s*(now|today|tomorrow|yesterday)\b""", re.IGNORECASE)


def check_predicates(spark: SparkSession, store: Store, file: str | Path | None = None) -> None:
    """Refuse a `where` that Spark does not understand, that names columns that do not exist, or that may change its
    answer for the same event: in the pipeline, and in the store's pinned definitions.

    The functions that it may call were checked when it was loaded (`model/predicates.py`). Spark is not started where
    latecomer evaluates every condition itself.
    """
    if not is_started(spark) and _needs_no_spark(store):
        return
    empty = no_rows(spark, store.layout.types)
    pipeline, seen = store.pipeline, set()
    _check_derived(empty, pipeline, file)
    written = [
        (f"outputs.{name}.{field}", where, _of_output(spark, store, output))
        for name, output in pipeline.outputs.items()
        for field, where in (("where", output.where), *(("trigger", sql) for sql in output.trigger.whens))
    ]
    for name, view in pipeline.views.items():
        written.append((place_in(name, "watermark.where"), view.watermark.needs.where, empty))
    for field, where, rows in written:
        if where is not None and (reason := _mistake(rows, where)) is not None:
            fix = f"write an SQL condition over {', '.join(rows.columns)} alone"
            require_none([Problem(field, reason, where, fix)], file)
        seen.add(where)
    for name, then in _pinned(store):
        where = str(then.where)
        if where in seen:
            continue
        if (reason := _mistake(_of_output(spark, store, then), where)) is not None:
            raise StoreMismatch(
                f"store {store.root}: {PINS} has a definition of output {name} that cannot be used: where {where!r} "
                f"{reason}; restore the file, or give the output a new name, and it is computed from the log"
            )
        seen.add(where)


def _needs_no_spark(store: Store) -> bool:
    """Whether latecomer itself evaluates every condition and every derived column."""
    pipeline = store.pipeline
    if any(view.watermark.needs.where is not None for view in pipeline.views.values()):
        return False
    outputs = [*pipeline.outputs.values(), *(then for _, then in _pinned(store))]
    try:
        for output in outputs:
            kinds = PaneLayout(output, store.layout).types
            for sql in (output.where, *output.trigger.whens):
                if sql is not None:
                    predicate(sql, kinds)
            if any(
                expression(made.sql, store.layout.types).value is None for made in output.columns.values()
            ):
                return False
    except (NeedsSpark, ValueError):
        return False
    return True


def _of_output(spark: SparkSession, store: Store, output: Output) -> DataFrame:
    """An empty frame with the columns that an output's condition may name."""
    return no_rows(spark, PaneLayout(output, store.layout).types)


def _pinned(store: Store) -> Iterator[tuple[str, Output]]:
    for name in store.pipeline.outputs:
        yield from ((name, then) for _, then in store.policies(name) if then.where is not None)


def _check_derived(empty: DataFrame, pipeline: Pipeline, file: str | Path | None) -> None:
    """Refuse a derived column that Spark does not understand, or whose value may change for the same event."""
    for name, output in pipeline.outputs.items():
        for column, made in output.columns.items():
            if (reason := _mistake(empty, made.sql, "expression")) is not None:
                place = "columns" if pipeline.derived.get(column) == made else f"outputs.{name}.columns"
                fix = f"write an SQL expression over {', '.join(empty.columns)} alone"
                require_none([Problem(f"{place}.{column}", reason, made.sql, fix)], file)


def _mistake(
    empty: DataFrame, sql: str, what: Literal["predicate", "expression"] = "predicate"
) -> str | None:
    try:
        frame = empty.selectExpr(f"({sql}) as made")
        if what == "predicate" and (kind := frame.schema[0].dataType.simpleString()) != "boolean":
            return f"is not a predicate: it yields {kind}"
        return _NOT_STABLE if may_change(frame, sql) else None
    except PySparkException as error:
        reason = first_line(error)
        if f"pos {len(sql) + 1})" in reason:  # at the bracket that latecomer has added
            reason = reason.replace("at or near ')'", "at its end")
        return f"Spark cannot use this {what}: {reason}"


def may_change(frame: DataFrame, where: str) -> bool:
    """Whether an expression depends on more than the event: on chance, the clock, the session, other tables.

    To Spark the time of the query is a constant, and `timestamp 'now'` is the time of parsing.
    """
    jvm: Any = frame.sparkSession._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    rules, patterns = catalyst.optimizer, catalyst.trees.TreePattern
    plan = rules.ReplaceExpressions.apply(frame._jdf.queryExecution().analyzed())
    return (
        not plan.deterministic()
        or plan.containsPattern(patterns.CURRENT_LIKE())
        or plan.containsPattern(patterns.PLAN_EXPRESSION())
        or not rules.SpecialDatetimeValues.apply(plan).fastEquals(plan)
        or _NOW.search(where) is not None
    )
