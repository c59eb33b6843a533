"""Which panes late events touch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

from latecomer.model.durations import to_micros
from latecomer.store.table import DataFile


def touching(files: Iterable[DataFile], starts: Sequence[int]) -> list[DataFile]:
    """The pane files that can hold one of these windows (`starts` ascending)."""
    found = []
    for file in files:
        low, high = to_micros(file.minimum["window_start"]), to_micros(file.maximum["window_start"])
        place = bisect_left(starts, low)
        if place < len(starts) and starts[place] <= high:
            found.append(file)
    return found
