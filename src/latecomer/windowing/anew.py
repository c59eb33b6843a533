"""The log computed anew, split by split, for what is asked after publication. Two kernels, each called in a task:

events that meet a fate, in the windows that are asked for → one aggregation, and dead letters of those that fail
events → how many met which fate, batch by batch
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from latecomer.log.logged import Logged, LogSplit
from latecomer.log.timeline.watermarks import NothingLate, Timeline
from latecomer.model.verdicts import Fate
from latecomer.spark.base import Runner, Shared
from latecomer.store.files import Location, new_token, write_table
from latecomer.store.layout import EventLayout, PaneLayout
from latecomer.windowing.failing import failed_letters
from latecomer.windowing.fates import CODES, Counts, Periods
from latecomer.windowing.judge import Flags, Judged, Micros, in_parts, judged
from latecomer.windowing.merge import Merger
from latecomer.windowing.seen import event_tables, stored_columns
from latecomer.windowing.tally import Sums, as_counts, by_period, fate_sums

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class WindowChoice:
    """Which windows are computed anew."""

    since: int
    until: int
    watermark: int
    """Windows that end at or before this are closed; the others are the pipeline's."""
    after: int | None = None
    """Where the output means something else from here on: windows that end after this are computed anew as well, as
    late events may reach them, and so are those still open."""

    def closed(self, start: Micros, end: Micros) -> Flags:
        """Whether a window is closed and to be computed anew."""
        wanted = (start >= self.since) & (start < self.until)
        if self.after is not None:
            wanted |= end > self.after
        return wanted & (end <= self.watermark)

    def computes(self, start: Micros, end: Micros) -> Flags:
        """Whether a window is to be computed anew, or is open and will mean something else."""
        found = self.closed(start, end)
        return found | (end > self.watermark) if self.after is not None else found


@dataclass(frozen=True)
class Anew:
    """What is computed of the log's events."""

    panes: PaneLayout
    """The aggregates that are wanted, and their keys."""
    measures: Mapping[str, str]
    periods: Periods
    """The policies that events are judged under."""
    last: int
    """The last batch whose events are meant."""
    timeline: Timeline = field(default_factory=NothingLate)
    fate: Fate = Fate.ON_TIME
    """Events that meet this are aggregated; by a timeline on which nothing is late, all that `where` keeps are on
    time."""
    windows: WindowChoice | None = None
    """All of them, unless said."""
    letters: Location | None = None
    """Where events of these windows that fail are written, as dead letters; nowhere, unless said."""

    @property
    def layout(self) -> EventLayout:
        return self.panes.events

    @cached_property
    def merger(self) -> Merger:
        return Merger(self.panes, self.measures)

    def events(self, logged: Logged, wanted: Sequence[str]) -> Iterator[pa.Table]:
        """The events with what it takes to judge them, and the columns that are wanted."""
        outputs = [under for _, under in self.periods]
        columns = stored_columns(self.layout, outputs, wanted)
        if self.letters is not None:
            columns = list(dict.fromkeys([*columns, *self.layout.schema.names]))
        return event_tables(logged, columns, outputs, self.layout)

    def aggregated(self, runner: Runner, what: str, logged: Logged) -> pa.Table | None:
        """START, END, keys, values and states of every window; None where there is none."""
        return self.with_letters(runner, what, logged)[0]

    def with_letters(
        self, runner: Runner, what: str, logged: Logged
    ) -> tuple[pa.Table | None, list[Location]]:
        """The same, and the files of dead letters."""
        parts = _spread(runner, what, _aggregated, self, logged)
        found, letters = (
            [each for each, _ in parts if each is not None],
            [file for _, files in parts for file in files],
        )
        if len(found) < 2:
            return found[0] if found else None, letters
        return self.merger.merge([self.merger.again(each) for each in found]), letters

    def counted(self, runner: Runner, what: str, logged: Logged) -> dict[int, Counts]:
        """For each batch, how many events met which fate, and how much of each measure."""
        sums = Sums.joined(_spread(runner, what, _counted, self, logged))
        return as_counts(sums, list(self.measures))


@dataclass(frozen=True)
class _Part:
    """A split of the log, and who counts the rows that were read of it: nobody, in another process."""

    split: LogSplit
    on_read: Callable[[int], None] | None

    def __reduce__(self) -> tuple[type[_Part], tuple[LogSplit, None]]:
        return _Part, (self.split, None)


def _spread(
    runner: Runner,
    what: str,
    kernel: Callable[[Shared[Anew], _Part], _Result],
    anew: Anew,
    logged: Logged,
) -> list[_Result]:
    parts = [_Part(split, logged.on_read) for split in logged.splits if split.files]
    return runner.run(what, partial(kernel, Shared(anew)), parts).tasks


def _aggregated(shared: Shared[Anew], part: _Part) -> tuple[pa.Table | None, list[Location]]:
    letters: list[Location] = []
    chosen = _chosen(shared.value, Logged([part.split], part.on_read), letters)
    return shared.value.merger.merge_parts(chosen), letters


def _chosen(anew: Anew, logged: Logged, letters: list[Location]) -> Iterator[Judged]:
    """The events that are aggregated, each as if it had been on time; those that fail are written."""
    wanted = anew.merger.columns
    for events in anew.events(logged, wanted):
        for under, some in by_period(events, anew.periods, anew.last):
            for few in in_parts(some, under.window):
                found = judged(few, anew.layout, under, anew.timeline, wanted)
                asked = np.ones(len(found), bool)
                if anew.windows is not None:
                    asked = anew.windows.computes(found.start, found.end)
                failed = asked & (found.fate == CODES[Fate.FAILED])
                if anew.letters is not None and failed.any():
                    rows = failed_letters(few.take(pa.array(found.nth[failed])), anew.layout, under)
                    letters.append(write_table(rows, anew.letters / f"part-{new_token()}.parquet"))
                yield only_on_time(found, asked & (found.fate == CODES[anew.fate]))


def only_on_time(events: Judged, chosen: Flags) -> Judged:
    """Some events, as if they had been on time."""
    found = events.only(chosen)
    return replace(found, fate=np.full(len(found), CODES[Fate.ON_TIME], np.int8))


def _counted(shared: Shared[Anew], part: _Part) -> Sums:
    anew = shared.value
    events = anew.events(Logged([part.split], part.on_read), list(anew.measures))
    return fate_sums(events, anew.layout, list(anew.measures), anew.periods, anew.timeline, anew.last)
