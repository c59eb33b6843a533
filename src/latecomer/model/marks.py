"""The watermarks of many partitions as arrays: a tick that hears of some need not ask all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Whole: TypeAlias = npt.NDArray[np.int64]
_LEAST = int(np.iinfo(np.int64).min)


@dataclass(frozen=True)
class Known:
    """What the timeline knows of a partition.

    `mark` is its own watermark, `seen_at` when it was last heard of, and `idle_after` how long it may be silent. One
    that is `awaited` is never idle, nor is one without `idle_after`.
    """

    name: str
    mark: int
    seen_at: int
    idle_after: int | None
    awaited: bool


class Marks:
    """The watermark of every partition. Moments are microseconds since the epoch."""

    def __init__(self, known: Iterable[Known] = ()) -> None:
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._marks = np.empty(0, np.int64)
        self._seen_at = np.empty(0, np.int64)
        self._patience: dict[int, npt.NDArray[np.intp]] = {}
        """How long partitions may be silent → which of them."""
        self.add(list(known))

    def add(self, known: Sequence[Known]) -> None:
        """Partitions that were not known."""
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
        """A partition was heard of. False where it is not known."""
        place = self._places.get(name)
        if place is None:
            return False
        self._marks[place], self._seen_at[place] = mark, seen_at
        return True

    def place(self, name: str) -> int:
        """Which partition it is, for `move_all`; -1 where it is not known."""
        return self._places.get(name, -1)

    def move_all(
        self, places: npt.NDArray[np.int64], marks: npt.NDArray[np.int64], seen_at: npt.NDArray[np.int64]
    ) -> None:
        """Partitions were heard of."""
        self._marks[places], self._seen_at[places] = marks, seen_at

    @property
    def furthest(self) -> int:
        """The mark of the furthest partition, silent or not."""
        return int(self._marks.max())

    def active(self, at: int) -> Active:
        """The marks of the partitions that have not fallen silent at a moment."""
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
    """The marks that count, as they are until the next one moves."""

    marks: npt.NDArray[np.int64]
    _names: list[str]
    _places: npt.NDArray[np.intp] | None
    """Which of the names they belong to; None for all of them."""

    def __bool__(self) -> bool:
        return len(self.marks) > 0

    @property
    def slowest(self) -> int:
        return int(self.marks.min())

    @property
    def furthest(self) -> int:
        return int(self.marks.max())

    def at(self, mark: int) -> list[str]:
        """The partitions that are exactly so far, by name."""
        return sorted(self._named(np.flatnonzero(self.marks == mark)))

    def items(self) -> list[tuple[str, int]]:
        """Each partition and its mark, in the order in which they became known."""
        everyone = np.arange(len(self.marks))
        return list(zip(self._named(everyone), self.marks.tolist(), strict=True))

    def _named(self, nth: npt.NDArray[np.intp]) -> list[str]:
        places = nth if self._places is None else self._places[nth]
        return [self._names[place] for place in places.tolist()]
