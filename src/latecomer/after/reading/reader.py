"""Reading a store without Spark: results, panes, late events, dead letters, the timeline, the ledger.

Each call reads what is committed at that moment, so a reader may be kept while the pipeline runs.
Nothing is ever written.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.checked_store import not_computed
from latecomer.after.reading.choices import Clock
from latecomer.after.reading.questions import (
    OUTPUT,
    Book,
    Question,
    arrived_by,
    holds,
    late_rows,
    ledger_rows,
    literal,
    of_output,
    published_rows,
    published_up_to,
    standing_rows,
    watermark_rows,
    with_lag,
    with_publication,
)
from latecomer.after.reading.sequence_gaps import sequence_gaps
from latecomer.after.reading.states import open_windows
from latecomer.after.reading.timeline import alignment_of
from latecomer.config.arguments import (
    require_flags,
    require_key,
    require_kind,
    require_moments,
    require_pipeline,
)
from latecomer.config.models import Pipeline
from latecomer.config.names import PRIVATE
from latecomer.errors import PipelineError, Problem, StoreMismatch, did_you_mean, other_settings
from latecomer.model.durations import to_micros
from latecomer.model.silent_partitions import SilentPartition
from latecomer.model.timeline import Timeline
from latecomer.model.windows import Session
from latecomer.store.definitions import definition_of, require_wall_clock
from latecomer.store.delta.table import Table
from latecomer.store.failed_events import standing_failed
from latecomer.store.layout import LEDGER, UNIT_ORDER, WATERMARKS, PaneLayout
from latecomer.store.pins import read_pins
from latecomer.store.publications import Publications
from latecomer.store.recovery import require_output
from latecomer.store.repairs import FILED_AS, standing_letters, standing_letters_by
from latecomer.store.sql import double_quoted, moment_literal
from latecomer.store.store import Store, open_store

LETTERS_BY = ("reason", OUTPUT, "origin", "batch")
"""What dead letters can be counted by."""


class Reader:
    """What a pipeline has computed so far."""

    def __init__(self, pipeline: Pipeline) -> None:
        require_pipeline("Reader", pipeline)
        self.pipeline = pipeline
        self.notes: list[str] = []
        """What is missing in the last answer, in words."""

    def results(
        self,
        output: str,
        include_open: bool = False,
        as_of: datetime | None = None,
        valid_at: datetime | None = None,
        key: Mapping[str, str | None] | None = None,
        clock: Clock | str | None = None,
        as_of_arrival: datetime | None = None,
    ) -> pa.Table:
        """The number that stands for each window and key; `include_open` adds windows still open.

        A retracted number does not stand, nor does one that a larger sequence has replaced; discarding
        panes are added up. An open window has the timing OPEN and no sequence. `as_of` gives what stood at
        a moment of the wall clock: a pane counts from the publication of its batch on. `as_of_arrival` gives
        what could have stood at a moment of the arrival clock: a pane counts from the arrival on that fired
        it. `valid_at` keeps the windows that hold a moment of event time. All are UTC unless they say otherwise.
        `key` keeps the rows whose key columns have these values, written as text; None stands for null.
        `clock` is deprecated: "arrival" makes of `as_of` an `as_of_arrival`.
        """
        require_flags("results", include_open=include_open)
        require_moments("results", as_of=as_of, valid_at=valid_at, as_of_arrival=as_of_arrival)
        self.notes = []
        book = self.book(output)
        if clock is not None:
            as_of, as_of_arrival = self._by_clock(clock, as_of, as_of_arrival)
        self._require_one_moment(as_of, as_of_arrival, include_open)
        # The open states first: a window that closes in between is then seen twice, never not at all.
        chosen = self.condition(book, valid_at, key)
        still_open = open_windows(book, self.notes, chosen) if include_open else None
        rows, others = self.known_panes(book, as_of, as_of_arrival)
        standing = standing_rows(book, f"(select * from {rows} where {chosen})", **others).answer()
        if still_open is None:
            return standing
        order = [(name, "ascending") for name in ("window_start", *book.layout.keys)]
        return pa.concat_tables([standing, still_open]).sort_by(order)

    def known_panes(
        self, book: Book, as_of: datetime | None = None, as_of_arrival: datetime | None = None
    ) -> tuple[str, dict[str, Table]]:
        """The panes that were known at a moment, in SQL over the panes `t`; and the other tables that it names."""
        rows, others = "t", {}
        if as_of is not None:
            rows = published_up_to(self._published_by(as_of, book.name))
        elif as_of_arrival is not None:
            timeline = self.store().watermarks
            rows = arrived_by(moment_literal(to_micros(as_of_arrival)), timeline.exists)
            others = {"w": timeline} if timeline.exists else {}
        return rows, others

    def _published_by(self, moment: datetime, output: str) -> int:
        """The last batch that had been published by a moment."""
        publications = Publications(self.store())
        known = publications.last_by(to_micros(moment), output)
        if publications.by_delta:
            self.notes.append(
                "an earlier version wrote this store and did not say when batches were published: the times are those "
                "of its ledger's commits"
            )
        if known is None:
            message = "it is not known which batches had been published by then: an earlier version did not keep that"
            fix = "ask for a later moment, or by the arrival clock: as_of_arrival, on the command line --as-of-arrival"
            raise self.refused("as_of", message, moment.isoformat(), fix)
        return known

    def _by_clock(
        self, clock: str, as_of: datetime | None, as_of_arrival: datetime | None
    ) -> tuple[datetime | None, datetime | None]:
        """The two moments, where one was asked for in the old way."""
        if clock not in list(Clock):
            raise self.unknown("clock", "there is no such clock", clock, list(Clock))
        advice = (
            "clock is deprecated: write as_of_arrival=T for clock='arrival', and leave clock='published' out"
        )
        warnings.warn(advice, DeprecationWarning, stacklevel=3)
        return (None, as_of_arrival or as_of) if clock == Clock.ARRIVAL else (as_of, as_of_arrival)

    def _require_one_moment(
        self, as_of: datetime | None, as_of_arrival: datetime | None, include_open: bool
    ) -> None:
        given = {"as_of": as_of, "as_of_arrival": as_of_arrival}
        moments = [(name, moment.isoformat()) for name, moment in given.items() if moment is not None]
        if moments and include_open:
            field, moment = moments[0]
            fix = f"ask for one of the two: {field}, or include_open"
            raise self.refused(field, "open windows are known only as they are now", moment, fix)
        if len(moments) > 1:
            message, fix = "goes by another clock than as_of_arrival", "ask for one of the two"
            raise self.refused("as_of", message, moments[0][1], fix)

    def panes(
        self, output: str, window: datetime | None = None, key: Mapping[str, str | None] | None = None
    ) -> pa.Table:
        """Every number ever published and every one taken back, in order of publication.

        `fired_at` is a moment of the arrival clock. `published_at` is the wall clock when the batch was published;
        null while it is not complete, and where that is not known. `window` keeps the window that holds this
        moment (UTC unless it says otherwise), `key` the rows whose key columns have these values, written as
        text; None stands for null.
        """
        require_moments("panes", window=window)
        require_key("panes", key)
        book = self.book(output)
        panes = published_rows(book, f"(select * from t where {self.condition(book, window, key)})").answer()
        first, last = pc.min_max(panes["batch"]).as_py().values()
        times = {} if first is None else Publications(self.store()).times(first, last, book.name)
        return with_publication(times, panes)

    def late(self, output: str) -> pa.Table:
        """The side output: every event that was fine but late, in order of arrival."""
        return late_rows(self.book(output)).answer()

    def duplicates(self) -> pa.Table:
        """Every row whose id had come before, in the order in which they were read."""
        table = self.store().duplicates
        rows = Question(table, "select * from t order by batch, origin, position", table.schema).answer()
        return rows.select([name for name in rows.schema.names if not name.startswith(PRIVATE)])

    def dead_letters(self) -> pa.Table:
        """Every row that is no event, and why, in the order in which they were read; and every event that an output
        cannot compute, with its `output`. One that was replayed and stays a dead letter has its newest reason."""
        store = self.store()
        rows = of_output(None, standing_letters(store).drop_columns([FILED_AS]))
        in_order = [(name, "ascending") for name in ("batch", "origin", "position")]
        failed = (
            of_output(name, standing_failed(store, name).sort_by(in_order)) for name in self.pipeline.outputs
        )
        return pa.concat_tables([rows, *failed])

    def dead_letters_by(self, column: str = "reason", since_batch: int = 0) -> pa.Table:
        """How many dead letters there are for each `reason`, `output`, `origin` or `batch`, the most first; `example`
        is what is wrong with one of them. `since_batch` leaves out those of earlier batches."""
        if column not in LETTERS_BY:
            fix = f"write one of {', '.join(LETTERS_BY)}"
            raise PipelineError([Problem("column", "is nothing to count dead letters by", column, fix)])
        require_kind("dead_letters_by", int, "the number of a batch", since_batch=since_batch)
        store = self.store()
        rows = standing_letters_by(store, "reason" if column == OUTPUT else column, since_batch)
        if column == OUTPUT:
            rows = rows.set_column(0, OUTPUT, pa.nulls(rows.num_rows, pa.string()))
        parts = [rows]
        for name in self.pipeline.outputs:
            failed = of_output(name, standing_failed(store, name, ["batch", "reason", "origin", "detail"]))
            recent = failed.filter(pc.greater_equal(failed["batch"], since_batch))
            counted = recent.group_by(column).aggregate([([], "count_all"), ("detail", "min")])
            parts.append(counted.rename_columns(rows.schema.names))
        together = pa.concat_tables(parts).group_by(column)
        counts = together.aggregate([("dead_letters", "sum"), ("example", "min")])
        most_first = [("dead_letters", "descending"), (column, "ascending")]
        return counts.rename_columns(rows.schema.names).sort_by(most_first)

    def failed(self) -> dict[str, tuple[int, int]]:
        """For each output with events that it cannot compute: how many, and where the first window starts that
        lacks one, in microseconds."""
        failed = {}
        for name, output in self.pipeline.outputs.items():
            times = standing_failed(self.store(), name, ["event_time"])["event_time"]
            if len(times):
                first, window = int(pc.min(times.cast(pa.int64())).as_py()), output.window
                starts = (
                    [] if isinstance(window, Session) else [each.start for each in window.assign_all(first)]
                )
                failed[name] = len(times), min(starts, default=first)
        return failed

    def gaps(self, producer: str | None = None) -> pa.Table:
        """Numbers that a producer gave its events and that never came, as ranges from `first` to `last`.

        It needs `event.producer` and `event.producer_seq`. `event_time_before` and `arrived_before` are of the
        event before the range, `event_time_after` and `arrived_after` of the one after it; since `since`, when
        the first event with a larger number arrived, the range is known to be missing.
        """
        require_kind("gaps", (str, type(None)), "the name of a producer", producer=producer)
        event = self.pipeline.event
        for field, column in (("producer", event.producer), ("producer_seq", event.producer_seq)):
            if column is None:
                fix = "name the columns: event: {producer: client_id, producer_seq: number}, and run the pipeline"
                raise self.refused(f"event.{field}", "is needed to find gaps", None, fix)
        return sequence_gaps(self.store(), producer)

    def watermarks(self) -> pa.Table:
        """The timeline: one row for each tick of each batch. Before the first watermark it is null.

        `lag` is how far the watermark was behind the tick; after a drain there is none. `arrival_by` is what said when
        the rows of the batch came: `broker`, `read`, `file`, `column` or `source`. Of several sources, `source` is the
        one that the batch is of.
        """
        return with_lag(watermark_rows(self.store().watermarks, bool(self.pipeline.sources)).answer())

    def alignment(self) -> pa.Table:
        """Which source partition held the watermark back: the one that did so longest comes first.

        A partition holds the watermark back where it is the slowest, or as slow as that, and another is
        further. `held_for` is how long in arrival time, `times` in how many intervals, `longest` the longest
        of these; `behind` is how far the watermark was behind the furthest partition at most (null where
        there was no watermark yet). `since` is the first of these moments, `until` the last.
        """
        columns = ["at", "watermark", "held_by", "unheld", "held_with"]
        table = self.store().watermarks
        schema = pa.schema([WATERMARKS.field(name) for name in columns])
        # A table of an earlier version, not written to since, lacks the later ones.
        stored = [name if name in table.columns else f"null as {name}" for name in columns]
        timeline = Question(table, f"select {', '.join(stored)} from t", schema, order="batch, tick")
        return alignment_of(timeline.answer())

    def holding(self) -> list[SilentPartition]:
        """The silent partitions for whose sake the watermark waits now, the longest silent first.

        None with `watermark.idle_after`: then a partition holds the watermark for so long and no longer.
        """
        timeline = self.timeline()
        return [] if timeline is None else timeline.holding()

    def timeline(self, last: int | None = None) -> Timeline | None:
        """The timeline as it stands now, or after a batch, with its watermark and its clock; None before the first."""
        table, schema = self.store().watermarks, pa.schema([WATERMARKS.field("carry")])
        newest = table.last_batch() if last is None else last
        carry = (
            f"select carry from t where carry is not null and batch <= {newest} and batch >= {{}} "
            "order by batch desc limit 1"
        )
        rows = Question(table, carry.format(newest), schema).answer()  # one file, most often
        rows = rows if rows.num_rows else Question(table, carry.format(-1), schema).answer()
        if not rows.num_rows:
            return None
        return Timeline.restore(self.pipeline.watermark, rows["carry"][0].as_py())

    def ledger(self) -> pa.Table:
        """Every line of the ledger: batch, output, unit, received, and what became of it."""
        store = self.store()
        return store.as_amounts(ledger_rows(store.ledger).answer())

    def ledger_totals(self) -> pa.Table:
        """The ledger summed up per output and unit."""
        amounts = [field.name for field in LEDGER if field.name not in ("batch", "output", "unit")]
        sums = ", ".join(f"sum({double_quoted(amount)}) as {double_quoted(amount)}" for amount in amounts)
        sql = f"select output, unit, {sums} from t group by output, unit order by output, {UNIT_ORDER}"
        schema = pa.schema([field for field in LEDGER if field.name != "batch"])
        store = self.store()
        return store.as_amounts(Question(store.ledger, sql, schema).answer())

    def tombstones(self) -> int:
        """How many records without a value were skipped, with `tombstones: skip`. The ledger does not count them."""
        return self.store().tombstones

    def batches(self) -> int:
        """How many batches are complete."""
        return self.store().ledger.last_batch() + 1

    # For other modules of latecomer

    def store(self) -> Store:
        """The store as it is now; an error where it belongs to another pipeline."""
        pinned = read_pins(self.pipeline.store_path)
        if pinned is not None and pinned["pipeline"] != self.pipeline.name:
            raise StoreMismatch(
                f"store {self.pipeline.store_path} belongs to pipeline {pinned['pipeline']}, "
                f"not {self.pipeline.name}; correct name or store in the pipeline file"
            )
        return self._opened()

    def _opened(self) -> Store:
        return open_store(self.pipeline)

    def book(self, name: str) -> Book:
        """An output and its tables; an error where the output was computed with other settings."""
        require_kind("Reader", str, "the name of an output", output=name)
        output = self.pipeline.outputs.get(name)
        if output is None:
            raise self.unknown("output", "the pipeline has no such output", name, self.pipeline.outputs)
        store = self.store()
        pinned = (read_pins(store.root) or {})["outputs"].get(name)
        if pinned is None:
            raise not_computed(name)
        wanted = definition_of(output)
        require_wall_clock(name, pinned, wanted)
        changed = [key for key in wanted if pinned.get(key) != wanted[key]]
        if changed:
            raise StoreMismatch(
                f"output {name} was computed with {other_settings(changed)} than the file says now; restore "
                f"the file, or {store.fix_for_definition(name, pinned)}"
            )
        require_output(store, name)
        layout = PaneLayout(output, store.layout)
        return Book(name, output, layout, store.output_tables(name, layout.published))

    def condition(self, book: Book, window: datetime | None, key: Mapping[str, str | None] | None) -> str:
        """The rows of the window that holds a moment and of a key, as a condition in SQL."""
        conditions = [self.key_condition(book, column, text) for column, text in (key or {}).items()]
        if window is not None:
            conditions.append(holds(moment_literal(to_micros(window))))
        return " and ".join(conditions) or "true"

    def key_condition(self, book: Book, column: str, text: str | None) -> str:
        """Whether a key column has a value, written as text, as a condition in SQL."""
        kind = book.layout.keys.get(column)
        if kind is None:
            raise self.unknown("key", "the output has no such key column", column, book.layout.keys)
        if text is None:
            return f"{double_quoted(column)} is null"
        try:
            return f"{double_quoted(column)} = {literal(text, book.layout.published.field(column).type)}"
        except (ValueError, pa.ArrowException):
            fix = "write it as the results show it"
            raise self.refused(f"key {column}", f"is not of type {kind}", text, fix) from None

    def unknown(self, field: str, message: str, value: str, known: Iterable[str]) -> PipelineError:
        """The error for a name that is none of the known ones."""
        return self.refused(field, message, value, did_you_mean(value, known))

    def refused(self, field: str, message: str, value: object, fix: str) -> PipelineError:
        """The error for a wrong argument; it names the pipeline as its place."""
        return PipelineError([Problem(field, message, value, fix, f"pipeline {self.pipeline.name}")])
