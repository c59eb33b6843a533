"""What the engine does around a timeline, in plain Python: ticks, summaries, and each event's watermark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from latecomer.log.timeline.keeper import Section
from latecomer.log.timeline.watermarks import Watermarks
from latecomer.model.oracle.interpreter import Arrival
from latecomer.model.strategies import REACH, Strategy, TickSummary
from latecomer.model.timeline import Timeline, TimelineRow


def summary(strategy: Strategy, place: tuple[int, int, str], events: Sequence[Arrival]) -> TickSummary:
    """What the log tells of a tick: as much as the strategy needs."""
    tick, at, partition = place
    strategy, _ = strategy.own(partition)
    needs, times, marks = strategy.needs, Counter[int](), []
    for event in events:
        if needs.resolution and strategy.every == "event":
            times[event.event_time] += 1
        elif needs.resolution:
            bar = max(event.event_time // needs.resolution, at // needs.resolution - REACH)
            times[bar * needs.resolution] += 1
        if needs.marker:
            mark = event.payload[needs.marker]
            if isinstance(mark, bool):
                mark = event.event_time if mark else None
            elif mark is not None and strategy.max_future is not None:
                mark = mark if mark - event.arrival_time <= strategy.max_future else None
            marks += [mark] if mark is not None else []
    newest = max(event.event_time for event in events)
    return TickSummary(tick, at, partition, len(events), newest, max(marks, default=None), dict(times))


class Reader:
    """What the engine does around a timeline: cut a batch into summaries, join its events to the rows."""

    def __init__(self, strategy: Strategy) -> None:
        self.timeline = Timeline(strategy)
        self.position = 0
        self.in_force: dict[int, int] = {}
        self.ticks: dict[int, int] = {}
        self.rows: list[TimelineRow] = []

    def read(self, batch: Sequence[Arrival], named: Mapping[str, bool] | None = None) -> None:
        every = self.timeline.strategy.every
        ordered = sorted(enumerate(batch, self.position), key=lambda pair: (pair[1].arrival_time, pair[0]))
        first = (self.timeline.last_tick or 0) + 1
        ticks = {
            position: (first + rank, arrival.arrival_time)
            if every == "event"
            else (arrival.arrival_time // every, arrival.arrival_time // every * every)
            for rank, (position, arrival) in enumerate(ordered)
        }
        brought: dict[tuple[int, int, str], list[Arrival]] = {}
        for position, arrival in ordered:
            brought.setdefault((*ticks[position], arrival.partition), []).append(arrival)
        summaries = [summary(self.timeline.strategy, *place) for place in brought.items()]
        self.rows = rows = self.timeline.extend(summaries, named)
        self.ticks |= {position: tick for position, (tick, _) in ticks.items()}
        watermark = {row.tick: row.watermark for row in rows}
        self.in_force |= {position: watermark[tick] for position, (tick, _) in ticks.items()}
        self.position += len(batch)

    def restart(self) -> None:
        self.timeline = Timeline.restore(self.timeline.strategy, self.timeline.carry())


def watermarks_of(marks: Mapping[tuple[int, int], int]) -> Watermarks:
    """A timeline, from the watermark of each batch and tick."""
    return Section(
        [(batch, TimelineRow(tick, 0, marks[batch, tick])) for batch, tick in sorted(marks)]
    ).watermarks
