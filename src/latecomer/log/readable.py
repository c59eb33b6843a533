"""The event log, read back: as splits for tasks, and as the counts and sums of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from latecomer.config.for_tasks import portable
from latecomer.log.log_task import WrittenSplits
from latecomer.log.logged_events import Logged, LogSplit, OtherTicks, Repeated
from latecomer.log.marks_on_spark import marks_by_spark
from latecomer.log.measures import amounts_of_letter
from latecomer.log.repeated import repeated_in
from latecomer.log.summaries import TickSummaries, added, summarised, sums_of, tick_table
from latecomer.model.simple_predicates import needs_spark
from latecomer.model.sources import BETWEEN
from latecomer.model.strategies import PLAIN, Needs
from latecomer.source.base import NO_CLOCK, Clock
from latecomer.spark.base import Runner, Shared, shared_out, task_count
from latecomer.store.delta.data_files import DataFile, batch_of, batches_of, is_merged
from latecomer.store.delta.table import Table
from latecomer.store.layout import Reading
from latecomer.store.store import Store

LOGGED_BYTES = 1 << 20
"""Less than this of the log is one task: a second one would not be worth its start."""
MOST_TASK_BYTES = 128 << 20


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


class ReadableLog:
    """Reads the log."""

    def __init__(self, runner: Runner, store: Store) -> None:
        self.runner = runner
        self.store = store
        self._files: dict[int, list[DataFile]] = {}
        """The files of the events of a batch that was just committed."""

    # As splits

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

    # As counts and sums

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
            source: (None if source is None else self.reading(source), self.needs(source))
            for source in ([None] if sources is None else sources)
        }
        kernel = partial(_summed_up, Shared((readings, self.store.layout.view, measures)))
        splits = [each for each in self.batch(batch).splits if each.rows]
        results = self.runner.run(f"batch {batch} · ticks", kernel, splits).tasks
        found = WrittenSplits.joined([WrittenSplits(ticks=dict.fromkeys(readings)), *results], measures)
        ticks = self.ticks(batch, found.ticks, dict(found.sums))
        return LoggedBatch(
            received, ticks, self._duplicate_sums(batch, received), self._letter_sums(batch, received)
        )

    def needs(self, source: str | None) -> Needs:
        return PLAIN if source is None else self.store.pipeline.watermark.of_source(source).needs

    def ticks(
        self, batch: int, by_source: Mapping[Any, pa.Table | None], sums: dict[str, Decimal]
    ) -> TickSummaries:
        """Summaries of ticks, for the strategy of each source."""
        every, summaries = self.store.pipeline.watermark.every, list[TickSummaries]()
        for source, ticks in by_source.items():
            needs = self.needs(source)
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

    def _letter_sums(self, batch: int, received: Received) -> dict[str, Decimal]:
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

    def reading(self, source: str) -> Reading:
        """How the rows of a source become events, as tasks are given it."""
        reading = self.store.reading(source)
        log = replace(reading.log, pipeline=portable(reading.log.pipeline))
        return replace(reading, pipeline=portable(reading.pipeline), log=log)


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
