"""The whole flow, top to bottom: one page.

    source → decode → log → timeline → windowing → firing → ledger → sinks

A batch has two halves. *Accepting* it writes it to the log and to the timeline. *Completing* it publishes its results,
while the next batch is being accepted. Every step is committed under the batch's number, and is skipped when that
number is already committed. So an interrupted batch is run again (`engine/starting.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from latecomer.config.models import Pipeline
from latecomer.engine.ledger import book
from latecomer.engine.ledger.report import BatchReport, Stopwatch
from latecomer.engine.upkeep.scheduled import ScheduledUpkeep
from latecomer.log.events import EventLog
from latecomer.log.filling import fill
from latecomer.log.readable import NOTHING_RECEIVED, LoggedBatch
from latecomer.log.timeline.keeper import Origin, TimelineKeeper
from latecomer.model.ledger import Entry
from latecomer.sink.keeper import SinkKeeper
from latecomer.source.base import Slice
from latecomer.spark.base import Runner
from latecomer.store.delta.data_files import DataFile
from latecomer.store.failpoints import failpoint
from latecomer.store.publications import BatchCloser, wall_clock
from latecomer.store.store import Store
from latecomer.windowing.firing.job import FiringJob
from latecomer.windowing.firing.output import FiringBatch, OutputLogic
from latecomer.windowing.firing.republish import require_brought_over
from latecomer.windowing.firing.session_output import output_logic
from latecomer.windowing.widening import require_widenable, widen_tables


class Engine:
    """Runs a pipeline's batches, one after the other, on a store that no other run writes to."""

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
        """How many past events got values in columns that were declared since the last run."""
        store.pin()
        self.log = log or EventLog(runner, store)
        self.keeper = TimelineKeeper(store.watermarks, store.pipeline.watermark)
        self.outputs = [output_logic(runner, store, name) for name in store.pipeline.outputs]
        if widen_tables(store, [table for each in self.outputs for table in each.tables.all]):
            # An output remembers the files that its tables had when it was made.
            self.outputs = [output_logic(runner, store, name) for name in store.pipeline.outputs]
        self.firing, self.sinks = FiringJob(runner, store), SinkKeeper(store)
        self.publications = BatchCloser(store, clock)
        self.last = store.ledger.last_batch()
        """The last complete batch; once the run has started, the last one on the timeline."""
        self._completing = ThreadPoolExecutor(1, "latecomer-completing")
        self._under_way: Future[None] | None = None
        self._completed_at = 0.0
        self.computed: dict[str, float] = {}
        """New outputs that were computed from the log, and how many seconds each took."""
        self.started = False
        """Whether the work that an interrupted run left is finished."""
        self.measured = False
        """Whether reports include how far each partition is, which only metrics need."""
        self.last_report: BatchReport | None = None
        self.upkeep: ScheduledUpkeep | None = None
        """The upkeep of this run, once it follows its sources."""

    @property
    def pipeline(self) -> Pipeline:
        return self.store.pipeline

    # Accepting: source → decode → log → timeline

    def data(self, source_batch: int, new: Slice) -> None:
        """One batch of data, from its source to the sinks."""
        self.accept(source_batch, new)
        self.await_batch()

    def accept(self, source_batch: int, new: Slice) -> None:
        """Write a slice of the source to the log and to the timeline; a slice that was accepted before is skipped. The
        batch is completed while the next one is accepted."""
        if not self.keeper.holds(new.source, source_batch):
            self.take(source_batch, new)

    def take(self, source_batch: int, new: Slice) -> None:
        """Accept a slice, whatever batch of its source it is."""
        number, watch = self.last + 1, Stopwatch()
        logged = self.log.write(number, new, self.keeper.timeline)
        received, ticks = logged.received, logged.ticks
        watch.end("log")
        self.await_batch()
        watch.end("waiting")
        out_of_step = self.keeper.timeline.out_of_step(ticks.summaries)
        origin = Origin(source_batch, new.source, received.clocks.in_words, new.read_to)
        section = self.keeper.extend(number, origin, ticks.summaries, new.partitions)
        failpoint("watermarks.committed", number)
        self.last = number
        watch.end("timeline")
        batch = FiringBatch.of_logged(number, section, logged, self.log.batch(number))
        accepted = self.accepted(batch, "data", watch, logged)
        holding, events = self.keeper.holding(), self.log.written(number)
        accepted.report = replace(
            accepted.report, out_of_step=out_of_step, holding=holding, unread=new.unread, events=events
        )
        self._under_way = self._completing.submit(self.complete, accepted, self.outputs)

    def accepted(
        self, batch: FiringBatch, kind: str, watch: Stopwatch | None = None, logged: LoggedBatch | None = None
    ) -> book.AcceptedBatch:
        """A batch that is on the timeline; `logged` is what it brought."""
        received = NOTHING_RECEIVED if logged is None else logged.received
        amounts = book.logged_amounts(logged) if logged is not None and received.rows else None
        timeline = self.keeper.timeline
        marks = timeline.marks() if self.measured else {}
        report = BatchReport(
            batch.number, kind, received, 0.0, timeline.watermark, timeline.last_at, partitions=marks
        )
        return book.AcceptedBatch(batch, report, amounts, watch or Stopwatch())

    # Completing: windowing → firing → ledger → sinks

    def complete(self, accepted: book.AcceptedBatch, outputs: Sequence[OutputLogic]) -> None:
        """Publish the results of a batch, once its ledger balances."""
        with ThreadPoolExecutor(2) as pool, self.firing.derived(accepted.batch, outputs) as batch:
            prepared = self.firing.run(batch, outputs)
            accepted.watch.end("windowing")
            entries = book.balanced_entries(accepted, outputs, prepared)
            accepted.watch.end("ledger")
            published = pool.map(lambda output, panes: output.commit(batch, panes), outputs, prepared)
            panes = {output.name: files for output, files in zip(outputs, published, strict=True)}
            accepted.watch.end("firing")
        self.publish(accepted, entries, panes)

    def publish(
        self, accepted: book.AcceptedBatch, entries: Sequence[Entry], panes: Mapping[str, Sequence[DataFile]]
    ) -> None:
        """Close a batch in the ledger, announce it to the sinks, and report what it did."""
        number, watch = accepted.batch.number, accepted.watch
        at = self.publications.close(number, book.as_table(entries), self.reached)
        watch.end("ledger")
        self.sinks.announce(number)
        now = time.monotonic()
        seconds, self._completed_at = now - max(watch.began, self._completed_at), now
        self.last_report = replace(
            accepted.report,
            seconds=seconds,
            entries=entries,
            published_at=at,
            stages=watch.seconds,
            panes=panes,
        )
        self.watch(self.last_report)

    @property
    def reached(self) -> dict[str, int]:
        """The last batch of every table: a copy of the store in which one table is behind is recognised by it."""
        published = [table for output in self.outputs for table in output.tables.all]
        return self.store.reached([*self.store.logged_tables, *published])

    # Between batches

    def await_batch(self) -> None:
        """Wait for the batch under way. An error of that batch, or of a sink, is raised here."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()
        self.sinks.require_working()

    def finish(self) -> None:
        """Wait for the batch under way, and until every sink has everything."""
        self.await_batch()
        self.sinks.finish()

    def close(self) -> None:
        """Close the log and the sinks. No batch is under way any more."""
        self._completing.shutdown()
        self.log.close()
        self.sinks.close()

    @property
    def busy(self) -> bool:
        """Whether a batch is being completed."""
        return self._under_way is not None and not self._under_way.done()

    @property
    def half_logged(self) -> bool:
        """Whether the next batch is in the log and not yet on the timeline: its number is taken."""
        return self.log.reaches_beyond(self.last)
