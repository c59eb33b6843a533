"""Tick summaries of many partitions, in columns.

`Timeline` calls the strategy for each summary. Where the strategy follows the largest event time, its result is plain
arithmetic. This module computes it for all summaries of a tick at once, so that ten thousand partitions cost little
more than eight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from latecomer.model.array_types import Integers
from latecomer.model.marks import Marks, PartitionMark
from latecomer.model.strategies import TickSummary
from latecomer.model.verdicts import BEGIN_OF_TIME


@dataclass(frozen=True, eq=False)
class SummaryColumns(Sequence[TickSummary]):
    """One summary for each tick and partition, in that order. A `TickSummary` is made when an item is read."""

    every: int
    names: Sequence[str]
    """The partitions, in order."""
    tick: Integers
    nth: Integers
    """The number of the partition in `names`."""
    events: Integers
    latest: Integers
    """The largest event time."""

    @classmethod
    def of(
        cls,
        every: int,
        partitions: Sequence[str],
        tick: Integers,
        nth: Integers,
        events: Integers,
        latest: Integers,
    ) -> SummaryColumns:
        """From columns in any order; `nth` is the number of the partition in `partitions`, which may be unsorted."""
        names = sorted(partitions)
        places = {name: place for place, name in enumerate(names)}
        nth = np.array([places[name] for name in partitions], np.int64)[nth]
        order = np.lexsort((nth, tick))
        return cls(every, names, tick[order], nth[order], events[order], latest[order])

    def __len__(self) -> int:
        return len(self.tick)

    @overload
    def __getitem__(self, place: int) -> TickSummary: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[TickSummary]: ...
    def __getitem__(self, place: int | slice) -> TickSummary | Sequence[TickSummary]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        tick, name = int(self.tick[place]), self.names[int(self.nth[place])]
        return TickSummary(tick, tick * self.every, name, int(self.events[place]), int(self.latest[place]))

    @cached_property
    def bounds(self) -> list[int]:
        """The place where each tick begins, and the end of the last one."""
        begins = np.flatnonzero(np.diff(self.tick)) + 1
        return [0, *begins.tolist(), len(self)] if len(self) else [0]

    def before(self, moment: int) -> Iterator[TickSummary]:
        """The summaries of ticks that begin before a moment."""
        return iter(self[: int(np.searchsorted(self.tick * self.every, moment))])


class Moving:
    """The partitions of summaries in columns, and how their largest event times move their marks."""

    def __init__(
        self,
        summaries: SummaryColumns,
        marks: Marks,
        lags: Integers,
        known: Callable[[str, int, int], PartitionMark],
    ) -> None:
        """`known` makes the timeline's entry for a partition from its name, largest event time and `seen_at`."""
        self.summaries = summaries
        self.marks = marks
        self._lags = lags
        self._known = known
        self._places = np.array([marks.place(name) for name in summaries.names], np.int64)
        self._newest = np.full(len(summaries.names), BEGIN_OF_TIME, np.int64)
        self._seen_at = np.full(len(summaries.names), BEGIN_OF_TIME, np.int64)
        self._heard = np.zeros(len(summaries.names), bool)

    def put(self, nth: int, newest: int | None, seen_at: int) -> None:
        """Set what was known about a partition before."""
        self._newest[nth] = BEGIN_OF_TIME if newest is None else newest
        self._seen_at[nth] = seen_at

    def settle(self, begin: int, end: int, over: int) -> None:
        """Apply the summaries from `begin` to `end`, of a tick that ends at `over`."""
        nth = self.summaries.nth[begin:end]
        self._newest[nth] = np.maximum(self._newest[nth], self.summaries.latest[begin:end])
        self._seen_at[nth] = np.maximum(self._seen_at[nth], over)
        self._heard[nth] = True
        new = nth[self._places[nth] < 0]
        if len(new):
            self.marks.add([self._known(*each) for each in self._rows(new)])
            self._places[new] = [self.marks.place(self.summaries.names[each]) for each in new]
        marks = np.maximum(self._newest[nth] - self._lags[nth], BEGIN_OF_TIME)
        self.marks.move_all(self._places[nth], marks, self._seen_at[nth])

    def heard(self) -> list[tuple[str, int, int]]:
        """The partitions that had events, with their largest event times and `seen_at`."""
        return self._rows(np.flatnonzero(self._heard))

    def _rows(self, nth: npt.NDArray[np.intp]) -> list[tuple[str, int, int]]:
        names = [self.summaries.names[each] for each in nth]
        return list(zip(names, self._newest[nth].tolist(), self._seen_at[nth].tolist(), strict=True))
