"""A task of the log: splits of a source → decoded, in envelopes, sorted into lanes, in files.

It reads a chunk at a time, so that memory does not grow with the splits. Files have names of this attempt. Only those
that a task returns are ever committed: files of an attempt that failed, or ran beside another one, are in no commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.duplicates import Unlogged
from latecomer.log.envelope import Enveloped, Given, enveloped
from latecomer.log.known_ids import KnownIds
from latecomer.log.measures import letter_amounts
from latecomer.log.private_columns import RAW, REASON, UNIQUE, LogLane
from latecomer.log.summaries import added, joined_ticks, sums_of, tick_table
from latecomer.model.array_types import Unsigned
from latecomer.model.strategies import Needs
from latecomer.source.base import NO_CLOCK, Chunk, Clock, Source, Split, summed
from latecomer.spark.base import Shared
from latecomer.store.files import Location, new_token, sync, write_table
from latecomer.store.layout import DEAD_LETTERS, Reading
from latecomer.store.private_columns import LANE

if TYPE_CHECKING:
    from latecomer.source.letters import RecordLetters

FLUSH_BYTES = 256 << 20
"""If more bytes of a lane are held, they are written."""
Folders = Mapping[LogLane, Location]
"""Where the files of each lane are written, in one attempt at a batch."""


def lane_folders(events: Location, duplicates: Location, letters: Location) -> Folders:
    """The folders of all lanes; those of events are in one."""
    own = {lane: events / f"{LANE}={lane}" for lane in (LogLane.EVENTS, LogLane.BEHIND)}
    return {**own, LogLane.DUPLICATES: duplicates, LogLane.DEAD_LETTERS: letters}


@dataclass(frozen=True)
class LogPlan:
    """How the rows of a source are logged: the same for every batch."""

    source: Source
    reading: Reading
    needs: Needs
    """What the strategy needs to know about a tick."""
    measures: Mapping[str, str]
    """Those of the ledger, and their types."""


@dataclass(frozen=True)
class LogTask:
    """What one task reads, and where it writes."""

    nth: int
    splits: Sequence[Split]
    given: Given
    folders: Folders
    known: KnownIds | None = None
    """The ids that the log holds, where events have ids."""


@dataclass(frozen=True)
class WrittenSplits:
    """What was written of some splits, and what the driver learns about them."""

    rows: int = 0
    """How many rows were read."""
    skipped: int = 0
    """How many records the source leaves out."""
    clock: Clock = NO_CLOCK
    """Where the arrival times of the rows come from."""
    ticks: Mapping[str | None, pa.Table | None] = field(default_factory=dict)
    """By source; None stands for all, where strategies do not matter."""
    sums: Mapping[str, Decimal] = field(default_factory=dict)
    """The sum of the events in each measure."""
    duplicate_sums: Mapping[str, Decimal] = field(default_factory=dict)
    letter_sums: Mapping[str, Decimal] = field(default_factory=dict)
    """The sum of each measure as far as dead letters show it."""
    hashes: Unsigned | None = None
    """The hashes of the events' ids, in order."""
    long_lines: Mapping[str, int] = field(default_factory=dict)
    """File → how many of its lines are too long."""
    files: Mapping[LogLane, Sequence[Location]] = field(default_factory=dict)

    def __getstate__(self) -> dict[str, Any]:
        # With many partitions there are nearly as many ticks as events, and results go through the JVM.
        packed = {source: None if each is None else _packed(each) for source, each in self.ticks.items()}
        return {**self.__dict__, "ticks": packed}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ticks = {
            source: None if each is None else pa.ipc.open_stream(each).read_all()
            for source, each in state["ticks"].items()
        }
        self.__dict__.update(state, ticks=ticks)

    @classmethod
    def joined(cls, parts: Sequence[WrittenSplits], measures: Iterable[str]) -> WrittenSplits:
        """All of several parts."""
        names = list(measures)
        return cls(
            sum(each.rows for each in parts),
            sum(each.skipped for each in parts),
            reduce(or_, (each.clock for each in parts), NO_CLOCK),
            {
                source: joined_ticks(each.ticks.get(source) for each in parts)
                for source in dict.fromkeys(source for each in parts for source in each.ticks)
            },
            added((each.sums for each in parts), names),
            added((each.duplicate_sums for each in parts), names),
            added((each.letter_sums for each in parts), names),
            next((each.hashes for each in parts if each.hashes is not None), None),
            summed(each.long_lines for each in parts),
            {
                lane: [file for each in parts for file in each.files.get(lane, ())]
                for lane in dict.fromkeys(lane for each in parts for lane in each.files)
            },
        )


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def write_split(shared: Shared[LogPlan], task: LogTask) -> WrittenSplits:
    """Log some splits of a source into the lanes. Where events have ids, they are held in memory until all have been
    read."""
    plan, given, lanes = shared.value, task.given, _Lanes(task)
    parts, held, landed = list[WrittenSplits](), list[pa.Table](), dict[str, int]()
    for chunk in _chunks(task.splits, plan):
        found = given.kept(enveloped(chunk.rows, plan.reading, given))
        parts.append(_received(chunk, found, plan, given, lanes))
        if task.known is None:
            parts.append(_logged(found.events, plan, given, lanes))
        elif found.events.num_rows:
            held.append(found.events)
            landed |= dict.fromkeys(found.events.column("origin").unique().to_pylist(), chunk.landed)
    if held:
        events = pa.concat_tables(held, promote_options="default")
        split = Unlogged(events)
        is_duplicate = split.duplicates(lambda _: landed, task.known)
        again = events.filter(pa.array(is_duplicate))
        lanes.write(LogLane.DUPLICATES, again)
        sums = sums_of(again, plan.reading.log.view, plan.measures)
        hashes = split.hashes[~is_duplicate[split.rows]]
        parts.append(WrittenSplits(duplicate_sums=sums, hashes=hashes))
        parts.append(_logged(events.filter(pa.array(~is_duplicate)), plan, given, lanes))
    return WrittenSplits.joined([*parts, WrittenSplits(files=lanes.closed())], plan.measures)


def _chunks(splits: Sequence[Split], plan: LogPlan) -> Iterator[Chunk]:
    """The rows of splits; all at once with `every: event`."""
    chunks = plan.source.read(splits)
    if plan.reading.pipeline.watermark.every != "event":
        yield from chunks
    elif listed := list(chunks):
        yield Chunk.joined(listed)


def _received(chunk: Chunk, found: Enveloped, plan: LogPlan, given: Given, lanes: _Lanes) -> WrittenSplits:
    """Write the dead letters of a chunk, and sum up what was read."""
    dead = letter_rows(found.letters, chunk.letters)
    lanes.write(LogLane.DEAD_LETTERS, dead)
    return WrittenSplits(
        found.events.num_rows + found.letters.num_rows,
        chunk.skipped if given.until is None else 0,
        chunk.clock,
        letter_sums=letter_amounts(dead, plan.reading, plan.measures),
        long_lines=chunk.long_lines,
    )


def _logged(events: pa.Table, plan: LogPlan, given: Given, lanes: _Lanes) -> WrittenSplits:
    """Write events to their lanes: EVENTS, or BEHIND for those behind the watermark."""
    behind = np.asarray(events.column("event_time").cast(pa.int64())) < given.watermark
    for lane, which in ((LogLane.EVENTS, ~behind), (LogLane.BEHIND, behind)):
        if which.any():
            lanes.write(lane, events if which.all() else events.filter(pa.array(which)))
    return summed_up(events, plan)


def summed_up(events: pa.Table, plan: LogPlan) -> WrittenSplits:
    """What the driver learns about logged events."""
    return WrittenSplits(
        ticks={plan.reading.source: tick_table(events, plan.reading, plan.needs)},
        sums=sums_of(events, plan.reading.log.view, plan.measures),
    )


def letter_rows(dead: pa.Table, letters: RecordLetters) -> pa.Table:
    """Dead letters as their table has them: as text, as bytes, and what is wrong with each."""
    where = (dead.column(name).to_pylist() for name in (RAW, REASON, "origin", "position"))
    texts = [letters.shown(*place) for place in zip(*where, strict=True)]
    made = {
        name: pa.array([row[place] for row in texts], DEAD_LETTERS.field(name).type)
        for place, name in enumerate(("raw", "raw_bytes", "detail"))
    }
    rest = [name for name in DEAD_LETTERS.names if name not in made]
    same = {name: dead.column(REASON if name == "reason" else name) for name in rest}
    return pa.table({**same, **made}).select(DEAD_LETTERS.names).cast(DEAD_LETTERS)


class _Lanes:
    """The files of one attempt at a task, lane by lane."""

    def __init__(self, task: LogTask) -> None:
        self._task = task
        self._token = new_token()
        self._held: dict[LogLane, list[pa.Table]] = {}
        self._size: dict[LogLane, int] = {}
        self._files: dict[LogLane, list[Location]] = {}

    def write(self, lane: LogLane, rows: pa.Table) -> None:
        """Take some rows of a lane."""
        if not rows.num_rows:
            return
        self._held.setdefault(lane, []).append(rows)
        self._size[lane] = self._size.get(lane, 0) + rows.nbytes
        if self._size[lane] > FLUSH_BYTES:
            self._flush(lane)

    def closed(self) -> dict[LogLane, list[Location]]:
        """Every file, on the disk."""
        for lane in list(self._held):
            self._flush(lane)
        return self._files

    def _flush(self, lane: LogLane) -> None:
        held, self._size[lane] = self._held.pop(lane), 0
        files = self._files.setdefault(lane, [])
        name = f"part-{self._task.nth:05d}-{self._token}-{len(files)}.parquet"
        # A column such as the unknown fields may be in some chunks only.
        rows = pa.concat_tables(held, promote_options="default")
        files.append(write_table(rows, self._task.folders[lane] / name, unique=UNIQUE))
        sync(files[-1])


# Of what waits at a source: nothing is written

Spans = Mapping[str, tuple[int, int]]
"""When the first and the last event of each partition came."""


def arrival_spans(plan: Shared[LogPlan], splits: Sequence[Split]) -> tuple[Spans, Mapping[str, int]]:
    """The spans of some splits, and file → how many of its lines are too long."""
    joined: Spans = {}
    long: Mapping[str, int] = {}
    reading = plan.value.reading
    for chunk in plan.value.source.read(splits):
        events = enveloped(chunk.rows, reading, Given(0, 0)).events
        came = pa.table(
            {
                "partition": pc.fill_null(events.column("source_partition"), ""),
                "came": events.column("arrival_time").cast(pa.int64()),
            }
        )
        spans = came.group_by("partition", use_threads=False).aggregate([("came", "min"), ("came", "max")])
        joined = joined_spans(
            [joined, *({row["partition"]: (row["came_min"], row["came_max"])} for row in spans.to_pylist())]
        )
        long = summed([long, chunk.long_lines])
    return joined, long


def joined_spans(parts: Iterable[Spans]) -> dict[str, tuple[int, int]]:
    """The spans of several parts together."""
    joined: dict[str, tuple[int, int]] = {}
    for name, (first, last) in (item for part in parts for item in part.items()):
        before = joined.get(name, (first, last))
        joined[name] = min(first, before[0]), max(last, before[1])
    return joined
