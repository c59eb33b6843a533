"""Labels for partitions: only so many names are used that a metrics server can keep them."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest

from latecomer.errors import shortened

AT_ONCE = 20
"""So many partitions, the slowest, are shown by name at a time."""
EVER = 200
"""So many names are used in a run at most. Each is a series that a metrics server keeps for weeks."""
REST = "(rest)"
NAMELESS = "(none)"
LONGEST = 100


def label(text: str) -> str:
    """A text as the value of a label: not too long, never empty, and valid Unicode.

    >>> label("x" * 200)[-2:], label("a\\udc80b"), label("")
    ('x…', 'a?b', '(none)')
    """
    return shortened(text.encode("utf-8", "replace").decode() or NAMELESS, LONGEST)


class PartitionNames:
    """Chooses the labels of the slowest partitions, within the limits."""

    def __init__(self, at_once: int = AT_ONCE, ever: int = EVER) -> None:
        self._at_once, self._ever = at_once, ever
        self._used: set[str] = set()

    def shown(self, marks: Mapping[str, int]) -> dict[str, int]:
        """How far the slowest partitions are, by label. All others share one label, with the slowest of them.

        >>> PartitionNames(at_once=2).shown({"a": 3, "b": 1, "c": 2, "d": 9})
        {'b': 1, 'c': 2, '(rest)': 3}
        """
        shown: dict[str, int] = {}
        for mark, name in nsmallest(self._at_once + 1, ((mark, name) for name, mark in marks.items())):
            named = self.of(name) if len(shown) < self._at_once else REST
            shown[named] = min(shown.get(named, mark), mark)
        return shown

    def of(self, partition: str) -> str:
        """The label of a partition: its name, or `(rest)` once too many names were used."""
        name = label(partition)
        if name not in self._used:
            if len(self._used) >= self._ever:
                return REST
            self._used.add(name)
        return name
