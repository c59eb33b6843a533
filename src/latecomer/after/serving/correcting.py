"""Corrections: the side output added up, for readers whose numbers are not updated.

A row of `corrections` has what the late events of one batch add to one window and key: numbers where they can
be added, else the state of these events, to be merged with that of the base (`states.py`). It depends on one batch of
the side output, which only grows. So it is written once and never changed, and a call that was killed, repeated or
given a range neither leaves out an event nor counts it twice. A late event that was in the log before, and was
delivered again after its id was forgotten, adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

import pyarrow as pa

from latecomer.after.reading.accounts import FIRST_DELIVERY, Span, looks_for_repeats
from latecomer.after.reading.questions import PLAIN
from latecomer.after.reading.reader import Reader
from latecomer.after.serving.private_columns import GATHERED
from latecomer.after.serving.states import averaged, gathered_columns, state_columns, with_states
from latecomer.config.names import PRIVATE
from latecomer.config.outputs import Output
from latecomer.errors import PipelineError, Problem
from latecomer.model import types
from latecomer.model.aggregates import ADDITIVE, SKETCHED, Aggregate
from latecomer.model.durations import to_micros
from latecomer.store.delta.readable import APPLICATION
from latecomer.store.delta.table import Table
from latecomer.store.failpoints import failpoint
from latecomer.store.files import write_table
from latecomer.store.holding.lock import TABLE, exclusive
from latecomer.store.layout import TIMESTAMP, PaneLayout, arrow_type
from latecomer.store.private import keep_private
from latecomer.store.private_columns import free_name
from latecomer.store.sql import double_quoted, listed
from latecomer.store.store import OutputTables

IN_RANGE = "latecomer.range"
"""Calls for a range of windows are numbered here. Other calls have the number of the side output's last batch."""

_ROWS, _IN = f"{PRIVATE}rows", f"{PRIVATE}in_"
_DONE, _GROUP = f"{PRIVATE}done", f"{PRIVATE}group_done"


@dataclass(frozen=True)
class Corrections:
    """An output's corrections: their columns, and their tables."""

    name: str
    layout: PaneLayout
    tables: OutputTables
    table: Table
    log: Table | None = None
    """The event log, where events have ids by which repeated deliveries are known."""
    since: Mapping[str, int] = field(default_factory=dict)
    """The aggregates that were added to the output later, each with its first batch."""

    @property
    def other_tables(self) -> dict[str, Table]:
        """The tables that are queried with the side output: the corrections `c`, and the log `e`."""
        return {"c": self.table} if self.log is None else {"c": self.table, "e": self.log}

    @property
    def output(self) -> Output:
        return self.layout.output

    @property
    def place(self) -> list[str]:
        return ["window_start", "window_end", *self.layout.keys]

    @property
    def panes(self) -> Table:
        """The panes with their states; an empty table where none was ever published."""
        states = [field for field in self.table.schema if field.name.startswith(PRIVATE)]
        panes = self.tables.panes
        return panes if panes.exists else Table(panes.root, pa.schema([*panes.schema, *states]))

    @cached_property
    def added(self) -> dict[str, Aggregate]:
        """The aggregates that can be corrected by adding."""
        return {name: each for name, each in self.output.aggregates.items() if each.function in ADDITIVE}

    @cached_property
    def derived(self) -> dict[str, tuple[str, str]]:
        """The averages that follow from a sum and a count the output has too: their names."""
        names = {(each.function, each.column): name for name, each in self.added.items()}
        return {
            name: (names["sum", each.column], names["count", each.column])
            for name, each in self.output.aggregates.items()
            if each.function == "avg" and ("sum", each.column) in names and ("count", each.column) in names
        }

    @cached_property
    def stated(self) -> dict[str, Aggregate]:
        """The aggregates that are corrected by merging states, where panes and corrections have them."""
        known = {*self.added, *self.derived}
        panes, late = (
            set(table.columns) if table.exists else None for table in (self.tables.panes, self.table)
        )
        return {
            name: each
            for name, each in self.output.aggregates.items()
            if name not in known
            and (parts := state_columns(self.layout, name))
            and all(columns is None or columns.issuperset(parts) for columns in (panes, late))
        }

    @property
    def left_out(self) -> dict[str, Aggregate]:
        """The aggregates that only a rebuild can correct."""
        known = {*self.added, *self.derived, *self.stated}
        return {name: each for name, each in self.output.aggregates.items() if name not in known}

    @cached_property
    def late_events(self) -> str:
        """The column that counts the late events of a row."""
        return self.named("late_events")

    @cached_property
    def corrected_at(self) -> str:
        """The column with the time at which a row was written."""
        return self.named("corrected_at")

    def named(self, column: str) -> str:
        """A name for a column that the output does not have."""
        return free_name(column, [*self.layout.keys, *self.layout.values])

    @cached_property
    def schema(self) -> pa.Schema:
        return correction_schema(self.layout)

    @property
    def kinds(self) -> dict[str, str]:
        """The columns and their types, as the pipeline file writes types."""
        known = {**self.layout.keys, **self.layout.values, "batch": "bigint", self.late_events: "bigint"}
        return {name: known.get(name, "timestamp") for name in self.schema.names}

    def notes(self) -> list[str]:
        """What cannot be corrected, in words."""
        notes = [
            f"{name}: {each.called} is empty where there is a correction ({self._reason(each)}); "
            f"to see it, rebuild those windows: latecomer rebuild plan FILE {self.name} --from T"
            for name, each in self.left_out.items()
        ]
        if self.output.window.merges:
            notes.append(
                "a late event is corrected in the session that it missed, which may not be one that was published"
            )
        return notes

    def _reason(self, aggregate: Aggregate) -> str:
        if aggregate.function in SKETCHED:
            return "Spark alone counts distinct bytes"
        return "an earlier version corrected it, and kept no state of it"


def correction_schema(layout: PaneLayout) -> pa.Schema:
    """The columns of `corrections`: window, keys, what is added, then batch, late events, and when."""
    names = [*layout.keys, *layout.values]
    added = [name for name, each in layout.output.aggregates.items() if each.function in ADDITIVE]
    return pa.schema(
        [
            *(layout.published.field(name) for name in ("window_start", "window_end", *layout.keys, *added)),
            ("batch", pa.int64()),
            (free_name("late_events", names), pa.int64()),
            (free_name("corrected_at", names), TIMESTAMP),
        ]
    )


def stored_schema(layout: PaneLayout) -> pa.Schema:
    """The columns of `corrections`, and then the states of the aggregates that cannot be added."""
    return pa.schema(
        [
            *correction_schema(layout),
            *(
                (column, arrow_type(kind))
                for name in layout.output.aggregates
                for column, kind in state_columns(layout, name).items()
            ),
        ]
    )


def corrections_of(reader: Reader, output: str) -> Corrections:
    """An output's corrections as they are now; nothing is written."""
    book = reader.book(output)
    root = reader.pipeline.store_path / "outputs" / output / "corrections"
    table, store = Table(root, stored_schema(book.layout)), reader.store()
    log = store.events if looks_for_repeats(store) else None
    return Corrections(output, book.layout, book.tables, table, log, store.added_since(output))


def correct(
    reader: Reader,
    output: str,
    since: datetime | None = None,
    until: datetime | None = None,
    now: datetime | None = None,
) -> pa.Table:
    """Add up the late events since the last call, and return the rows that were added.

    Only windows that start in [`since`, `until`) are corrected; late events of other windows stay for a later call. A
    pipeline may run meanwhile; another call may not.
    """
    return correct_and_count(reader, output, since, until, now).rows


@dataclass(frozen=True)
class Corrected:
    """What a call of `correct` added. With overlapping windows, an event is late for several of them."""

    rows: pa.Table
    events: int
    assignments: int


def correct_and_count(
    reader: Reader,
    output: str,
    since: datetime | None = None,
    until: datetime | None = None,
    now: datetime | None = None,
) -> Corrected:
    """The same as `correct`, and how many events that were."""
    ours = corrections_of(reader, output)
    keep_private(reader.pipeline)
    reader.notes = ours.notes()
    late, table, span = ours.tables.late, ours.table, Span(since, until)
    nothing = Corrected(ours.schema.empty_table(), 0, 0)
    if not late.exists:
        return nothing
    with exclusive(table.root, TABLE):
        application, number = APPLICATION, late.last_batch()
        if not span.whole:
            application, number = IN_RANGE, table.last_batch(IN_RANGE) + 1
        if table.holds(number, application):
            return nothing
        rows = _missing(ours, span, now or datetime.now(UTC))
        events = _events(ours, span, rows)
        if rows.num_rows or application == APPLICATION:
            files = []
            if rows.num_rows:
                files = [write_table(rows, table.new_folder(number) / "part.parquet")]
            failpoint(f"{output}.corrections.written", number)
            table.commit(number, files, application=application)
            failpoint(f"{output}.corrections.committed", number)
    return Corrected(rows.select(ours.schema.names), events, sum(rows[ours.late_events].to_pylist()))


# What is missing: the side output by window, key and batch, less the groups that are written already


def _missing(ours: Corrections, span: Span, now: datetime) -> pa.Table:
    """A union that is grouped, and not a join: groups take null for equal to null."""
    gathered = gathered_columns(ours.layout)
    added = {**ours.added, **averaged(ours.layout)}
    inputs = {_IN + name: _input(ours, each) for name, each in added.items()}
    inputs |= {GATHERED + column: _event(ours, column) for column in gathered}
    place = listed(ours.place)
    folds = {name: f"{PLAIN[each.function]}({double_quoted(_IN + name)})" for name, each in added.items()}
    folds |= {
        GATHERED + column: f"array_agg({double_quoted(GATHERED + column)}) filter (where {_ROWS} = 1)"
        for column in gathered
    }
    sums = "".join(f", {sql} as {double_quoted(name)}" for name, sql in folds.items())
    rows = ours.tables.late.query(
        f"select {place}{sums}, batch, sum({_ROWS}) as {double_quoted(ours.late_events)} "
        f"from ({_late_and_done(ours, span, inputs)}) "
        f"group by {place}, batch having sum({_DONE}) = 0 order by {place}, batch",
        **ours.other_tables,
    )
    when = pa.repeat(pa.scalar(to_micros(now), TIMESTAMP), rows.num_rows)
    rows = with_states(ours.layout, rows.append_column(ours.corrected_at, when))
    return fitted(ours, rows, ours.table.schema)


def _late_and_done(ours: Corrections, span: Span, inputs: Mapping[str, str]) -> str:
    """The side output since the last call, a row for each event and window; and the groups that are written already."""
    covered = ours.table.last_batch()
    columns = {**{key: _late_column(ours, key) for key in ours.layout.keys}, **inputs}
    late = "".join(f", {sql} as {double_quoted(name)}" for name, sql in columns.items())
    nothing = "".join(f", null as {double_quoted(name)}" for name in inputs)
    return (
        f"select window_start, window_end{late}, batch, 1 as {_ROWS}, 0 as {_DONE} from t "
        f"where batch > {covered} and {span.sql()} and {'true' if ours.log is None else FIRST_DELIVERY} "
        f"union all select {listed(ours.place)}{nothing}, batch, 0, 1 from c where batch > {covered}"
    )


def _events(ours: Corrections, span: Span, rows: pa.Table) -> int:
    """How many events these rows correct, each counted once."""
    if not rows.num_rows or not ours.output.window.overlaps:
        return sum(rows[ours.late_events].to_pylist())
    inputs = {f"{_IN}origin": "origin", f"{_IN}position": "position"}
    done = f"max({_DONE}) over (partition by {listed(ours.place)}, batch)"
    marked = f"select *, {done} as {_GROUP} from ({_late_and_done(ours, span, inputs)})"
    once = f"select distinct batch, {listed(inputs)} from ({marked}) where {_GROUP} = 0"
    rows = ours.tables.late.query(f"select count(*) as n from ({once})", **ours.other_tables)
    return int(rows["n"][0].as_py())


def _input(ours: Corrections, aggregate: Aggregate) -> str:
    """What a late event adds to an aggregate. Sums have more digits here than in their column."""
    if aggregate.column is None:
        return "1"
    column = _late_column(ours, aggregate.column)
    kind = ours.layout.types[aggregate.column]
    if aggregate.function == "count":
        return f"case when {column} is null then 0 else 1 end"
    if aggregate.function == "sum":
        return wide(column, kind) if types.is_exact(kind) else f"arrow_cast({column}, 'Float64')"
    return column


def _event(ours: Corrections, column: str) -> str:
    """The place of a late event in the order of events, and its value."""
    value = _late_column(ours, column)
    place = "'t', event_time, 'a', arrival_time, 'o', origin, 'p', position"
    return f"named_struct({place}, 'v', {value})"


def wide(column: str, kind: str) -> str:
    """An exact number with room for any sum: DataFusion's own addition overflows without an error."""
    return f"arrow_cast({column}, 'Decimal256(76, {types.scale_of(kind)})')"


def _late_column(ours: Corrections, column: str) -> str:
    """Where the side output keeps a source column."""
    return double_quoted(ours.layout.late_columns[column])


def fitted(ours: Corrections, rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows in the columns of `schema`; an error where a sum has outgrown its type."""
    columns = []
    for wanted in schema:
        try:
            columns.append(rows[wanted.name].cast(wanted.type))
        except pa.ArrowInvalid:
            message = f"{wanted.name} outgrew its type, {wanted.type}, when late events were added"
            fix = (
                "declare its column as decimal(38,0) in source.schema and start a new store, or read the side output "
                "itself: latecomer late"
            )
            problem = Problem(f"outputs.{ours.name}.aggregates", message, wanted.name, fix)
            raise PipelineError([problem]) from None
    return pa.table(columns, schema=schema)
