"""A strategy of one's own, for the transcript that shows one."""

from __future__ import annotations

from latecomer import Head, Strategy


class Crowds(Strategy):
    """Says nothing until so many events have come; from then on it is the newest event time."""

    least: int

    def advance(self, state: list[int] | None, head: Head) -> list[int]:
        events, newest = state or (0, head.max_event_time)
        return [events + head.events, max(newest, head.max_event_time)]

    def mark(self, state: list[int], partition: str) -> int | None:
        events, newest = state
        return newest if events >= self.least else None
