"""How far something has come that reads the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

READ = 0.99
"""The share when all is read: what comes of it takes its time, too."""


@dataclass(frozen=True)
class Progress:
    """How far the reading has come."""

    rows: int
    """How many rows of the log there are to read."""
    share: float
    seconds: float

    @property
    def rate(self) -> float:
        """Rows a second so far."""
        return self.rows * self.share / self.seconds if self.seconds else 0.0

    @property
    def left(self) -> float | None:
        """How many seconds reading will still take at this rate; None while nothing is known, and when all is read."""
        return self.seconds * (1 - self.share) / self.share if 0 < self.share < READ else None

    @property
    def is_read(self) -> bool:
        """Whether the log is read, and something is left to be done with it."""
        return READ <= self.share < 1


Watch = Callable[[Progress], None]


class Watched:
    """Reports how much of the log has been read."""

    def __init__(self, rows: int, watch: Watch) -> None:
        self.rows = rows
        self._watch = watch
        self._began = time.monotonic()
        self._read = 0
        self.report(0.0)

    def read(self, rows: int) -> None:
        """So many rows more have been read."""
        self._read += rows
        self.report(min(self._read / self.rows, READ) if self.rows else 0.0)

    def report(self, share: float) -> None:
        self._watch(Progress(self.rows, share, time.monotonic() - self._began))
