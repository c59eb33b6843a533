"""The watermarks of many partitions in arrays: a tick with some of them need not update the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from latecomer.model.array_types import Integers

_LEAST = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class PartitionMark:
    """What the timeline knows about a partition.

    `mark` is its own watermark, `seen_at` the end of its last tick with events, `idle_after` the longest silence before
    it is idle. A partition that is `awaited` or has no `idle_after` is never idle.
    """

    name: str
    mark: int
    seen_at: int
    idle_after: int | None
    awaited: bool


class Marks:
    """The watermark of every partition. Moments are microseconds since the epoch."""

    def __init__(self, known: Iterable[PartitionMark] = ()) -> None:
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._marks = np.empty(0, np.int64)
        self._seen_at = np.empty(0, np.int64)
        self._patience: dict[int, npt.NDArray[np.intp]] = {}
        """`idle_after` → the partitions that have it."""
        self.add(list(known))

    def add(self, known: Sequence[PartitionMark]) -> None:
        first = len(self._names)
        self._names += [each.name for each in known]
        self._places |= {each.name: place for place, each in enumerate(known, first)}
        self._marks = _joined(self._marks, [each.mark for each in known])
        self._seen_at = _joined(self._seen_at, [each.seen_at for each in known])
        patience: dict[int, list[int]] = {}
        for place, each in enumerate(known, first):
            if each.idle_after is not None and not each.awaited:
                patience.setdefault(each.idle_after, []).append(place)
        for idle_after, places in patience.items():
            self._patience[idle_after] = _joined(self._patience.get(idle_after, np.empty(0, np.intp)), places)

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
        if not self._patience:
            return Active(self._marks, self._names, None)
        awake = np.ones(len(self._names), bool)
        for idle_after, places in self._patience.items():
            awake[places] = self._seen_at[places] > max(at - idle_after, _LEAST)
        return Active(self._marks[awake], self._names, np.flatnonzero(awake))


def _joined(before: npt.NDArray[Any], more: list[int]) -> npt.NDArray[Any]:
    return np.concatenate([before, np.array(more, before.dtype)])


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
