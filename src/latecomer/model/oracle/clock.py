"""The oracle's watermark: computes every strategy from the plain list of the events that have arrived.

It shares the configuration with `strategies.py` and none of the computation. Only a user-defined strategy is called
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from math import ceil
from typing import Any

from latecomer.model.oracle.arrivals import Arrival
from latecomer.model.simple_predicates import Predicate
from latecomer.model.sources import BySource
from latecomer.model.strategies import (
    Adaptive,
    Ascending,
    Bounded,
    Percentile,
    Punctuated,
    Strategy,
    TickSummary,
)
from latecomer.model.strategy_calls import advanced, lag_of, mark_of, storable
from latecomer.model.verdicts import BEGIN_OF_TIME, END_OF_TIME
from latecomer.model.windows import FIRST_MOMENT

Marks = Predicate | Mapping[str, Predicate]
OURS = (Bounded, Ascending, Percentile, Adaptive, Punctuated)


class OracleClock:
    """The watermark, moved by one event at a time. `marks` says which events are marks: a predicate, or one for each
    `where`."""

    def __init__(self, strategy: Strategy, marks: Marks | None = None) -> None:
        self.strategy = strategy
        self.marks = marks
        self.watermark = BEGIN_OF_TIME
        self.tick: int | None = None
        """The number of the open tick; None before the first one, and where each event is a tick."""
        self.at = BEGIN_OF_TIME
        """The arrival clock: the begin of the open tick, or the newest arrival where each event is a tick."""
        self.in_tick: list[Arrival] = []
        """The events of the open tick."""
        self.ticks: dict[str, list[list[Arrival]]] = {}
        """By partition: the events of each tick that is over."""
        self.newest: dict[str, int] = {}
        """By partition: the largest event time of the ticks that are over."""
        self.heard_at: dict[str, int] = {}
        """By partition: the moment from which its silence counts."""
        self.own: dict[str, int] = {}
        """By partition: its own watermark."""
        self.states: dict[str, Any] = {}
        """By partition: the state of a user-defined strategy."""
        self.unread: set[str] = set()
        """The partitions that have more data than was read: they are not idle."""
        self.joining: set[str] = set()
        """The named partitions that hold the watermark from the next event on, or from the end of the batch."""

    def in_force_for(self, event: Arrival) -> int:
        """The watermark that judges this event. The event itself moves the watermark once its tick is over."""
        every = self.strategy.every
        if every == "event":
            self.at = max(self.at, event.arrival_time)
            self._join()
            in_force = self._reckon()
            self._count([event])
            self._reckon()
            return in_force
        tick = event.arrival_time // every
        if self.tick is None or tick > self.tick:
            self._count(self.in_tick)
            self.tick, self.at, self.in_tick = tick, tick * every, []
            self._join()
            self._reckon()
        self._join()
        self.in_tick.append(event)
        return self.watermark

    def heartbeat(self, at: int) -> None:
        """Silence up to `at`: the open tick is over, and where all partitions are idle the clock moves the
        watermark."""
        tick = None if self.strategy.every == "event" else at // self.strategy.every
        if tick is not None and (self.tick is None or tick <= self.tick):
            return
        self.batch_ends()
        self._count(self.in_tick)
        self.tick, self.at, self.in_tick = tick, at, []
        self._reckon()
        if self.strategy.on_idle == "advance" and self.own and all(map(self._idle, self.own)):
            self._reach(at - max(map(self._lag, self.own)))

    def name(self, partitions: Mapping[str, bool], sources: Collection[str] = ()) -> None:
        """Take in the partitions that a source says it has. True means that a partition has more data than is read
        next. With several sources, `sources` has their names: the partitions that are known already are taken in too,
        and a source without a known partition stands for its partitions."""
        if sources:
            known = {*self.own, *self.joining, *(event.partition for event in self.in_tick)}
            heard = {partition.split("/")[0] for partition in (*known, *partitions)}
            partitions = {**dict.fromkeys(known | ({*sources} - heard), False), **partitions}
        self.joining |= partitions.keys() - self.own.keys() | self.unread & self.own.keys()
        self.unread = {partition for partition, more in partitions.items() if more}

    def batch_ends(self) -> None:
        """Named partitions without events in the batch join at the arrival clock."""
        if self.at != BEGIN_OF_TIME:
            self._join()

    def _join(self) -> None:
        """New partitions hold the watermark. Their silence counts from now, and so does that of partitions that had
        more data to read."""
        for partition in self.joining:
            self.own.setdefault(partition, BEGIN_OF_TIME)
            self.heard_at[partition] = max(self.at, self.heard_at.get(partition, self.at))
        for partition in list(self.own) if self.joining else ():
            self._stands_for_itself(partition)
        self.joining = set()

    def _stands_for_itself(self, partition: str) -> None:
        """Remove the name of a source that stood for its partitions, now that one of them is known."""
        if isinstance(self.strategy, BySource) and "/" in partition:
            source = partition.split("/")[0]
            if source not in self.newest:
                self.own.pop(source, None)

    def follow(self, strategy: Strategy) -> None:
        """Use other settings of the same strategy from the next tick on."""
        self.strategy = strategy
        self.own = {
            partition: self._watermark_of(partition) if partition in self.newest else BEGIN_OF_TIME
            for partition in self.own
        }

    def put(self, watermark: int) -> None:
        """Set the watermark, whatever the partitions allow."""
        self._reach(watermark)

    def drain(self) -> None:
        """The input has ended."""
        self._count(self.in_tick)
        self.watermark, self.in_tick = END_OF_TIME, []

    @property
    def newest_event_time(self) -> int:
        """The largest event time so far, the open tick's included."""
        open_times = [event.event_time for event in self.in_tick]
        return max([*self.newest.values(), *open_times], default=BEGIN_OF_TIME)

    def _count(self, events: Sequence[Arrival]) -> None:
        """The tick of these events, at `self.at`, is over."""
        for partition in {event.partition for event in events}:
            brought = [event for event in events if event.partition == partition]
            self.ticks.setdefault(partition, []).append(brought)
            newest = max(event.event_time for event in brought)
            self.newest[partition] = max(self.newest.get(partition, BEGIN_OF_TIME), newest)
            self.heard_at[partition] = self._tick_ends()
            self.own[partition] = self._watermark_of(partition)
            self._stands_for_itself(partition)

    def _reckon(self) -> int:
        """Move the watermark to what the partitions allow at `self.at`, never back."""
        if self.own:
            awake = [mark for partition, mark in self.own.items() if not self._idle(partition)]
            self._reach(min(awake) if awake else max(self.own.values()))
        return self.watermark

    def _reach(self, moment: int) -> None:
        if moment >= FIRST_MOMENT:
            self.watermark = max(self.watermark, moment)

    def _tick_ends(self) -> int:
        """A partition's last event may have come at the end of its tick: silence counts from there."""
        every = self.strategy.every
        return self.at if every == "event" or self.tick is None else max(self.at, (self.tick + 1) * every)

    def _idle(self, partition: str) -> bool:
        idle_after = self._rules(partition)[0].idle_after
        if idle_after is None or partition in self.unread:
            return False
        return self.at - self.heard_at[partition] >= idle_after

    # A partition's own watermark, strategy by strategy

    def _rules(self, partition: str) -> tuple[Strategy, str]:
        """The strategy of a partition, and the partition's name in it. With several sources, it is the source's own."""
        if isinstance(self.strategy, BySource):
            source, *own = partition.split("/", 1)
            return self.strategy.sources[source], "".join(own)
        return self.strategy, partition

    def _watermark_of(self, partition: str) -> int:
        strategy, name = self._rules(partition)
        if type(strategy) not in OURS:
            return self._asked(partition)
        match strategy:
            case Bounded():
                return self.newest[partition] - _delay(strategy, name)
            case Ascending():
                return self.newest[partition]
            case Percentile():
                recent = [event for tick in self._recent(partition, strategy.of) for event in tick]
                times = sorted(self._rounded(event, strategy.resolution) for event in recent)
                rank = ceil(Decimal(str(strategy.p)) * len(times))
                if rank == len(times):
                    return BEGIN_OF_TIME
                return times[rank - 1] - _delay(strategy, name)
            case Adaptive():
                delays = sorted(self._delays(partition, strategy))
                rank = ceil(Decimal(str(strategy.completeness)) * len(delays))
                delay = max(strategy.at_least, min(strategy.at_most, delays[rank - 1]))
                return self.newest[partition] - delay
            case Punctuated():
                marks = [self._mark(event, strategy) for tick in self.ticks[partition] for event in tick]
                known = [mark for mark in marks if mark is not None]
                return max(known) - _delay(strategy, name) if known else BEGIN_OF_TIME
        raise ValueError(f"the oracle does not know {type(strategy).__name__}")

    def _lag(self, partition: str) -> int:
        """How far the watermark stays behind the clock once all partitions are silent."""
        strategy, name = self._rules(partition)
        if type(strategy) not in OURS:
            return lag_of(strategy, self.states.get(partition), name)
        match strategy:
            case Bounded() | Percentile() | Punctuated():
                return _delay(strategy, name)
            case Adaptive():
                heard = partition in self.newest
                return self.newest[partition] - self.own[partition] if heard else strategy.at_most
        return 0

    def _recent(self, partition: str, of: int) -> list[list[Arrival]]:
        """The newest whole ticks that together hold at least `of` events; all ticks, if they hold fewer."""
        ticks = self.ticks[partition]
        for length in range(1, len(ticks) + 1):
            if sum(len(tick) for tick in ticks[-length:]) >= of:
                return ticks[-length:]
        return ticks

    def _rounded(self, event: Arrival, resolution: int) -> int:
        """The event's time as in a histogram: rounded down, and not too long before its tick."""
        every = self.strategy.every
        if every == "event":
            return event.event_time
        oldest = event.arrival_time // every * every // resolution - 4096
        return max(event.event_time // resolution, oldest) * resolution

    def _delays(self, partition: str, strategy: Adaptive) -> list[int]:
        """How far each recent event came behind the largest event time before its tick."""
        measured, newest = [], BEGIN_OF_TIME
        for tick in self.ticks[partition]:
            times = [self._rounded(event, strategy.resolution) for event in tick]
            measured.append([max(0, newest - time) for time in times])
            newest = max(newest, *(event.event_time for event in tick))
        recent = measured[-len(self._recent(partition, strategy.of)) :]
        return [delay for tick in recent for delay in tick]

    def _mark(self, event: Arrival, strategy: Strategy) -> int | None:
        needs = strategy.needs
        if needs.where is not None:
            marks = self.marks.get(needs.where) if isinstance(self.marks, Mapping) else self.marks
            if marks is None:
                raise ValueError("the oracle needs the predicate of the marks in Python: marks=")
            return event.event_time if marks(event.payload) is True else None
        mark = event.payload.get(needs.marker) if needs.marker is not None else None
        if mark is None or isinstance(mark, bool):
            return event.event_time if mark else None
        ahead = strategy.max_future
        return int(mark) if ahead is None or mark - event.arrival_time <= ahead else None

    def _asked(self, partition: str) -> int:
        """The watermark from a user-defined strategy, which gets the summary of the tick that it needs."""
        (strategy, name), brought = self._rules(partition), self.ticks[partition][-1]
        needs = strategy.needs
        marks = [mark for event in brought if (mark := self._mark(event, strategy)) is not None]
        times = Counter(self._rounded(event, needs.resolution) for event in brought if needs.resolution)
        summary = TickSummary(
            self.tick or 0,
            self.at,
            name,
            len(brought),
            max(event.event_time for event in brought),
            max(marks, default=None),
            dict(times),
        )
        state = storable(advanced(strategy, self.states.get(partition), summary), partition)
        self.states[partition] = state
        return mark_of(strategy, state, name)


def _delay(strategy: Bounded | Percentile | Punctuated, partition: str) -> int:
    return strategy.delays.get(partition, strategy.delay)
