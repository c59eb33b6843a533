"""Questions to a store, as SQL over its tables.

A reader asks the tables as they are now. A task of Spark's asks some of their files (`after/dataframes/`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.names import PRIVATE
from latecomer.config.outputs import Output
from latecomer.model import types
from latecomer.model.aggregates import Aggregate
from latecomer.model.durations import to_micros
from latecomer.model.panes import Accumulation
from latecomer.model.verdicts import END_OF_TIME
from latecomer.model.written_values import bytes_of
from latecomer.store.delta.table import Table, moments
from latecomer.store.layout import LEDGER, TIMESTAMP, UNIT_ORDER, WATERMARKS, PaneLayout
from latecomer.store.publications import PUBLISHED_AT
from latecomer.store.sql import double_quoted, listed, moment_literal, text_literal
from latecomer.store.standing import LATE_ORDER, not_taken_back, publication_order, standing_in_order
from latecomer.store.state_types import beyond_column, beyond_halves
from latecomer.store.store import OutputTables

OUTPUT = "output"
_ENDED, _BATCH = f"{PRIVATE}ended", f"{PRIVATE}ended_batch"
BATCH_ENDS = f"select batch as {_BATCH}, max(at) as {_ENDED} from w group by batch"
"""Each batch of the timeline `w`, and the arrival clock at its end."""

PLAIN = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}
"""Aggregates whose values are folded by a function of SQL."""


@dataclass(frozen=True)
class Question:
    """Rows of a table `t`, in SQL; others join under their names."""

    table: Table
    sql: str
    schema: pa.Schema
    others: Mapping[str, Table] = field(default_factory=dict)
    order: str = ""
    """The ORDER BY, for a reader of all rows at once."""

    def answer(self) -> pa.Table:
        """The rows in the columns of `schema`; none where the table does not exist yet."""
        if not self.table.exists:
            return self.schema.empty_table()
        ordered = f"{self.sql} order by {self.order}" if self.order else self.sql
        rows = self.table.query(ordered, **self.others)
        # Columns that a later pipeline file no longer names are shown as they are stored.
        known = self.schema.names
        return rows.cast(
            pa.schema([self.schema.field(f.name) if f.name in known else f for f in rows.schema])
        )


@dataclass(frozen=True)
class Book:
    """One output, its columns and its tables."""

    name: str
    output: Output
    layout: PaneLayout
    tables: OutputTables

    @property
    def place(self) -> list[str]:
        return ["window_start", "window_end", *self.layout.keys]

    @property
    def schema(self) -> pa.Schema:
        names = [*self.place, *self.layout.values, "sequence", "timing"]
        return pa.schema([self.layout.published.field(name) for name in names])


def standing_rows(book: Book, rows: str = "t", **others: Table) -> Question:
    """As `model.panes.surviving`: the insert with the largest sequence, unless that sequence is retracted.

    `rows` are the panes to go by, in SQL over the panes `t` and other tables.
    """
    if book.output.accumulation is Accumulation.DISCARDING:
        return _added_up(book, rows, **others)
    place = listed(book.place)
    sql = standing_in_order(rows, place, listed(book.schema.names))
    return Question(book.tables.panes, sql, book.schema, others)


def _added_up(book: Book, rows: str = "t", **others: Table) -> Question:
    """As `model.panes.summed`: discarding panes publish what is new, and what stands is their sum."""
    place = listed(book.place)
    sums = ", ".join(
        f"{folded(book, book.tables.panes, name, aggregate)} as {double_quoted(name)}"
        for name, aggregate in book.output.aggregates.items()
    )
    newest = "max(sequence) as sequence, first_value(timing order by sequence desc) as timing"
    sql = (
        f"select {place}, {sums}, {newest} from ({not_taken_back(rows, place)}) "
        f"group by {place} order by {place}"
    )
    return Question(book.tables.panes, sql, book.schema, others)


def folded(book: Book, table: Table, name: str, aggregate: Aggregate) -> str:
    """A value over several panes or states, in SQL; a sum is null where its column could not hold it."""
    column, kind = double_quoted(name), book.layout.values[name]
    if aggregate.function != "sum" or kind not in ("bigint", f"decimal(38,{types.scale_of(kind)})"):
        return f"{PLAIN.get(aggregate.function, 'max')}({column})"
    # DataFusion's own sums overflow without an error.
    room = f"Decimal256(76, {types.scale_of(kind)})"
    total, lost = f"sum(arrow_cast({column}, '{room}'))", "false"
    beyond, (high, _) = beyond_column(name), beyond_halves(name)
    if beyond in table.columns:
        exact = f"coalesce({double_quoted(beyond)}, arrow_cast({column}, 'Decimal128(38, 0)'))"
        total = f"sum(arrow_cast({exact}, '{room}'))"
    if high in table.columns:
        lost = f"count({double_quoted(high)}) > 0"
    most = 2**63 if kind == "bigint" else 10 ** types.whole_digits(kind)
    limit = f"arrow_cast('{most}', '{room}')"
    return f"case when not ({lost}) and {total} < {limit} and {total} > -{limit} then {total} end"


# The other tables


def published_rows(book: Book, rows: str = "t", **others: Table) -> Question:
    """Every number ever published and every one taken back."""
    names = listed(book.layout.published.names)
    schema, order = book.layout.published, publication_order(book.output)
    return Question(book.tables.panes, f"select {names} from {rows} as panes", schema, others, order)


def with_publication(times: Mapping[int, int], panes: pa.Table) -> pa.Table:
    """Panes, each with the time at which its batch was published, as far as that is known."""
    batches = panes["batch"].unique().to_pylist()
    of_batches = moments([times.get(batch) for batch in batches])
    published_at = of_batches.take(pc.index_in(panes["batch"], pa.array(batches, pa.int64())))
    return panes.add_column(panes.schema.get_field_index("watermark"), PUBLISHED_AT, published_at)


def late_rows(book: Book) -> Question:
    """The side output."""
    table = book.tables.late
    stored = table.stored_schema.names
    # Columns that a later pipeline file no longer names are shown as they are stored.
    known = {each.name: each for each in [*table.stored_schema, *table.schema]}
    shown = [name for name in {**dict.fromkeys(stored), **known} if not name.startswith(PRIVATE)]
    schema = pa.schema([known[name] for name in shown])
    return Question(table, f"select {listed(shown)} from t", schema, order=LATE_ORDER)


def watermark_rows(table: Table, several: bool) -> Question:
    """The timeline; with several sources, also the source of each batch."""
    source = ["source"] if several else []
    names = ["batch", *source, "tick", "at", "watermark", "settled", "kind", "arrival_by", "held_by"]
    schema = pa.schema([WATERMARKS.field(name) for name in names])
    return Question(table, f"select {listed(names)} from t", schema, order="batch, tick")


def with_lag(rows: pa.Table) -> pa.Table:
    """Rows of the timeline, each with how far the watermark was behind the tick."""
    ended = pc.equal(rows["watermark"], pa.scalar(END_OF_TIME, pa.int64()).cast(TIMESTAMP))
    lag = pc.subtract(rows["at"], rows["watermark"])
    return rows.append_column("lag", pc.if_else(pc.fill_null(ended, False), pa.scalar(None, lag.type), lag))


def ledger_rows(table: Table) -> Question:
    """Every line of the ledger."""
    order = f"batch, output, {UNIT_ORDER}"
    return Question(table, f"select {listed(LEDGER.names)} from t", LEDGER, order=order)


def of_output(output: str | None, letters: pa.Table) -> pa.Table:
    """Dead letters with the output that cannot compute them; null for rows that are no events."""
    place = letters.schema.get_field_index("reason") + 1
    return letters.add_column(place, OUTPUT, pa.repeat(pa.scalar(output, pa.string()), letters.num_rows))


# SQL without Spark: identifiers quoted by doubling, values as literals of a known type


_CASTS: dict[str, str] = {
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "float": "Float32",
    "double": "Float64",
    "bool": "Boolean",
    "date32[day]": "Date32",
}


def literal(text: str, kind: pa.DataType) -> str:
    """A value as a literal of a column's type, from its text as results show it (docs/values.md); ValueError where the
    text is no such value."""
    if pa.types.is_string(kind):
        return text_literal(text)
    if pa.types.is_timestamp(kind):
        return moment_literal(to_micros(datetime.fromisoformat(text.strip())))
    if pa.types.is_decimal(kind):
        value = pa.scalar(text.strip()).cast(kind).as_py()
        return f"arrow_cast({text_literal(format(value, 'f'))}, 'Decimal128({kind.precision}, {kind.scale})')"
    if pa.types.is_binary(kind):
        return f"arrow_cast(X'{bytes_of(text.strip()).hex()}', 'Binary')"
    value = str(pa.scalar(text.strip()).cast(kind).as_py()).lower()
    return f"arrow_cast({text_literal(value)}, '{_CASTS[str(kind)]}')"


# What was known at a moment. By the wall clock a pane was known once its batch was published. Batches are published in
# their order, so the panes that were known at a moment are those up to the last batch published by then
# (`store/publications.py`). By the arrival clock a pane could be known at `fired_at`: when the watermark reached the
# end of its window, or the last of its late events arrived. A batch that catches up may hold a month of these. The
# timeline holds that clock, so the answer is the same after a replay.


def published_up_to(batch: int) -> str:
    """The panes of `t` that had been published with a batch or before it."""
    return f"(select * from t where batch <= {batch})"


def arrived_by(moment: str, timeline: bool) -> str:
    """The panes of `t` that could be known at a moment of the arrival clock; `timeline` says whether there is a
    table `w`: it has the end of a batch, for panes whose `fired_at` is not known."""
    if not timeline:
        return f"(select * from t where fired_at <= {moment})"
    return (
        f"(select t.* from t left join ({BATCH_ENDS}) on t.batch = {_BATCH} "
        f"where coalesce(fired_at, {_ENDED}) <= {moment})"
    )


def holds(moment: str) -> str:
    """Whether a window holds a moment: its start belongs to it, its end does not."""
    return f"window_start <= {moment} and {moment} < window_end"


def starts_between(low: int | None, high: int | None) -> str:
    """Whether a window starts in [low, high), in microseconds; None is no bound."""
    bounds = ((">=", low), ("<", high))
    conditions = [f"window_start {op} {moment_literal(at)}" for op, at in bounds if at is not None]
    return " and ".join(conditions) or "true"
