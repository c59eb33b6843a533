"""Which of the numbers that producers give their events were seen: intervals without a gap.

A number takes no room of its own, only the interval that it is in. What arrives more or less in order is a few
intervals however much it is, and what lies between them are the gaps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]
Moments = npt.NDArray[np.int64]
UNKNOWN = np.iinfo(np.int64).min
"""The event time of a row that has none."""
PENDING = 1 << 19
"""So many rows are taken in at once."""


@dataclass(frozen=True)
class Intervals:
    """Numbers without a gap, by producer, with when the first and the last of them happened and arrived.

    In order of producer and number; no two of a producer touch.
    """

    producer: Whole
    first: Whole
    last: Whole
    first_happened: Moments
    first_arrived: Moments
    last_happened: Moments
    last_arrived: Moments
    arrived: Moments
    """When the earliest of them arrived."""

    @classmethod
    def of_rows(cls, producer: Whole, number: Whole, happened: Moments, arrived: Moments) -> Self:
        """Rows as they came: each is an interval of its own, in no order."""
        return cls(producer, number, number, happened, arrived, happened, arrived, arrived)

    def __len__(self) -> int:
        return len(self.producer)

    @property
    def columns(self) -> tuple[Whole, ...]:
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)


def merged(parts: list[Intervals]) -> Intervals:
    """Intervals that touch or overlap as one. Of several rows with one number the first to arrive speaks for it."""
    found = Intervals(*map(np.concatenate, zip(*(part.columns for part in parts), strict=True)))
    if not len(found):
        return found
    order = np.lexsort((found.first_arrived, found.first, found.producer))
    found = Intervals(*(column[order] for column in found.columns))
    furthest = _furthest(found)
    begins = np.flatnonzero(_begins(found, furthest[:-1]))
    last = furthest[np.append(begins[1:], len(found)) - 1]
    return Intervals(
        found.producer[begins],
        found.first[begins],
        found.last[last],
        found.first_happened[begins],
        found.first_arrived[begins],
        found.last_happened[last],
        found.last_arrived[last],
        np.minimum.reduceat(found.arrived, begins),
    )


def _furthest(found: Intervals) -> Whole:
    """For each interval, in order, the one with its producer's largest number so far."""
    ranked = np.lexsort((-found.last_arrived, found.last, found.producer))
    rank = np.empty(len(found), np.int64)
    rank[ranked] = np.arange(len(found))
    # A producer ranks above all before it, so each begins anew.
    return np.asarray(ranked[np.maximum.accumulate(rank)], np.int64)


def _begins(found: Intervals, furthest: Whole) -> npt.NDArray[np.bool_]:
    """Where an interval touches none before it, given how far those reach."""
    reached, first = found.last[furthest], found.first[1:]
    apart = (first > reached) & (_between(reached, first) > 0)
    return np.concatenate([[True], apart | (found.producer[1:] != found.producer[furthest])])


def _between(lower: Whole, upper: Whole) -> npt.NDArray[np.uint64]:
    """How many numbers lie between two, of which the first is the smaller; never beyond what a number can hold."""
    difference: npt.NDArray[np.uint64] = upper.view(np.uint64) - lower.view(np.uint64) - np.uint64(1)
    return difference


class Seen:
    """The numbers seen so far, of every producer."""

    def __init__(self) -> None:
        nothing = np.empty(0, np.int64)
        self._intervals = Intervals(*[nothing] * 8)
        self._pending: list[Intervals] = []
        self._waiting = 0

    def add(self, producer: Whole, number: Whole, happened: Moments, arrived: Moments) -> None:
        """Take rows in: which producer, its number, and when it happened and arrived."""
        self._pending.append(Intervals.of_rows(producer, number, happened, arrived))
        self._waiting += len(producer)
        # Not before as many wait as there are: else many intervals would be sorted for the sake of a few rows.
        if self._waiting >= max(PENDING, len(self._intervals)):
            self.intervals()

    def intervals(self) -> Intervals:
        """What was seen."""
        if self._pending:
            self._intervals = merged([self._intervals, *self._pending])
            self._pending, self._waiting = [], 0
        return self._intervals


@dataclass(frozen=True)
class Gaps:
    """Numbers that were not seen, between two of the same producer that were."""

    producer: Whole
    first: Whole
    last: Whole
    missing: npt.NDArray[np.uint64]
    happened_before: Moments
    happened_after: Moments
    arrived_before: Moments
    arrived_after: Moments
    since: Moments
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


def _earliest_from(seen: Intervals) -> Moments:
    """For each interval, when the first of its numbers or of larger ones of its producer arrived."""
    ranked = np.lexsort(
        (-seen.arrived, -seen.producer)
    )  # from the last producer on, the latest arrival first
    rank = np.empty(len(seen), np.int64)
    rank[ranked] = np.arange(len(seen))
    return np.asarray(seen.arrived[ranked[np.maximum.accumulate(rank[::-1])]][::-1], np.int64)
