"""Where the amounts are that a result lacks: in the side output, in open windows, dropped, dead-lettered.

Each account is a table of window, key and the aggregates that add up (sums and counts). Amounts whose window is not
known are a `Loose` total. Nothing here needs Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.comparable_values import numbers, together
from latecomer.after.reading.questions import Book, standing_rows, starts_between
from latecomer.config.models import Pipeline
from latecomer.config.names import PRIVATE
from latecomer.log.measures import fields_of_letter, number_in_letter
from latecomer.log.timeline.keeper import reached_watermark
from latecomer.model import types
from latecomer.model.aggregates import Aggregate
from latecomer.model.array_types import Flags, Integers
from latecomer.model.arrays import flat
from latecomer.model.counting import counted
from latecomer.model.durations import to_micros
from latecomer.model.ledger import ASSIGNMENTS, exact_amounts
from latecomer.model.panes import Accumulation, Timing
from latecomer.model.windows import Session
from latecomer.store.coverage import DEAD_LETTERS, LAST, LATE, removed_until
from latecomer.store.delta.table import Table
from latecomer.store.failed_events import standing_failed
from latecomer.store.included import IncludedEvents
from latecomer.store.layout import TIMESTAMP
from latecomer.store.repairs import standing_letters
from latecomer.store.sql import double_quoted, moment_literal, text_literal
from latecomer.store.store import Store
from latecomer.windowing.session_judge import session_of
from latecomer.windowing.sessions import Places, covering, span_ends

Number = Decimal | float
_INPUT = f"{PRIVATE}input_"
"""The prefix of a key or an aggregate in queries."""
_BATCH, _TIME = f"{PRIVATE}late_batch", f"{PRIVATE}late_time"
_MORE = {_BATCH: "batch", _TIME: "event_time"}
"""Private columns, and those of a table that they show as whole numbers."""
FIRST_DELIVERY = (
    "not exists (select 1 from (select event_id as _lc_id, event_time as _lc_at, batch as _lc_in from e) "
    "where _lc_id = event_id and _lc_at = event_time and _lc_in < batch)"
)
"""Whether a late event of `t` was not in the log `e` before. Once its id is forgotten, an event may be logged again;
then its first delivery was counted already. An event without an id is always a first delivery: null equals nothing.
Columns are written without their table, because a column may have the name of a table."""


def looks_for_repeats(store: Store) -> bool:
    """Whether events have ids by which repeated deliveries are known."""
    return store.pipeline.event.id is not None and store.events.exists


@dataclass(frozen=True)
class Span:
    """The windows that are compared: those that start in [since, until)."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def whole(self) -> bool:
        return self.since is None and self.until is None

    def holds(self, micros: int) -> bool:
        return (self.since is None or to_micros(self.since) <= micros) and (
            self.until is None or micros < to_micros(self.until)
        )

    def of(self, rows: pa.Table) -> pa.Table:
        """The rows whose window is compared."""
        for bound, kept in ((self.since, pc.greater_equal), (self.until, pc.less)):
            if bound is not None:
                rows = rows.filter(kept(rows["window_start"], pa.scalar(to_micros(bound), TIMESTAMP)))
        return rows

    def sql(self) -> str:
        """The same as a condition for DataFusion."""
        return starts_between(
            *(None if bound is None else to_micros(bound) for bound in (self.since, self.until))
        )


@dataclass(frozen=True)
class Loose:
    """Amounts whose window or key is not known; None where not even the amount is."""

    amounts: Mapping[str, Number | None] = field(default_factory=dict)
    assignments: int = 0
    """How many windows they belong to."""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Accounts:
    """The accounts of one output."""

    store: Store
    book: Book
    span: Span

    @property
    def additive(self) -> dict[str, Aggregate]:
        """The aggregates whose gaps can be added up and explained."""
        aggregates = self.book.output.aggregates
        return {name: each for name, each in aggregates.items() if each.function in ("sum", "count")}

    @cached_property
    def included(self) -> IncludedEvents:
        """The events that are in the results since a rebuild: they explain no gap, whatever became of them before."""
        return IncludedEvents.of(self.store, self.book.name, self.book.tables.panes.last_batch())

    def side_output(self) -> pa.Table:
        """What the events of the side output would have added, for each window and key."""
        late, layout = self.book.tables.late, self.book.layout
        view = {column: double_quoted(name) for column, name in layout.late_columns.items()}
        inputs = {name: self._of_event(each, view) for name, each in self.additive.items()}
        keys, chosen = {key: view[key] for key in layout.keys}, "true"
        others: dict[str, Table] = {}
        if looks_for_repeats(self.store):
            chosen, others = FIRST_DELIVERY, {"e": self.store.events}
        if not (self.book.output.window.merges and self.included.cases):
            return self._summed(late, keys, inputs, f"not ({self.included.sql()}) and {chosen}", (), **others)
        rows = self._summed(late, keys, inputs, chosen, (_BATCH, _TIME), **others)
        batch, time = (np.asarray(flat(rows[name])) for name in (_BATCH, _TIME))
        events = Places(
            [flat(rows[key]) for key in keys], time, span_ends(time, session_of(self.book.output))
        )
        return rows.filter(pa.array(~self.included_in_sessions(batch, events))).drop_columns([_BATCH, _TIME])

    def included_in_sessions(self, batch: Integers, events: Places) -> Flags:
        """Whether each event of an output with sessions is in the results since a rebuild; by its batch, and its key
        and span.

        A rebuild computes a session whole, with all that it joins. So an event is included if it is within a session
        that stands, and that was computed anew.
        """
        within = covering(self._standing, events)
        some = np.flatnonzero(within >= 0)
        start, end = (each[within[some]] for each in (self._standing.start, self._standing.end))
        found = np.zeros(len(batch), bool)
        found[some] = self.included.flags(batch[some], start, end)
        return found

    @cached_property
    def _standing(self) -> Places:
        """The sessions that stand."""
        return Places.of_panes(standing_rows(self.book).answer(), list(self.book.layout.keys))

    def not_closed(self, standing: pa.Table) -> pa.Table:
        """The amounts of open windows and of late events that no pane has published yet.

        They are in the states of `partials`. An early pane is among the results and in its state, so it is subtracted
        here. What a session has published and will take back is subtracted from its state.
        """
        discards = self.book.output.accumulation is Accumulation.DISCARDING
        reached = reached_watermark(self.store.watermarks)
        is_open = "true" if reached is None else f"window_end > {moment_literal(reached)}"
        early_sql = f"timing = 'EARLY' and {is_open}"
        retracted = "null" if discards else f"case when {early_sql} then null else -{{0}} end"
        signed = f"case when op = 'insert' then {{0}} else {retracted} end"
        inputs = {
            name: signed.format(self._wide(each, double_quoted(name))) for name, each in self.additive.items()
        }
        keys = {key: double_quoted(key) for key in self.book.layout.keys}
        unpublished = self._summed(self.book.tables.partials, keys, inputs)
        # An early pane may be the last one of a window that has closed: then it is the result.
        early = standing.filter(pc.equal(standing["timing"], Timing.EARLY))
        if reached is not None:
            early = early.filter(pc.greater(early["window_end"].cast(TIMESTAMP).cast(pa.int64()), reached))
        if discards or not early.num_rows:
            return unpublished
        added, subtracted = ({name: rows[name] for name in self.book.place} for rows in (unpublished, early))
        for name in self.additive:
            published = pc.negate(numbers(early[name], name))
            added[name], subtracted[name] = together([unpublished[name], published], name)
        return pa.concat_tables([pa.table(added), pa.table(subtracted)])

    def dropped_in_ledger(self) -> Loose:
        """What was dropped, as far as the ledger shows it: in total over all windows, in the ledger's units.

        The ledger does not show how much of it a rebuild has included, unless all was dropped after that.
        """
        totals = self._dropped()
        pairs = totals.get(ASSIGNMENTS, Decimal(0))
        if not pairs:
            return Loose(dict.fromkeys(self.additive, Decimal(0)))
        amounts: dict[str, Number | None] = dict.fromkeys(self.additive)
        if self.span.whole and not self._dropped(self.included.last).get(ASSIGNMENTS):
            for name, each in self.additive.items():
                if each.column is None:
                    amounts[name] = pairs
                elif each.function == "sum" and not self.book.output.window.overlaps:
                    amounts[name] = totals.get(each.column)
        unknown = [name for name, amount in amounts.items() if amount is None]
        note = f"how much was dropped is not known for {', '.join(unknown)}; --against log shows it"
        return Loose(amounts, int(pairs), [note] if unknown else [])

    def any_dropped(self) -> bool:
        return bool(self._dropped().get(ASSIGNMENTS))

    def _dropped(self, last: int = LAST) -> dict[str, Decimal]:
        """What was dropped up to a batch, in each of the ledger's units."""
        rows = self.store.ledger.query_rows(
            f"select unit, sum(dropped) as amount from t where output = {text_literal(self.book.name)} "
            f"and batch <= {last} group by unit"
        )
        return {row["unit"]: row["amount"] for row in rows}

    @exact_amounts()
    def dead_letters(self) -> Loose:
        """What dead letters would have added, read out of their raw text as far as it can be."""
        pipeline, additive = self.store.pipeline, self.additive
        views, columns = pipeline.views, ["raw", "event_time", "source_partition"]
        of_source = standing_letters(self.store).select(columns)
        failed = standing_failed(self.store, self.book.name, columns)
        amounts = dict.fromkeys(additive, Decimal(0))
        assignments, unplaced, unread = 0, 0, Counter[str]()
        for row in pa.concat_tables([of_source, failed]).to_pylist():
            windows = self._windows_of(row["event_time"])
            if windows is None:
                unplaced += 1
            elif windows:
                assignments += windows
                view = views[pipeline.source_of(row["source_partition"])]
                fields = fields_of_letter(row["raw"] or "")
                for name, each in additive.items():
                    amount = _added(fields, each, view)
                    if amount is None:
                        unread[name] += 1
                    else:
                        amounts[name] += amount * windows
        notes = []
        if unplaced:
            notes.append(f"{_letters_have(unplaced)} no event time that tells the window: left out")
        notes += [
            f"{_letters_have(unread[name])} no {each.column} that can be read: counted as none"
            for name, each in additive.items()
            if unread[name]
        ]
        if assignments and self.book.output.where is not None:
            notes.append("`where` cannot be evaluated for dead letters; all are counted")
        removed = {
            "dead letters": removed_until(self.store, DEAD_LETTERS),
            "side output": removed_until(self.store, LATE, self.book.name),
        }
        notes += [
            f"retention has removed the {what} of batches 0 to {until}: what was there is not counted"
            for what, until in removed.items()
            if until >= 0
        ]
        return Loose(amounts, assignments, notes)

    def _windows_of(self, event_time: datetime | None) -> int | None:
        """How many of the compared windows a dead letter belongs to; None where that is not known."""
        window = self.book.output.window
        if event_time is not None:
            at = to_micros(event_time)
            if isinstance(window, Session):
                return int(self.span.holds(at))
            return sum(self.span.holds(each.start) for each in window.assign_all(at))
        if not self.span.whole:
            return None
        return window.windows_each

    def _of_event(self, aggregate: Aggregate, view: Mapping[str, str]) -> str:
        """What one event adds to an aggregate."""
        if aggregate.column is None:
            return "1"
        column = view[aggregate.column]
        if aggregate.function == "count":
            return f"case when {column} is null then 0 else 1 end"
        return self._wide(aggregate, column)

    def _wide(self, aggregate: Aggregate, column: str) -> str:
        """A number in a type in which a sum of many has room."""
        kind = self.book.layout.types.get(aggregate.column or "", "bigint")
        if aggregate.function == "count":
            kind = "bigint"
        if not types.is_exact(kind):
            return f"cast({column} as double)"
        return f"arrow_cast({column}, 'Decimal128(38, {types.scale_of(kind)})')"

    def _summed(
        self,
        table: Table,
        keys: Mapping[str, str],
        inputs: Mapping[str, str],
        chosen: str = "true",
        also: Sequence[str] = (),
        **others: Table,
    ) -> pa.Table:
        """The sum of each input for each window and key; `keys` and `inputs` map names to SQL. Rows are also grouped by
        `also`, some columns of _MORE."""
        schema = pa.schema(
            [
                *(self.book.layout.published.field(name) for name in self.book.place),
                *((name, pa.int64()) for name in also),
                *((name, pa.decimal128(38, 0)) for name in inputs),
            ]
        )
        if not table.exists:
            return schema.empty_table()
        listed = [f"{sql} as {double_quoted(_INPUT + name)}" for name, sql in {**keys, **inputs}.items()]
        listed += [f"arrow_cast({_MORE[name]}, 'Int64') as {name}" for name in also]
        groups = ["window_start", "window_end", *(double_quoted(_INPUT + key) for key in keys), *also]
        columns = [f"{double_quoted(_INPUT + key)} as {double_quoted(key)}" for key in keys] + [*also]
        columns += [f"sum({double_quoted(_INPUT + name)}) as {double_quoted(name)}" for name in inputs]
        rows = table.query(
            f"select {', '.join([*groups[:2], *columns])} from "
            f"(select {', '.join([*groups[:2], *listed])} from t where {self.span.sql()} and {chosen}) "
            f"group by {', '.join(groups)}",
            **others,
        )
        placed = {name: rows[name].cast(schema.field(name).type) for name in self.book.place}
        return pa.table({**placed, **{name: rows[name] for name in (*also, *inputs)}})


def _letters_have(count: int) -> str:
    return f"{counted(count, 'dead letter')} {'has' if count == 1 else 'have'}"


def _added(fields: Mapping[str, Any], aggregate: Aggregate, view: Pipeline) -> Decimal | None:
    """What a dead letter would have added; None where its text does not show it. `view` is the pipeline as seen by the
    source of the letter."""
    if aggregate.column is None:
        return Decimal(1)
    if aggregate.function == "sum":
        return number_in_letter(fields, aggregate.column, view)
    if not fields:
        return None
    return Decimal(fields.get(view.source_name(aggregate.column)) is not None)
