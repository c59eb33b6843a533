"""Raw files or a table as a history, before any pipeline exists.

They are read once for the ticks and then again for each pass, some rows at a time. Rows may be in any order: a tick has
the rows that arrived in it, wherever they are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from latecomer.model.array_types import Integers
from latecomer.model.durations import shown_duration
from latecomer.model.lateness.course import Course, RecordedTimeline
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Tumbling
from latecomer.observe.advise.history import ArrivalsPart, Codes, MeasuredAggregate, RecordedArrivals, Subject
from latecomer.observe.advise.raw_files import RawFiles, RawSource, refused
from latecomer.observe.history import SECOND

LOG = logging.getLogger(__name__)

_COMPACT = 1 << 21
MOST_HEADS = 1 << 23
"""So many ticks of partitions are kept; a history with more gets longer ticks."""
_TICKS = [SECOND, 10 * SECOND, 60 * SECOND, 600 * SECOND, 3600 * SECOND]
_MOST_PARTITIONS = 10_000
Summaries = tuple[Integers, Integers, Integers, Integers]
"""Tick, partition, largest event time and number of events."""


class RawHistory(RecordedArrivals):
    """Files of JSON, CSV or Parquet, or a Delta table."""

    kind = "files"

    def __init__(self, source: RawSource) -> None:
        self.source = source
        self.title = source.path
        self.notes = []
        self.files = RawFiles(source)
        self.by = {name: name for name in source.by}
        self.producer = source.producer
        self.every = source.every or SECOND
        self.strategy = self._strategy()
        measured = [MeasuredAggregate("events", "count", None, "count(*)")]
        for column in source.measures:
            measured += [
                MeasuredAggregate(f"{name} of {column}", name, column, f"{name}({column})")
                for name in ("sum", "avg")
            ]
        self.subjects = [
            Subject("windows", Tumbling(f"{source.window}us"), aggregates=tuple(measured), state_bytes=96.0)
        ]
        self._partitions = Codes(_MOST_PARTITIONS)
        self.total = 0
        self.course = self._course()
        self._note()

    def _strategy(self) -> Bounded:
        idle = self.source.idle_after
        return Bounded("0s", idle_after=None if idle is None else f"{idle}us", every=f"{self.every}us")

    def _note(self) -> None:
        counted = self.files
        if counted.unreadable:
            self.notes.append(
                f"rows without a readable {self.source.event_time} or arrival: {counted.unreadable:,}; "
                "they are left out"
            )
        if counted.too_far:
            self.notes.append(
                f"events more than {shown_duration(self.source.max_future)} ahead of their arrival: "
                f"{counted.too_far:,}; "
                "a pipeline would make them dead letters, and they are left out"
            )
        if self.source.every is None and self.every > SECOND:
            self.notes.append(
                f"ticks are {shown_duration(self.every)} long, because the history has too many seconds: events may be "
                "up to that much further behind than shown; --every 1s measures all of them, in more memory"
            )
        self.notes.append(
            "corrections are counted as if every tick were a batch; larger batches make fewer of them"
        )
        counted.quiet = True

    def _course(self) -> Course:
        parts: list[Summaries] = []
        for times, arrivals, rows in self.files.events([]):
            LOG.info("reading arrivals, %s so far", f"{self.total:,}")
            self.total += len(times)
            ones = np.ones(len(times), np.int64)
            parts.append(_reduced(arrivals // self.every, self._codes(rows), times, ones))
            if sum(len(tick) for tick, *_ in parts[1:]) > _COMPACT:
                parts = [self._joined(parts)]
        if not self.total:
            reason = "no row has a readable event time and arrival"
            raise refused("source", reason, self.source.path, "name other columns")
        tick, code, largest, events = self._joined(parts)
        self.strategy = self._strategy()
        ticks, row = np.unique(tick, return_inverse=True)
        names = [name or "" for name in self._partitions.names]
        recorded = RecordedTimeline(
            np.zeros(len(ticks), np.int64), ticks, ticks * self.every, row, code, events, largest, names
        )
        return recorded.course(self.strategy)

    def _joined(self, parts: Sequence[Summaries]) -> Summaries:
        """The summaries of several parts. While there are too many, ticks become longer, unless that is given."""
        tick, code, largest, events = (np.concatenate(each) for each in zip(*parts, strict=True))
        joined = _reduced(tick, code, largest, events)
        while self.source.every is None and self.every < _TICKS[-1] and len(joined[0]) > MOST_HEADS:
            longer = next(each for each in _TICKS if each > self.every)
            joined = _reduced(joined[0] // (longer // self.every), *joined[1:])
            self.every = longer
        return joined

    def _codes(self, rows: pa.RecordBatch) -> Integers:
        if self.source.partition is None:
            self._partitions.names = [""]
            return np.zeros(rows.num_rows, np.int64)
        return self._partitions.of(rows.column(self.source.partition))

    def parts(self, columns: Sequence[str]) -> Iterator[ArrivalsPart]:
        place = {name: nth for nth, name in enumerate(self.course.partitions)}
        order = np.array([place.get(name or "", -1) for name in self._partitions.names], np.int64)
        done = 0
        for times, arrivals, rows in self.files.events(columns):
            LOG.info("reading events, %s of %s", f"{done:,}", f"{self.total:,}")
            done += len(times)
            row = np.searchsorted(self.course.tick, arrivals // self.every)
            yield ArrivalsPart(
                row, times, arrivals - times, order[self._codes(rows)], row, rows.select(list(columns))
            )


def _reduced(tick: Integers, code: Integers, times: Integers, events: Integers) -> Summaries:
    """One summary for each tick and partition, in order."""
    order = np.lexsort((code, tick))
    tick, code, times, events = (each[order] for each in (tick, code, times, events))
    first = np.flatnonzero(np.concatenate([[True], (tick[1:] != tick[:-1]) | (code[1:] != code[:-1])]))
    return tick[first], code[first], np.maximum.reduceat(times, first), np.add.reduceat(events, first)
