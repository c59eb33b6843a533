"""Several sources in the order of arrival: how much of what waits in each is the next batch.

A slice of a source is read whole, or as far as a batch goes and the rest of it by a later one. A batch ends with the
lowest arrival that any source has reached which has more to read: everything that came by then is read. So batches
follow one another in the order of arrival, as long as the slices of each source do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from latecomer.model.verdicts import BEGIN_OF_TIME


@dataclass(frozen=True)
class Waiting:
    """A slice that was not read to its end."""

    spans: Mapping[str, tuple[int, int]]
    """When the first and the last event of each partition came."""
    size: int
    more: frozenset[str] = frozenset()
    """The partitions that have more after it, where the source names them."""

    @property
    def last(self) -> int:
        """When the last event of it came; BEGIN_OF_TIME where it has none."""
        return max((last for _, last in self.spans.values()), default=BEGIN_OF_TIME)

    def comes_within(self, after: int | None, until: int) -> bool:
        """Whether events of it may have come after a moment and until another."""
        return any(first <= until and (after is None or last > after) for first, last in self.spans.values())


class Queue(Protocol):
    """The slices of a source that wait, in the order in which they are read."""

    def has(self, nth: int) -> bool:
        """Whether there are more than so many."""

    def __getitem__(self, nth: int, /) -> Waiting:
        """One of them."""


@dataclass(frozen=True)
class Begun:
    """How many of the slices that wait were read until a moment."""

    slices: int = 0
    until: int | None = None


NOT_BEGUN = Begun()


class ReadTo(NamedTuple):
    """How far a source is read: its last batch that was read to the end, and what was begun after that."""

    batch: int
    begun: Begun = NOT_BEGUN


@dataclass(frozen=True)
class Taken:
    """What a batch reads of a slice: what came after a moment, and until another; None where there is no such end."""

    nth: int
    """Which of those that wait."""
    after: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class Plan:
    """A batch."""

    taken: Mapping[str, Sequence[Taken]]
    """By source."""
    finished: Mapping[str, int]
    """How many of the slices that wait are read after it."""
    begun: Mapping[str, Begun]
    """Of those that wait after it."""


def next_batch(queues: Mapping[str, Queue], begun: Mapping[str, Begun]) -> Plan:
    """What to read next of sources in which something waits. A slice is not looked at unless it has to be cut."""
    counts = {name: max(1, begun[name].slices) for name in queues}
    end = _end(queues, begun, counts) if len(queues) > 1 else None
    finished = {name: _finished(queue, counts[name], end) for name, queue in queues.items()}
    return Plan(
        _taken(queues, begun, counts, end),
        finished,
        {name: Begun(left, end) if (left := counts[name] - finished[name]) else NOT_BEGUN for name in queues},
    )


def _end(queues: Mapping[str, Queue], begun: Mapping[str, Begun], counts: dict[str, int]) -> int | None:
    """The moment at which the batch ends; None where it reads all that waits. `counts` says how many slices are taken
    of each. It grows, so that a slice is not read again and again beside small ones, as long as what is new of a source
    is not more than the largest of the first slices."""
    largest = None
    while with_more := [name for name, queue in queues.items() if queue.has(counts[name])]:
        slowest = min(with_more, key=lambda name: _reached(queues[name], counts[name]))
        end = _reached(queues[slowest], counts[slowest])
        if largest is None:
            largest = max(queue[counts[name] - 1].size for name, queue in queues.items())
        if any(_taken(queues, begun, counts, end).values()):
            cut = any(_last(queue, counts[name]) > end for name, queue in queues.items() if name != slowest)
            new = range(begun[slowest].slices, counts[slowest] + 1)
            if not cut or sum(queues[slowest][nth].size for nth in new) > largest:
                return end
        counts[slowest] += 1
    return None


def _reached(queue: Queue, count: int) -> int:
    """The moment until which a source is read with so many slices: that of the partition which has come least far and
    has more. Where partitions are not known, slices follow one another."""
    named = queue[count - 1].more
    spans = [queue[nth].spans for nth in range(count)]
    if not named:
        return _last(queue, count)
    return min(
        max((each[name][1] for each in spans if name in each), default=BEGIN_OF_TIME) for name in named
    )


def _last(queue: Queue, count: int) -> int:
    return max(queue[nth].last for nth in range(count))


def _taken(
    queues: Mapping[str, Queue], begun: Mapping[str, Begun], counts: Mapping[str, int], end: int | None
) -> dict[str, list[Taken]]:
    return {
        name: [
            part for nth in range(counts[name]) if (part := _part(queue, nth, begun[name], end)) is not None
        ]
        for name, queue in queues.items()
    }


def _part(queue: Queue, nth: int, begun: Begun, end: int | None) -> Taken | None:
    """What a batch that ends at a moment reads of a slice; None where there is nothing of it."""
    after = begun.until if nth < begun.slices else None
    if after is not None and queue[nth].last <= after:
        return None
    if end is None or queue[nth].last <= end:
        return Taken(nth, after)
    return Taken(nth, after, end) if queue[nth].comes_within(after, end) else None


def _finished(queue: Queue, count: int, end: int | None) -> int:
    """How many slices are read to their ends, from the first on."""
    if end is None:
        return count
    return next((nth for nth in range(count) if queue[nth].last > end), count)
