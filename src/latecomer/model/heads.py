"""Heads in columns: what ticks brought from many partitions, and how far these are.

`Timeline` asks a strategy of every partition in every tick. Where the strategy follows the largest event time, that is
arithmetic: here it is done for all partitions at once, so that ten thousand of them cost little more than eight.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt

from latecomer.model.strategies import Head
from latecomer.model.verdicts import BEGIN_OF_TIME

Whole: TypeAlias = npt.NDArray[np.int64]
NEVER = 1 << 62
"""A partition that is silent for so long is not idle yet."""


@dataclass(frozen=True, eq=False)
class HeadColumns(Sequence[Head]):
    """Heads in order of their ticks and partitions, one for each; a `Head` is made of one that is asked for."""

    every: int
    names: Sequence[str]
    """The partitions, in order."""
    tick: Whole
    nth: Whole
    """Which of the names each is of."""
    events: Whole
    latest: Whole
    """The largest event time."""

    @classmethod
    def of(
        cls, every: int, partitions: Sequence[str], tick: Whole, nth: Whole, events: Whole, latest: Whole
    ) -> HeadColumns:
        """From columns in any order; `nth` says which of the partitions, in any order, each is of."""
        names = sorted(partitions)
        places = {name: place for place, name in enumerate(names)}
        nth = np.array([places[name] for name in partitions], np.int64)[nth]
        order = np.lexsort((nth, tick))
        return cls(every, names, tick[order], nth[order], events[order], latest[order])

    def __len__(self) -> int:
        return len(self.tick)

    @overload
    def __getitem__(self, place: int) -> Head: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Head]: ...
    def __getitem__(self, place: int | slice) -> Head | Sequence[Head]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        tick, name = int(self.tick[place]), self.names[int(self.nth[place])]
        return Head(tick, tick * self.every, name, int(self.events[place]), int(self.latest[place]))

    @cached_property
    def bounds(self) -> list[int]:
        """Where each tick begins, and where the last ends."""
        begins = np.flatnonzero(np.diff(self.tick)) + 1
        return [0, *begins.tolist(), len(self)] if len(self) else [0]

    def before(self, moment: int) -> Iterator[Head]:
        """Those that came in ticks that begin before a moment."""
        return iter(self[: int(np.searchsorted(self.tick * self.every, moment))])


@dataclass(frozen=True)
class Held:
    """Who holds the watermark back: the slowest partitions by name, where they are, and where the furthest is."""

    slowest: int
    names: Sequence[str]
    furthest: int


class Front:
    """How far partitions are, whose marks are their largest event times less a lag."""

    def __init__(
        self, names: Sequence[str], lags: Whole, idle_after: Whole, unread: Mapping[str, bool]
    ) -> None:
        """All partitions that may be heard of, in order of their names."""
        self.names = names
        self.place = {name: place for place, name in enumerate(names)}
        self.marks = np.full(len(names), BEGIN_OF_TIME, np.int64)
        self.newest = np.full(len(names), BEGIN_OF_TIME, np.int64)
        """The largest event time of each that is known to have one."""
        self.seen_at = np.full(len(names), BEGIN_OF_TIME, np.int64)
        self.known = np.zeros(len(names), bool)
        self.heard = np.zeros(len(names), bool)
        """Whether anything was settled here."""
        self._lags = lags
        self._idle_after = idle_after
        self._unread = np.array([unread.get(name, False) for name in names], bool)
        self._may_idle = bool(np.any(idle_after < NEVER))

    def put(self, name: str, state: int | None, seen_at: int) -> None:
        """What was known of a partition before."""
        place = self.place[name]
        self.known[place], self.seen_at[place] = True, seen_at
        if state is not None:
            self.newest[place] = state
            self.marks[place] = max(state - int(self._lags[place]), BEGIN_OF_TIME)

    def settle(self, places: Whole, latest: Whole, over: int) -> None:
        """Let a tick count that is `over` by then: which partitions it brought events of, each once."""
        self.newest[places] = np.maximum(self.newest[places], latest)
        self.marks[places] = np.maximum(self.newest[places] - self._lags[places], BEGIN_OF_TIME)
        self.seen_at[places] = np.maximum(self.seen_at[places], over)
        self.known[places] = self.heard[places] = True

    def held(self, at: int) -> Held | None:
        """Who holds the watermark back at a moment; None where all partitions are silent."""
        active = self.known
        if self._may_idle:
            active = active & (self._unread | (at - self.seen_at < self._idle_after))
        places = np.flatnonzero(active)
        if not len(places):
            return None
        marks = self.marks[places]
        slowest = marks.min()
        names = [self.names[place] for place in places[marks == slowest]]
        return Held(int(slowest), names, int(marks.max()))

    @property
    def furthest(self) -> int:
        """How far the furthest partition is, silent or not; BEGIN_OF_TIME where there is none."""
        return int(self.marks[self.known].max(initial=BEGIN_OF_TIME))
