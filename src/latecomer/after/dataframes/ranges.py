"""Shares files out to tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from latecomer.model.durations import to_micros
from latecomer.spark.base import in_turn_together
from latecomer.store.data_files import DataFile
from latecomer.store.sql import moment_literal

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
        bounds = ((">=", self.low), ("<", self.high))
        conditions = [f"{_STARTS} {op} {moment_literal(at)}" for op, at in bounds if at is not None]
        return " and ".join(conditions) or "true"

    def of(self, files: Iterable[DataFile]) -> list[DataFile]:
        """The files that may have rows of the range."""
        return [file for file in files if self._overlaps(_bounds(file))]

    def _overlaps(self, bounds: tuple[int, int] | None) -> bool:
        if bounds is None:
            return True
        return (self.low is None or bounds[1] >= self.low) and (self.high is None or bounds[0] < self.high)


def by_window(files: Sequence[DataFile]) -> list[Starts]:
    """Ranges of about equally many rows. All rows of a window are in one range, whichever files they are in."""
    ranges = [Starts(low, high) for low, high in pairwise([None, *_cuts(files), None])]
    return [each for each in ranges if each.of(files)]


def _cuts(files: Sequence[DataFile]) -> list[int]:
    """Where to cut, so that ranges have about equally many rows. The rows of a file are assumed to be evenly spread."""
    known = [(*bounds, file.rows) for file in files if (bounds := _bounds(file)) is not None]
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


def _bounds(file: DataFile) -> tuple[int, int] | None:
    low, high = file.minimum.get(_STARTS), file.maximum.get(_STARTS)
    return None if low is None or high is None else (to_micros(low), to_micros(high))
