"""How past windows filled: how much of each had come at an age.

The age of a window is the arrival clock less its start. Its final number is what had come until a certain time after
its end. That time is the same for every window, so the newest windows do not look fuller than they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from latecomer.model.array_types import Doubles, Integers
from latecomer.model.nowcast.estimating import LEAST, MOST, Past, in_groups
from latecomer.model.nowcast.rhythm import NO_RHYTHM, Rhythm

EVENTS = ""
"""The name for the number of events, besides the names of aggregates."""


@dataclass(frozen=True)
class Filled:
    """Every past number at one age, in order of key and then of time."""

    age: int
    window: Integers
    """The number of the window."""
    key: Integers
    seen: Mapping[str, Doubles]
    final: Mapping[str, Doubles]
    begin: Integers
    end: Integers
    """Where each key begins and ends."""
    rhythm: Rhythm = NO_RHYTHM
    _all: dict[tuple[str, int], tuple[Past, Integers]] = field(default_factory=dict, compare=False)
    _alike: dict[tuple[str, str], bool] = field(default_factory=dict, compare=False)

    def past(self, name: str, key: int | None, before: int) -> tuple[Past, Integers]:
        """The past numbers of a key, or of all keys, in windows before one: those that had an event at this age. And
        the window of each."""
        if key is not None:
            if not 0 <= key < len(self.begin):
                return _NOTHING, np.zeros(0, np.int64)
            first, last = int(self.begin[key]), int(self.end[key])
            last = first + int(np.searchsorted(self.window[first:last], before))
            present = np.flatnonzero(self.seen[EVENTS][first:last] > 0) + first
            return Past(self.seen[name][present], self.final[name][present]), self.window[present]
        if (name, before) not in self._all:
            present = np.flatnonzero((self.seen[EVENTS] > 0) & (self.window < before))
            present = present[np.argsort(self.window[present], kind="stable")][-MOST:]
            past = Past(self.seen[name][present], self.final[name][present], alike=False)
            self._all[name, before] = past, self.window[present]
        return self._all[name, before]

    def chosen(self, name: str, key: int, before: int, start: int | None = None) -> Past:
        """The past numbers to compare with one whose window starts at a moment: those of its key where there are
        enough, otherwise those of all keys. Where there is a rhythm, only those that are like it."""
        past, windows = self.past(name, key, before)
        if len(past) < LEAST:
            past, windows = self.past(name, None, before)
        if start is None or len(past) < LEAST or not self.rhythm.sortings:
            return past
        similar = self.rhythm.like(past.misses, windows, start)
        if similar is None:
            return past
        like, alike = similar
        return replace(past, seen=past.seen[alike], final=past.final[alike], like=like)

    def alike(self, one: str, other: str) -> bool:
        """Whether two numbers are the same in all of the past."""
        if (one, other) not in self._alike:
            same = np.array_equal(self.seen[one], self.seen[other])
            self._alike[one, other] = same and np.array_equal(self.final[one], self.final[other])
        return self._alike[one, other]

    def shares(self) -> tuple[Integers, Doubles]:
        """For each window with events in the end, the share of them that had come; all keys together, and without the
        rhythm of days and weeks."""
        count = int(self.window.max()) + 1 if len(self.window) else 0
        final = np.bincount(self.window, self.final[EVENTS], count)
        seen = np.bincount(self.window, self.seen[EVENTS], count)
        present = np.flatnonzero(final > 0)
        return present, self.rhythm.evened(seen[present] / final[present], present)


_NOTHING = Past(np.zeros(0), np.zeros(0))


class Fillings:
    """The events of past windows, by key and age. Windows are numbered in order of time, and do not overlap."""

    def __init__(
        self,
        window: Integers,
        key: Integers,
        age: Integers,
        whole_at: Integers,
        amounts: Mapping[str, Doubles],
        rhythm: Rhythm = NO_RHYTHM,
    ) -> None:
        """`whole_at` is for each window the age at which its number counts as final."""
        self.rhythm = rhythm
        kept = age <= whole_at[window]
        window, key, age = window[kept], key[kept], age[kept]
        width = len(whole_at) or 1
        places = key * width + window
        place, count = numbered(places, (int(key.max()) + 1 if len(key) else 0) * width)
        known = np.zeros(count, np.int64)
        known[place] = places
        self.window: Integers = known % width
        self.key: Integers = known // width
        self.begin, self.end = in_groups(self.key)
        order = np.argsort(age, kind="stable")
        self._age, self._place = age[order], place[order]
        self._amounts = {EVENTS: np.ones(len(order)), **{n: each[kept][order] for n, each in amounts.items()}}
        self.final = {name: self._sums(each, 0, len(order)) for name, each in self._amounts.items()}

    def __len__(self) -> int:
        return len(self.window)

    @property
    def windows(self) -> int:
        """How many past windows have an event."""
        return len(np.unique(self.window))

    def share(self, age: int) -> float:
        """The share of the events that had come at an age, over all windows."""
        return int(np.searchsorted(self._age, age, "right")) / (len(self._age) or 1)

    def at(self, ages: Sequence[int]) -> Iterator[Filled]:
        """Every past number at each of these ages, ascending."""
        seen = {name: np.zeros(len(self)) for name in self._amounts}
        done = 0
        for age in sorted(ages):
            until = int(np.searchsorted(self._age, age, "right"))
            seen = {n: seen[n] + self._sums(each, done, until) for n, each in self._amounts.items()}
            done = until
            yield Filled(age, self.window, self.key, seen, self.final, self.begin, self.end, self.rhythm)

    def _sums(self, amounts: Doubles, first: int, last: int) -> Doubles:
        sums = np.bincount(self._place[first:last], amounts[first:last], len(self))
        return np.asarray(sums, np.float64)


def numbered(codes: Integers, width: int) -> tuple[Integers, int]:
    """Codes below a width, renumbered from 0 on without gaps and in the same order; and how many there are.

    >>> numbered(np.array([7, 2, 7]), 8)
    (array([1, 0, 1]), 2)
    """
    if width > 8 * len(codes) + 1024:  # few codes in a large range: sorting is faster than counting
        known, place = np.unique(codes, return_inverse=True)
        return np.asarray(place, np.int64), len(known)
    present = np.bincount(codes, minlength=width) > 0
    place = np.cumsum(present) - 1
    return np.asarray(place[codes], np.int64), int(present.sum())
