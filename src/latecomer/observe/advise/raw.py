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
from latecomer.model.lateness.course import Course, Recorded
from latecomer.model.strategies import Bounded
from latecomer.model.windows import Tumbling
from latecomer.observe.advise.history import Codes, History, Measured, Part, Subject
from latecomer.observe.advise.raw_files import RawFiles, RawSource, refused
from latecomer.observe.history import SECOND

LOG = logging.getLogger(__name__)

_COMPACT = 1 << 21
MOST_HEADS = 1 << 23
"""So many ticks of partitions are kept; a history with more gets longer ticks."""
_TICKS = [SECOND, 10 * SECOND, 60 * SECOND, 600 * SECOND, 3600 * SECOND]
_MOST_PARTITIONS = 10_000


class RawHistory(History):
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
        measured = [Measured("events", "count", None, "count(*)")]
        for column in source.measures:
            measured += [
                Measured(f"{name} of {column}", name, column, f"{name}({column})") for name in ("sum", "avg")
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
        summaries = _Summaries()
        for times, arrivals, rows in self.files.events([]):
            LOG.info("reading arrivals, %s so far", f"{self.total:,}")
            self.total += len(times)
            summaries.add(arrivals // self.every, self._codes(rows), times)
            self._lengthen(summaries)
        if not self.total:
            raise refused(
                "source",
                "no row has a readable event time and arrival",
                self.source.path,
                "name other columns",
            )
        self._lengthen(summaries)
        self.strategy = self._strategy()
        tick, code, largest, events = summaries.settled()
        ticks, row = np.unique(tick, return_inverse=True)
        names = [name or "" for name in self._partitions.names]
        recorded = Recorded(
            np.zeros(len(ticks), np.int64), ticks, ticks * self.every, row, code, events, largest, names
        )
        return recorded.course(self.strategy)

    def _lengthen(self, summaries: _Summaries) -> None:
        """Make ticks longer while there are too many, unless their length is given."""
        while self.source.every is None and self.every < _TICKS[-1] and summaries.too_many():
            longer = next(each for each in _TICKS if each > self.every)
            summaries.lengthen(longer // self.every)
            self.every = longer

    def _codes(self, rows: pa.RecordBatch) -> Integers:
        if self.source.partition is None:
            self._partitions.names = [""]
            return np.zeros(rows.num_rows, np.int64)
        return self._partitions.of(rows.column(self.source.partition))

    def parts(self, columns: Sequence[str]) -> Iterator[Part]:
        place = {name: nth for nth, name in enumerate(self.course.partitions)}
        order = np.array([place.get(name or "", -1) for name in self._partitions.names], np.int64)
        done = 0
        for times, arrivals, rows in self.files.events(columns):
            LOG.info("reading events, %s of %s", f"{done:,}", f"{self.total:,}")
            done += len(times)
            row = np.searchsorted(self.course.tick, arrivals // self.every)
            yield Part(
                row, times, arrivals - times, order[self._codes(rows)], row, rows.select(list(columns))
            )


class _Summaries:
    """The largest event time and the number of events of each tick and partition."""

    def __init__(self) -> None:
        self._rows: list[tuple[Integers, Integers, Integers, Integers]] = []
        self._held = 0

    def add(self, tick: Integers, code: Integers, times: Integers) -> None:
        self._rows.append(_reduced(tick, code, times, np.ones(len(tick), np.int64)))
        self._held += len(self._rows[-1][0])
        if self._held > _COMPACT:
            self._rows = [self.settled()]
            self._held = min(len(self._rows[0][0]), _COMPACT // 2)

    def too_many(self) -> bool:
        if sum(len(each[0]) for each in self._rows) <= MOST_HEADS:
            return False
        self._rows = [self.settled()]
        return len(self._rows[0][0]) > MOST_HEADS

    def lengthen(self, times: int) -> None:
        """Join so many ticks into one."""
        tick, code, largest, events = self.settled()
        self._rows = [_reduced(tick // times, code, largest, events)]

    def settled(self) -> tuple[Integers, Integers, Integers, Integers]:
        tick, code, largest, events = (np.concatenate(each) for each in zip(*self._rows, strict=True))
        return _reduced(tick, code, largest, events)


def _reduced(
    tick: Integers, code: Integers, times: Integers, events: Integers
) -> tuple[Integers, Integers, Integers, Integers]:
    if not len(tick):
        return tick, code, times, events
    order = np.lexsort((code, tick))
    tick, code, times, events = (each[order] for each in (tick, code, times, events))
    first = np.flatnonzero(np.concatenate([[True], (tick[1:] != tick[:-1]) | (code[1:] != code[:-1])]))
    return tick[first], code[first], np.maximum.reduceat(times, first), np.add.reduceat(events, first)
