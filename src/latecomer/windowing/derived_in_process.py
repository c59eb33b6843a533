"""Derived columns without Spark: row by row, with the values of `model/expressions`, or `Declined` (ADR 0056)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from latecomer.config.checks import PRIVATE
from latecomer.config.models import Output
from latecomer.fast import Declined, flat
from latecomer.model import types
from latecomer.model.expressions import Expression, expression
from latecomer.store.layout import EventLayout, arrow_type
from latecomer.windowing.exact_arrow import finite

MOST_BY_ROW = 250_000
"""So many rows have their derived columns computed one by one."""
_DERIVED = f"{PRIVATE}derived_"


@dataclass(frozen=True)
class Seen:
    """Events as an output sees them."""

    events: pa.Table
    view: Mapping[str, str]
    """Column → column of the table, for those of the source and the derived ones."""
    types: Mapping[str, str]

    def column(self, name: str) -> pa.Array:
        return flat(self.events.column(self.view[name]))

    def named_in(self, sql: str) -> dict[str, list[object]]:
        """The values of the columns that an expression may name, as numbers of which both paths think alike."""
        named = [name for name in self.view if name in sql]
        for name in named:
            if self.types[name] in types.FLOATS:
                finite(self.column(name))
        return {name: self.column(name).to_pylist() for name in named}


def expressions_of(output: Output, seen: Mapping[str, str]) -> dict[str, Expression]:
    """The derived columns of an output; `Declined` where Spark alone can compute one."""
    found = {name: expression(made.sql, seen) for name, made in output.columns.items()}
    for name, each in found.items():
        if each.value is None:
            raise Declined(f"the derived column {name}, which only Spark computes")
    return found


def as_seen(events: pa.Table, layout: EventLayout, output: Output) -> Seen:
    """Events with the derived columns of an output, as `judge.as_seen` has them in SQL."""
    seen = Seen(events, layout.view, layout.types)
    made = expressions_of(output, layout.types)
    if made and events.num_rows > MOST_BY_ROW:
        raise Declined(f"derived columns of more than {MOST_BY_ROW:,} rows")
    for name, each in made.items():
        values = _values(each, seen.named_in(output.columns[name].sql), events.num_rows)
        events = events.append_column(_DERIVED + name, pa.array(values, arrow_type(each.kind)))
    return Seen(
        events,
        {**layout.view, **{name: _DERIVED + name for name in made}},
        {**layout.types, **{name: each.kind for name, each in made.items()}},
    )


def _values(made: Expression, columns: Mapping[str, list[object]], count: int) -> list[object]:
    if not columns:
        return [made.of({})] * count
    try:
        return [made.of(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]
    except (TypeError, ArithmeticError):
        raise Declined("a derived column that only Spark computes") from None
