"""Derived columns: their problems and their types, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.config.renames import Derived
from latecomer.errors import Problem
from latecomer.model.expressions import expression
from latecomer.model.predicates import column_mistake, named_columns


def seen_types(pipeline: Pipeline, columns: Mapping[str, str]) -> dict[str, str]:
    """Source column → type as outputs see it: times are timestamps, whatever type they have in the source."""
    times = {pipeline.event.time, *(view.order_by for view in pipeline.views.values())}
    return {
        column: "timestamp" if column in times or kind == "timestamp_ntz" else kind
        for column, kind in columns.items()
    }


def derived_types(derived: Derived, seen: Mapping[str, str]) -> dict[str, str]:
    """Derived column → type, from the types of the columns that outputs see."""
    return {name: expression(made.sql, seen).kind for name, made in derived.items()}


def output_types(output: Output, seen: Mapping[str, str]) -> dict[str, str]:
    """The columns of an output, its derived ones included, and their types; columns with a mistake are left out."""
    types = dict(seen)
    for name, made in output.columns.items():
        if mistake_of(made.sql, output.columns, seen) is None:
            types |= derived_types({name: made}, seen)
    return types


def derived_problems(pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
    """Problems with derived columns: a name that the source has, columns that do not exist, a type that is not
    known."""
    seen = seen_types(pipeline, columns)
    everywhere = {f"columns.{name}": (name, made) for name, made in pipeline.derived.items()}
    for output_name, output in pipeline.outputs.items():
        own = {name: made for name, made in output.columns.items() if pipeline.derived.get(name) != made}
        everywhere |= {f"outputs.{output_name}.columns.{name}": (name, made) for name, made in own.items()}
    for field, (name, made) in everywhere.items():
        if any(name.lower() == column.lower() for column in columns):
            fix = "choose another name for what is computed"
            yield Problem(field, "the source has a column of this name", name, fix)
        elif (mistake := mistake_of(made.sql, pipeline.derived, seen)) is not None:
            reason, _, fix = mistake.partition("; ")
            yield Problem(field, reason, made.sql, fix)


def mistake_of(sql: str, derived: Iterable[str], seen: Mapping[str, str]) -> str | None:
    """Why an expression over these columns cannot make a column; None where it can."""
    if other := named_columns(sql, set(derived) - seen.keys()):
        return f"names {other[0]}, which is a derived column; write the expression of {other[0]} in its place"
    if mistake := column_mistake(sql, seen):
        return mistake
    try:
        expression(sql, seen)
    except ValueError as error:
        return str(error)
    return None


def not_from_the_log(
    pipeline: Pipeline, named: Iterable[tuple[str, str]], fix: str = "name a column of the source"
) -> Iterator[Problem]:
    """Problems with derived columns where events need a column of the source."""
    for field, column in named:
        if column in pipeline.derived:
            reason = "is a derived column, which is computed from events that are in the log already"
            yield Problem(field, reason, column, fix)
