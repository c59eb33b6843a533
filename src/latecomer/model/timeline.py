"""The watermark timeline: the watermark in force for every tick of arrival time.

Ticks are handed in as they are read, each with what every source partition brought in it. For each
tick the timeline answers one question: which watermark judges the events that arrived in it? The
answer is computed from the ticks before it, so an event can never make itself late, and a tick that a
batch cut in two keeps the watermark it was first given. That is what makes verdicts independent of
batch cuts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Literal

from latecomer.model.strategies import Head, State, Strategy
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME

Kind = Literal["tick", "heartbeat", "drain"]


@dataclass(frozen=True)
class Row:
    """One tick of one batch: the watermark in force for its events.

    `settled` is the watermark once the tick is over, known at once only where a tick is one event.
    `held_by` names the partition that the watermark waits for.
    """

    tick: int
    at: int
    watermark: int
    settled: int | None = None
    kind: Kind = "tick"
    held_by: str | None = None
    heads: tuple[Head, ...] = ()


@dataclass
class Progress:
    """How far one source partition has come, and when it was last heard of."""

    state: State
    seen_at: int


@dataclass
class Timeline:
    """The state between two batches; `carry` and `restore` keep it in the store."""

    strategy: Strategy
    watermark: int = BEGIN_OF_TIME
    last_tick: int | None = None
    last_at: int = BEGIN_OF_TIME
    partitions: dict[str, Progress] = field(default_factory=dict)
    open_heads: list[Head] = field(default_factory=list)

    def extend(self, heads: Iterable[Head]) -> list[Row]:
        """The rows for the ticks of one batch, read in tick order."""
        ordered = sorted(heads, key=attrgetter("tick", "partition"))
        return [self._tick(tick, tuple(group)) for tick, group in groupby(ordered, attrgetter("tick"))]

    def heartbeat(self, at: int) -> Row | None:
        """A tick without events: the open tick is over, and silence counts as far as it lasted.

        None where the clock is still within the open tick, or where nothing would change.
        """
        tick = self._tick_of(at)
        if self.last_tick is None or tick <= self.last_tick:
            return None
        before = self.watermark
        self._settle(at)
        if self.strategy.on_idle == "advance" and self.partitions and not self._active(at):
            self.watermark = max(self.watermark, at - self.strategy.behind)
        if self.watermark == before:
            return None
        self.last_tick, self.last_at = tick, at
        return Row(tick, at, self.watermark, kind="heartbeat", held_by=self._held_by(at))

    def drain(self) -> Row:
        """The end of a bounded input: every window ends."""
        self._settle(self.last_at)
        self.watermark = END_OF_TIME
        self.last_tick = (self.last_tick or 0) + 1
        return Row(self.last_tick, self.last_at, END_OF_TIME, kind="drain")

    def carry(self) -> str:
        """Everything the next batch needs, as JSON."""
        return json.dumps(
            {
                "watermark": self.watermark,
                "last_tick": self.last_tick,
                "last_at": self.last_at,
                "partitions": {
                    name: [progress.state, progress.seen_at]
                    for name, progress in sorted(self.partitions.items())
                },
                "open": [
                    [head.tick, head.at, head.partition, head.events, head.max_event_time]
                    for head in self.open_heads
                ],
            },
            separators=(",", ":"),
        )

    @classmethod
    def restore(cls, strategy: Strategy, carry: str | None) -> Timeline:
        """The timeline as the last batch left it."""
        if carry is None:
            return cls(strategy)
        saved = json.loads(carry)
        return cls(
            strategy,
            watermark=saved["watermark"],
            last_tick=saved["last_tick"],
            last_at=saved["last_at"],
            partitions={name: Progress(*values) for name, values in saved["partitions"].items()},
            open_heads=[Head(*values) for values in saved["open"]],
        )

    @property
    def newest_event_time(self) -> int:
        """The largest event time any tick has brought, BEGIN_OF_TIME before the first."""
        marks = [self.strategy.mark(progress.state) for progress in self.partitions.values()]
        newest = max(marks) + self.strategy.behind if marks else BEGIN_OF_TIME
        return max([newest, *(head.max_event_time for head in self.open_heads)])

    def _tick(self, tick: int, heads: tuple[Head, ...]) -> Row:
        at = max(heads[0].at, self.last_at)
        if self.last_tick is None or tick > self.last_tick:
            self._settle(at)
            self.last_tick, self.last_at, self.open_heads = tick, at, list(heads)
        else:
            # The tick that the last batch cut, or an older one read out of step: it joins the open
            # tick, and is judged by the watermark already in force.
            self.open_heads.extend(heads)
        row = Row(tick, at, self.watermark, held_by=self._held_by(at), heads=heads)
        if self.strategy.every != "event":
            return row
        self._settle(at)
        return Row(tick, at, row.watermark, self.watermark, held_by=row.held_by, heads=heads)

    def _settle(self, at: int) -> None:
        """Let the open tick count, and move the watermark to what is known at `at`."""
        for head in self.open_heads:
            known = self.partitions.get(head.partition)
            state = self.strategy.advance(known.state if known else None, head)
            seen_at = max(self.last_at, known.seen_at if known else BEGIN_OF_TIME)
            self.partitions[head.partition] = Progress(state, seen_at)
        self.open_heads = []
        if self.partitions:
            active = self._active(at)
            marks = [self.strategy.mark(self.partitions[name].state) for name in active or self.partitions]
            self.watermark = max(self.watermark, min(marks) if active else max(marks))

    def _active(self, at: int) -> list[str]:
        idle_after = self.strategy.idle_after
        if idle_after is None:
            return list(self.partitions)
        return [name for name, progress in self.partitions.items() if at - progress.seen_at < idle_after]

    def _held_by(self, at: int) -> str | None:
        active = self._active(at)
        if not active:
            return None
        return min(active, key=lambda name: (self.strategy.mark(self.partitions[name].state), name))

    def _tick_of(self, at: int) -> int:
        if self.strategy.every == "event":
            return (self.last_tick or 0) + 1
        return at // self.strategy.every
