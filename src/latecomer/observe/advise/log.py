"""A pipeline's log as a history: its timeline computed again without a delay, its events read part by part."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.after.reading.computed import computed_column
from latecomer.after.reading.timeline import micros
from latecomer.config.models import Pipeline
from latecomer.config.names import PRIVATE
from latecomer.config.outputs import Output
from latecomer.config.renames import DerivedColumn
from latecomer.errors import PipelineError, Problem, did_you_mean
from latecomer.log.logged_events import COLUMNS
from latecomer.log.repeated import again_in_words, came_again
from latecomer.model import types
from latecomer.model.expressions import expression
from latecomer.model.lateness.course import Course, RecordedTimeline
from latecomer.model.predicates import named_columns
from latecomer.model.simple_predicates import NeedsSpark, predicate
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import LatePolicy, TooLatePolicy
from latecomer.model.zoned import written
from latecomer.observe.advise.history import (
    AT_ONCE,
    ArrivalsPart,
    MeasuredAggregate,
    RecordedArrivals,
    Subject,
    Where,
)
from latecomer.store.coverage import covered_since
from latecomer.store.delta.table import Table
from latecomer.store.layout import TIMESTAMP, WATERMARKS, PaneLayout
from latecomer.store.store import open_store

LOG = logging.getLogger(__name__)

_READ = {"event_time": TIMESTAMP, "arrival_time": TIMESTAMP, "batch": pa.int64(), "tick": pa.int64()}
_PARTITION = "source_partition"
_HEADS = WATERMARKS.field("partitions").type
_STATE_BYTES = 64.0


def _computed(output: str, column: str) -> str:
    """The name of an output's derived column among the columns of the log."""
    return f"{PRIVATE}of_output_{output}.{column}"


class LogHistory(RecordedArrivals):
    """The log of a pipeline that has run, as far as its batches are complete."""

    kind = "log"

    def __init__(self, pipeline: Pipeline, by: Sequence[str] = (), outputs: Sequence[str] = ()) -> None:
        self.store = open_store(pipeline)
        self.store.pins()
        self.last = self.store.last_complete_batch()
        self.title = pipeline.name
        self.strategy = pipeline.watermark
        self.notes = []
        self.by = {name: self._stored(name) for name in by}
        self.producer = "producer" if pipeline.event.producer is not None else None
        self.computed: dict[str, DerivedColumn] = {}
        chosen = {name: pipeline.outputs[name] for name in outputs or pipeline.outputs}
        self.subjects = [
            self._subject(name, each) for name, each in chosen.items() if self._compute_derived(name, each)
        ]
        self.course = self._course()
        self.repeated = came_again(self.store, self.last)
        self.total = sum(file.rows for file in self.store.events.files())
        self._note_what_is_left_out(pipeline)

    def _note_what_is_left_out(self, pipeline: Pipeline) -> None:
        since = covered_since(self.store)
        if since is not None:
            self.notes.append(
                f"retention has removed events before {written(since)}: only later events are measured"
            )
        if self.repeated is not None:
            self.notes.append(
                f"{again_in_words(self.repeated.count)}: each id is counted once here. Ids are remembered for the "
                "longest window and its allowed_lateness; a longer allowed_lateness remembers them longer"
            )
        if not isinstance(self.strategy, Bounded):
            self.notes.append(
                f"the watermark follows {type(self.strategy).__name__.lower()}: what-ifs assume strategy: bounded"
            )
        elif self.strategy.delays:
            self.notes.append("what-ifs give all partitions one delay, and leave watermark.delays out")
        for subject in self.subjects:
            if subject.window.merges:
                self.notes.append(
                    f"{subject.name}: each event is judged as if alone in its session, so fewer are late than shown"
                )
            if subject.window.endless:
                self.notes.append(f"{subject.name}: its window never ends, so nothing is late for it")

    def _stored(self, column: str) -> str:
        view = self.store.layout.view
        if column not in view:
            fix = did_you_mean(column, view)
            raise PipelineError([Problem("by", "the source has no such column", column, fix, "advise")])
        return view[column]

    def _compute_derived(self, name: str, output: Output) -> bool:
        """Whether the derived columns of an output can be computed without Spark; if so, `parts` computes them."""
        made = {
            column: expression(each.sql, self.store.layout.types) for column, each in output.columns.items()
        }
        unknown = [column for column, each in made.items() if each.value is None]
        if unknown:
            self.notes.append(
                f"{name}: only Spark can compute {', '.join(unknown)}, so this output is left out"
            )
        else:
            self.computed |= {_computed(name, column): each for column, each in output.columns.items()}
        return not unknown

    def _subject(self, name: str, output: Output) -> Subject:
        kinds = PaneLayout(output, self.store.layout).types
        view = {**self.store.layout.view, **{column: _computed(name, column) for column in output.columns}}
        where = None
        if output.where is not None:
            try:
                predicate(output.where, kinds)
                columns = {column: view[column] for column in named_columns(output.where, kinds)}
                where = Where(output.where, kinds, columns)
            except NeedsSpark:
                self.notes.append(
                    f"{name}: its where needs Spark, so events that it excludes are counted too"
                )
        measured = tuple(
            MeasuredAggregate(each, aggregate.function, view.get(aggregate.column or ""), str(aggregate))
            for each, aggregate in output.aggregates.items()
            if aggregate.function == "count"
            or (aggregate.function in ("sum", "avg") and types.is_numeric(kinds[aggregate.column or ""]))
        )
        return Subject(
            name,
            output.window,
            tuple(view[column] for column in output.by),
            output.late.accepts,
            output.late is LatePolicy.DROP,
            output.too_late is TooLatePolicy.DROP,
            output.allowed_lateness,
            measured,
            self._state_bytes(name, output),
            where,
        )

    def _state_bytes(self, name: str, output: Output) -> float:
        """How many bytes an open state takes on disk, as measured; a guess where none has been written."""
        for kind in ("partials", "panes"):
            files = Table(self.store.root / "outputs" / name / kind, pa.schema([])).files()
            if rows := sum(file.rows for file in files):
                return sum(file.size for file in files) / rows
        return _STATE_BYTES + 16.0 * (len(output.by) + len(output.aggregates))

    # The timeline

    def _course(self) -> Course:
        LOG.info("reading the timeline")
        columns = (
            "batch, tick, at, kind, partitions, case when carry like '%\"named\"%' then carry end as named"
        )
        rows = self.store.watermarks.query(
            f"select {columns} from t where batch <= {self.last} order by batch, tick"
        )
        return _recorded(rows).course(self.strategy)

    # The events

    def parts(self, columns: Sequence[str]) -> Iterator[ArrivalsPart]:
        several = len(self.course.partitions) > 1
        wanted = dict.fromkeys([*_READ, *([_PARTITION] if several else []), *self._stored_for(columns)])
        stored = self.store.layout.schema
        if self.repeated is not None:
            wanted |= dict.fromkeys(COLUMNS)
        schema = pa.schema([(name, _READ.get(name) or stored.field(name).type) for name in wanted])
        codes = {name: nth for nth, name in enumerate(self.course.partitions)}
        for rows in self.store.events.parts(schema, AT_ONCE, pc.field("batch") <= self.last, "events"):
            if self.repeated is not None:  # as in whatever reads the log again
                rows = rows.filter(pa.array(~self.repeated.which(pa.Table.from_batches([rows]))))
            yield self._part(rows, codes if several else None, columns)

    def _stored_for(self, columns: Sequence[str]) -> Iterator[str]:
        """The columns of the log that have to be read for these columns."""
        view, kinds = self.store.layout.view, self.store.layout.types
        for column in columns:
            if column in self.computed:
                yield from (view[each] for each in named_columns(self.computed[column].sql, kinds))
            else:
                yield column

    def _with_computed(self, rows: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        view, kinds = self.store.layout.view, self.store.layout.types
        stored = {name: rows.column(name) for name in rows.schema.names}
        visible = {name: stored[each] for name, each in view.items() if each in stored}
        for name in self.computed.keys() & set(columns):
            stored[name], _ = computed_column(name, self.computed[name].sql, kinds, visible, rows.num_rows)
        return pa.record_batch({name: stored[name] for name in columns})

    def _part(
        self, rows: pa.RecordBatch, codes: Mapping[str, int] | None, columns: Sequence[str]
    ) -> ArrivalsPart:
        times, batch = micros(rows.column("event_time")), micros(rows.column("batch"))
        row = self.course.row_of(batch, micros(rows.column("tick")))
        partition = np.zeros(len(times), np.int64)
        if codes is not None:
            encoded = rows.column(_PARTITION).dictionary_encode(null_encoding="encode")
            known = [codes.get(name or "", -1) for name in encoded.dictionary.to_pylist()]
            partition = np.array(known, np.int64)[encoded.indices.to_numpy()]
        seen = self._with_computed(rows, columns) if columns else rows.select([])
        return ArrivalsPart(
            row, times, micros(rows.column("arrival_time")) - times, partition, batch, seen
        ).only(row >= 0)


def _recorded(rows: pa.Table) -> RecordedTimeline:
    """The timeline's rows, as arrays."""
    rows = rows.combine_chunks()
    lists = pa.concat_arrays([pa.array([], _HEADS), *rows["partitions"].cast(_HEADS).chunks])
    summaries = pc.list_flatten(lists)
    partition = pc.fill_null(summaries.field("partition"), "").dictionary_encode()
    return RecordedTimeline(
        micros(rows["batch"]),
        micros(rows["tick"]),
        micros(pc.fill_null(rows["at"].cast(pa.int64()), 0)),
        np.asarray(pc.list_parent_indices(lists).to_numpy(zero_copy_only=False), np.int64),
        np.asarray(partition.indices.to_numpy(zero_copy_only=False), np.int64),
        micros(summaries.field("events")),
        micros(summaries.field("max_event_time")),
        partition.dictionary.to_pylist(),
        rows["kind"].to_pylist(),
        rows["named"].to_pylist(),
    )
