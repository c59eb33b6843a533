"""Several sources in the order of arrival: however they are cut into slices, as if all were partitions of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from latecomer.config.outputs import Output
from latecomer.model.oracle.interpreter import Arrival, Partitions, interpret
from latecomer.model.source_order import BegunSlices, NextBatch, Waiting, next_batch
from latecomer.model.sources import BySource
from latecomer.model.strategies import Bounded
from latecomer.model.verdicts import Fate
from model.test_sources import by_source
from scenarios import arrivals, cut, cuts, outputs, thorough

SOURCES = {"a": "app/a", "b": "pos/b", "c": "web"}


@dataclass
class Slices:
    """The slices of a source that wait: lists of arrivals."""

    waiting: list[list[Arrival]]
    in_step: bool = True
    """Whether the partitions are not named, so that slices follow one another."""
    known: dict[int, Waiting] = field(default_factory=dict)

    def has(self, nth: int) -> bool:
        return nth < len(self.waiting)

    def __getitem__(self, nth: int, /) -> Waiting:
        if id(self.waiting[nth]) not in self.known:
            self.known[id(self.waiting[nth])] = self._look(nth)
        return self.known[id(self.waiting[nth])]

    def _look(self, nth: int) -> Waiting:
        times: dict[str, list[int]] = {}
        for event in self.waiting[nth]:
            if not event.dead:
                times.setdefault(event.partition, []).append(event.arrival_time)
        spans = {name: (min(each), max(each)) for name, each in times.items()}
        after = {event.partition for each in self.waiting[nth + 1 :] for event in each if not event.dead}
        more = frozenset() if self.in_step else frozenset(after)
        return Waiting(spans, len(self.waiting[nth]), more)


def read_all(queues: dict[str, Slices]) -> list[tuple[NextBatch, list[Arrival]]]:
    """Batch by batch, as an engine reads: each with what it was made of."""
    begun, batches = {name: BegunSlices() for name in queues}, list[tuple[NextBatch, list[Arrival]]]()
    while there := {name: queue for name, queue in queues.items() if queue.has(0)}:
        plan = next_batch(there, begun)
        assert any(plan.taken.values()), "a batch that reads nothing"
        read = [
            event
            for name, parts in plan.taken.items()
            for part in parts
            for event in queues[name].waiting[part.nth]
            if within(event, part.after, part.until)
        ]
        batches.append((plan, read))
        for name, count in plan.finished.items():
            queues[name].waiting = queues[name].waiting[count:]
        begun |= plan.begun
    return batches


def within(event: Arrival, after: int | None, until: int | None) -> bool:
    """A dead letter is read with the end of its slice."""
    if event.dead:
        return until is None
    return (after is None or event.arrival_time > after) and (until is None or event.arrival_time <= until)


def sources(read: Sequence[Arrival]) -> list[Arrival]:
    return [replace(event, partition=SOURCES[event.partition]) for event in read]


def without_races(read: Sequence[Arrival]) -> list[Arrival]:
    """Without the second of two events with one id that came of two sources in one moment: either may be the duplicate,
    and a duplicate moves no watermark."""
    source = [event.partition.split("/")[0] for event in read]
    first = {
        (event.arrival_time, event.event_id): own
        for event, own in reversed([*zip(read, source, strict=True)])
    }
    return [
        event
        for event, own in zip(read, source, strict=True)
        if event.event_id is None or first[event.arrival_time, event.event_id] == own
    ]


def of_source(read: Sequence[Arrival], source: str) -> list[Arrival]:
    return [event for event in read if event.partition.split("/")[0] == source]


SIZES = st.lists(st.integers(1, 6), max_size=6)


@given(arrivals(max_size=40).map(sources), SIZES, SIZES, SIZES, by_source(), outputs(), cuts())
@example(  # a source ends long before the other, and one has nothing
    read=sources([Arrival(n, n, "a" if n % 2 or n > 9 else "b") for n in range(40)]),
    app=[3, 3, 3],
    pos=[1, 1],
    web=[],
    strategy=BySource.of_strategies(
        {name: Bounded("1us", every="event", idle_after="5us") for name in ("app", "pos", "web")}
    ),
    output=Output(window={"tumbling": "4us"}, aggregates={"n": "count(*)"}),
    live=[1] * 40,
)
@thorough
def test_history_is_judged_as_it_was_when_it_came(
    read: list[Arrival],
    app: list[int],
    pos: list[int],
    web: list[int],
    strategy: BySource,
    output: Output,
    live: list[int],
) -> None:
    """All of each source in slices of any size, and the same rows as they came, cut anywhere. What came of two sources
    in one moment has no order, where every event is a tick."""
    read = without_races(read)
    if strategy.every == "event":
        first = {event.arrival_time: event.partition for event in reversed(read)}
        read = [event for event in read if event.partition == first[event.arrival_time]]
    queues = {
        name: Slices([each for each in cut(of_source(read, name), sizes) if each])
        for name, sizes in (("app", app), ("pos", pos), ("web", web))
    }
    names = tuple(strategy.sources)
    over_history = [batch for _, batch in read_all(queues)]
    as_it_came = [batch for batch in cut(read, live) if batch]
    verdicts = []
    for batches in (over_history, as_it_came):
        results = [item for batch in batches for item in (Partitions({}, names), batch)]
        outcome = interpret(results, strategy, {"out": output}, drain=True)
        verdicts.append(
            sorted(
                (repr(each.arrival), each.fate, each.window, each.watermark)
                for each in outcome.judged["out"]
                if each.fate is not Fate.DUPLICATE  # of rows that are alike, either may be the second
            )
        )
    assert verdicts[0] == verdicts[1]
    assert sorted(map(repr, read)) == sorted(repr(event) for batch in over_history for event in batch)


@given(st.lists(arrivals(max_size=15), min_size=1, max_size=3), st.lists(SIZES, min_size=3, max_size=3))
@thorough
def test_batches_follow_one_another_and_read_everything_once(
    each_source: list[list[Arrival]], sizes: list[list[int]]
) -> None:
    """Whether or not the partitions of a source are read in step, where it names them."""
    queues = {
        str(nth): Slices([each for each in cut(out_of_step(read), sizes[nth]) if each], in_step=False)
        for nth, read in enumerate(each_source)
    }
    batches = [batch for _, batch in read_all(queues)]
    arrived = [sorted(event.arrival_time for event in batch if not event.dead) for batch in batches]
    ends = [each for each in arrived if each]
    if len(each_source) > 1:
        alone = 1 + max(
            (nth for nth, batch in enumerate(batches) if len(origins(batch, each_source)) > 1), default=-1
        )
        together = [each for each in arrived[:alone] if each]
        assert all(one[-1] <= other[0] for one, other in pairwise(together))
    assert len(ends) <= sum(map(len, each_source))
    assert sorted(repr(event) for read in each_source for event in read) == sorted(
        repr(event) for batch in batches for event in batch
    )


def out_of_step(read: list[Arrival]) -> list[Arrival]:
    """One partition after the other."""
    return sorted(read, key=lambda event: (event.partition, event.arrival_time))


def origins(batch: list[Arrival], each_source: list[list[Arrival]]) -> set[int]:
    return {nth for nth, read in enumerate(each_source) if any(event in read for event in batch)}


def steady(first: int, last: int, step: int, partition: str = "") -> list[Arrival]:
    return [Arrival(at, at, partition) for at in range(first, last, step)]


def in_slices(read: list[Arrival], size: int) -> Slices:
    return Slices([read[begin : begin + size] for begin in range(0, len(read), size)])


def test_a_year_is_read_in_batches() -> None:
    """None has more than two slices of each source, and nothing is read more than twice."""
    queues = {
        "days": in_slices(steady(0, 36_500, 10), 100),
        "noons": in_slices(steady(500, 37_000, 10), 100),
        "rare": in_slices(steady(0, 36_500, 500), 100),
    }
    total = sum(len(each) for queue in queues.values() for each in queue.waiting)
    slices = {name: list(queue.waiting) for name, queue in queues.items()}
    batches = read_all(queues)
    assert max(len(read) for _, read in batches) <= 600
    done, decoded = dict.fromkeys(slices, 0), 0
    for plan, _ in batches:
        for name, parts in plan.taken.items():
            decoded += sum(len(slices[name][done[name] + part.nth]) for part in parts)
            done[name] += plan.finished[name]
    assert decoded <= 2 * total
    assert len(batches) <= 40


def test_a_large_slice_is_not_read_for_every_small_one() -> None:
    queues = {"year": in_slices(steady(0, 1_000, 1), 1_000), "hours": in_slices(steady(0, 1_000, 2), 10)}
    batches = read_all(queues)
    assert len(batches) == 1, "all of the hours are smaller than the year"


def test_a_slice_is_looked_at_only_where_it_may_have_to_be_cut() -> None:
    """Where no source has more than a slice, and where only one has anything."""
    both = {"app": in_slices(steady(0, 10, 1), 10), "pos": in_slices(steady(0, 10, 1), 10)}
    alone = {"app": in_slices(steady(0, 100, 1), 10)}
    assert len(read_all(both)) == 1
    assert len(read_all(alone)) == 10
    assert not any(queue.known for queue in (*both.values(), *alone.values()))
