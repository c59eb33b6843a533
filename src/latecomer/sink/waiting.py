"""How long to wait for a sink that is down: longer each time, and by chance, so that sinks do not retry together."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

FIRST_SECONDS = 0.5
"""The longest wait before the first further attempt."""
LONGEST_SECONDS = 60.0
"""The longest wait before any further attempt."""
LAST_SECONDS = 30.0
"""The wait at the end of a run: for so long, a run that is otherwise done waits for a sink that is down."""


class SinkClock:
    """The time and the waits of a sink's thread; tests use a clock of their own."""

    def now(self) -> float:
        """Seconds, from any beginning."""
        return time.monotonic()

    def moment(self) -> datetime:
        """The time of day, for people."""
        return datetime.now(UTC)

    def wait(self, changed: threading.Condition, seconds: float | None) -> None:
        """Wait for a change, for so many seconds at most. It may return early: the caller checks again."""
        changed.wait(seconds)


def seconds_before(attempt: int, share: Callable[[], float] = random.random) -> float:
    """How long to wait before the nth further attempt: doubled each time, and between half and all of that by
    chance, so that sinks that went down together do not retry together.

    >>> [seconds_before(attempt, lambda: 1.0) for attempt in (1, 2, 3, 8, 10_000)]
    [0.5, 1.0, 2.0, 60.0, 60.0]
    >>> seconds_before(2, lambda: 0.0)
    0.5
    """
    longest = min(FIRST_SECONDS * 2.0 ** min(attempt - 1, 30), LONGEST_SECONDS)
    return longest * (0.5 + share() / 2)


@dataclass(frozen=True)
class Outage:
    """A sink that is down."""

    since: datetime
    """When it was first noticed."""
    at_batch: int
    """The last complete batch at that time."""
    attempts: int
    retry_at: float
    reason: str
