"""A sum that outgrows its type, reported by output and column instead of by Spark's expression.

Few can: decimals with more than 35 digits after the point (ADR 0028)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from pyspark.errors import ArithmeticException

from latecomer.errors import PipelineError, Problem
from latecomer.model import types
from latecomer.store.layout import PaneLayout


@contextmanager
def overflow_in_words(name: str, layout: PaneLayout, measures: Collection[str]) -> Iterator[None]:
    """Around the work of an output. An overflow within its `where` stays as Spark tells it."""
    try:
        yield
    except ArithmeticException as error:
        where = layout.output.where or ""
        fragments = [context.fragment() for context in error.getQueryContext()]
        if any(fragment and fragment in where for fragment in fragments):
            raise
        raise PipelineError([_problem(name, layout, measures)]) from error


def _problem(name: str, layout: PaneLayout, measures: Collection[str]) -> Problem:
    kinds = layout.events.types
    sums = {
        aggregate.column: str(aggregate)
        for aggregate in layout.output.aggregates.values()
        if aggregate.column and aggregate.function in ("sum", "avg")
    }
    sums |= {measure: f"the ledger's {measure}" for measure in measures}
    outgrown = [column for column in sums if types.is_decimal(kinds[column])]
    return Problem(
        f"outputs.{name}.aggregates",
        "a sum outgrew its type; the batch is logged, and waits",
        ", ".join(sums[column] for column in outgrown),
        f"declare {' and '.join(outgrown)} with fewer digits after the point, or as double, in source.schema and "
        "start a new store, "
        "or leave the sum out and give the output a new name",
    )
