"""Which offsets to read next: plain values, without a broker.

An answer says for every topic its id and, partition by partition, from which offset to which the next slice goes and
where the partition ends. It is what is written down, so the names are short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Answer = Mapping[str, Any]
"""`{"topics": {name: {"id": …, "from": […], "to": […], "end": […]}}, "lost": {"name/0": [17, 42]}}`"""

Ranges = dict[str, dict[int, tuple[int, int]]]
"""Topic → partition → the first offset to read, and the one after the last."""


@dataclass(frozen=True)
class Topic:
    """A topic as the broker describes it."""

    id: str
    begin: Sequence[int]
    """The first offset that each partition still has."""
    end: Sequence[int]
    """Where each partition ends: the offset after the last record that is committed."""
    start: Sequence[int]
    """Where a store that has read nothing of a partition begins."""


class Gone(Exception):
    """What was to be read next is not there any more."""

    def __init__(self, topic: str, partition: int | None, since: int = 0, until: int = 0) -> None:
        super().__init__(topic, partition, since, until)
        self.topic, self.partition, self.since, self.until = topic, partition, since, until


class MadeAgain(Gone):
    """A topic of the same name, and not the same."""


def next_answer(
    since: Answer | None, topics: Mapping[str, Topic], most: int, continues: bool
) -> Answer | None:
    """What to read next; None where there is nothing new. With `continues` offsets that are gone are passed over."""
    before = since["topics"] if since else {}
    starts, lost = dict[str, list[int]](), dict[str, list[int]]()
    for name, topic in topics.items():
        known = before.get(name)
        if known and known["id"] != topic.id:
            raise MadeAgain(name, None)
        read = list(known["to"]) if known else []
        if len(topic.end) < len(read):
            raise MadeAgain(name, None)
        starts[name] = read + list(topic.start[len(read) :])
        for partition, (offset, begin, end) in enumerate(
            zip(starts[name], topic.begin, topic.end, strict=True)
        ):
            if offset < begin and partition < len(read):
                if not continues:
                    raise Gone(name, partition, offset, begin)
                lost[f"{name}/{partition}"] = [offset, begin]
            if offset > end:
                raise Gone(name, partition, end, offset)
            starts[name][partition] = max(offset, begin)
    ends = _shared_out(starts, {name: topic.end for name, topic in topics.items()}, most)
    joined = any(len(starts[name]) > len(before.get(name, {"to": []})["to"]) for name in topics)
    if ends == starts and not joined and not lost:
        return None
    answer: dict[str, Any] = {
        "topics": {
            name: {"id": topic.id, "from": starts[name], "to": ends[name], "end": list(topic.end)}
            for name, topic in topics.items()
        }
    }
    # A topic that a pattern found once, and that is not there now, may come back.
    answer["topics"] |= {
        name: {**each, "from": each["to"]} for name, each in before.items() if name not in topics
    }
    return {**answer, "lost": lost} if lost else answer


def remaining(answer: Answer, begins: Mapping[tuple[str, int], int], continues: bool) -> Answer:
    """An answer without what has gone since it was given; `begins` has the first offset that each partition still has.

    >>> given = {"topics": {"pay": {"from": [2, 0], "to": [9, 4]}}}
    >>> remaining(given, {("pay", 0): 5, ("pay", 1): 0}, continues=True)
    {'topics': {'pay': {'from': [5, 0], 'to': [9, 4]}}, 'lost': {'pay/0': [2, 5]}}
    """
    lost = {
        (name, number): (start, min(begins[name, number], to))
        for name, numbers in ranges_of(answer).items()
        for number, (start, to) in numbers.items()
        if begins[name, number] > start
    }
    if not lost:
        return answer
    if not continues:
        (name, number), gap = next(iter(lost.items()))
        raise Gone(name, number, *gap)
    topics = {
        name: {
            **topic,
            "from": [lost.get((name, number), (0, start))[1] for number, start in enumerate(topic["from"])],
        }
        for name, topic in answer["topics"].items()
    }
    gaps = {f"{name}/{number}": list(gap) for (name, number), gap in lost.items()}
    return {**answer, "topics": topics, "lost": {**answer.get("lost", {}), **gaps}}


def _shared_out(
    starts: Mapping[str, Sequence[int]], ends: Mapping[str, Sequence[int]], most: int
) -> dict[str, list[int]]:
    """How far to read, so that it is not more than `most` rows, and every partition has a share of what it has."""
    waiting = {
        (name, partition): end - start
        for name in starts
        for partition, (start, end) in enumerate(zip(starts[name], ends[name], strict=True))
    }
    unread = sum(waiting.values())
    if unread > most:
        waiting = {place: min(rows, -(-rows * most // unread)) for place, rows in waiting.items()}
    return {
        name: [start + waiting[name, partition] for partition, start in enumerate(each)]
        for name, each in starts.items()
    }


def waiting(since: Answer | None, topics: Mapping[str, Topic]) -> dict[str, list[int]]:
    """How many offsets of each partition are there and not read yet.

    >>> waiting({"topics": {"pay": {"to": [7]}}}, {"pay": Topic("x", begin=[2, 0], end=[9, 4], start=[2, 0])})
    {'pay': [2, 4]}
    """
    read = {name: each["to"] for name, each in (since["topics"] if since else {}).items()}
    return {
        name: [
            end - max(begin, start)
            for begin, end, start in zip(
                topic.begin,
                topic.end,
                [*read.get(name, ()), *topic.start[len(read.get(name, ())) :]],
                strict=True,
            )
        ]
        for name, topic in topics.items()
    }


def partitions_of(answer: Answer) -> dict[str, bool]:
    """Every partition, and whether there is more of it than this slice reads."""
    return {
        f"{name}/{partition}": end > to
        for name, topic in answer["topics"].items()
        for partition, (to, end) in enumerate(zip(topic["to"], topic["end"], strict=True))
    }


def ranges_of(answer: Answer) -> Ranges:
    """The offsets to read, of the partitions that have any."""
    found = {
        name: {
            partition: (start, to)
            for partition, (start, to) in enumerate(zip(topic["from"], topic["to"], strict=True))
            if to > start
        }
        for name, topic in answer["topics"].items()
    }
    return {name: each for name, each in found.items() if each}


def lag_of(answer: Answer) -> int:
    """How many offsets there are beyond this slice."""
    return sum(sum(topic["end"]) - sum(topic["to"]) for topic in answer["topics"].values())
