"""Reads several sources in the order of arrival: which of the waiting slices are the next batch.

A batch reads a slice to its end, or up to the end of the batch; a later batch then reads the rest. For each source with
more to read, the arrival that it has reached is known. A batch ends at the lowest of them, and reads everything that
came until then. So batches follow one another in the order of arrival, as long as the slices of each source do.
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
    """The first and the last arrival of each partition."""
    size: int
    more: frozenset[str] = frozenset()
    """The partitions that have more data after it, where the source names them."""

    @property
    def last(self) -> int:
        """The arrival of its last event; BEGIN_OF_TIME where it has none."""
        return max((last for _, last in self.spans.values()), default=BEGIN_OF_TIME)

    def comes_within(self, after: int | None, until: int) -> bool:
        """Whether it may have events that came after one moment and until another."""
        return any(first <= until and (after is None or last > after) for first, last in self.spans.values())


class Queue(Protocol):
    """The waiting slices of a source, in reading order."""

    def has(self, nth: int) -> bool:
        """Whether more than `nth` slices wait."""

    def __getitem__(self, nth: int, /) -> Waiting:
        """The slice at this place."""


@dataclass(frozen=True)
class BegunSlices:
    """How many of the waiting slices were read in part, and until which moment."""

    slices: int = 0
    until: int | None = None


NOT_BEGUN = BegunSlices()


class ReadTo(NamedTuple):
    """How far a source is read: its last batch that was read to the end, and the slices that were begun after it."""

    batch: int
    begun: BegunSlices = NOT_BEGUN


@dataclass(frozen=True)
class SlicePart:
    """The part of a slice that a batch reads: events after one moment and until another; None means no bound."""

    nth: int
    """The number of the slice among the waiting ones."""
    after: int | None = None
    until: int | None = None


@dataclass(frozen=True)
class NextBatch:
    """The next batch."""

    taken: Mapping[str, Sequence[SlicePart]]
    """Source → the parts of slices to read."""
    finished: Mapping[str, int]
    """Source → how many of the waiting slices are read to their ends after the batch."""
    begun: Mapping[str, BegunSlices]
    """Source → the slices that are begun after the batch."""


def next_batch(queues: Mapping[str, Queue], begun: Mapping[str, BegunSlices]) -> NextBatch:
    """The next batch of sources with waiting slices. The arrivals of a slice are read only if it may have to be cut."""
    counts = {name: max(1, begun[name].slices) for name in queues}
    end = _end(queues, begun, counts) if len(queues) > 1 else None
    finished = {name: _finished(queue, counts[name], end) for name, queue in queues.items()}
    return NextBatch(
        _taken(queues, begun, counts, end),
        finished,
        {
            name: BegunSlices(open_, end) if (open_ := counts[name] - finished[name]) else NOT_BEGUN
            for name in queues
        },
    )


def _end(queues: Mapping[str, Queue], begun: Mapping[str, BegunSlices], counts: dict[str, int]) -> int | None:
    """The moment at which the batch ends; None where it reads everything that waits. `counts` says how many slices of
    each source are read. It grows as long as the new slices of a source are together not larger than the largest first
    slice, so that a large slice is not read again and again together with small ones."""
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
    """The moment until which a source is complete with so many slices: the last arrival of its slowest partition that
    has more. Where the source names no partitions, it is the last arrival of these slices."""
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
    queues: Mapping[str, Queue], begun: Mapping[str, BegunSlices], counts: Mapping[str, int], end: int | None
) -> dict[str, list[SlicePart]]:
    return {
        name: [
            part for nth in range(counts[name]) if (part := _part(queue, nth, begun[name], end)) is not None
        ]
        for name, queue in queues.items()
    }


def _part(queue: Queue, nth: int, begun: BegunSlices, end: int | None) -> SlicePart | None:
    """The part of a slice that a batch with this end reads; None if it reads nothing of it."""
    after = begun.until if nth < begun.slices else None
    if after is not None and queue[nth].last <= after:
        return None
    if end is None or queue[nth].last <= end:
        return SlicePart(nth, after)
    return SlicePart(nth, after, end) if queue[nth].comes_within(after, end) else None


def _finished(queue: Queue, count: int, end: int | None) -> int:
    """How many slices, from the first on, are read to their ends."""
    if end is None:
        return count
    return next((nth for nth in range(count) if queue[nth].last > end), count)
