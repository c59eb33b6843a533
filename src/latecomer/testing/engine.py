"""Plays a scenario on the real engine: records in, tables out, in a temporary folder."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from latecomer.after.reading.reader import Reader
from latecomer.after.replay.comparison import CHANGE, REPLAYED
from latecomer.after.replay.replaying import replay
from latecomer.config.all_columns import Columns, merged
from latecomer.config.models import Pipeline
from latecomer.config.outputs import Output
from latecomer.engine.pipeline import Engine
from latecomer.engine.starting import start_engine
from latecomer.engine.without_data import complete_without_data, drain_input, heartbeat
from latecomer.log.events import EventLog
from latecomer.model.durations import to_micros
from latecomer.model.ledger import Entry
from latecomer.model.oracle.arrivals import Drain, Heartbeat, Partitions, Watermark
from latecomer.model.panes import Op, Pane, Place, Timing
from latecomer.model.source_order import ReadTo
from latecomer.model.sources import named_partitions
from latecomer.model.verdicts import BEGIN_OF_TIME, WITHOUT_WINDOW, Fate, Verdict, judge
from latecomer.model.windows import Window
from latecomer.source.base import BatchPart, Chunk, MergedSlice, Slice, Split
from latecomer.source.decode.private_columns import RECORD
from latecomer.source.private_columns import ORIGIN, POSITION
from latecomer.source.records import RecordSource
from latecomer.source.staging import Staging
from latecomer.spark.base import InProcess, Runner
from latecomer.spark.runner import SparkRunner
from latecomer.spark.session import build_session, own_session
from latecomer.spark.when_needed import when_needed
from latecomer.store.store import Store
from latecomer.testing.differences import Pair
from latecomer.testing.notation import Late
from latecomer.testing.outcome import Assigned, Outcome, StepOutcome
from latecomer.testing.scenario import Batch, Restart, Step, read_rows, settles
from latecomer.testing.shapes import Shape
from latecomer.windowing.fate_counts import FATES
from latecomer.windowing.judge import judged
from latecomer.windowing.visible_events import event_tables, stored_columns

Spot = tuple[str, int]
"""The batch of a row, and its place in it."""


def on_engine(
    shape: Shape, steps: Sequence[Step], spark: SparkSession | None, replayed: bool, in_tasks: bool
) -> Outcome:
    """What the engine does, batch by batch. It runs in this process, and uses a session only for what Spark alone
    computes; with `in_tasks` it runs in tasks of that session. Without `spark`, a local session is started.

    With `replayed`, the log is then replayed in one shot and compared with the tables.
    """
    session = when_needed(lambda: own_session(spark or build_session(shape.pipeline.name)))
    runner = SparkRunner(session) if in_tasks else InProcess(session)
    with tempfile.TemporaryDirectory(prefix="latecomer-", ignore_cleanup_errors=True) as folder:
        played = _Played(shape, steps, runner, Path(folder))
        outcome = played.outcome()
        if replayed and played.engine.last >= 0:
            outcome.replay = _replayed(played.pipeline, steps, spark)
        return outcome


def _replayed(pipeline: Pipeline, steps: Sequence[Step], spark: SparkSession | None) -> tuple[Pair, ...]:
    """Where a replay in one shot differs from the store in something that no cut into batches may change."""
    pairs: list[Pair] = []
    for name, compared in replay(pipeline, one_shot=True, spark=spark).outputs.items():
        output = pipeline.outputs[name]
        differing = {"late": compared.late.rows, "ledger": compared.ledger.rows}
        if settles(output, steps):
            differing["results"] = compared.results.rows
        rows = [(what, row) for what, table in differing.items() for row in table.to_pylist()]
        if output.trigger.early is None and not output.window.merges:
            rows += [("panes", row) for row in compared.panes.rows.to_pylist() if _is_on_time(row)]
        pairs += [Pair(f"{what} of {name}: {row[CHANGE]}", str(row), False) for what, row in rows]
    return tuple(pairs)


def _is_on_time(pane: Mapping[str, Any]) -> bool:
    return pane["op"] == Op.INSERT and Timing.ON_TIME in (pane["timing"], pane[f"timing{REPLAYED}"])


@dataclass(frozen=True)
class Records(Slice):
    """Records in the order in which they came."""

    origin: str
    records: Sequence[bytes]
    positions: Sequence[int]


@dataclass(frozen=True)
class RecordsSplit(Split):
    """All records of a slice."""

    whole: Records

    @property
    def size(self) -> int:
        return sum(map(len, self.whole.records))


@dataclass(frozen=True)
class MemorySource(RecordSource):
    """Reads the records of a slice. It follows no stream: a test makes the slices."""

    @property
    def named(self) -> str:
        return "the records"

    def splits(self, slice_: Slice, staging: Staging) -> Sequence[Split]:
        if not isinstance(slice_, Records):
            raise TypeError(f"a {type(slice_).__name__} is not in memory")
        return [RecordsSplit(slice_)] if slice_.records else []

    def read(self, splits: Sequence[Split]) -> Iterator[Chunk]:
        for split in splits:
            if isinstance(split, RecordsSplit):
                yield self.chunk(_table(split.whole), split.whole.newest)


def _table(records: Records) -> pa.Table:
    return pa.table(
        {
            RECORD: pa.array(records.records, pa.binary()),
            ORIGIN: pa.array([records.origin] * len(records.records), pa.string()),
            POSITION: pa.array(records.positions, pa.int64()),
        }
    )


class _Played:
    """Plays the steps; then reads the tables, by the batch that each step became."""

    def __init__(self, shape: Shape, steps: Sequence[Step], runner: Runner, folder: Path) -> None:
        self.shape = shape
        self.rows = read_rows(steps)
        self.files = 0
        self.named: Mapping[str, bool] | None = None
        self.spots: list[Spot] = []
        self.runner = runner
        self.folder = folder
        self.pipeline = shape.placed(str(folder))
        self.store = Store(self.pipeline, _columns_of(self.pipeline))
        self.reader = Reader(self.pipeline)
        self.numbers: list[int | None] = []
        self.watermarks: list[int] = []
        self.engine = self._started()
        for step in steps:
            self._do(step)
        self.engine.sinks.close()

    def _started(self) -> Engine:
        store = Store(self.pipeline, self.store.columns)
        sources = {
            name: MemorySource(view, store.columns.read_from(name))
            for name, view in self.pipeline.views.items()
        }
        engine = Engine(self.runner, store, log=EventLog(self.runner, store, sources))
        start_engine(engine)
        return engine

    def _do(self, step: Step) -> None:
        before = self.engine.last
        match step:
            case Batch():
                self.engine.data(self.files, self._slice(self.files, step))
                self.files += 1
            case Heartbeat():
                if (named := self._named(next(iter(self.pipeline.views)))) is not None:
                    self.engine.keeper.timeline.name_partitions(named)
                heartbeat(self.engine, step.at)
            case Watermark():
                put_watermark(self.engine, step.to)
            case Partitions():
                self.named = step.named
            case Drain():
                drain_input(self.engine)
            case Restart():
                self.engine.sinks.close()
                self.engine = self._started()
        self.numbers.append(self.engine.last if self.engine.last > before else None)
        self.watermarks.append(self.engine.keeper.timeline.watermark)

    def _slice(self, number: int, batch: Batch) -> Slice:
        origin = f"{number:06d}"
        self.spots += [(origin, place) for place in range(len(batch.rows))]
        records: dict[str, dict[int, bytes]] = {} if batch.sources else {batch.source: {}}
        for place, (source, row) in enumerate(batch.sourced):
            written = self.shape.sources[source].written(row)
            records.setdefault(source, {})[place] = json.dumps(written).encode()
        named = self._named(next(iter(records)))
        slices = [
            Records(number, origin, list(each.values()), list(each), partitions=named, source=source)
            for source, each in records.items()
        ]
        if len(slices) == 1:
            return slices[0]
        return MergedSlice.of(
            [BatchPart(each) for each in slices], {name: ReadTo(number) for name in records}, named
        )

    def _named(self, source: str) -> Mapping[str, bool] | None:
        """The partitions as a step has named them; with several sources, the partitions of all of them."""
        if not source:
            return self.named
        named, known = self.named or {}, dict.fromkeys(self.engine.keeper.timeline.known(), False)
        return {**named_partitions({source: None}, {**known, **named}, self.pipeline.sources, ()), **named}

    # What a reader of the store sees

    def outcome(self) -> Outcome:
        panes = {name: self._panes(name, output) for name, output in self.pipeline.outputs.items()}
        late = {name: self._late(name) for name in self.pipeline.outputs}
        entries = [_entry(row) for row in self.reader.ledger().to_pylist()]
        steps = [
            StepOutcome(
                watermark,
                {name: [pane for batch, pane in listed if batch == number] for name, listed in panes.items()},
                {name: [row for batch, row in listed if batch == number] for name, listed in late.items()},
                [entry for entry in entries if entry.batch == number],
            )
            for number, watermark in zip(self.numbers, self.watermarks, strict=True)
        ]
        outcome = Outcome(self.shape.pipeline, self.shape.times, self.rows, steps, self._fates(steps))
        outcome.read = {
            name: [_result(row, output) for row in self.reader.results(name).to_pylist()]
            for name, output in self.pipeline.outputs.items()
        }
        return outcome

    def _panes(self, name: str, output: Output) -> list[tuple[int, Pane]]:
        panes = []
        for row in self.reader.panes(name).to_pylist():
            place, values = _result(row, output)
            timing, op = Timing(row["timing"]), Op(row["op"])
            pane = Pane(*place, values, row["sequence"], timing, op, bool(row["is_last"]))
            panes.append((row["batch"], pane))
        return panes

    def _late(self, name: str) -> list[tuple[int, Late]]:
        rows = [
            (
                row["batch"],
                Late(
                    self.rows[self._index(row)],
                    _window(row),
                    Verdict(row["verdict"]),
                    BEGIN_OF_TIME if row["watermark"] is None else to_micros(row["watermark"]),
                ),
            )
            for row in self.reader.late(name).to_pylist()
        ]
        return sorted(rows, key=lambda each: (each[0], each[1].row.arrival_time, each[1].window))

    def _fates(self, steps: Sequence[StepOutcome]) -> dict[str, list[tuple[Assigned, ...] | None]]:
        aside: dict[int, Assigned] = {}
        for row in self.reader.duplicates().to_pylist():
            aside[self._index(row)] = Assigned(Fate.DUPLICATE)
        letters = self.reader.dead_letters()
        for row in letters.filter(pc.is_null(letters["output"])).to_pylist():
            aside[self._index(row)] = Assigned(Fate.DEAD_LETTER, reason=row["reason"])
        fates: dict[str, list[tuple[Assigned, ...] | None]] = {}
        for name, output in self.pipeline.outputs.items():
            assigned = self._alone(name, steps) if output.window.merges else self._judged(output)
            fates[name] = [
                (aside[index],) if index in aside else assigned.get(index) for index in range(len(self.rows))
            ]
        return fates

    def _judged(self, output: Output) -> dict[int, tuple[Assigned, ...]]:
        """Row → its fate in each of its windows, when the engine judges the whole log again."""
        if not self.store.events.exists:
            return {}
        timeline = self.engine.keeper.section(0, self.engine.last).watermarks
        logged, layout = self.engine.log.everything(), self.store.layout
        wanted = [*stored_columns(layout, [output], ()), "origin", "position"]
        fates: dict[int, list[Assigned]] = {}
        for events in event_tables(logged, wanted, [output], layout):
            rows = judged(events, layout, output, timeline, [ORIGIN, POSITION])
            columns = (rows.columns[ORIGIN].to_pylist(), rows.columns[POSITION].to_pylist())
            verdicts = (each.tolist() for each in (rows.start, rows.end, rows.fate, rows.watermark))
            for origin, position, start, end, code, watermark in zip(*columns, *verdicts, strict=True):
                fate, verdict = FATES[code], judge(end, watermark, output.allowed_lateness)
                aside = fate in WITHOUT_WINDOW
                assigned = Assigned(fate) if aside else Assigned(fate, Window(start, end), verdict)
                fates.setdefault(self.spots.index((origin, position)), []).append(assigned)
        return {index: tuple(assigned) for index, assigned in fates.items()}

    def _alone(self, name: str, steps: Sequence[StepOutcome]) -> dict[int, tuple[Assigned, ...]]:
        """Row → its fate by the ledger, where all rows of its batch have the same."""
        assigned: dict[int, tuple[Assigned, ...]] = {}
        batches = iter(dict.fromkeys(file for file, _ in self.spots))
        for step in steps:
            entries = [e for e in step.ledger if e.output == name and e.unit == "events"]
            if not entries:
                continue
            file = next(batches)
            places = [index for index, (origin, _) in enumerate(self.spots) if origin == file]
            fates = [fate for fate, amount in entries[0].fates.items() if amount]
            if len(fates) == 1:
                assigned |= {index: (Assigned(fates[0]),) for index in places}
        return assigned

    def _index(self, row: dict[str, Any]) -> int:
        return self.spots.index((row["origin"], row["position"]))


def _columns_of(pipeline: Pipeline) -> Columns:
    columns = {name: view.source.columns or {} for name, view in pipeline.views.items()}
    return merged(columns) if pipeline.sources else Columns(columns[""])


def _window(row: dict[str, Any]) -> Window:
    return Window(to_micros(row["window_start"]), to_micros(row["window_end"]))


def _result(row: dict[str, Any], output: Output) -> tuple[Place, Mapping[str, Any]]:
    """The window and key of a row, and its numbers."""
    key = tuple(row[column] for column in output.by)
    return (*_window(row), key), {aggregate: row[aggregate] for aggregate in output.aggregates}


def _entry(row: dict[str, Any]) -> Entry:
    return Entry(
        row["batch"],
        row["output"],
        row["unit"],
        row["received"],
        {fate: row[fate.value] for fate in Fate},
        row["partly_late"] or 0,
        row["late_at_source"] or 0,
    )


def put_watermark(engine: Engine, watermark: int) -> None:
    """Move the watermark of an engine, in a batch without data."""
    engine.await_batch()
    row = engine.keeper.timeline.put(watermark)
    complete_without_data(engine, engine.keeper.advance(engine.last + 1, row), "heartbeat")
