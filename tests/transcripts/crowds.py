"""A strategy of one's own, for the transcript that shows one."""

from __future__ import annotations

from latecomer import Strategy, TickSummary


class Crowds(Strategy):
    """Says nothing until so many events have come; from then on it is the newest event time."""

    least: int

    def advance(self, state: list[int] | None, summary: TickSummary) -> list[int]:
        events, newest = state or (0, summary.max_event_time)
        return [events + summary.events, max(newest, summary.max_event_time)]

    def mark(self, state: list[int], partition: str) -> int | None:
        events, newest = state
        return newest if events >= self.least else None
