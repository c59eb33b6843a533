"""The watermarks of many partitions in arrays, and tick summaries in columns that move them.

A tick with some of the partitions need not update the others. `Timeline` calls the strategy for each summary; where the
strategy follows the largest event time, its result is plain arithmetic. It is computed here for all summaries of a tick
at once, so that ten thousand partitions cost little more than eight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from latecomer.model.array_types import Flags, Integers
from latecomer.model.strategies import TickSummary
from latecomer.model.verdicts import BEGIN_OF_TIME

_NEVER = (1 << 63) - 1
"""How long a partition is silent before it is idle, if it never is."""


@dataclass(frozen=True)
class PartitionMark:
    """What the timeline knows about a partition.

    `mark` is its own watermark, `seen_at` the end of its last tick with events, `idle_after` the longest silence before
    it is idle; None if it never is.
    """

    name: str
    mark: int
    seen_at: int
    idle_after: int | None


class Marks:
    """The watermark of every partition. Moments are microseconds since the epoch."""

    def __init__(self, known: Iterable[PartitionMark] = ()) -> None:
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._marks = np.empty(0, np.int64)
        self._seen_at = np.empty(0, np.int64)
        self._idle_after = np.empty(0, np.int64)
        self.add(list(known))

    def add(self, known: Sequence[PartitionMark]) -> None:
        first = len(self._names)
        self._names += [each.name for each in known]
        self._places |= {each.name: place for place, each in enumerate(known, first)}
        self._marks = _joined(self._marks, [each.mark for each in known])
        self._seen_at = _joined(self._seen_at, [each.seen_at for each in known])
        patience = (_NEVER if each.idle_after is None else each.idle_after for each in known)
        self._idle_after = _joined(self._idle_after, list(patience))

    def move(self, name: str, mark: int, seen_at: int) -> bool:
        """Update a partition that had events. False if it is not known."""
        place = self._places.get(name)
        if place is None:
            return False
        self._marks[place], self._seen_at[place] = mark, seen_at
        return True

    def place(self, name: str) -> int:
        """The number of a partition for `move_all`; -1 if it is not known."""
        return self._places.get(name, -1)

    def move_all(self, places: Integers, marks: Integers, seen_at: Integers) -> None:
        """Update partitions that had events."""
        self._marks[places], self._seen_at[places] = marks, seen_at

    @property
    def furthest(self) -> int:
        """The mark of the furthest partition, silent or not."""
        return int(self._marks.max())

    def active(self, at: int) -> Active:
        """The marks of the partitions that are not idle at a moment."""
        awake = at - self._seen_at < self._idle_after
        if awake.all():
            return Active(self._marks, self._names, None)
        return Active(self._marks[awake], self._names, np.flatnonzero(awake))


def _joined(before: Integers, more: list[int]) -> Integers:
    return np.concatenate([before, np.array(more, np.int64)])


@dataclass(frozen=True)
class Active:
    """The marks of the partitions that are not idle. They are valid until the next update."""

    marks: Integers
    _names: list[str]
    _places: npt.NDArray[np.intp] | None
    """The numbers of their partitions; None for all partitions."""

    def __bool__(self) -> bool:
        return len(self.marks) > 0

    @property
    def slowest(self) -> int:
        return int(self.marks.min())

    @property
    def furthest(self) -> int:
        return int(self.marks.max())

    def at(self, mark: int) -> list[str]:
        """The partitions with exactly this mark, sorted by name."""
        return sorted(self._named(np.flatnonzero(self.marks == mark)))

    def items(self) -> list[tuple[str, int]]:
        """Each partition and its mark, in the order in which they became known."""
        everyone = np.arange(len(self.marks))
        return list(zip(self._named(everyone), self.marks.tolist(), strict=True))

    def _named(self, nth: npt.NDArray[np.intp]) -> list[str]:
        places = nth if self._places is None else self._places[nth]
        return [self._names[place] for place in places.tolist()]


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


@dataclass(frozen=True, eq=False)
class Moving:
    """The partitions of summaries in columns, and how their largest event times move their marks."""

    summaries: SummaryColumns
    marks: Marks
    lags: Integers
    newest: Integers
    """The largest event time of each partition."""
    seen_at: Integers
    known: Callable[[str, int, int], PartitionMark]
    """Makes the timeline's entry for a partition from its name, largest event time and `seen_at`."""

    @cached_property
    def _places(self) -> Integers:
        return np.array([self.marks.place(name) for name in self.summaries.names], np.int64)

    @cached_property
    def _heard(self) -> Flags:
        return np.zeros(len(self.summaries.names), bool)

    def settle(self, begin: int, end: int, over: int) -> None:
        """Apply the summaries from `begin` to `end`, of a tick that ends at `over`."""
        nth = self.summaries.nth[begin:end]
        self.newest[nth] = np.maximum(self.newest[nth], self.summaries.latest[begin:end])
        self.seen_at[nth] = np.maximum(self.seen_at[nth], over)
        self._heard[nth] = True
        new = nth[self._places[nth] < 0]
        if len(new):
            self.marks.add([self.known(*each) for each in self._rows(new)])
            self._places[new] = [self.marks.place(self.summaries.names[each]) for each in new]
        marks = np.maximum(self.newest[nth] - self.lags[nth], BEGIN_OF_TIME)
        self.marks.move_all(self._places[nth], marks, self.seen_at[nth])

    def heard(self) -> list[tuple[str, int, int]]:
        """The partitions that had events, with their largest event times and `seen_at`."""
        return self._rows(np.flatnonzero(self._heard))

    def _rows(self, nth: npt.NDArray[np.intp]) -> list[tuple[str, int, int]]:
        names = [self.summaries.names[each] for each in nth]
        return list(zip(names, self.newest[nth].tolist(), self.seen_at[nth].tolist(), strict=True))
