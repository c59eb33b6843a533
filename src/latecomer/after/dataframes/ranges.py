"""Shares files out to tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from latecomer.after.reading.asof import starts_between
from latecomer.spark.base import in_turn_together
from latecomer.store.data_files import DataFile

ROWS_EACH = 250_000
"""About so many rows for each task."""
_STARTS = "window_start"


def some_at_a_time(files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    """Files in their order, in groups of about ROWS_EACH rows."""
    return in_turn_together(files, lambda file: file.rows, ROWS_EACH)


@dataclass(frozen=True)
class Starts:
    """A range of where windows start, in microseconds."""

    low: int | None
    high: int | None

    @property
    def sql(self) -> str:
        return starts_between(self.low, self.high)

    def of(self, files: Iterable[DataFile]) -> list[DataFile]:
        """The files that may have rows of the range."""
        return [file for file in files if file.may_hold(_STARTS, self.low, self.high)]


def by_window(files: Sequence[DataFile]) -> list[Starts]:
    """Ranges of about equally many rows. All rows of a window are in one range, whichever files they are in."""
    ranges = [Starts(low, high) for low, high in pairwise([None, *_cuts(files), None])]
    return [each for each in ranges if each.of(files)]


def _cuts(files: Sequence[DataFile]) -> list[int]:
    """Where to cut, so that ranges have about equally many rows. The rows of a file are assumed to be evenly spread."""
    known = [(*bounds, file.rows) for file in files if (bounds := file.bounds(_STARTS)) is not None]
    parts = -(-sum(rows for *_, rows in known) // ROWS_EACH)
    if parts < 2:
        return []
    low, high, rows = np.array(known, np.int64).T
    rate = rows / (high - low + 1)
    at = np.concatenate([low, high + 1])
    order = np.argsort(at, kind="stable")
    at, change = at[order], np.concatenate([rate, -rate])[order]
    counted = np.concatenate([[0.0], np.cumsum(np.cumsum(change)[:-1] * np.diff(at))])
    wanted = counted[-1] * np.arange(1, parts) / parts
    return sorted({int(each) for each in np.interp(wanted, counted, at.astype(float))})
