"""The event log: everything received, written once, before anything is computed from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property, partial
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from latecomer.errors import SchemaOutage
from latecomer.fast import MOST_READ, MOST_ROWS, Choice, Declined, LeftToSpark, attempted
from latecomer.log.columns import FIRST_TICK, MARK, NEWEST, THIS_BATCH, UNIQUE, WATERMARK_BEFORE, Lane
from latecomer.log.dead_letters import Filing
from latecomer.log.duplicates import Chosen, EventsHere, set_aside
from latecomer.log.envelope import decoded
from latecomer.log.ids import IdIndex
from latecomer.log.in_process import behind, enveloped, found_heads, head_columns, sums_of
from latecomer.log.logged import Logged
from latecomer.log.marks import with_marks
from latecomer.log.measures import measures_in_raw, sum_measures
from latecomer.log.parts import parts_of
from latecomer.model.durations import EARLIEST, to_micros
from latecomer.model.strategies import PLAIN, REACH, Head, Needs
from latecomer.model.timeline import Timeline
from latecomer.model.types import INTEGERS
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.source.base import NO_CLOCK, Clock, Loaded, Read, ReadApart, Rows, Slice, Source, together
from latecomer.source.choose import sources_of
from latecomer.source.columns import LANDED
from latecomer.spark.session import no_rows, own_session
from latecomer.store.columns import LANE
from latecomer.store.failpoints import failpoint
from latecomer.store.files import Location, parquet_files, remove_all, url, write_table
from latecomer.store.sql import ddl, quoted
from latecomer.store.store import CLOCKS, TOMBSTONES, Store
from latecomer.store.table import (
    NOTHING_REACHED,
    DataFile,
    Table,
    batch_of,
    batches_of,
    is_merged,
)
from latecomer.store.unknown import NONE_SEEN, unknown_seen

WITHOUT_DICTIONARY = {f"parquet.enable.dictionary#{column}": "false" for column in UNIQUE}
"""What Spark is told of columns in which hardly a value comes twice."""
_LOW = (1 << 32) - 1
_LANES = (Lane.DEAD_LETTERS, Lane.DUPLICATES, Lane.EVENTS)
"""In the order in which they are committed: events come last."""


@dataclass(frozen=True)
class Received:
    """What a batch brought, as far as the log can tell: rows read, and where they went."""

    rows: int
    events: int
    duplicates: int
    dead_letters: int
    clocks: Clock = NO_CLOCK
    """What said when the rows came; unknown of a batch that was on the timeline already."""


NOTHING = Received(0, 0, 0, 0)


@dataclass(frozen=True)
class Heads:
    """What the ticks of a batch brought, per partition; and the sums that the ledger starts from."""

    heads: Sequence[Head]
    earliest: int
    latest: int
    measures: dict[str, Decimal]


@dataclass(frozen=True)
class _SortedOut:
    """The events of a batch that are logged in this process, and the parts of it that are not."""

    events: pa.Table
    loaded: Sequence[Loaded]
    left: Sequence[tuple[Slice, LeftToSpark]]


class EventLog:
    """Writes the log, and reads it back."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        sources: Mapping[str, Source] | None = None,
        ticks_anew: Callable[[DataFrame], DataFrame] | None = None,
    ) -> None:
        """With `ticks_anew`, events are read with other ticks than they were logged with."""
        self.spark = spark
        self.store = store
        self.sources = sources or sources_of(store.pipeline, store.columns)
        self._ticks_anew = ticks_anew
        self._files: dict[int, list[DataFile]] = {}
        self._tables: dict[int, pa.Table] = {}
        """The events of the last batch, where they were logged in this process."""
        self.choice = Choice()
        """Which way the steps of the log went."""
        self._ids = IdIndex(store.root / "ids", store.events)
        self._caught_up: Future[None] | None = None
        """Once it is done, the index holds what was logged before this batch; None where events have no ids."""
        self._new_ids: Callable[[], pa.Table] | None = None
        """The ids of a batch in which duplicates were found before it was written."""
        self.unknown = NONE_SEEN
        """What this run has kept of fields that are no columns."""

    @cached_property
    def _reading(self) -> SparkSession:
        """The session that reads the sources, with their settings."""
        session = own_session(self.spark)
        for source in self.sources.values():
            for name, value in source.settings.items():
                session.conf.set(name, value)
        return session

    def write(self, batch: int, piece: Slice, timeline: Timeline) -> Received:
        """Log a batch: events, duplicates and dead letters in one pass over a slice of the source."""
        if self.store.events.holds(batch):
            return replace(self.recount(batch), clocks=self._clocks_of_last())
        folder, read = self._written(batch, piece, timeline)
        counts = {lane: self._commit_lane(batch, folder, lane, piece, read) for lane in _LANES}
        return Received(
            read.counted(),
            counts[Lane.EVENTS],
            counts[Lane.DUPLICATES],
            counts[Lane.DEAD_LETTERS],
            read.clocks(),
        )

    def close(self) -> None:
        """Let go of the sources."""
        for source in self.sources.values():
            source.close()

    def _written(self, batch: int, piece: Slice, timeline: Timeline) -> tuple[Location, Read]:
        """All lanes of a batch, in a folder that no commit names, and the rows that were read."""
        self._tables, self._new_ids = {}, None
        if self.store.pipeline.event.id is None:
            folder, read = self._lanes_written(batch, piece, timeline)
        else:
            with ThreadPoolExecutor(1, "latecomer-ids") as pool:
                self._caught_up = pool.submit(self._ids.catch_up, self._remembered_since(timeline))
                folder, read = self._lanes_written(batch, piece, timeline)
                self._caught_up.result()
            if self._new_ids is None:
                self._set_aside_duplicates(folder, piece, timeline)
        failpoint("events.written", batch)
        return folder, read

    def _lanes_written(self, batch: int, piece: Slice, timeline: Timeline) -> tuple[Location, Read]:
        return self.choice.take(
            "log",
            lambda: self._write_lanes_here(batch, piece, timeline),
            lambda: self._write_lanes(batch, piece, timeline),
        )

    def _commit_lane(self, batch: int, folder: Location, lane: Lane, piece: Slice, read: Read) -> int:
        """Make a lane visible; tells how many rows it has."""
        tables = {
            Lane.DEAD_LETTERS: self.store.dead_letters,
            Lane.DUPLICATES: self.store.duplicates,
            Lane.EVENTS: self.store.events,
        }
        table = tables[lane]
        count = self._commit(batch, table, self._lane_files(folder, lane, table, piece), read)
        failpoint(f"{table.root.name}.committed", batch)
        return count

    def batch(self, batch: int) -> Logged:
        """The events of one batch. What is asked for later is asked in another thread: it needs no table of Delta's."""
        files, known = self._files_of(self.store.events, batch), self._tables.get(batch)
        return Logged(
            lambda: _only(self._read(files), files, batch),
            lambda: self._load_events(files, batch) if known is None else known,
        )

    def _require_ticks_as_logged(self) -> None:
        if self._ticks_anew is not None:
            raise Declined("ticks of another length than those of the log")

    def _load_events(self, files: Sequence[DataFile], batch: int) -> pa.Table:
        self._require_ticks_as_logged()
        return self._load(self.store.events, files, batch)

    def _load(self, table: Table, files: Sequence[DataFile], batch: int) -> pa.Table:
        """The rows of a batch in this process, of some files of a table."""
        if sum(file.rows for file in files) > MOST_ROWS or sum(file.size for file in files) > MOST_READ:
            raise Declined("a large batch")
        rows = table.dataset(files, self.store.layout.schema).to_table()
        return rows.filter(pc.field("batch") == batch) if any(map(is_merged, files)) else rows

    def _as_stored(self, events: pa.Table) -> pa.Table:
        """Events as they will be read: with the columns that they do not have."""
        schema, there = self.store.layout.schema, set(events.column_names)
        columns = [
            events.column(each.name) if each.name in there else pa.nulls(events.num_rows, each.type)
            for each in schema
        ]
        return pa.table(columns, schema=schema)

    def written(self, batch: int) -> Sequence[DataFile]:
        """The files of events that this run wrote for its last batch; none of any other."""
        return self._files.get(batch, ())

    def aside(self, table: Table, batch: int) -> DataFrame:
        """A batch's duplicates or dead letters."""
        files = self._files_of(table, batch)
        if not files:
            return no_rows(self.spark, {"raw": "string"})
        return _only(self.spark.read.parquet(*table.paths(files)), files, batch)

    def sums_aside(self, batch: int, received: Received) -> tuple[dict[str, Decimal], dict[str, Decimal]]:
        """The measures of a batch's duplicates and dead letters."""
        measures, view = self.store.measures(), self.store.layout.view
        duplicates: dict[str, Decimal] = {}
        dead_letters: dict[str, Decimal] = {}
        if received.duplicates:
            stored = {measure: quoted(view[measure]) for measure in measures}
            duplicates = self.choice.take(
                "duplicates",
                lambda: sums_of(self._duplicates(batch), view, measures),
                lambda: sum_measures(self.aside(self.store.duplicates, batch), stored),
            )
        if received.dead_letters and measures:
            in_raw = measures_in_raw(self.store.pipeline, measures)
            dead_letters = sum_measures(self.aside(self.store.dead_letters, batch), in_raw)
        return duplicates, dead_letters

    def _duplicates(self, batch: int) -> pa.Table:
        table = self.store.duplicates
        return self._load(table, self._files_of(table, batch), batch)

    def reaches_beyond(self, batch: int) -> bool:
        """Whether anything of a batch after this one is in the log."""
        tables = (self.store.events, self.store.duplicates, self.store.dead_letters)
        return any(table.last_batch() > batch for table in tables)

    def everything(self, after: int = -1) -> Logged:
        """Every event ever logged; of batches after one alone, if that is said."""
        files, last = self.store.events.files(), self.store.events.last_batch()
        # A file of several batches may go on where a past ends.
        beyond = any(batch_of(file) > last for file in files)

        def read() -> DataFrame:
            events = self._read(files)
            events = events.where(f"batch <= {last}") if beyond else events
            return events.where(f"batch > {after}") if after >= 0 else events

        def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
            self._require_ticks_as_logged()
            return parts_of(
                self.store.events, files, columns, self.store.layout.schema, after=after, last=last
            )

        return Logged(read, parts=parts)

    def span(self, logged: Logged) -> tuple[int, int] | None:
        """The earliest and the latest event time; None where there is no event."""
        return self.choice.take("span", lambda: _span_here(logged), lambda: _span_on_spark(logged.frame))

    def of_files(self, files: Sequence[DataFile]) -> DataFrame:
        """The events in some of the log's files."""
        return self._read(files)

    def heads(self, logged: Logged, source: str | None = None) -> Heads:
        """What each tick brought from each partition: one small row for each, on the driver.

        It is told as much as the strategy of the events' source needs, and no more than that where no strategy is to
        hear of them. Where one needs a histogram there is a row for each of its bars.
        """
        watermark = self.store.pipeline.watermark
        needs = PLAIN if source is None else watermark.of_source(source).needs
        return self.choice.take(
            "heads",
            lambda: self._heads_here(logged, needs),
            lambda: self._heads_on_spark(logged, source, needs),
        )

    def _heads_here(self, logged: Logged, needs: Needs) -> Heads:
        if needs != PLAIN:
            raise Declined("a strategy that needs more than the latest event times")
        every, store = self.store.pipeline.watermark.every, self.store
        sums = sums_of(logged.table, store.layout.view, store.measures())
        return _found(found_heads(logged.table), needs, every, sums)

    def _heads_on_spark(self, logged: Logged, source: str | None, needs: Needs) -> Heads:
        every, events = self.store.pipeline.watermark.every, logged.frame
        if source is not None and needs.marks:
            events = with_marks(events, self.store.reading(source), needs)
        bar = _bar(needs, every)
        aggregates = {
            "latest": "max(event_time)",
            "earliest": "min(event_time)",
            "events": "count(1)",
            **({"arrived": "max(arrival_time)"} if every == "event" else {}),
            **({"marked": f"max({MARK})"} if needs.marks else {}),
            **self._measure_sums(),
        }
        found = (
            events.groupBy("tick", "source_partition", *([F.expr(bar).alias("bar")] if bar else []))
            .agg(*(F.expr(f"{sql} as {name}") for name, sql in aggregates.items()))
            .toArrow()
        )
        sums = {measure: _whole(found, index) for index, measure in enumerate(self.store.measures())}
        return _found(found, needs, every, sums)

    def _measure_sums(self) -> dict[str, str]:
        """The measures' sums. Whole numbers are summed in two halves: exact, and without the cost of
        decimals that are long enough for any sum."""
        sums = {}
        for index, (measure, kind) in enumerate(self.store.measures().items()):
            column = quoted(self.store.layout.view[measure])
            if kind in INTEGERS:
                number = f"cast({column} as bigint)"
                sums[f"m{index}"] = f"sum({number} & {_LOW}L)"
                sums[f"h{index}"] = f"sum(shiftright({number}, 32))"
            else:
                sums[f"m{index}"] = f"sum(cast({column} as decimal(38,6)))"
        return sums

    def _read(self, files: Sequence[DataFile]) -> DataFrame:
        columns = self.store.layout.stored
        if not files:
            return no_rows(self.spark, columns)
        events = self.spark.read.schema(ddl(columns)).parquet(*self.store.events.paths(files))
        return self._ticks_anew(events) if self._ticks_anew else events

    def _write_lanes_here(self, batch: int, piece: Slice, timeline: Timeline) -> tuple[Location, Read]:
        """Likewise in this process, where every row is an event. Of several files, Spark writes those of which that is
        not so."""
        here = self._sorted_out(batch, piece, timeline)
        if here.left:  # duplicates are found once all files are written
            parts, reasons = zip(*here.left, strict=True)
            self.choice.leave("log", reasons[0])
            folder, rest = self._write_lanes(batch, piece.of_parts(parts), timeline)
            self._write_events(here.events, folder, timeline)
            return folder, ReadApart([*here.loaded, rest])
        folder, new, new_ids = self.store.events.new_folder(batch), None, None
        if self._caught_up is not None:
            self._caught_up.result()
            found = EventsHere(here.events)
            again = found.again(piece, self._ids, self._remembered_since(timeline))
            self._write_duplicates(here.events.filter(again), folder)
            new, new_ids = ~again, found.new_ids(~again)
        self._tables = {batch: self._as_stored(self._write_events(here.events, folder, timeline, new))}
        self._new_ids = new_ids
        return folder, ReadApart(here.loaded)

    def _write_duplicates(self, duplicates: pa.Table, folder: Location) -> None:
        """Write duplicates beside the folder of the other lanes."""
        if duplicates.num_rows:
            with self.store.duplicates.explained():
                write_table(duplicates, self._aside(folder) / "part.parquet", unique=UNIQUE)

    def _write_events(
        self, events: pa.Table, folder: Location, timeline: Timeline, new: Chosen | None = None
    ) -> pa.Table:
        """Write the events that are new, or all of them, into the lanes of a folder; tells them lane by lane."""
        late = np.asarray(behind(events, timeline.watermark))
        taken = np.ones(len(late), bool) if new is None else new
        lanes = {Lane.EVENTS: events.filter(taken & ~late), Lane.BEHIND: events.filter(taken & late)}
        with self.store.events.explained():
            for lane, rows in lanes.items():
                if rows.num_rows:
                    write_table(rows, folder / f"{LANE}={lane}" / "part.parquet", unique=UNIQUE)
        return pa.concat_tables(lanes.values())

    def _sorted_out(self, batch: int, piece: Slice, timeline: Timeline) -> _SortedOut:
        """What of a slice can be logged in this process; `Declined` where nothing can."""
        if piece.size > MOST_READ:
            raise Declined("a large batch")
        reading, first = self.store.reading(piece.source), timeline.last_tick or 0

        def events_of(*loaded: Loaded) -> pa.Table:
            return enveloped(together(each.rows for each in loaded), reading, batch, first)

        whole = self.store.pipeline.watermark.every == "event"  # ticks are counted through the batch
        parts = [piece] if whole else piece.parts() or [piece]
        found = [(part, attempted(partial(self.sources[piece.source].load, part))) for part in parts]
        loaded = [(part, each) for part, each in found if isinstance(each, Loaded)]
        left = [(part, each) for part, each in found if isinstance(each, LeftToSpark)]
        if sum(each.counted() for _, each in loaded) > MOST_ROWS:
            raise Declined("a large batch")
        events = attempted(lambda: events_of(*(each for _, each in loaded))) if loaded else None
        if isinstance(events, LeftToSpark) and len(loaded) > 1:
            tried = [(part, each, attempted(partial(events_of, each))) for part, each in loaded]
            left += [(part, events) for part, _, events in tried if isinstance(events, LeftToSpark)]
            loaded = [(part, each) for part, each, events in tried if not isinstance(events, LeftToSpark)]
            events = events_of(*(each for _, each in loaded)) if loaded else None
        if events is None or isinstance(events, LeftToSpark):
            raise Declined(left[0][1].reason if events is None else events.reason)
        return _SortedOut(events, [each for _, each in loaded], left)

    def _write_lanes(self, batch: int, piece: Slice, timeline: Timeline) -> tuple[Location, Read]:
        """Write all lanes into a folder that no commit names; tells it, and the rows that were read."""
        folder: Location | None = None

        def write(rows: Rows) -> tuple[Location, Rows]:
            nonlocal folder
            if folder is not None:  # of an attempt that did not read them right
                remove_all(folder)
            folder = self.store.events.new_folder(batch)
            reading, params = self.store.reading(piece.source), self._params(batch, piece, timeline)
            events = decoded(rows.frame, reading, params)
            if rows.tasks is not None:
                events = events.coalesce(rows.tasks)
            events.drop(LANDED).write.options(**WITHOUT_DICTIONARY).partitionBy(LANE).parquet(url(folder))
            return folder, rows

        try:
            return self.sources[piece.source].read(self._reading, piece, write)
        except SchemaOutage:  # all of it is written again
            if folder is not None:
                remove_all(folder)
            raise

    def _params(self, batch: int, piece: Slice, timeline: Timeline) -> DataFrame:
        row = {
            THIS_BATCH: batch,
            FIRST_TICK: timeline.last_tick or 0,
            WATERMARK_BEFORE: timeline.watermark,
            NEWEST: piece.newest,
        }
        return self._reading.createDataFrame(
            pa.table({name: pa.array([value], pa.int64()) for name, value in row.items()})
        )

    def _remembered_since(self, timeline: Timeline) -> int:
        """Ids of events before this are forgotten: a duplicate could do no harm, as far as lateness reaches."""
        outputs = self.store.pipeline.outputs.values()
        reach = max(output.allowed_lateness + output.window.reach for output in outputs)
        return max(min(timeline.watermark, timeline.newest_event_time) - reach, EARLIEST)

    def _set_aside_duplicates(self, folder: Location, piece: Slice, timeline: Timeline) -> None:
        lanes = [
            file for lane in (Lane.EVENTS, Lane.BEHIND) for file in parquet_files(folder / f"{LANE}={lane}")
        ]
        set_aside(lanes, self._aside(folder), piece, self._ids, self._remembered_since(timeline))

    def _aside(self, folder: Location) -> Location:
        """Where the duplicates of a batch are, whose other lanes are in a folder."""
        return self.store.duplicates.root / "data" / folder.name

    def _lane_files(self, folder: Location, lane: str, table: Table, piece: Slice) -> list[Location]:
        """A lane's files, below the table they belong to: that of the events, or a folder of the same name."""
        home = table.root / "data" / folder.name
        if lane == Lane.DUPLICATES:
            return parquet_files(home)
        lanes = (lane, Lane.BEHIND) if lane == Lane.EVENTS else (lane,)
        found = [file for each in lanes for file in parquet_files(folder / f"{LANE}={each}")]
        if lane == Lane.EVENTS:
            return found
        filing = Filing(self.sources[piece.source].letters(piece))
        return [filing.file(written, home / written.name) for written in found]

    def _commit(self, batch: int, table: Table, files: Sequence[Location], read: Read) -> int:
        if not files and not table.exists and table is not self.store.events:
            return 0
        if table.holds(batch):
            return self._rows_of(table, batch)
        reached = NOTHING_REACHED
        if table is self.store.events:
            reached = {
                **self.store.reached((self.store.dead_letters, self.store.repairs, self.store.duplicates)),
                CLOCKS: int(read.clocks()),
            }
            if skipped := read.skipped():
                reached[TOMBSTONES] = self.store.tombstones + skipped
        committed = table.commit(batch, files, reached=reached)
        if table is self.store.events:
            self._files = {batch: committed}
            if self._new_ids is not None:
                self._ids.hand_over(batch, self._new_ids)
            if any(source.looks_for_unknown for source in self.sources.values()):
                self.unknown += unknown_seen(self.store, committed)
        return sum(file.rows for file in committed)

    def _clocks_of_last(self) -> Clock:
        """What said when the rows of the log's last batch came."""
        return Clock(max(self.store.events.reached_by(CLOCKS), 0))

    def recount(self, batch: int) -> Received:
        """What an earlier attempt logged for this batch."""
        tables = (self.store.events, self.store.duplicates, self.store.dead_letters)
        events, duplicates, dead_letters = (self._rows_of(table, batch) for table in tables)
        return Received(events + duplicates + dead_letters, events, duplicates, dead_letters)

    def _rows_of(self, table: Table, batch: int) -> int:
        return table.rows_of(batch)

    def _files_of(self, table: Table, batch: int) -> list[DataFile]:
        if table is self.store.events and batch in self._files:
            return self._files[batch]
        return [file for file in table.files() if batch in batches_of(file)]


def _span_here(logged: Logged) -> tuple[int, int] | None:
    bounds = [pc.min_max(part.column("event_time").cast(pa.int64())) for part in logged.parts(["event_time"])]
    found = [(each["min"].as_py(), each["max"].as_py()) for each in bounds]
    return (min(low for low, _ in found), max(high for _, high in found)) if found else None


def _span_on_spark(events: DataFrame) -> tuple[int, int] | None:
    low, high = (F.unix_micros(extreme("event_time")) for extreme in (F.min, F.max))
    found = events.agg(low.alias("low"), high.alias("high")).toArrow().to_pylist()[0]
    return None if found["low"] is None else (found["low"], found["high"])


def _only(rows: DataFrame, files: Sequence[DataFile], batch: int) -> DataFrame:
    """The rows of one batch: only files that came of several have any others."""
    return rows.where(F.col("batch") == batch) if any(map(is_merged, files)) else rows


def _found(found: pa.Table, needs: Needs, every: int | Literal["event"], sums: dict[str, Decimal]) -> Heads:
    """The heads of a batch, of a row for each tick and partition; where they are plain, in columns."""
    if not found.num_rows:
        return Heads([], END_OF_TIME, BEGIN_OF_TIME, sums)
    earliest, latest = (found.column(name).cast(pa.int64()) for name in ("earliest", "latest"))
    heads: Sequence[Head]
    if needs == PLAIN and every != "event" and not found.column("source_partition").null_count:
        heads = head_columns(found, every)
    else:
        heads = _heads(found.to_pylist(), needs, every)
    return Heads(heads, pc.min(earliest).as_py(), pc.max(latest).as_py(), sums)


def _bar(needs: Needs, every: int | str) -> str | None:
    """The bar of the histogram that an event belongs to; a tick of one event needs no histogram."""
    if needs.resolution is None or every == "event":
        return None
    step, time, at = f"{needs.resolution}L", "unix_micros(event_time)", f"tick * {every}L"
    return (
        f"greatest(({time} - pmod({time}, {step})) div {step}, "
        f"({at} - pmod({at}, {step})) div {step} - {REACH}L) * {step}"
    )


def _heads(found: Sequence[dict[str, Any]], needs: Needs, every: int | Literal["event"]) -> list[Head]:
    heads = [
        Head(
            row["tick"],
            to_micros(row["arrived"]) if every == "event" else row["tick"] * every,
            row["source_partition"] or "",
            row["events"],
            to_micros(row["latest"]),
        )
        for row in found
    ]
    if needs == PLAIN:
        return heads
    asked = [_as_asked(head, row, needs, every) for head, row in zip(heads, found, strict=True)]
    by_place = attrgetter("tick", "at", "partition")
    return [
        Head.joined(tick, at, list(group))
        for (tick, at, _), group in groupby(sorted(asked, key=by_place), by_place)
    ]


def _as_asked(head: Head, row: dict[str, Any], needs: Needs, every: int | str) -> Head:
    times = {}
    if needs.resolution is not None:
        times = {head.max_event_time if every == "event" else row["bar"]: head.events}
    return replace(head, marked=row["marked"] if needs.marks else None, times=times)


def _whole(found: pa.Table, index: int) -> Decimal:
    """A measure's sum from its halves."""
    low, high = (
        found.column(name).to_pylist() if name in found.column_names else ()
        for name in (f"m{index}", f"h{index}")
    )
    return sum((Decimal(each or 0) for each in low), Decimal(0)) + (sum(each or 0 for each in high) << 32)
