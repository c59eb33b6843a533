"""`log_split`: splits of a source → decoded, in envelopes, sorted into lanes; and a summary. A kernel.

It reads a chunk at a time, so that memory does not grow with the splits. The caller decides where the rows go
(`log/writing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from latecomer.log.envelope import Enveloped, Given, enveloped
from latecomer.log.measures import letter_amounts
from latecomer.log.private_columns import RAW, REASON, LogLane
from latecomer.log.summaries import added, joined_ticks, sums_of, tick_table
from latecomer.model.array_types import Flags, Unsigned
from latecomer.model.strategies import Needs
from latecomer.source.base import NO_CLOCK, Chunk, Clock, Source, Split, summed
from latecomer.spark.base import Shared
from latecomer.store.layout import DEAD_LETTERS, Reading

if TYPE_CHECKING:
    from latecomer.source.letters import RecordLetters


@dataclass(frozen=True)
class LogPlan:
    """How the rows of a source are logged: the same for every batch."""

    source: Source
    reading: Reading
    needs: Needs
    """What the strategy needs to know about a tick."""
    measures: Mapping[str, str]
    """Those of the ledger, and their types."""


class LaneWriter(Protocol):
    """Where the rows of lanes go."""

    def write(self, lane: LogLane, rows: pa.Table) -> None:
        """Take some rows of a lane."""


FindDuplicates = Callable[[pa.Table, Mapping[str, int]], tuple[Flags, Unsigned]]
"""Events, and when each origin landed → which events came before, and the hashes of the ids of the others."""


@dataclass(frozen=True)
class SplitSummary:
    """What the driver learns about splits that were logged."""

    rows: int = 0
    """How many rows were read."""
    skipped: int = 0
    """How many records the source leaves out."""
    clock: Clock = NO_CLOCK
    """Where the arrival times of the rows come from."""
    counts: Mapping[LogLane, int] = field(default_factory=dict)
    ticks: pa.Table | None = None
    sums: Mapping[str, Decimal] = field(default_factory=dict)
    """The sum of the events in each measure."""
    duplicate_sums: Mapping[str, Decimal] = field(default_factory=dict)
    letter_sums: Mapping[str, Decimal] = field(default_factory=dict)
    """The sum of each measure as far as dead letters show it."""
    hashes: Unsigned | None = None
    """The hashes of the events' ids, in order."""
    long_lines: Mapping[str, int] = field(default_factory=dict)
    """File → how many of its lines are too long."""

    def __getstate__(self) -> dict[str, Any]:
        # With many partitions there are nearly as many ticks as events, and results go through the JVM.
        return {**self.__dict__, "ticks": None if self.ticks is None else _packed(self.ticks)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        ticks = state["ticks"]
        self.__dict__.update(state, ticks=None if ticks is None else pa.ipc.open_stream(ticks).read_all())

    @classmethod
    def joined(cls, parts: Sequence[SplitSummary], measures: Iterable[str]) -> SplitSummary:
        """The summary of several summaries."""
        names = list(measures)
        return cls(
            sum(each.rows for each in parts),
            sum(each.skipped for each in parts),
            reduce(or_, (each.clock for each in parts), NO_CLOCK),
            {lane: sum(each.counts.get(lane, 0) for each in parts) for lane in LogLane},
            joined_ticks(each.ticks for each in parts if each.ticks is not None),
            added((each.sums for each in parts), names),
            added((each.duplicate_sums for each in parts), names),
            added((each.letter_sums for each in parts), names),
            next((each.hashes for each in parts if each.hashes is not None), None),
            summed(each.long_lines for each in parts),
        )


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def log_split(
    splits: Sequence[Split],
    plan: LogPlan,
    given: Given,
    lanes: LaneWriter,
    find_duplicates: FindDuplicates | None = None,
) -> SplitSummary:
    """Log some splits of a source into the lanes. With `find_duplicates`, events are held in memory until all have been
    read."""
    parts, held, landed = list[SplitSummary](), list[pa.Table](), dict[str, int]()
    for chunk in _chunks(splits, plan):
        found = given.kept(enveloped(chunk.rows, plan.reading, given))
        parts.append(_received(chunk, found, plan, given, lanes))
        if find_duplicates is None:
            parts.append(_logged(found.events, plan, given, lanes))
        elif found.events.num_rows:
            held.append(found.events)
            landed |= dict.fromkeys(found.events.column("origin").unique().to_pylist(), chunk.landed)
    if held and find_duplicates is not None:
        events = pa.concat_tables(held, promote_options="default")
        is_duplicate, hashes = find_duplicates(events, landed)
        parts.append(_duplicates(events.filter(pa.array(is_duplicate)), plan, lanes))
        first = events.filter(pa.array(~is_duplicate))
        parts.append(replace(_logged(first, plan, given, lanes), hashes=hashes))
    return SplitSummary.joined(parts, plan.measures)


def _chunks(splits: Sequence[Split], plan: LogPlan) -> Iterator[Chunk]:
    """The rows of splits; all at once with `every: event`."""
    chunks = plan.source.read(splits)
    if plan.reading.pipeline.watermark.every != "event":
        yield from chunks
    elif listed := list(chunks):
        yield Chunk.joined(listed)


def _received(chunk: Chunk, found: Enveloped, plan: LogPlan, given: Given, lanes: LaneWriter) -> SplitSummary:
    """Write the dead letters of a chunk, and sum up what was read."""
    dead = letter_rows(found.letters, chunk.letters)
    if dead.num_rows:
        lanes.write(LogLane.DEAD_LETTERS, dead)
    return SplitSummary(
        found.events.num_rows + found.letters.num_rows,
        chunk.skipped if given.until is None else 0,
        chunk.clock,
        {LogLane.DEAD_LETTERS: dead.num_rows},
        letter_sums=letter_amounts(dead, plan.reading, plan.measures),
        long_lines=chunk.long_lines,
    )


Spans = Mapping[str, tuple[int, int]]
"""When the first and the last event of each partition came."""


def arrival_spans(plan: Shared[LogPlan], splits: Sequence[Split]) -> tuple[Spans, Mapping[str, int]]:
    """The spans of some splits, and file → how many of its lines are too long: a task that writes nothing."""
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


def _duplicates(events: pa.Table, plan: LogPlan, lanes: LaneWriter) -> SplitSummary:
    if events.num_rows:
        lanes.write(LogLane.DUPLICATES, events)
    sums = sums_of(events, plan.reading.log.view, plan.measures)
    return SplitSummary(counts={LogLane.DUPLICATES: events.num_rows}, duplicate_sums=sums)


def _logged(events: pa.Table, plan: LogPlan, given: Given, lanes: LaneWriter) -> SplitSummary:
    """Write events to their lanes: EVENTS, or BEHIND for those behind the watermark."""
    behind = np.asarray(events.column("event_time").cast(pa.int64())) < given.watermark
    for lane, which in ((LogLane.EVENTS, ~behind), (LogLane.BEHIND, behind)):
        if which.any():
            lanes.write(lane, events if which.all() else events.filter(pa.array(which)))
    return summary_of(events, plan)


def summary_of(events: pa.Table, plan: LogPlan) -> SplitSummary:
    """What the driver learns about logged events."""
    return SplitSummary(
        counts={LogLane.EVENTS: events.num_rows},
        ticks=tick_table(events, plan.reading, plan.needs),
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
