"""The event log: everything received, written once, before anything is computed from it.

Tasks write the files (`log/log_task.py`); the driver commits them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TypeVar

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
from latecomer.log.private_columns import LogLane
from latecomer.log.readable import MOST_TASK_BYTES, LoggedBatch, ReadableLog, Received
from latecomer.log.task_results import Attempt, numbered, without_repeated
from latecomer.model.source_order import Waiting
from latecomer.model.sources import partition_of
from latecomer.model.timeline import Timeline
from latecomer.source.base import BatchPart, Clock, FollowedSource, Slice, Source, Split, parts_of, summed
from latecomer.source.choose import sources_of
from latecomer.source.decode.framing import UnknownSchemas
from latecomer.source.decode.retrying import with_retries
from latecomer.source.found_files import FileSlice, UnreadableFiles
from latecomer.source.staging import Staging
from latecomer.spark.base import Runner, Shared, shared_out, task_count
from latecomer.store.delta.data_files import DataFile
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, new_token, remove_all
from latecomer.store.store import CLOCKS, TOMBSTONES, Store
from latecomer.store.unknown_fields import NONE_SEEN, unknown_seen

_Result = TypeVar("_Result")
TASK_BYTES = 4 << 20
"""Less than this of a source is one task: a second one would not be worth its files."""
_LANES = (LogLane.DEAD_LETTERS, LogLane.DUPLICATES, LogLane.EVENTS)
"""In the order in which they are committed: events come last."""


class EventLog(ReadableLog):
    """Writes the log."""

    def __init__(self, runner: Runner, store: Store, sources: Mapping[str, Source] | None = None) -> None:
        super().__init__(runner, store)
        self.sources = sources or sources_of(store.pipeline, store.columns)
        self._plans: dict[str, Shared[LogPlan]] = {}
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
            carried, reading = self.sources[source].portable(), self.reading(source)
            self._plans[source] = Shared(LogPlan(carried, reading, self.needs(source), self.store.measures()))
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
        ticks = self.ticks(batch, written.ticks, dict(written.sums))
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
