"""Checks against the columns of a source: columns that are missing, have a wrong type or an unusable name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from latecomer.config.all_columns import Columns, differing
from latecomer.config.columns import clashing_names
from latecomer.config.derived import derived_problems, not_from_the_log, output_types, seen_types
from latecomer.config.models import Pipeline
from latecomer.config.names import PRIVATE, UNSTORABLE
from latecomer.config.outputs import Output
from latecomer.config.renames import fix_by_renaming
from latecomer.config.views import in_source
from latecomer.errors import Problem, nearest
from latecomer.model import types
from latecomer.model.aggregates import NUMERIC, Aggregate, is_expression
from latecomer.model.ledger import ASSIGNMENTS, EVENTS
from latecomer.model.predicates import column_mistake


def check_renames(pipeline: Pipeline, columns: Mapping[str, str]) -> list[Problem]:
    """Problems with `columns`: columns that the source does not have, and new names that it has already."""
    problems = []
    renamed = {made_from.name for made_from in pipeline.renames.values()}
    for new, made_from in pipeline.renames.items():
        if made_from.name not in columns:
            problems.append(_unknown_column(f"columns.{new}", made_from.name, columns))
        elif new in columns and new not in renamed:
            fix = f"choose another name, or rename that one too: columns: {{…: {new}}}"
            problems.append(Problem(f"columns.{new}", "the source has a column of this name", new, fix))
    return problems


def check_columns(pipeline: Pipeline, source_columns: Mapping[str, str]) -> list[Problem]:
    """Problems with columns that are missing, that have a wrong type, or whose name cannot be used."""
    columns = Columns.of(source_columns)
    seen = seen_types(pipeline, columns)
    problems = [*differing(pipeline, columns)]
    problems += [
        in_source(name, problem)
        for name, view in pipeline.views.items()
        for problem in _read_columns(view, columns.of_source(name))
    ]
    problems += derived_problems(pipeline, columns)
    problems += _measures(pipeline, columns)
    for name, output in pipeline.outputs.items():
        problems += _output_columns(
            f"outputs.{name}", output, {**columns, **output_types(output, seen)}, pipeline.event.time
        )
    return problems


def _output_columns(
    place: str, output: Output, columns: Mapping[str, str], event_time: str
) -> Iterator[Problem]:
    """Problems with the columns that an output is computed from, its derived ones included."""
    # A mistake in a derived column is reported where the column is defined.
    known = {**dict.fromkeys(output.columns, ""), **columns}
    keys = [(f"{place}.by.{nth}", column) for nth, column in enumerate(output.by)]
    yield from _unusable(keys, known)
    yield from _whole_lists(keys, known, "a key is one value")
    yield from _misread({f"{place}.where": output.where}, known)
    yield from _misread({f"{place}.trigger": sql for sql in output.trigger.whens}, known)
    yield from _aggregated_columns(place, output, known)
    yield from _aggregate_types(place, output, columns, event_time)


def _read_columns(pipeline: Pipeline, columns: Mapping[str, str]) -> list[Problem]:
    """Problems with the columns of a source, and with the columns that make its events."""
    problems = []
    for one, other in clashing_names(columns):
        field = f"columns.{other}" if other in pipeline.columns else "source.schema"
        fix = fix_by_renaming(pipeline.source_name(other), columns)
        problems.append(Problem(field, "columns differ only in case", f"{one}, {other}", fix))
    problems += [
        Problem(
            "source.schema",
            f"names that begin with {PRIVATE} are latecomer's own" if column else "a column has no name",
            column,
            "declare source.schema without it, and columns() of a source of your own",
        )
        for column in columns
        if _is_private(column) or not column
    ]
    named = list(_read_for_events(pipeline))
    problems += not_from_the_log(pipeline, named)
    problems += [
        _unknown_column(field, column, columns)
        for field, column in named
        if column not in columns and column not in pipeline.derived
    ]
    problems += _whole_lists(named, columns, "it is one value")
    problems += _lists_in_csv(pipeline, columns)
    problems += _misread({"watermark.where": pipeline.watermark.needs.where}, columns)
    problems += _time_columns(pipeline, columns)
    problems += _sequence_column(pipeline, columns)
    return problems


def _unusable(used: Iterable[tuple[str, str]], columns: Mapping[str, str]) -> Iterator[Problem]:
    for field, column in used:
        if column not in columns:
            yield _unknown_column(field, column, columns)
        elif UNSTORABLE.search(column):
            fix = fix_by_renaming(column, columns)
            yield Problem(field, "a table cannot have a column of this name", column, fix)


def _whole_lists(used: Iterable[tuple[str, str]], columns: Mapping[str, str], why: str) -> Iterator[Problem]:
    """Problems with columns that are lists or maps where one value is needed."""
    for field, column in used:
        if types.is_nested(columns.get(column, "")):
            yield Problem(
                field, f"is {columns[column]}, and {why}", column, _part_of(column, columns[column])
            )


def _part_of(column: str, kind: str) -> str:
    """The fix for a list or a map: a column with one value of it."""
    part = f"{column}[0]" if kind.startswith("array<") else f"{column}['key']"
    return f'name a column that is computed from it, such as columns: {{{UNSTORABLE.sub("_", column)}_part: "{part}"}}'


def _lists_in_csv(pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
    for column, kind in columns.items():
        if pipeline.format == "csv" and types.is_nested(kind):
            reason = "a field of CSV is text and cannot be a list or a map"
            fix = "declare it as string"
            yield Problem(f"source.schema.{pipeline.source_name(column)}", reason, kind, fix)


def _misread(written: Mapping[str, str | None], columns: Mapping[str, str]) -> Iterator[Problem]:
    for field, where in written.items():
        mistake = column_mistake(where, columns) if where is not None else None
        if mistake is not None:
            reason, _, fix = mistake.partition("; ")
            yield Problem(field, reason, where, fix)


def _is_private(column: str) -> bool:
    return column.lower().startswith(PRIVATE)


def rename_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Problems with `columns` that do not depend on the source's columns."""
    seen: dict[str, str] = {}
    yield from unusable_names("columns", pipeline.columns)
    for new, made_from in pipeline.renames.items():
        field = f"columns.{new}"
        if _is_private(made_from.name):
            fix = "leave it out, and declare source.schema without it"
            yield Problem(field, f"names that begin with {PRIVATE} are latecomer's own", str(made_from), fix)
        if new == made_from.name:
            continue  # kept under its own name too
        other = seen.setdefault(made_from.name, new)
        if other != new:
            fix = f"keep one of {other} and {new}"
            yield Problem(field, f"is another name for what {other} names already", str(made_from), fix)


def unusable_names(place: str, names: Iterable[str]) -> Iterator[Problem]:
    """Problems with the names that the pipeline file gives to columns."""
    names = list(names)
    for name in names:
        if not name or _is_private(name):
            fix = f"choose a name that does not begin with {PRIVATE}"
            yield Problem(f"{place}.{name}", "is not a usable name", name, fix)
    for one, other in clashing_names(names):
        yield Problem(
            f"{place}.{other}", "columns differ only in case", f"{one}, {other}", "rename one of them"
        )


def _read_for_events(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """The columns that make events, each with its field in the pipeline file."""
    event, key = pipeline.event, pipeline.source.key
    named = {
        "event.time": event.time,
        "event.partition": event.partition,
        "event.producer": event.producer,
        "event.producer_seq": event.producer_seq,
        f"source.{key}.order_by": pipeline.order_by,
        f"source.{key}.partition": pipeline.source.arrivals.partition,
        "watermark.marker": pipeline.watermark.needs.marker,
    }
    yield from ((field, column) for field, column in named.items() if column is not None)
    several = len(event.id_columns) > 1
    yield from (
        (f"event.id.{nth}" if several else "event.id", column) for nth, column in enumerate(event.id_columns)
    )


def _aggregated_columns(place: str, output: Output, columns: Mapping[str, str]) -> Iterator[Problem]:
    for name, aggregate in output.aggregates.items():
        column, field = aggregate.column, f"{place}.aggregates.{name}"
        if column is None or column in columns:
            continue
        if is_expression(column):
            yield _expression(field, aggregate, columns)
        else:
            yield _unknown_column(field, column, columns)


def _expression(field: str, aggregate: Aggregate, columns: Iterable[str]) -> Problem:
    """The problem with an expression in the place of a column, with what to write instead."""
    written = aggregate.column or ""
    named = [column for column in columns if re.search(rf"\b{re.escape(column)}\b", written)]
    plain = aggregate.model_copy(update={"column": named[0] if named else "column"})
    fix = f'write {plain}, or name what is computed: columns: {{NAME: "{written}"}}'
    return Problem(field, f"{aggregate.called} takes one column, not an expression", written, fix)


def _unknown_column(field: str, used: str, columns: Iterable[str]) -> Problem:
    known = list(columns)
    fix = nearest(used, known, f"the source has {', '.join(known)}")
    return Problem(field, "the source has no such column", used, fix)


def _time_columns(pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
    arrival = f"source.{pipeline.source.key}"
    for field, column, unit in (
        ("event.time", pipeline.event.time, pipeline.event.unit),
        (f"{arrival}.order_by", pipeline.order_by, pipeline.arrival_unit),
        ("watermark.marker", pipeline.watermark.needs.marker, pipeline.event.unit),
    ):
        kind = columns.get(column) if column else None
        if kind is None or (field == "watermark.marker" and kind == "boolean"):
            continue
        if types.is_numeric(kind) and unit is None:
            home = f"{arrival}.unit" if field.startswith(arrival) else "event.unit"
            yield Problem(
                field, f"is a number ({kind}) without a unit", column, f"add {home}: s, ms, us or ns"
            )
        elif kind in ("boolean", "binary"):
            yield Problem(field, f"a {kind} column holds no time", column, "name a column that does")


def _sequence_column(pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
    """A producer counts its events in whole numbers. Gaps in other types cannot be found."""
    column = pipeline.event.producer_seq
    kind = columns.get(column) if column else None
    if kind is not None and kind not in types.INTEGERS:
        reason = f"is a {kind} column, and only whole numbers can be counted"
        fix = f"declare it in source.schema as {column}: bigint, or leave producer_seq out"
        yield Problem("event.producer_seq", reason, column, fix)


def _measures(pipeline: Pipeline, columns: Mapping[str, str]) -> Iterator[Problem]:
    measures = [(f"ledger.{index}", column) for index, column in enumerate(pipeline.ledger)]
    fix = (
        "name a column of the source; read numbers in another notation with source.numbers, and add up computed "
        "values with an aggregate, such as sum(NAME)"
    )
    yield from not_from_the_log(pipeline, measures, fix)
    yield from _unusable([each for each in measures if each[1] not in pipeline.derived], columns)
    for index, column in enumerate(pipeline.ledger):
        kind = columns.get(column)
        if column in (EVENTS, ASSIGNMENTS):
            known = column in columns or column in pipeline.derived
            fix = fix_by_renaming(pipeline.source_name(column), columns) if known else "leave it out"
            yield Problem(f"ledger.{index}", "is the name of what the ledger counts by itself", column, fix)
        if kind is not None and not types.is_exact(kind):
            reason = f"a {kind} column cannot be summed exactly, so the ledger could not balance"
            fix = f"declare it in source.schema as an integer or a decimal, such as {column}: decimal(18,2)"
            yield Problem(f"ledger.{index}", reason, column, fix)
        elif kind is not None and (types.scale_of(kind) > 6 or types.whole_digits(kind) > 32):
            reason = f"a {kind} column has more digits than the ledger keeps (32 before the point, 6 after)"
            fix = "leave it out of the ledger, or declare fewer digits"
            yield Problem(f"ledger.{index}", reason, column, fix)


def _aggregate_types(
    place: str, output: Output, columns: Mapping[str, str], event_time: str
) -> Iterator[Problem]:
    for name, aggregate in output.aggregates.items():
        kind, field = columns.get(aggregate.column or ""), f"{place}.aggregates.{name}"
        if kind is not None and types.is_nested(kind):
            reason = f"{aggregate.called} takes one value of each event, and {aggregate.column} is {kind}"
            yield Problem(field, reason, str(aggregate), _part_of(aggregate.column or "", kind))
        elif kind is not None and aggregate.function in NUMERIC and not types.is_numeric(kind):
            reason = f"{aggregate.called} needs a number, and {aggregate.column} is {kind}"
            fix = "declare the column as a number in source.schema, or use count, min or max"
            if kind == "string":
                fix += "; set source.numbers if csv or json has numbers such as 1.234,56"
            if aggregate.column == event_time:
                reason = f"{aggregate.called} needs a number, and {aggregate.column} is the event time"
                fix = "name another column, or use count, min or max"
            yield Problem(field, reason, str(aggregate), fix)
        elif aggregate.function == "median" and kind is not None and _digits(kind) > 35:
            yield Problem(
                field,
                f"the mean of two values of {kind} may need more than 38 digits",
                str(aggregate),
                "declare the column with 35 digits or fewer in source.schema, or use "
                f"approx_percentile({aggregate.column}, 0.5)",
            )


def _digits(kind: str) -> int:
    return types.whole_digits(kind) + types.scale_of(kind)
