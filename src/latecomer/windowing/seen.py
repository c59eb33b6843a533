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
from latecomer.log.logged import Logged
from latecomer.model.array_types import Flags
from latecomer.model.arrays import flat
from latecomer.model.expressions import Expression, condition_of, expression
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.store.layout import EventLayout, arrow_type
from latecomer.windowing.vectors import Mask, over

_BY_SPARK = f"{PRIVATE}by_spark_"
"""Prefix of a column that Spark has computed; the hash of its expression follows."""
_DERIVED = f"{PRIVATE}derived_"
_PLACES = {ORIGIN: "origin", POSITION: "position"}
"""Columns that identify an event, for aggregates that depend on the order of events."""


@dataclass(frozen=True)
class Seen:
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


def as_seen(events: pa.Table, layout: EventLayout, output: Output) -> Seen:
    """Events of the log with the derived columns of an output."""
    seen = Seen(events, layout.view, layout.types)
    made, view = expressions_of(output, layout.types), {**layout.view, **_PLACES}
    failed: dict[str, Mask] = {}
    for name, each in made.items():
        view[name] = _DERIVED + name
        if each.value is None:
            values, failed[name] = _by_spark(events, spark_column(output, name))
        else:
            values, failed[name] = seen.values(each, output.columns[name].sql)
        events = events.append_column(view[name], values)
    return Seen(events, view, _types(layout, made), failed)


def _by_spark(events: pa.Table, column: str) -> tuple[pa.Array, Mask]:
    """The values that Spark has computed. Each is in a struct, which is null where it could not be computed."""
    tried = flat(events.column(column))
    failed = np.asarray(tried.is_null())
    return pc.struct_field(tried, [0]), failed if failed.any() else None


def condition(seen: Seen, output: Output) -> tuple[Flags, Mask]:
    """Whether an output's `where` keeps each event, and the events for which it cannot be computed. An event for which
    it is null, or cannot be computed, is not kept."""
    if output.where is None:
        return np.ones(seen.events.num_rows, bool), None
    return holds(seen, output, output.where)


def holds(seen: Seen, output: Output, sql: str) -> tuple[Flags, Mask]:
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
