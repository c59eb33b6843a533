"""The windows that are still open: their partial states, merged as far as that needs no Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from latecomer.after.reading.folding import values_of
from latecomer.after.reading.questions import PLAIN, Book, folded
from latecomer.config.names import PRIVATE
from latecomer.model.aggregates import Aggregate
from latecomer.store.private_columns import state_column
from latecomer.store.sql import double_quoted, listed
from latecomer.store.state_types import state_parts

OPEN = "OPEN"
"""The timing of a window that has not fired yet."""
_COUNT, _STATES = f"{PRIVATE}state_count", f"{PRIVATE}states_of_"


def open_windows(book: Book, notes: list[str], chosen: str = "true") -> pa.Table:
    """The windows still open, each state merged as far as it can be without Spark."""
    partials, panes = book.tables.partials, book.tables.panes
    if not partials.exists:
        return book.schema.empty_table()
    merged = [f"count(*) as {double_quoted(_COUNT)}"]
    for name, aggregate in book.output.aggregates.items():
        merged.append(f"{folded(book, partials, name, aggregate)} as {double_quoted(name)}")
        if parts := _parts(book, aggregate):
            fields = ", ".join(f"'{part}', {double_quoted(state_column(name, part))}" for part in parts)
            merged.append(f"array_agg(named_struct({fields})) as {double_quoted(_STATES + name)}")
    closed, others = "", {}
    if panes.exists:
        same = [
            f"(p.{double_quoted(column)} is not distinct from t.{double_quoted(column)})"
            for column in book.place
        ]
        closed, others = f"where not exists (select 1 from p where {' and '.join(same)})", {"p": panes}
    place = listed(book.place)
    states = f"(select * from t where {chosen}) as t"
    rows = partials.query(
        f"select {place}, {', '.join(merged)} from {states} {closed} group by {place}", **others
    )
    columns = {name: rows[name] for name in book.place}
    counted = rows[_COUNT].to_pylist()
    for name, aggregate in book.output.aggregates.items():
        columns[name] = _finished(book, name, aggregate, rows, counted, notes)
    columns["sequence"] = pa.nulls(rows.num_rows, pa.int64())
    columns["timing"] = pa.array([OPEN] * rows.num_rows, pa.string())
    return pa.table(columns).cast(book.schema)


def _parts(book: Book, aggregate: Aggregate) -> dict[str, str]:
    return state_parts(aggregate, book.layout.types.get(aggregate.column or "", "bigint"))


def _finished(
    book: Book, name: str, aggregate: Aggregate, rows: pa.Table, counted: Sequence[int], notes: list[str]
) -> pa.ChunkedArray:
    """An aggregate's value in each window: exact as stored where there is one state, else folded."""
    if aggregate.function in PLAIN or all(count == 1 for count in counted):
        return rows[name]
    values = rows[name].to_pylist()
    kind = book.schema.field(name).type
    several = [index for index, count in enumerate(counted) if count > 1]
    if not _parts(book, aggregate):
        notes.append(
            f"{name}: {aggregate.function} is known for {len(several)} open windows only when they close "
            "(Spark alone counts distinct bytes)"
        )
        for index in several:
            values[index] = None
    else:
        states, column = rows[_STATES + name].to_pylist(), book.layout.types[aggregate.column or ""]
        merged = values_of(aggregate, [states[index] for index in several], column, kind)
        for index, value in zip(several, merged, strict=True):
            values[index] = value
    return pa.chunked_array([pa.array(values, kind)])
