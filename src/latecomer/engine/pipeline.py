"""The whole flow, top to bottom: one page.

    source → decode → log → timeline → windowing → firing → ledger → sinks

A batch has two halves. *Accepting* it puts it into the log and on the timeline. *Completing* it publishes what follows
from that, beside the first half of the next batch. Every step is committed under the batch's number, and is skipped
when that number is already there. So a batch that was interrupted anywhere is simply run again: from its source until
it is on the timeline, from the log after that (`engine/starting.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from latecomer.config.models import Pipeline
from latecomer.engine.ledger.book import as_table, balanced_entries, logged_intake
from latecomer.engine.ledger.report import AcceptedBatch, BatchReport, Stopwatch
from latecomer.log.events import EventLog
from latecomer.log.filling import fill
from latecomer.log.timeline.keeper import Origin, TimelineKeeper
from latecomer.model.ledger import Entry
from latecomer.sink.keeper import SinkKeeper
from latecomer.source.base import Slice, Together
from latecomer.spark.base import Runner
from latecomer.store.data_files import DataFile
from latecomer.store.failpoints import failpoint
from latecomer.store.publications import PublicationClock, wall_clock
from latecomer.store.store import Store
from latecomer.windowing.firing.batch import Batch
from latecomer.windowing.firing.choose import output_logic
from latecomer.windowing.firing.job import FiringJob
from latecomer.windowing.firing.output import OutputLogic
from latecomer.windowing.firing.reopening import require_brought_over
from latecomer.windowing.widening import require_widenable, widen_tables

if TYPE_CHECKING:
    from latecomer.engine.upkeep.scheduled import ScheduledUpkeep


class Engine:
    """Runs a pipeline's batches, one after the other, on a store it has for itself."""

    def __init__(
        self,
        runner: Runner,
        store: Store,
        watch: Callable[[BatchReport], None] = lambda _: None,
        log: EventLog | None = None,
        clock: Callable[[], int] = wall_clock,
    ) -> None:
        self.runner, self.store, self.watch = runner, store, watch
        require_widenable(store)
        require_brought_over(store)
        self.filled = fill(runner, store)
        """What past events got of columns that were declared since the last run."""
        store.pin()
        self.log = log or EventLog(runner, store)
        self.keeper = TimelineKeeper(store.watermarks, store.pipeline.watermark)
        self.outputs = [output_logic(runner, store, name) for name in store.pipeline.outputs]
        if widen_tables(store, [table for each in self.outputs for table in each.tables.all]):
            # An output names the files of its tables as it is made.
            self.outputs = [output_logic(runner, store, name) for name in store.pipeline.outputs]
        self.firing = FiringJob(runner, store)
        self.sinks = SinkKeeper(store)
        self.publications = PublicationClock(store, clock)
        self.last = store.ledger.last_batch()
        """The last batch that is on the timeline."""
        self._completing = ThreadPoolExecutor(1, "latecomer-completing")
        self._under_way: Future[None] | None = None
        self._completed_at = 0.0
        self.computed: dict[str, float] = {}
        """The outputs that were computed from the log, and how many seconds each took."""
        self.started = False
        """Whether what an interrupted run left undone is done."""
        self.measured = False
        """Whether reports have what only metrics need: how far each partition is."""
        self.reported: BatchReport | None = None
        """What the last batch did."""
        self.upkeep: ScheduledUpkeep | None = None
        """What keeps the store in shape meanwhile, where somebody has seen to that."""

    @property
    def pipeline(self) -> Pipeline:
        return self.store.pipeline

    # Accepting: source → decode → log → timeline

    def data(self, source_batch: int, new: Slice) -> None:
        """One batch of data, from its source to the sinks."""
        self.accept(source_batch, new)
        self.settle()

    def accept(self, source_batch: int, new: Slice) -> None:
        """Put a slice of the source into the log and on the timeline; the rest goes on beside the next batch. What was
        accepted before is not accepted again."""
        if not self.keeper.holds(new.source, source_batch):
            self.take(source_batch, new)

    def take(self, source_batch: int, new: Slice) -> None:
        """Accept a slice, whatever the source has handed in before."""
        began, number, stopwatch = time.monotonic(), self.last + 1, Stopwatch()
        logged = self.log.write(number, new, self.keeper.timeline)
        received, ticks = logged.received, logged.ticks
        stopwatch.end("log")
        self.settle()
        stopwatch.end("waiting")
        out_of_step = self.keeper.timeline.out_of_step(ticks.summaries)
        read_to = new.read_to if isinstance(new, Together) else {}
        origin = Origin(source_batch, new.source, received.clocks.in_words, read_to)
        section = self.keeper.extend(number, origin, ticks.summaries, new.partitions)
        failpoint("watermarks.committed", number)
        self.last = number
        stopwatch.end("timeline")
        batch = Batch.of_logged(number, section, logged, self.log.batch(number))
        accepted = replace(
            self.accepted(batch, "data", began),
            received=received,
            intake=logged_intake(logged),
            out_of_step=out_of_step,
            holding=self.keeper.holding(),
            unread=new.unread,
            events=self.log.written(number),
            watch=stopwatch,
        )
        self._under_way = self._completing.submit(self.complete, accepted, self.outputs)

    def accepted(self, batch: Batch, kind: str, began: float | None = None) -> AcceptedBatch:
        """A batch that is on the timeline."""
        timeline = self.keeper.timeline
        marks = timeline.marks() if self.measured else {}
        began = began or time.monotonic()
        return AcceptedBatch(batch, kind, began, timeline.watermark, timeline.last_at, partitions=marks)

    # Completing: windowing → firing → ledger → sinks

    def complete(self, accepted: AcceptedBatch, outputs: Sequence[OutputLogic]) -> None:
        """Publish what follows from a batch, once its ledger balances."""
        with ThreadPoolExecutor(2) as pool, self.firing.derived(accepted.batch, outputs) as batch:
            prepared = self.firing.run(batch, outputs)
            accepted.watch.end("windowing")
            entries = balanced_entries(accepted, outputs, prepared)
            accepted.watch.end("ledger")
            published = pool.map(
                lambda pair: pair[0].publish(batch, pair[1]), zip(outputs, prepared, strict=True)
            )
            panes = {output.name: files for output, files in zip(outputs, published, strict=True)}
            accepted.watch.end("firing")
        self.publish(accepted, entries, panes)

    def publish(
        self, accepted: AcceptedBatch, entries: Sequence[Entry], panes: Mapping[str, Sequence[DataFile]]
    ) -> None:
        """Close a batch in the ledger, announce it to the sinks, and report what it did."""
        number = accepted.batch.number
        published_at = self.publications.close(number, as_table(entries), self.reached)
        accepted.watch.end("ledger")
        self.sinks.announce(number)
        now = time.monotonic()
        seconds, self._completed_at = now - max(accepted.began, self._completed_at), now
        self.reported = accepted.report(seconds, entries, published_at, panes)
        self.watch(self.reported)

    @property
    def reached(self) -> dict[str, int]:
        """How far every table is: it shows a copy of the store in which one is behind."""
        published = [table for output in self.outputs for table in output.tables.all]
        return self.store.reached([*self.store.logged_tables, *published])

    # Between batches

    def settle(self) -> None:
        """Wait for the batch under way; what went wrong in it, or in a sink, is raised here."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()
        self.sinks.require_working()

    def finish(self) -> None:
        """Wait for the batch under way, and until every sink has everything."""
        self.settle()
        self.sinks.finish()

    def close(self) -> None:
        """Let go of the sources and sinks, wherever they are; nothing is under way any more."""
        self._completing.shutdown()
        self.log.close()
        self.sinks.close()

    @property
    def busy(self) -> bool:
        """Whether a batch is being completed."""
        return self._under_way is not None and not self._under_way.done()

    @property
    def half_logged(self) -> bool:
        """Whether the next batch is in the log already, and not yet on the timeline: its number is taken."""
        return self.log.reaches_beyond(self.last)
