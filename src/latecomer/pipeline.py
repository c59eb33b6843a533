"""The whole flow, top to bottom: one page.

    source → decode → log → timeline → windowing → firing → ledger → sinks

`Engine.data` runs one batch through all of it. Every step is committed under the batch's number and
skipped when that number is already there, so a batch that was interrupted anywhere is simply run again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal

from pyspark.sql import SparkSession

from latecomer.config.models import Pipeline
from latecomer.errors import StoreMismatch
from latecomer.firing.choose import output_logic
from latecomer.firing.output import Batch, OutputLogic, Prepared
from latecomer.ledger.book import (
    Intake,
    as_table,
    entries_of,
    intake,
    measure_in_raw,
    require_balance,
    sum_measures,
)
from latecomer.log.events import EventLog, Received
from latecomer.model.ledger import Entry
from latecomer.model.verdicts import END_OF_TIME
from latecomer.overflow import overflow_told
from latecomer.sink.keeper import SinkKeeper
from latecomer.source.files import SourceFile
from latecomer.store.failpoints import failpoint
from latecomer.store.sql import quoted
from latecomer.store.store import Store
from latecomer.timeline.keeper import Stretch, TimelineKeeper
from latecomer.windowing.merge import Counts


@dataclass(frozen=True)
class BatchReport:
    """What a batch did, for whoever watches."""

    batch: int
    kind: str
    received: Received
    seconds: float
    watermark: int
    newest_arrival: int
    entries: Sequence[Entry] = field(default_factory=list)


class Engine:
    """Runs a pipeline's batches, one after the other, on a store it has for itself."""

    def __init__(
        self, spark: SparkSession, store: Store, watch: Callable[[BatchReport], None] = lambda _: None
    ) -> None:
        self.store = store
        self.watch = watch
        self.spark = spark
        store.pin()
        self.log = EventLog(spark, store)
        self.keeper = TimelineKeeper(store.watermarks, store.pipeline.watermark)
        self.outputs = [output_logic(spark, store, name) for name in store.pipeline.outputs]
        self.sinks = SinkKeeper(store, self.outputs)
        self.last = store.ledger.last_batch()

    @property
    def pipeline(self) -> Pipeline:
        return self.store.pipeline

    def start(self) -> None:
        """Finish what an interrupted run left undone; compute outputs that were added since."""
        self._finish_quiet_batch()
        self._catch_up()
        self.sinks.catch_up(self.last)

    def data(self, source_batch: int, files: Sequence[SourceFile]) -> None:
        """One batch of data, from files to sinks."""
        if source_batch <= self._last_source_batch():
            return
        began, number = time.monotonic(), self.last + 1
        received = self.log.write(number, files, self.keeper.timeline)
        events = self.log.batch(number)
        heads = self.log.heads(events, self.pipeline.watermark.needs)
        stretch = self.keeper.extend(number, source_batch, heads.heads)
        failpoint("watermarks.committed", number)
        batch = Batch(number, stretch, events if received.events else None, heads.earliest, heads.latest)
        self._run(batch, received, heads.measures, began, "data")

    def heartbeat(self, at: int) -> bool:
        """Let silence count: a batch without data, if it closes a window."""
        beat = self.keeper.heartbeat(at)
        if beat is None or not any(output.would_fire(beat[1].watermark) for output in self.outputs):
            return False
        self.keeper.timeline = beat[0]
        self._quiet(self.keeper.advance(self.last + 1, beat[1]), "heartbeat")
        return True

    def drain(self) -> None:
        """The input has ended: close every window. Twice is once."""
        if self.keeper.timeline.watermark == END_OF_TIME:
            return
        row = self.keeper.timeline.drain()
        self._quiet(self.keeper.advance(self.last + 1, row), "drain")

    def _quiet(self, stretch: Stretch, kind: str) -> None:
        failpoint("watermarks.committed", self.last + 1)
        nothing = {measure: Decimal(0) for measure in self.store.measures()}
        self._run(Batch(self.last + 1, stretch), Received(0, 0, 0, 0), nothing, time.monotonic(), kind)

    def _run(
        self, batch: Batch, received: Received, logged: dict[str, Decimal], began: float, kind: str
    ) -> None:
        with ThreadPoolExecutor(2) as pool:
            prepared = list(pool.map(lambda output: self._prepared(output, batch), self.outputs))
            entries = self._balanced(batch, received, logged, prepared)
            list(
                pool.map(
                    lambda pair: self._publish(pair[0], batch, pair[1]),
                    zip(self.outputs, prepared, strict=True),
                )
            )
        self.store.ledger.append(batch.number, as_table(entries))
        failpoint("ledger.committed", batch.number)
        self.last = batch.number
        self.sinks.apply(batch.number)
        failpoint("sinks.applied", batch.number)
        timeline = self.keeper.timeline
        seconds = time.monotonic() - began
        self.watch(
            BatchReport(batch.number, kind, received, seconds, timeline.watermark, timeline.last_at, entries)
        )

    def _prepared(self, output: OutputLogic, batch: Batch) -> Prepared:
        with overflow_told(output.name, output.layout, self.store.measures()):
            return output.prepare(batch)

    def _publish(self, output: OutputLogic, batch: Batch, prepared: Prepared) -> None:
        with overflow_told(output.name, output.layout, self.store.measures()):
            output.publish(batch, prepared)

    def _balanced(
        self, batch: Batch, received: Received, logged: dict[str, Decimal], prepared: Sequence[Prepared]
    ) -> list[Entry]:
        if not received.rows:
            return []
        taken = intake(received, logged, *self._sums_aside(batch.number, received))
        entries = [
            entry
            for output, ready in zip(self.outputs, prepared, strict=True)
            for entry in entries_of(batch.number, output.name, taken, ready.counts, output.windows_each)
        ]
        require_balance(entries)
        return entries

    def _sums_aside(self, batch: int, received: Received) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
        """The measures of a batch's duplicates and dead letters."""
        measures, view = self.store.measures(), self.store.layout.view
        duplicates = {measure: quoted(view[measure]) for measure in measures} if received.duplicates else {}
        dead_letters = (
            {measure: measure_in_raw(measure) for measure in measures} if received.dead_letters else {}
        )
        return (
            sum_measures(self.log.aside(self.store.duplicates, batch), duplicates),
            sum_measures(self.log.aside(self.store.dead_letters, batch), dead_letters),
        )

    def _last_source_batch(self) -> int:
        """The last batch of the source that is complete."""
        interrupted = self.store.watermarks.last_batch() > self.last
        return self.keeper.last_source_batch - 1 if interrupted else self.keeper.last_source_batch

    def _finish_quiet_batch(self) -> None:
        """A heartbeat or drain that was interrupted; a data batch is handed in again by the source."""
        if self.store.watermarks.last_batch() > self.last:
            stretch = self.keeper.stretch(self.last + 1, self.last + 1)
            kind = stretch.rows[0][1].kind
            if kind != "tick":
                self._quiet(stretch, kind)

    def _catch_up(self) -> None:
        """Outputs that were added to an existing store are computed from the log."""
        if self.last < 0:
            return
        found = self.store.ledger.query(
            "select output, max(batch) as last from t group by output"
        ).to_pylist()
        reached = {row["output"]: row["last"] for row in found}
        newest = max(reached.values(), default=-1)
        for output in self.outputs:
            if output.name not in reached:
                self._compute_from_log(output)
            elif reached[output.name] < newest:
                raise StoreMismatch(
                    f"output {output.name} was left out of the pipeline after batch {reached[output.name]}, "
                    f"and the log has gone on to batch {newest}; give it a new name, and it is computed "
                    "from the log"
                )

    def _compute_from_log(self, output: OutputLogic) -> None:
        events = self.log.everything()
        heads = self.log.heads(events)
        stretch = self.keeper.stretch(0, self.last)
        seen = events if heads.heads else None
        batch = Batch(self.last, stretch, seen, heads.earliest, heads.latest, history=True)
        prepared = self._prepared(output, batch)
        entries = self._past_entries(output, batch)
        require_balance(entries)
        self._publish(output, batch, prepared)
        self.store.ledger.append(self.last, as_table(entries), f"latecomer:{output.name}")

    def _past_entries(self, output: OutputLogic, batch: Batch) -> list[Entry]:
        past = self.store.past_ledger.query(
            "select distinct batch, unit, received, duplicate, dead_letter from t "
            f"where batch <= {self.last}"
        )
        taken: dict[int, Intake] = {}
        for row in past.to_pylist():
            if row["unit"] != "assignments":
                known = taken.setdefault(row["batch"], Intake({}, {}, {}))
                for side in ("received", "duplicate", "dead_letter"):
                    getattr(known, side)[row["unit"]] = row[side]
        fates = output.fates_by_batch(batch)
        return [
            entry
            for number, received in sorted(taken.items())
            for entry in entries_of(
                number, output.name, received, fates.get(number, Counts()), output.windows_each
            )
        ]
