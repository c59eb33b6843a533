"""The event log: everything received, written once, before anything is computed from it.

Tasks write the files (`log/log_task.py`); the driver commits them, and reads the log back as splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.for_tasks import portable
from latecomer.log.envelope import Given
from latecomer.log.ids import IdIndex
from latecomer.log.known_ids import KnownIds, remembered_since
from latecomer.log.log_task import (
    LogPlan,
    LogTask,
    WrittenSplits,
    arrival_spans,
    joined_spans,
    lane_folders,
    write_split,
)
from latecomer.log.logged_events import Logged, LogSplit, OtherTicks, Repeated
from latecomer.log.marks_on_spark import marks_by_spark
from latecomer.log.measures import amounts_of_letter
from latecomer.log.private_columns import LogLane
from latecomer.log.repeated import repeated_in
from latecomer.log.summaries import TickSummaries, added, summarised, sums_of, tick_table
from latecomer.log.task_results import Attempt, numbered, without_repeated
from latecomer.model.simple_predicates import needs_spark
from latecomer.model.source_order import Waiting
from latecomer.model.sources import BETWEEN, partition_of
from latecomer.model.strategies import PLAIN, Needs
from latecomer.model.timeline import Timeline
from latecomer.source.base import (
    NO_CLOCK,
    BatchPart,
    Clock,
    FollowedSource,
    Slice,
    Source,
    Split,
    parts_of,
    summed,
)
from latecomer.source.choose import sources_of
from latecomer.source.decode.framing import UnknownSchemas
from latecomer.source.decode.retrying import with_retries
from latecomer.source.found_files import FileSlice, UnreadableFiles
from latecomer.source.staging import Staging
from latecomer.spark.base import Runner, Shared, shared_out, task_count
from latecomer.store.delta.data_files import DataFile, batch_of, batches_of, is_merged
from latecomer.store.delta.table import Table
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, new_token, remove_all
from latecomer.store.layout import Reading
from latecomer.store.store import CLOCKS, TOMBSTONES, Store
from latecomer.store.unknown_fields import NONE_SEEN, unknown_seen

_Result = TypeVar("_Result")
TASK_BYTES = 4 << 20
"""Less than this is one task: a second one would not be worth its files."""
LOGGED_BYTES = 1 << 20
"""The same for files of the log."""
MOST_TASK_BYTES = 128 << 20
_LANES = (LogLane.DEAD_LETTERS, LogLane.DUPLICATES, LogLane.EVENTS)
"""In the order in which they are committed: events come last."""


@dataclass(frozen=True)
class Received:
    """How many rows of a batch were read, and where they went."""

    rows: int
    events: int
    duplicates: int
    dead_letters: int
    clocks: Clock = NO_CLOCK
    """Where the arrival times come from; unknown for a batch that was on the timeline already."""


NOTHING_RECEIVED = Received(0, 0, 0, 0)


@dataclass(frozen=True)
class LoggedBatch:
    """A batch that is in the log: its rows, and the sums for the timeline and the ledger."""

    received: Received
    ticks: TickSummaries
    duplicates: dict[str, Decimal]
    """The sum of the duplicates in each measure."""
    letters: dict[str, Decimal]
    """The sum of each measure as far as dead letters show it."""


class EventLog:
    """Writes the log, and reads it back."""

    def __init__(self, runner: Runner, store: Store, sources: Mapping[str, Source] | None = None) -> None:
        self.runner = runner
        self.store = store
        self.sources = sources or sources_of(store.pipeline, store.columns)
        self._plans: dict[str, Shared[LogPlan]] = {}
        self._files: dict[int, list[DataFile]] = {}
        self._ids = IdIndex(store.root / "ids", store.events)
        self.unknown = NONE_SEEN
        """The unknown fields that this run has kept."""

    def close(self) -> None:
        """Close the sources."""
        for source in self.sources.values():
            source.close()

    # Written

    def write(self, batch: int, slice_: Slice, timeline: Timeline) -> LoggedBatch:
        """Log a batch: events, duplicates and dead letters of a slice of one source or of several. A batch that an
        earlier attempt has logged is only counted."""
        if self.store.events.holds(batch):
            return self.recount(batch, slice_.sources, Clock(max(self.store.events.reached_by(CLOCKS), 0)))
        written = with_retries(partial(self._write, batch, slice_, timeline))
        logged = self._commit_lanes(batch, written, _LANES)
        self.runner.work.rows += logged.received.rows
        return logged

    def _write(self, batch: int, slice_: Slice, timeline: Timeline) -> WrittenSplits:
        """Write all lanes of a batch to files that no commit names yet."""
        with ThreadPoolExecutor(1, "latecomer-ids") as pool:
            known_ids = pool.submit(self._known_ids, timeline)
            attempts = [self._run(batch, part, timeline, known_ids) for part in parts_of(slice_)]
        if known_ids.result() is not None:
            attempts = without_repeated(attempts, slice_.landings)
        if self.store.pipeline.watermark.every == "event":
            attempts = numbered(attempts, timeline.last_tick or 0)
        failpoint("events.written", batch)
        # Each source has ticks, even if it brought no event.
        none = [WrittenSplits(ticks={attempt.source: None}) for attempt in attempts]
        every = [each for attempt in attempts for each in attempt.written]
        return WrittenSplits.joined([*none, *every], self.store.measures())

    def _known_ids(self, timeline: Timeline) -> KnownIds | None:
        """The ids whose duplicates could still be counted; None if events have no ids."""
        if self.store.pipeline.event.id is None:
            return None
        since = remembered_since(timeline, self.store.pipeline.outputs.values())
        self._ids.catch_up(since)
        return self._ids.known(since)

    def _run(
        self, batch: int, part: BatchPart, timeline: Timeline, known_ids: Future[KnownIds | None]
    ) -> Attempt:
        """Have tasks write a slice, or a part of it."""
        newest, last_tick = part.slice.newest, timeline.last_tick or 0
        given = Given(batch, timeline.watermark, last_tick, newest, part.after, part.until)

        def write(splits: Sequence[Split]) -> Attempt:
            folder, plan = self.store.events.new_folder(batch), self._plan(part.slice.source)
            others = (self.store.duplicates, self.store.dead_letters)
            folders = lane_folders(folder, *(table.root / "data" / folder.name for table in others))
            groups, ids = self._shared_out(splits), known_ids.result()
            tasks = [LogTask(nth, group, given, folders, ids) for nth, group in enumerate(groups)]
            try:
                written = self.runner.run(f"batch {batch} · log", partial(write_split, plan), tasks).tasks
                self.sources[part.slice.source].require_few(summed(each.long_lines for each in written))
            except (UnreadableFiles, UnknownSchemas):
                remove_all(folder)
                raise
            return Attempt(part.slice.source, plan.value, folders, written)

        return self._read(part.slice, write)

    def waiting(self, slice_: Slice, more: Iterable[str] = ()) -> Waiting:
        """When the events of a slice of a source came; the partitions `more` have further events after it. The slice is
        read for that, unless the source knows the times."""
        source = self.sources[slice_.source]
        span = source.arrivals(slice_) if isinstance(source, FollowedSource) else None

        def look(splits: Sequence[Split]) -> Waiting:
            size, spans = sum(split.size for split in splits), {slice_.source: span} if span else None
            if spans is None:
                kernel = partial(arrival_spans, self._plan(slice_.source))
                results = self.runner.run("arrivals of what waits", kernel, self._shared_out(splits)).tasks
                source.require_few(summed(long for _, long in results))
                spans = joined_spans(each for each, _ in results)
            return Waiting(spans, size, frozenset(partition_of(slice_.source, each) for each in more))

        return with_retries(partial(self._read, slice_, look))

    def _read(self, slice_: Slice, do: Callable[[Sequence[Split]], _Result]) -> _Result:
        """Do something with the splits of a slice. If a file is unreadable, it becomes one dead letter and all is done
        again; likewise if a schema has to be learned first."""
        source = self.sources[slice_.source]
        source.prepare()
        staging = self._staging()
        try:
            while True:
                try:
                    return do(source.splits(slice_, staging))
                except UnreadableFiles as error:
                    if not isinstance(slice_, FileSlice):
                        raise
                    slice_ = replace(slice_, unreadable={**slice_.unreadable, **error.reasons})
                except UnknownSchemas as error:
                    source.learn(error)
                    self._plans.pop(slice_.source, None)
        finally:
            remove_all(staging.folder)

    def _staging(self) -> Staging:
        return Staging(lambda: self.runner.spark, self.runner, self.store.root / "staging" / new_token())

    def _shared_out(self, splits: Sequence[Split]) -> list[list[Split]]:
        """The splits of each task. With `every: event`, one task reads the whole batch."""
        size = sum(split.size for split in splits)
        counted = self.store.pipeline.watermark.every == "event"
        parts = 1 if counted else task_count(size, TASK_BYTES, MOST_TASK_BYTES, self.runner.cores)
        return shared_out(splits, lambda split: split.size, parts)

    def _plan(self, source: str) -> Shared[LogPlan]:
        """How the rows of a source are logged, as tasks are given it."""
        if source not in self._plans:
            needs = self.store.pipeline.watermark.of_source(source).needs
            reading = self.store.reading(source)
            log = replace(reading.log, pipeline=portable(reading.log.pipeline))
            carried = replace(reading, pipeline=portable(reading.pipeline), log=log)
            plan = LogPlan(self.sources[source].portable(), carried, needs, self.store.measures())
            self._plans[source] = Shared(plan)
        return self._plans[source]

    def _commit_lanes(self, batch: int, written: WrittenSplits, lanes: Sequence[LogLane]) -> LoggedBatch:
        """Make lanes visible, one after the other."""
        counts = {lane: self._commit_lane(batch, lane, written) for lane in lanes}
        received = Received(
            written.rows,
            counts[LogLane.EVENTS],
            counts.get(LogLane.DUPLICATES, 0),
            counts.get(LogLane.DEAD_LETTERS, 0),
            written.clock,
        )
        ticks = self._ticks(batch, written.ticks, dict(written.sums))
        return LoggedBatch(received, ticks, dict(written.duplicate_sums), dict(written.letter_sums))

    def _commit_lane(self, batch: int, lane: LogLane, written: WrittenSplits) -> int:
        """Make a lane visible; gives how many rows it has."""
        tables = {
            LogLane.DEAD_LETTERS: self.store.dead_letters,
            LogLane.DUPLICATES: self.store.duplicates,
            LogLane.EVENTS: self.store.events,
        }
        table, files = tables[lane], [*written.files.get(lane, ())]
        if lane is LogLane.EVENTS:
            files += written.files.get(LogLane.BEHIND, ())
        if lane is not LogLane.EVENTS and not files and not table.exists:
            count = 0
        elif table.holds(batch):
            count = table.rows_of(batch)
        elif lane is LogLane.EVENTS:
            count = sum(file.rows for file in self._commit_events(batch, files, written))
        else:
            count = sum(file.rows for file in table.commit(batch, files))
        failpoint(f"{table.root.name}.committed", batch)
        return count

    def _commit_events(
        self, batch: int, files: Sequence[Location], written: WrittenSplits
    ) -> Sequence[DataFile]:
        """Make the events visible, with how far the other tables are."""
        others = (self.store.dead_letters, self.store.repairs, self.store.duplicates)
        reached = {**self.store.reached(others), CLOCKS: int(written.clock)}
        if written.skipped:
            reached[TOMBSTONES] = self.store.tombstones + written.skipped
        committed = self.store.events.commit(batch, files, reached=reached)
        self._files = {batch: committed}
        if any(source.looks_for_unknown for source in self.sources.values()):
            self.unknown += unknown_seen(self.store, committed)
        return committed

    # Read back

    def written(self, batch: int) -> Sequence[DataFile]:
        """The files of events that this run wrote for its last batch; none of any other."""
        return self._files.get(batch, ())

    def batch(self, batch: int) -> Logged:
        """The events of one batch."""
        files = self._files_of(self.store.events, batch)
        return self._logged(self.store.events, files, batch - 1, batch)

    def everything(self, after: int = -1, through: int | None = None) -> Logged:
        """Every event of the log; only of batches after `after`, and up to `through` if that is given."""
        last = self.store.events.last_batch() if through is None else through
        return self._logged(self.store.events, self.store.events.files(), after, last)

    def of_files(self, files: Sequence[DataFile], last: int, where: pc.Expression | None = None) -> Logged:
        """The events of some files, of batches up to `last`, that fulfil `where`."""
        logged = self._logged(self.store.events, files, -1, last)
        return Logged([replace(split, last=last, where=where) for split in logged.splits])

    def repeated(self, through: int, logged: Logged | None = None) -> Repeated | None:
        """Events delivered again after their ids were forgotten, in batches up to `through`, of all events or of some;
        None if there are none."""
        if self.store.pipeline.event.id is None or through < 0:
            return None
        return repeated_in((logged or self.everything()).splits, through, self.runner)

    def each_once(self, through: int) -> Logged:
        """Every event of batches up to `through`, without repeated ones."""
        return self.without_repeated(self.everything(through=through), through)

    def without_repeated(self, logged: Logged, through: int) -> Logged:
        """Events without repeated ones."""
        repeated = self.repeated(through, logged)
        return logged if repeated is None else logged.without(repeated)

    def _logged(self, table: Table, files: Sequence[DataFile], after: int, last: int) -> Logged:
        """Some batches of some files. Only a merged file may hold other batches."""
        whole = [
            file
            for file in files
            if batches_of(file)[0] > after and batch_of(file) <= last and not is_merged(file)
        ]
        mixed = [file for file in files if file not in whole]
        schema, ticks = self.store.layout.schema, self.other_ticks()
        splits = [
            LogSplit(
                [table.location(file) for file in group],
                sum(file.rows for file in group),
                schema,
                *bounds,
                ticks=ticks,
            )
            for group, bounds in (
                *((each, (-1, None)) for each in self._groups(whole)),
                *((each, (after, last)) for each in self._groups(mixed)),
            )
        ]
        return Logged(splits or [LogSplit([], 0, schema)])

    def _groups(self, files: Sequence[DataFile]) -> list[list[DataFile]]:
        """The files that each task reads."""
        size = sum(file.size for file in files)
        parts = task_count(size, LOGGED_BYTES, MOST_TASK_BYTES, self.runner.cores)
        return shared_out(files, lambda file: file.size, parts)

    def other_ticks(self) -> OtherTicks | None:
        """The ticks to use instead of those in the log; None: those in the log."""
        return None

    def reaches_beyond(self, batch: int) -> bool:
        """Whether the log has any rows of a later batch."""
        tables = (self.store.events, self.store.duplicates, self.store.dead_letters)
        return any(table.last_batch() > batch for table in tables)

    # Counted again

    def recount(
        self, batch: int, sources: Sequence[str] | None = None, clocks: Clock = NO_CLOCK
    ) -> LoggedBatch:
        """What an earlier attempt logged for this batch, from the tables. `sources` are given for a batch that is not
        on the timeline yet: then ticks are summed up for their strategies."""
        tables = (self.store.events, self.store.duplicates, self.store.dead_letters)
        events, duplicates, dead = (table.rows_of(batch) for table in tables)
        received = Received(events + duplicates + dead, events, duplicates, dead, clocks)
        measures = self.store.measures()
        readings: dict[str | None, tuple[Reading | None, Needs]] = {
            source: (None if source is None else self._plan(source).value.reading, self._needs(source))
            for source in ([None] if sources is None else sources)
        }
        kernel = partial(_summed_up, Shared((readings, self.store.layout.view, measures)))
        splits = [each for each in self.batch(batch).splits if each.rows]
        results = self.runner.run(f"batch {batch} · ticks", kernel, splits).tasks
        found = WrittenSplits.joined([WrittenSplits(ticks=dict.fromkeys(readings)), *results], measures)
        ticks = self._ticks(batch, found.ticks, dict(found.sums))
        return LoggedBatch(
            received, ticks, self._duplicate_sums(batch, received), self.letter_sums(batch, received)
        )

    def _needs(self, source: str | None) -> Needs:
        return PLAIN if source is None else self.store.pipeline.watermark.of_source(source).needs

    def _ticks(
        self, batch: int, by_source: Mapping[Any, pa.Table | None], sums: dict[str, Decimal]
    ) -> TickSummaries:
        """Summaries of ticks, for the strategy of each source."""
        every, summaries = self.store.pipeline.watermark.every, list[TickSummaries]()
        for source, ticks in by_source.items():
            needs = self._needs(source)
            if source is not None and ticks is not None:
                reading = self.store.reading(source)
                if needs_spark(needs.where, reading.log.types):
                    paths = self.store.events.paths(self._files_of(self.store.events, batch))
                    ticks = marks_by_spark(self.runner.spark, paths, ticks, reading, needs)
            summaries.append(summarised(ticks, needs, every, sums))
        return summaries[0] if len(summaries) == 1 else TickSummaries.joined(summaries, sums)

    def _duplicate_sums(self, batch: int, received: Received) -> dict[str, Decimal]:
        table, measures = self.store.duplicates, self.store.measures()
        if not received.duplicates:
            return {}
        rows = self._logged(table, self._files_of(table, batch), batch - 1, batch)
        view = self.store.layout.view
        columns = [view[measure] for measure in measures]
        return added((sums_of(part, view, measures) for part in rows.parts(columns)), measures)

    def letter_sums(self, batch: int, received: Received) -> dict[str, Decimal]:
        """The sum of each measure as far as a batch's dead letters show it."""
        measures, table = self.store.measures(), self.store.dead_letters
        if not received.dead_letters or not measures:
            return {}
        files = self._files_of(table, batch)
        rows = table.dataset(files).to_batches(["raw", "source_partition"], filter=pc.field("batch") == batch)
        return added(
            (
                amounts_of_letter(row["raw"], row["source_partition"], self.store.pipeline, list(measures))
                for part in rows
                for row in part.to_pylist()
            ),
            measures,
        )

    def _files_of(self, table: Table, batch: int) -> list[DataFile]:
        if table is self.store.events and batch in self._files:
            return self._files[batch]
        return [file for file in table.files() if batch in batches_of(file)]


def _summed_up(
    plan: Shared[
        tuple[Mapping[str | None, tuple[Reading | None, Needs]], Mapping[str, str], Mapping[str, str]]
    ],
    split: LogSplit,
) -> WrittenSplits:
    """The ticks of some events by source, and the sums of all of them: a task."""
    readings, view, measures = plan.value
    parts = []
    for events in split.tables():
        own = {
            source: events if len(readings) == 1 else _of_source(events, str(source)) for source in readings
        }
        ticks = {source: tick_table(own[source], *needed) for source, needed in readings.items()}
        parts.append(WrittenSplits(ticks=ticks, sums=sums_of(events, view, measures)))
    return WrittenSplits.joined(parts, measures)


def _of_source(events: pa.Table, source: str) -> pa.Table:
    partition = events.column("source_partition")
    own = pc.or_(pc.equal(partition, source), pc.starts_with(partition, f"{source}{BETWEEN}"))
    return events.filter(own)
