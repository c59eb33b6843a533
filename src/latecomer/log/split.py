"""`log_split`: one split of a source → decoded, in envelopes, sorted out into lanes; and a summary of it. A kernel.

It goes through the split a chunk at a time, so that memory does not grow with it. Where the rows go is the matter of
whoever calls it (`log/writing.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from operator import or_
from typing import Protocol

import numpy as np
import pyarrow as pa

from latecomer.log.columns import RAW, REASON, Lane
from latecomer.log.envelope import Given, enveloped
from latecomer.log.measures import letter_amounts
from latecomer.log.summaries import added, joined_ticks, sums_of, tick_table
from latecomer.model.strategies import Needs
from latecomer.source.base import NO_CLOCK, Chunk, Clock, Letters, Source, Split
from latecomer.store.layout import DEAD_LETTERS, Reading


@dataclass(frozen=True)
class LogPlan:
    """How the rows of a source are logged: the same for every batch."""

    source: Source
    reading: Reading
    needs: Needs
    """What the strategy asks to know of a tick."""
    measures: Mapping[str, str]
    """Those of the ledger, and their types."""


class LaneWriter(Protocol):
    """Where the rows of lanes go."""

    def write(self, lane: Lane, rows: pa.Table) -> None:
        """Take some rows of a lane."""


@dataclass(frozen=True)
class SplitSummary:
    """What the driver is told of splits that were logged."""

    rows: int = 0
    """How many rows were read."""
    skipped: int = 0
    """How many records the source leaves out."""
    clock: Clock = NO_CLOCK
    """What said when the rows came."""
    counts: Mapping[Lane, int] = field(default_factory=dict)
    ticks: pa.Table | None = None
    sums: Mapping[str, Decimal] = field(default_factory=dict)
    """What the events come to in each measure."""
    letter_sums: Mapping[str, Decimal] = field(default_factory=dict)
    """What can be read of each measure in the dead letters."""

    @classmethod
    def joined(cls, parts: Sequence[SplitSummary], measures: Iterable[str]) -> SplitSummary:
        """The summary of several."""
        names = list(measures)
        return cls(
            sum(each.rows for each in parts),
            sum(each.skipped for each in parts),
            reduce(or_, (each.clock for each in parts), NO_CLOCK),
            {lane: sum(each.counts.get(lane, 0) for each in parts) for lane in Lane},
            joined_ticks(each.ticks for each in parts if each.ticks is not None),
            added((each.sums for each in parts), names),
            added((each.letter_sums for each in parts), names),
        )


def log_split(splits: Sequence[Split], plan: LogPlan, given: Given, lanes: LaneWriter) -> SplitSummary:
    """Log some splits of a source; the lanes take the rows."""
    parts = [_logged(chunk, plan, given, lanes) for chunk in _chunks(splits, plan)]
    return SplitSummary.joined(parts, plan.measures)


def _chunks(splits: Sequence[Split], plan: LogPlan) -> Iterator[Chunk]:
    """The rows of splits; all at once where ticks are counted through the batch."""
    found = plan.source.read(splits)
    if plan.reading.pipeline.watermark.every != "event":
        yield from found
    elif every := list(found):
        yield Chunk.joined(every)


def _logged(chunk: Chunk, plan: LogPlan, given: Given, lanes: LaneWriter) -> SplitSummary:
    reading, measures = plan.reading, plan.measures
    found = enveloped(chunk.rows, reading, given)
    events, dead = found.events, filed(found.letters, chunk.letters)
    behind = pa.array(found.behind)
    counts = {Lane.EVENTS: int(np.count_nonzero(~found.behind)), Lane.BEHIND: int(found.behind.sum())}
    for lane, count in counts.items():
        if count:
            rows = (
                events
                if count == events.num_rows
                else events.filter(behind if lane is Lane.BEHIND else pa.array(~found.behind))
            )
            lanes.write(lane, rows)
    if dead.num_rows:
        lanes.write(Lane.DEAD_LETTERS, dead)
    view = reading.log.view
    return SplitSummary(
        chunk.rows.num_rows,
        chunk.skipped,
        chunk.clock,
        {**counts, Lane.DEAD_LETTERS: dead.num_rows},
        tick_table(events, reading, plan.needs),
        sums_of(events, view, measures),
        letter_amounts(dead, reading, measures),
    )


def filed(dead: pa.Table, letters: Letters) -> pa.Table:
    """Dead letters as their table has them: text for every reader, the bytes behind it, and what was wrong."""
    where = (dead.column(name).to_pylist() for name in (RAW, REASON, "origin", "position"))
    told = [letters.filed(*place) for place in zip(*where, strict=True)]
    made = {
        name: pa.array([row[place] for row in told], DEAD_LETTERS.field(name).type)
        for place, name in enumerate(("raw", "raw_bytes", "detail"))
    }
    columns = {
        name: dead.column(REASON if name == "reason" else name)
        for name in DEAD_LETTERS.names
        if name not in made
    }
    return pa.table({name: {**columns, **made}[name] for name in DEAD_LETTERS.names}).cast(DEAD_LETTERS)
