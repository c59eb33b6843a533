"""The whole flow, top to bottom: one page.

    source → decode → log → timeline → windowing → firing → ledger → sinks

`Engine.data` runs one batch through all of it. It has two halves: *accepting* a batch puts it into the
log and on the timeline, *completing* it publishes what follows from that. `Engine.accept` lets the second
half run beside the first half of the next batch. Every step is committed under the batch's number and
skipped when that number is already there, so a batch that was interrupted anywhere is simply run again:
from its source until it is on the timeline, from the log after that.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from latecomer.config.models import Output, Pipeline
from latecomer.errors import StoreError, StoreMismatch
from latecomer.firing.batch import Batch
from latecomer.firing.choose import output_logic
from latecomer.firing.job import FiringJob
from latecomer.firing.output import OutputLogic, Prepared
from latecomer.firing.reopening import require_brought_over
from latecomer.firing.republish import changed_since, publish_rebuild
from latecomer.ledger.book import (
    Intake,
    amounts_by_batch,
    as_table,
    entries_of,
    intake,
    repaired_intake,
    require_balance,
    with_duplicates,
)
from latecomer.log.events import NOTHING, EventLog, LoggedBatch, Received
from latecomer.log.filling import fill
from latecomer.log.logged import Logged
from latecomer.log.repairs import RepairLog
from latecomer.log.repeated import COLUMNS, Repeated
from latecomer.model.holding import Holding, holding_in_words
from latecomer.model.ledger import Entry
from latecomer.model.publications import lag
from latecomer.model.timeline import OutOfStep, Row
from latecomer.model.verdicts import END_OF_TIME
from latecomer.runner import Runner
from latecomer.sink.keeper import SinkKeeper
from latecomer.source.base import Slice, Together
from latecomer.source.fixes import Fix
from latecomer.store.failpoints import failpoint
from latecomer.store.files import names
from latecomer.store.outputs import outputs_to_compute, reached_by_output
from latecomer.store.publications import PublicationClock, wall_clock
from latecomer.store.rebuilds import Rebuild, Rebuilds, Record
from latecomer.store.recovery import require_unbroken
from latecomer.store.repairs import Repair, kept_repair, moved_letters
from latecomer.store.store import Store, as_received_sql, definition_of
from latecomer.store.table import DataFile
from latecomer.timeline.keeper import Origin, Stretch, TimelineKeeper
from latecomer.windowing.fates import Counts
from latecomer.windowing.spark_columns import computed
from latecomer.windowing.widening import require_widenable

LOG = logging.getLogger(__name__)


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
    out_of_step: OutOfStep | None = None
    """What arrived clearly before what earlier batches had read, and may be late for that alone."""
    holding: Sequence[Holding] = ()
    """The silent partitions for whose sake the watermark waits."""
    unread: int | None = None
    """How many rows the source had beyond this batch, where it knows that."""
    published_at: int | None = None
    """The wall clock when the batch was published."""
    stages: Mapping[str, float] = field(default_factory=dict)
    """Seconds by stage of the flow; `waiting` is for the batch before this one."""
    partitions: Mapping[str, int] = field(default_factory=dict)
    """How far each partition is by itself that is not idle, where somebody asked for that."""
    events: Sequence[DataFile] = ()
    """The files of events that were logged."""
    panes: Mapping[str, Sequence[DataFile]] = field(default_factory=dict)
    """The files of panes that each output published."""

    @property
    def lag(self) -> int | None:
        """How far the watermark was behind the wall clock; None where there is no watermark."""
        return lag(self.watermark, self.published_at)

    @property
    def arrival_lag(self) -> int | None:
        """How far the watermark was behind the newest arrival: a source that hands in nothing does not raise it."""
        return lag(self.watermark, self.newest_arrival)


@dataclass(frozen=True)
class Accepted:
    """A batch that is in the log and on the timeline."""

    batch: Batch
    kind: str
    received: Received
    intake: Intake | None
    began: float
    watermark: int
    newest_arrival: int
    out_of_step: OutOfStep | None = None
    holding: Sequence[Holding] = ()
    unread: int | None = None
    partitions: Mapping[str, int] = field(default_factory=dict)
    events: Sequence[DataFile] = ()
    watch: Stopwatch = field(default_factory=lambda: Stopwatch())


class Stopwatch:
    """Seconds by stage: a stage ends where the next one begins."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._since = time.monotonic()

    def end(self, stage: str) -> None:
        """What was done since the last call belongs to this stage."""
        now = time.monotonic()
        self.seconds[stage] = self.seconds.get(stage, 0.0) + now - self._since
        self._since = now


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
        self.store = store
        self.watch = watch
        self.runner = runner
        require_widenable(store)
        require_brought_over(store)
        self.filled = fill(runner, store)
        """What past events got of columns that were declared since the last run."""
        store.pin()
        self.log = log or EventLog(runner, store)
        self.keeper = TimelineKeeper(store.watermarks, store.pipeline.watermark)
        self.outputs = [output_logic(runner, store, name) for name in store.pipeline.outputs]
        if self._widen_types():  # an output names the files of its tables as it is made
            self.outputs = [output_logic(runner, store, name) for name in store.pipeline.outputs]
        self.firing = FiringJob(runner, store)
        self.sinks = SinkKeeper(store)
        self.publications = PublicationClock(store, clock)
        self.last = store.ledger.last_batch()
        self._completing = ThreadPoolExecutor(1, "latecomer-completing")
        self._under_way: Future[None] | None = None
        self._completed_at = 0.0
        self.computed: dict[str, float] = {}
        """The outputs that were computed from the log, and how many seconds each took."""
        self._warned_of: set[str] = set()
        self.started = False
        """Whether what an interrupted run left undone is done."""
        self.measured = False
        """Whether reports have what only metrics need: how far each partition is."""
        self.reported: BatchReport | None = None
        """What the last batch did."""

    @property
    def pipeline(self) -> Pipeline:
        return self.store.pipeline

    def _widen_types(self) -> bool:
        """Have every table hold the types that columns are declared with now; whether one had narrower ones."""
        if self.store.replay_of is not None:
            return False
        outputs = (logic.tables for logic in self.outputs)
        tables = [table for each in outputs for table in each.all]
        narrower = [
            table
            for table in (self.store.events, self.store.duplicates, *tables)
            if table.exists and table.is_narrower
        ]
        for table in narrower:
            table.widen()
        return bool(narrower)

    def start(self) -> None:
        """Finish what an interrupted run left undone; compute outputs that were added since."""
        require_unbroken(self.store)
        self.publications.begin()
        rebuild, repair = self._accepted_rebuild(self.last + 1), kept_repair(self.store.root)
        if repair is not None and repair.batch <= self.last:
            repair.tidy()
        elif repair is not None:
            LOG.info("taking in dead letters whose replay was interrupted, as batch %d", repair.batch)
            self._carry_repair_through(repair, self._known_outputs())
        elif rebuild is not None:
            LOG.info("publishing a rebuild that was interrupted, as batch %d", self.last + 1)
            self.carry_through(rebuild, self.last + 1)
        elif self.store.watermarks.last_batch() > self.last:
            LOG.info("completing batch %d, which was interrupted", self.last + 1)
            self._complete(self._interrupted(self.last + 1), self._known_outputs())
        self._catch_up()
        LOG.info("bringing the sinks up to batch %d", self.last)
        self.sinks.start(self.last)
        self.started = True

    def data(self, source_batch: int, piece: Slice) -> None:
        """One batch of data, from its source to the sinks."""
        self.accept(source_batch, piece)
        self.settle()

    def accept(self, source_batch: int, piece: Slice) -> None:
        """Put a slice of the source into the log and on the timeline; the rest goes on beside the next batch. What was
        accepted before is not accepted again."""
        if not self.keeper.holds(piece.source, source_batch):
            self.take(source_batch, piece)

    def take(self, source_batch: int, piece: Slice) -> None:
        """Accept a slice, whatever the source has handed in before."""
        began, number, stopwatch = time.monotonic(), self.last + 1, Stopwatch()
        logged = self.log.write(number, piece, self.keeper.timeline)
        received, ticks = logged.received, logged.ticks
        stopwatch.end("log")
        self.settle()
        stopwatch.end("waiting")
        out_of_step = self.keeper.timeline.out_of_step(ticks.heads)
        read_to = piece.read_to if isinstance(piece, Together) else {}
        origin = Origin(source_batch, piece.source, received.clocks.in_words, read_to)
        stretch = self.keeper.extend(number, origin, ticks.heads, piece.partitions)
        failpoint("watermarks.committed", number)
        batch = self._batch(number, stretch, logged)
        self.last = number
        holding = self.keeper.timeline.holding()
        self._warn_of(holding)
        stopwatch.end("timeline")
        accepted = replace(
            self._accepted(batch, "data", began, received, _intake(logged)),
            out_of_step=out_of_step,
            holding=holding,
            unread=piece.unread,
            events=self.log.written(number),
            watch=stopwatch,
        )
        self._under_way = self._completing.submit(self._complete, accepted, self.outputs)

    def _warn_of(self, holding: Sequence[Holding]) -> None:
        """Warn of the partitions that hold the watermark, of each once a run."""
        news = [each for each in holding if each.partition not in self._warned_of]
        if news:
            self._warned_of.update(each.partition for each in news)
            LOG.warning("%s", holding_in_words(news))

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

    @property
    def busy(self) -> bool:
        """Whether a batch is being completed."""
        return self._under_way is not None and not self._under_way.done()

    def close(self) -> None:
        """Let go of the sources and sinks, wherever they are; nothing is under way any more."""
        self._completing.shutdown()
        self.log.close()
        self.sinks.close()

    def heartbeat(self, at: int) -> bool:
        """Let silence count: a batch without data, if it publishes anything."""
        self.settle()
        beat = self.keeper.heartbeat(at)
        if beat is None or self.half_logged:
            return False
        stretch = Stretch([(self.last + 1, beat[1])], self.keeper.reached(self.last))
        if not any(output.would_fire(stretch) for output in self.outputs):
            return False
        self.keeper.timeline = beat[0]
        self.pass_quietly(self.keeper.advance(self.last + 1, beat[1]), "heartbeat")
        return True

    def drain(self) -> None:
        """The input has ended: close every window. Doing it again changes nothing."""
        self.settle()
        if self.keeper.timeline.watermark == END_OF_TIME:
            return
        row = self.keeper.timeline.drain()
        self.pass_quietly(self.keeper.advance(self.last + 1, row), "drain")

    def put_watermark(self, watermark: int) -> None:
        """Put the watermark here, in a batch without data. Tests steer a pipeline with it."""
        self.settle()
        row = self.keeper.timeline.put(watermark)
        self.pass_quietly(self.keeper.advance(self.last + 1, row), "heartbeat")

    def publish_rebuilds(self) -> None:
        """Publish the rebuilds that were asked for, if there are any."""
        for name in self.pipeline.outputs:
            for rebuild in Rebuilds(self.store.root, name).asked():
                self.rebuild(rebuild)

    def rebuild(self, rebuild: Rebuild) -> bool:
        """Publish a rebuild that was computed elsewhere, as a batch of its own.

        False where the store has gone on in what it changes: it has to be computed again.
        """
        self.settle()
        record = rebuild.record
        self.require_whole_log("rebuild")
        if (
            not rebuild.whole
            or not self._is_of_definition(record)
            or changed_since(self.logic_of(record.output), record)
        ):
            rebuild.refuse()
            return False
        number = self.last + 1
        rebuild.accept(number)
        failpoint("rebuild.accepted", number)
        self.carry_through(rebuild, number)
        return True

    def carry_through(self, rebuild: Rebuild, number: int) -> None:
        """Publish a rebuild that has a batch: from the beginning, or from wherever it was interrupted."""
        logic = self.logic_of(rebuild.record.output)
        if not self._is_of_definition(rebuild.record):
            raise StoreMismatch(
                f"a rebuild that gives output {logic.name} another meaning was interrupted; put the pipeline "
                "file back as it was then, and run again"
            )
        self.store.redefining = None
        self.store.pin()
        began, reached = time.monotonic(), self.keeper.reached(number - 1)
        assert reached is not None  # noqa: S101
        row = Row(self.keeper.timeline.last_tick or 0, reached.at, reached.watermark, kind="rebuild")
        stretch = self.keeper.advance(number, row)
        failpoint("watermarks.committed", number)
        self.last = number
        accepted = self._accepted(Batch(number, stretch), "rebuild", began)
        published = publish_rebuild(logic, number, rebuild, stretch)
        accepted.watch.end("firing")
        self._finish(accepted, [], {logic.name: published})
        rebuild.tidy(time.monotonic() - began)

    def require_whole_log(self, what: str) -> None:
        """Refuse a batch of its own while another has the next number, and is in the log only."""
        if self.half_logged:
            raise StoreError(
                f"batch {self.last + 1} was interrupted while it was logged, and no {what} can come before "
                "it; run the pipeline once (latecomer run FILE --once), and then try again"
            )

    def repair(self, repair: Repair) -> None:
        """Take in dead letters that were repaired, as a batch of its own: the one that they were given."""
        self.settle()
        failpoint("repair.accepted", repair.batch)
        self._carry_repair_through(repair, self.outputs)

    def _carry_repair_through(self, repair: Repair, outputs: Sequence[OutputLogic]) -> None:
        """Take in a replay that has a batch: from the beginning, or from wherever it was interrupted."""
        view = self.pipeline.views[repair.source]
        fix = Fix.restored(repair.fix, view, self.store.columns.read_from(repair.source))
        RepairLog(self.log, fix, repair.source).take_in(repair, self.keeper.timeline)
        self.take_repaired(repair.batch, outputs)
        repair.tidy()

    def take_repaired(self, number: int, outputs: Sequence[OutputLogic] | None = None) -> None:
        """Judge and publish dead letters that are in the log as events, and have it in the ledger."""
        began = time.monotonic()
        logged = self.log.recount(number)
        moved = {
            unit: each for (batch, unit), each in moved_letters(self.store.repairs).items() if batch == number
        }
        taken = repaired_intake(logged.received, logged.ticks.measures, logged.duplicates, moved)
        stretch = self.keeper.repair(number, [head.tick for head in logged.ticks.heads])
        failpoint("watermarks.committed", number)
        self.last = number
        batch = self._batch(number, stretch, logged)
        accepted = self._accepted(batch, "repair", began, logged.received, taken)
        self._complete(accepted, self.outputs if outputs is None else outputs)

    def _is_of_definition(self, record: Record) -> bool:
        """Whether a rebuild was computed for what the output means now."""
        expected = record.definition or self.store.pinned_definition(record.output)
        return definition_of(self.logic_of(record.output).output) == expected

    def logic_of(self, name: str) -> OutputLogic:
        """An output at work."""
        found = next((output for output in self.outputs if output.name == name), None)
        if found is None:
            raise StoreMismatch(
                f"a rebuild of output {name} was interrupted, and the pipeline file no longer has that output; "
                "put it back, and run again"
            )
        return found

    def _accepted_rebuild(self, batch: int) -> Rebuild | None:
        """The rebuild that a batch publishes, if it publishes one."""
        outputs = names(self.store.root / "outputs")
        found = (Rebuilds(self.store.root, name).of_batch(batch) for name in outputs)
        return next((each for each in found if each is not None), None)

    def use(self, outputs: Mapping[str, Output]) -> None:
        """Go on with these outputs; one that has changed starts from its tables, as after a restart."""
        before = self.pipeline.outputs
        if outputs == before and len(self.outputs) == len(outputs):
            return
        known = {logic.name: logic for logic in self.outputs}
        self.store.pipeline = self.pipeline.model_copy(update={"outputs": dict(outputs)})
        self.store.pin()
        self.outputs = [
            known[name] if before.get(name) == output else output_logic(self.runner, self.store, name)
            for name, output in outputs.items()
        ]

    @property
    def half_logged(self) -> bool:
        """Whether the next batch is in the log already, and not yet on the timeline: its number is taken."""
        return self.log.reaches_beyond(self.last)

    def pass_quietly(self, stretch: Stretch, kind: str) -> None:
        """A batch without data: the timeline goes on by itself."""
        self.last += 1
        failpoint("watermarks.committed", self.last)
        self._complete(self._accepted(Batch(self.last, stretch), kind), self.outputs)

    def _accepted(
        self,
        batch: Batch,
        kind: str,
        began: float | None = None,
        received: Received = NOTHING,
        taken: Intake | None = None,
    ) -> Accepted:
        timeline, now = self.keeper.timeline, time.monotonic()
        return Accepted(
            batch,
            kind,
            received,
            taken,
            began or now,
            timeline.watermark,
            timeline.last_at,
            partitions=timeline.marks() if self.measured else {},
        )

    def _interrupted(self, number: int) -> Accepted:
        """The batch that a run before this one accepted and did not complete, from log and timeline."""
        stretch = self.keeper.stretch(number, number)
        kind = stretch.rows[0][1].kind
        self.last = number
        if kind != "tick":
            return self._accepted(Batch(number, stretch), kind)
        logged = self.log.recount(number)
        batch = self._batch(number, stretch, logged)
        return self._accepted(batch, "data", received=logged.received, taken=_intake(logged))

    def _batch(self, number: int, stretch: Stretch, logged: LoggedBatch) -> Batch:
        """A batch of data that is logged, as outputs are given it."""
        events, ticks = self.log.batch(number) if logged.received.events else None, logged.ticks
        behind = any(ticks.first.get(row.tick, END_OF_TIME + 1) <= row.watermark for _, row in stretch.rows)
        return Batch(number, stretch, events, ticks.earliest, ticks.latest, behind)

    def _complete(self, accepted: Accepted, outputs: Sequence[OutputLogic]) -> None:
        """Publish what follows from a batch, once its ledger balances."""
        with ThreadPoolExecutor(2) as pool, self._computed(accepted.batch, outputs) as batch:
            prepared = self.firing.run(batch, outputs)
            accepted.watch.end("windowing")
            entries = _balanced(accepted, outputs, prepared)
            accepted.watch.end("ledger")
            published = pool.map(
                lambda pair: pair[0].publish(batch, pair[1]), zip(outputs, prepared, strict=True)
            )
            panes = {output.name: files for output, files in zip(outputs, published, strict=True)}
            accepted.watch.end("firing")
        self._finish(accepted, entries, panes)

    @contextmanager
    def _computed(self, batch: Batch, outputs: Sequence[OutputLogic]) -> Iterator[Batch]:
        """The batch with what only Spark computes of these outputs."""
        if batch.logged is None:
            yield batch
            return
        asked = [logic.output for logic in outputs]
        with computed(batch.logged, asked, self.store.layout, self.runner, self.store.root) as logged:
            yield replace(batch, logged=logged)

    def _finish(
        self, accepted: Accepted, entries: Sequence[Entry], panes: Mapping[str, Sequence[DataFile]]
    ) -> None:
        """Close a batch in the ledger, announce it to the sinks, and tell whoever watches."""
        batch = accepted.batch
        published_at = self.publications.close(batch.number, as_table(entries), self._reached())
        accepted.watch.end("ledger")
        self.sinks.announce(batch.number)
        now = time.monotonic()
        seconds = now - max(accepted.began, self._completed_at)
        self._completed_at = now
        self.reported = BatchReport(
            batch.number,
            accepted.kind,
            accepted.received,
            seconds,
            accepted.watermark,
            accepted.newest_arrival,
            entries,
            accepted.out_of_step,
            accepted.holding,
            accepted.unread,
            published_at,
            accepted.watch.seconds,
            accepted.partitions,
            accepted.events,
            panes,
        )
        self.watch(self.reported)

    def _reached(self) -> dict[str, int]:
        """How far every table is: a copy of the store in which one is behind can be told by it."""
        store = self.store
        published = [table for output in self.outputs for table in output.tables.all]
        return store.reached(
            [store.dead_letters, store.repairs, store.duplicates, store.events, store.watermarks, *published]
        )

    def _known_outputs(self) -> list[OutputLogic]:
        """The outputs that the batches before had; all of them where there were none."""
        reached = reached_by_output(self.store)
        return [output for output in self.outputs if not reached or output.name in reached]

    def _catch_up(self) -> None:
        """Outputs that were added to an existing store are computed from the log."""
        for name in outputs_to_compute(self.store):
            began, rows = time.monotonic(), sum(file.rows for file in self.store.events.files())
            LOG.info("computing the new output %s from the log: %s events", name, f"{rows:,}")
            self.compute_from_log(self.logic_of(name), self.last)
            self.computed[name] = time.monotonic() - began

    def compute_from_log(self, output: OutputLogic, joined: int) -> None:
        """Compute an output that joined after a batch. What was delivered again until then is a duplicate."""
        logged, repeated = self.log.everything(), self.log.repeated(joined)
        seen = logged if repeated is None else logged.without(repeated)
        span = seen.span()
        stretch = self.keeper.stretch(0, self.last)
        batch = Batch(self.last, stretch, seen if span else None, *(span or (0, 0)), history=True)
        with self._computed(batch, [output]) as whole:
            (prepared,) = self.firing.run(whole, [output])
            entries = self._past_entries(output, whole, logged, repeated)
            require_balance(entries)
            output.publish(whole, prepared)
        self.publications.close(self.last, as_table(entries), self._reached(), output.name)

    def _past_entries(
        self, output: OutputLogic, batch: Batch, logged: Logged, repeated: Repeated | None
    ) -> list[Entry]:
        past = self.store.past_ledger.query(
            "select distinct batch, unit, received, duplicate, dead_letter from t "
            f"where batch <= {self.last} and {as_received_sql(self.store.past_ledger)}"
        )
        taken: dict[int, Intake] = {}
        for row in past.to_pylist():
            if row["unit"] != "assignments":
                known = taken.setdefault(row["batch"], Intake({}, {}, {}))
                for side in ("received", "duplicate", "dead_letter"):
                    getattr(known, side)[row["unit"]] = row[side]
        if repeated is not None:
            measures, view = self.store.measures(), self.store.layout.view
            parts = logged.parts([*COLUMNS, *(view[measure] for measure in measures)])
            again = (repeated.among(part) for part in parts)
            for number, amounts in amounts_by_batch(again, view, measures).items():
                taken[number] = with_duplicates(taken[number], amounts)
        fates = output.fates_by_batch(batch)
        return [
            entry
            for number, received in sorted(taken.items())
            for entry in entries_of(
                number, output.name, received, fates.get(number, Counts()), output.windows_each
            )
        ]


def _intake(logged: LoggedBatch) -> Intake:
    return intake(logged.received, logged.ticks.measures, logged.duplicates, logged.letters)


def _balanced(
    accepted: Accepted, outputs: Sequence[OutputLogic], prepared: Sequence[Prepared]
) -> list[Entry]:
    """The ledger's lines for a batch; a batch that received nothing has none."""
    if accepted.intake is None or not accepted.received.rows:
        return []
    entries = [
        entry
        for output, ready in zip(outputs, prepared, strict=True)
        for entry in entries_of(
            accepted.batch.number, output.name, accepted.intake, ready.counts, output.windows_each
        )
    ]
    require_balance(entries)
    return entries
