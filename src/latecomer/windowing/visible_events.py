"""Events as an output sees them: under the source's own names, with its derived columns and what its `where` keeps.

Expressions that `model/expressions` knows are computed here. Spark computes all others before (`spark_columns.py`):
`spark_expressions` lists them, and events already have a column for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.config.outputs import Output
from latecomer.errors import LatecomerError, shortened
from latecomer.log.logged_events import Logged
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.dead_letters import FAILED
from latecomer.model.expressions import Expression, condition_of, expression
from latecomer.model.predicates import named_columns
from latecomer.model.simple_predicates import needs_spark
from latecomer.model.verdicts import OnError
from latecomer.model.written_values import json_texts
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import DEAD_LETTERS, EventLayout, arrow_type
from latecomer.windowing.vectors import Mask, any_of, over

_BY_SPARK = f"{PRIVATE}by_spark_"
"""Prefix of a column that Spark has computed; the hash of its expression follows."""
_DERIVED = f"{PRIVATE}derived_"
_PLACES = {ORIGIN: "origin", POSITION: "position"}
"""Columns that identify an event, for aggregates that depend on the order of events."""


@dataclass(frozen=True)
class VisibleEvents:
    """Events as an output sees them."""

    events: pa.Table
    view: Mapping[str, str]
    """Name of a source column or a derived column → column of the table."""
    types: Mapping[str, str]
    failed: Mapping[str, Mask] = field(default_factory=dict)
    """Derived column → the events for which it cannot be computed."""

    def column(self, name: str) -> pa.Array:
        return flat(self.events.column(self.view[name]))

    def values(self, made: Expression, sql: str) -> tuple[pa.Array, Mask]:
        """The value of an expression for each event, and the events for which it cannot be computed. `sql` is its
        text."""
        named = {name: self.column(name) for name in self.types if name in sql}
        return over(made, named, self.events.num_rows, arrow_type(made.kind))


def expressions_of(output: Output, seen: Mapping[str, str]) -> dict[str, Expression]:
    """The derived columns of an output."""
    return {name: expression(made.sql, seen) for name, made in output.columns.items()}


def spark_expressions(output: Output, layout: EventLayout) -> dict[str, str]:
    """The expressions of an output that only Spark computes: private column → SQL. The `where` and the trigger may name
    derived columns of the output."""
    made = expressions_of(output, layout.types)
    derived = {
        _spark_column(output.columns[name].sql): output.columns[name].sql
        for name, each in made.items()
        if each.value is None
    }
    types = _types(layout, made)
    predicates = [each for each in (output.where, *output.trigger.whens) if each is not None]
    return derived | {_holds_column(output, sql): sql for sql in predicates if _condition(sql, types) is None}


def spark_column(output: Output, name: str) -> str:
    """The private column in which Spark has computed a derived column."""
    return _spark_column(output.columns[name].sql)


def _spark_column(*texts: str) -> str:
    # Named by its text: an output may have had another derived column of the same name.
    return _BY_SPARK + sha256("\0".join(texts).encode()).hexdigest()[:24]


def _holds_column(output: Output, sql: str) -> str:
    derived = (text for name, made in output.columns.items() for text in (name, made.sql))
    return _spark_column("where", sql, *derived)


def as_seen(events: pa.Table, layout: EventLayout, output: Output) -> VisibleEvents:
    """Events of the log with the derived columns of an output."""
    seen = VisibleEvents(events, layout.view, layout.types)
    made, view = expressions_of(output, layout.types), {**layout.view, **_PLACES}
    failed: dict[str, Mask] = {}
    for name, each in made.items():
        view[name] = _DERIVED + name
        if each.value is None:
            values, failed[name] = _by_spark(events, spark_column(output, name))
        else:
            values, failed[name] = seen.values(each, output.columns[name].sql)
        events = events.append_column(view[name], values)
    return VisibleEvents(events, view, _types(layout, made), failed)


def _by_spark(events: pa.Table, column: str) -> tuple[pa.Array, Mask]:
    """The values that Spark has computed. Each is in a struct, which is null where it could not be computed."""
    tried = flat(events.column(column))
    failed = np.asarray(tried.is_null())
    return pc.struct_field(tried, [0]), failed if failed.any() else None


def condition(seen: VisibleEvents, output: Output) -> tuple[Flags, Mask]:
    """Whether an output's `where` keeps each event, and the events for which it cannot be computed. An event for which
    it is null, or cannot be computed, is not kept."""
    if output.where is None:
        return np.ones(seen.events.num_rows, bool), None
    return holds(seen, output, output.where)


def holds(seen: VisibleEvents, output: Output, sql: str) -> tuple[Flags, Mask]:
    """Whether a predicate of an output is true for each event, and the events for which it cannot be computed."""
    expression = _condition(sql, seen.types)
    if expression is None:
        values, failed = _by_spark(seen.events, _holds_column(output, sql))
    else:
        values, failed = seen.values(expression, sql)
    return np.asarray(values.fill_null(False)), failed


def _types(layout: EventLayout, made: Mapping[str, Expression]) -> dict[str, str]:
    return {**layout.types, **{name: each.kind for name, each in made.items()}}


def _condition(sql: str, types: Mapping[str, str]) -> Expression | None:
    """A predicate; None where only Spark can evaluate it."""
    try:
        return condition_of(sql, types)
    except ValueError:
        return None


def stored_columns(layout: EventLayout, outputs: Sequence[Output], wanted: Iterable[str]) -> list[str]:
    """The columns of the log that are needed to judge events for outputs, and the wanted ones."""
    texts = [made.sql for output in outputs for made in output.columns.values()]
    texts += [sql for output in outputs for sql in (output.where, *output.trigger.whens) if sql is not None]
    view = {**layout.view, **_PLACES}
    named = [name for name in layout.view if any(name in text for text in texts)]
    needed = [view[name] for name in (*wanted, *named) if name in view]
    return list(dict.fromkeys(["batch", "tick", "event_time", "arrival_time", *needed]))


def event_tables(
    logged: Logged, columns: Sequence[str], outputs: Sequence[Output], layout: EventLayout
) -> Iterator[pa.Table]:
    """Some columns of events and those that Spark has computed for these outputs, a part of the rows at a time."""
    by_spark = [name for output in outputs for name in spark_expressions(output, layout)]
    return logged.parts(list(dict.fromkeys([*columns, *by_spark])))


# Events for which an output cannot be computed, and what is wrong with each (ADR 0057)


_LONGEST = 100
"""A longer value is shortened to so many characters."""


class FailedEvent(LatecomerError):
    """An expression of an output with `on_error: fail` cannot be computed for an event. `column` is the derived column;
    None for `where`."""

    def __init__(self, detail: str, column: str | None, sql: str) -> None:
        super().__init__(f"{detail}; on_error is fail")
        self.detail, self.column, self.sql = detail, column, sql


@dataclass(frozen=True)
class _Cause:
    """An expression that cannot be computed, and for which events."""

    column: str | None
    """The derived column; None for `where`."""
    sql: str
    rows: Flags


@dataclass(frozen=True)
class Entering:
    """Which events enter windows, and which fail. The others are filtered."""

    enters: Flags
    failed: Flags
    causes: Sequence[_Cause] = ()


def can_fail(output: Output, types: Mapping[str, str]) -> bool:
    """Whether an output may fail for some events."""
    return bool(output.columns) or needs_spark(output.where, types)


def entering(seen: VisibleEvents, output: Output) -> Entering:
    """Which events an output's `where` keeps, and which fail. With `on_error: null` none fails."""
    count = seen.events.num_rows
    none_failed = np.zeros(count, bool)
    holds, where_failed = condition(seen, output)
    if output.on_error is OnError.NULL:
        return Entering(holds, none_failed)
    filtering = _causes(seen, output, output.columns_in_where)
    if where_failed is not None:
        filtering.append(_Cause(None, output.where or "", where_failed))
    undecided = any_of(*(each.rows for each in filtering))
    holds = holds if undecided is None else holds & ~undecided
    counted = [
        _Cause(each.column, each.sql, each.rows & holds)
        for each in _causes(seen, output, output.columns_in_numbers)
    ]
    causes = [each for each in (*filtering, *counted) if each.rows.any()]
    failed = any_of(*(each.rows for each in causes))
    if failed is None:
        return Entering(holds, none_failed)
    result = Entering(holds & ~failed, failed, causes)
    if output.on_error is OnError.FAIL:
        first = int(np.flatnonzero(failed)[0])
        cause = _cause_of(result, first)
        place = f"{_place(seen.events, first)}: " if "origin" in seen.events.schema.names else ""
        raise FailedEvent(f"{place}{_details(seen, result, [first])[0]}", cause.column, cause.sql)
    return result


def _causes(seen: VisibleEvents, output: Output, names: Sequence[str]) -> list[_Cause]:
    masks: dict[str, Mask] = {name: seen.failed.get(name) for name in names}
    return [_Cause(name, output.columns[name].sql, mask) for name, mask in masks.items() if mask is not None]


def _cause_of(entering: Entering, row: int) -> _Cause:
    return next(each for each in entering.causes if each.rows[row])


def failed_letters(events: pa.Table, layout: EventLayout, output: Output) -> pa.Table:
    """Events that failed, as dead letters of their output. `events` are these alone, with all columns of the log."""
    seen = as_seen(events, layout, output)
    result = entering(seen, output)
    rows = np.flatnonzero(result.failed).tolist()
    some = events.take(pa.array(rows, pa.int64()))
    columns = {
        "reason": pa.array([FAILED] * len(rows), pa.string()),
        "raw": pa.array(_raw(some, layout), pa.string()),
        "detail": pa.array(_details(seen, result, rows), pa.string()),
        "raw_bytes": pa.nulls(len(rows), pa.binary()),
    }
    same = {field.name: flat(some.column(field.name)) for field in DEAD_LETTERS if field.name not in columns}
    made = {**columns, **same}
    return pa.table({field.name: made[field.name].cast(field.type) for field in DEAD_LETTERS})


def _raw(events: pa.Table, layout: EventLayout) -> list[str]:
    """Each event as JSON, under the source's own names."""
    texts = {
        json_texts(pa.chunked_array([[layout.pipeline.source_name(column)]]))[0]: json_texts(
            events.column(stored)
        )
        for column, stored in layout.view.items()
    }
    listed = zip(*texts.values(), strict=True)
    return ["{" + ",".join(map("%s:%s".__mod__, zip(texts, row, strict=True))) + "}" for row in listed]


def _details(seen: VisibleEvents, entering: Entering, rows: Sequence[int]) -> list[str]:
    """What is wrong with each event: the column, the expression, and the values in it."""
    causes = [_cause_of(entering, row) for row in rows]
    details = [""] * len(rows)
    for cause in {id(each): each for each in causes}.values():
        which = [nth for nth, each in enumerate(causes) if each is cause]
        chosen = pa.array([rows[nth] for nth in which], pa.int64())
        names = named_columns(cause.sql, seen.types)
        given = [json_texts(pa.chunked_array([seen.column(name).take(chosen)])) for name in names]
        what = "where" if cause.column is None else f"column {cause.column}"
        for place, nth in enumerate(which):
            values = ", ".join(
                f"{name} is {shortened(texts[place], _LONGEST)}"
                for name, texts in zip(names, given, strict=True)
            )
            details[nth] = f"{what}: {cause.sql} cannot be computed" + (f" where {values}" if values else "")
    return details


def _place(events: pa.Table, row: int) -> str:
    origin, position = (pc.take(events.column(name), [row])[0].as_py() for name in ("origin", "position"))
    return f"{origin}, position {position}"
