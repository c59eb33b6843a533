"""The progress of reading the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

READ = 0.99
"""The share when all is read: computing the rest takes time, too."""


@dataclass(frozen=True)
class LogProgress:
    """How much of the log is read."""

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
        """How many more seconds reading will take at this rate; None while that is unknown, and when all is read."""
        return self.seconds * (1 - self.share) / self.share if 0 < self.share < READ else None

    @property
    def is_read(self) -> bool:
        """Whether the log is read, but not all is computed."""
        return READ <= self.share < 1


Watch = Callable[[LogProgress], None]


class Watched:
    """Reports how much of the log has been read."""

    def __init__(self, rows: int, watch: Watch) -> None:
        self.rows = rows
        self._watch = watch
        self._began = time.monotonic()
        self._read = 0
        self.report(0.0)

    def read(self, rows: int) -> None:
        """Count so many more rows as read."""
        self._read += rows
        self.report(min(self._read / self.rows, READ) if self.rows else 0.0)

    def report(self, share: float) -> None:
        self._watch(LogProgress(self.rows, share, time.monotonic() - self._began))
