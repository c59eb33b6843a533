"""The numbers that producers give their events and that were seen, as intervals without a gap.

Memory grows with the intervals, not with the numbers. Events that arrive more or less in order make few intervals. What
lies between two intervals is a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from latecomer.model.array_types import Flags, Integers, Micros, Unsigned

UNKNOWN = np.iinfo(np.int64).min
"""The event time of a row that has none."""
PENDING = 1 << 19
"""At least so many rows are merged at once."""


@dataclass(frozen=True)
class Intervals:
    """Numbers without a gap, by producer, with when the first and the last of them happened and arrived.

    In order of producer and number; no two of a producer touch.
    """

    producer: Integers
    first: Integers
    last: Integers
    first_happened: Micros
    first_arrived: Micros
    last_happened: Micros
    last_arrived: Micros
    arrived: Micros
    """When the earliest of them arrived."""

    @classmethod
    def of_rows(cls, producer: Integers, number: Integers, happened: Micros, arrived: Micros) -> Self:
        """Rows in any order, each an interval of its own."""
        return cls(producer, number, number, happened, arrived, happened, arrived, arrived)

    def __len__(self) -> int:
        return len(self.producer)

    @property
    def columns(self) -> tuple[Integers, ...]:
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)


def merged(parts: list[Intervals]) -> Intervals:
    """Joins intervals that touch or overlap. Of several rows with one number, the first to arrive counts."""
    every = Intervals(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))
    if not len(every):
        return every
    order = np.lexsort((every.first_arrived, every.first, every.producer))
    every = Intervals(*(column[order] for column in every.columns))
    furthest = _furthest(every)
    begins = np.flatnonzero(_begins(every, furthest[:-1]))
    last = furthest[np.append(begins[1:], len(every)) - 1]
    return Intervals(
        every.producer[begins],
        every.first[begins],
        every.last[last],
        every.first_happened[begins],
        every.first_arrived[begins],
        every.last_happened[last],
        every.last_arrived[last],
        np.minimum.reduceat(every.arrived, begins),
    )


def _furthest(ordered: Intervals) -> Integers:
    """For each interval, in order, the one with its producer's largest number so far."""
    ranked = np.lexsort((-ordered.last_arrived, ordered.last, ordered.producer))
    rank = np.empty(len(ordered), np.int64)
    rank[ranked] = np.arange(len(ordered))
    # A producer ranks above all before it, so each begins anew.
    return np.asarray(ranked[np.maximum.accumulate(rank)], np.int64)


def _begins(ordered: Intervals, furthest: Integers) -> Flags:
    """Where an interval touches none before it, given how far those reach."""
    reached, first = ordered.last[furthest], ordered.first[1:]
    apart = (first > reached) & (_between(reached, first) > 0)
    return np.concatenate([[True], apart | (ordered.producer[1:] != ordered.producer[furthest])])


def _between(lower: Integers, upper: Integers) -> Unsigned:
    """How many numbers lie between two, the smaller first. Unsigned, so that it cannot overflow."""
    difference: Unsigned = upper.view(np.uint64) - lower.view(np.uint64) - np.uint64(1)
    return difference


class Seen:
    """The numbers seen so far, of every producer."""

    def __init__(self) -> None:
        nothing = np.empty(0, np.int64)
        self._intervals = Intervals(*[nothing] * 8)
        self._pending: list[Intervals] = []
        self._waiting = 0

    def add(self, producer: Integers, number: Integers, happened: Micros, arrived: Micros) -> None:
        """Add rows: the producer of each, its number, and when it happened and arrived."""
        self._pending.append(Intervals.of_rows(producer, number, happened, arrived))
        self._waiting += len(producer)
        # As many rows wait as there are intervals: else all intervals would be sorted for a few rows.
        if self._waiting >= max(PENDING, len(self._intervals)):
            self.intervals()

    def intervals(self) -> Intervals:
        """All numbers seen so far."""
        if self._pending:
            self._intervals = merged([self._intervals, *self._pending])
            self._pending, self._waiting = [], 0
        return self._intervals


@dataclass(frozen=True)
class Gaps:
    """Numbers that were not seen, between two of the same producer that were."""

    producer: Integers
    first: Integers
    last: Integers
    missing: Unsigned
    happened_before: Micros
    happened_after: Micros
    arrived_before: Micros
    arrived_after: Micros
    since: Micros
    """When the first event with a larger number arrived."""


def gaps_between(seen: Intervals) -> Gaps:
    """What lies between the intervals of each producer, in their order."""
    same = np.flatnonzero(seen.producer[1:] == seen.producer[:-1])
    after = same + 1
    return Gaps(
        seen.producer[same],
        seen.last[same] + 1,
        seen.first[after] - 1,
        _between(seen.last[same], seen.first[after]),
        seen.last_happened[same],
        seen.first_happened[after],
        seen.last_arrived[same],
        seen.first_arrived[after],
        _earliest_from(seen)[after],
    )


def _earliest_from(seen: Intervals) -> Micros:
    """For each interval, when the first of its numbers or of larger ones of its producer arrived."""
    # From the last producer on, the latest arrival first.
    ranked = np.lexsort((-seen.arrived, -seen.producer))
    rank = np.empty(len(seen), np.int64)
    rank[ranked] = np.arange(len(seen))
    return np.asarray(seen.arrived[ranked[np.maximum.accumulate(rank[::-1])]][::-1], np.int64)
